"""What the evaluation pages show: values made ready to read. One function for each part, used by page and fragment."""

from typing import Any

from django.db.models import Count

from datasets.models import Item
from jobs.evaluations import charts, compare, selectors
from jobs.evaluations.metrics import METRICS
from jobs.evaluations.models import Evaluation
from jobs.evaluations.selectors import address, is_active, is_checkpoint, title_of, verdict_lines
from rftstudio.core.show import show_count, show_ms, show_percent, show_reward, show_seconds, show_signed
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission, can

#: Other evaluations offered for a comparison.
OFFERED = 30


def initial_from(query) -> dict[str, Any]:
    """Start values named in the address, as remedies and other pages link to."""
    names = {
        "dataset": "dataset_version", "agent": "agent_version", "grader": "grader_version", "model": "model",
        "split": "split", "samples": "samples_per_item",
    }  # fmt: skip
    return {field: query[name] for name, field in names.items() if query.get(name)}


def order_context(team: Team) -> dict[str, Any]:
    """How many items each frozen version has in each split, so that the size of an order can be read off."""
    counts: dict[str, dict[str, int]] = {}
    frozen = Item.objects.filter(version__team=team, version__status="frozen")
    rows = frozen.values_list("version__dataset__name", "version__number", "split").annotate(n=Count("id"))
    for name, number, split, count in rows.order_by("-version_id", "split"):
        counts.setdefault(f"{name}, version {number}", {})[split] = count
    last = selectors.evaluation_list(team=team).filter(status=Evaluation.Status.SUCCEEDED).first()
    pace = None
    if last and last.started_at and last.finished_at and last.metrics.get("rollouts"):
        pace = (last.finished_at - last.started_at).total_seconds() / last.metrics["rollouts"]
    return {"split_counts": list(counts.items())[:5], "pace": pace, "last": last}


def figures(evaluation: Evaluation, metrics: dict[str, Any]) -> list[dict[str, Any]]:
    """The six figures on top."""
    half = None
    if metrics.get("mean_reward_low") is not None:
        half = (metrics["mean_reward_high"] - metrics["mean_reward_low"]) / 2
    k, cost = metrics.get("samples_per_item") or evaluation.samples_per_item, metrics.get("cost_usd")
    source = f"source={evaluation.public_id}"
    team = evaluation.team.slug
    per_rollout = cost / metrics["cost_rollouts"] if cost is not None and metrics.get("cost_rollouts") else None

    def one(key: str, value: str, note: str, query: str = "", label: str = "") -> dict[str, Any]:
        metric = METRICS.get(key)
        title = f"{metric.formula}. Denominator: {metric.denominator}." if metric else ""
        url = address("rollouts:rollout-list", team, query=f"{source}&{query}" if query else source)
        return {"label": label or metric.name, "value": value, "note": note, "url": url, "title": title}

    room = None
    if metrics.get("pass_at_k") is not None and metrics.get("pass_rate") is not None:
        room = round((metrics["pass_at_k"] - metrics["pass_rate"]) * 100)
    of_all = f"{show_count(metrics.get('passed'))} of {show_count(metrics.get('graded'))} graded"
    if metrics.get("ungraded"):
        of_all += f", of {show_count(metrics.get('rollouts'))} all"
    return [
        one("mean_reward", show_reward(metrics.get("mean_reward")), f"±{show_reward(half)}, 90 % interval" if half is not None else ""),
        one("pass_rate", show_percent(metrics.get("pass_rate")), f"{of_all} · pass mark {show_reward(evaluation.pass_threshold)}", "passed=1"),
        one("pass_at_k", show_percent(metrics.get("pass_at_k")), f"any of {k}" + (f"; room: {room} points" if room is not None else ""),
            label=f"Pass@{k}"),
        one("learnable_share", show_percent(metrics.get("learnable_share")),
            f"{show_count(metrics.get('learnable_items'))} of {show_count(metrics.get('groups'))}"),
        one("ungraded_share", show_percent(metrics.get("ungraded_share")),
            f"{show_count(metrics.get('ungraded'))} of {show_count(metrics.get('rollouts'))}, not counted as 0", "graded=0"),
        {"label": "Cost", "value": f"${cost:,.2f}" if cost is not None else "–",
         "note": f"${per_rollout:,.4f} a rollout" if per_rollout is not None else f"{show_count(metrics.get('output_tokens'))} tokens written",
         "url": "", "title": "Booked prices of the models and tools used; a dash where nothing is priced."},
    ]  # fmt: skip


def more_figures(metrics: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Everything else that was measured, with its formula."""
    k = metrics.get("samples_per_item")

    def of(key: str, value: str, name: str = "") -> tuple[str, str, str]:
        metric = METRICS[key]
        return name or metric.name, value, f"{metric.formula}. Denominator: {metric.denominator}."

    return [
        of("pass_hat_k", show_percent(metrics.get("pass_hat_k")), f"Pass^{k}"),
        of("best_of_k", show_reward(metrics.get("best_of_k")), f"Best of {k}"),
        of("full_score_share", show_percent(metrics.get("full_score_share"))),
        of("zero_variance_share", show_percent(metrics.get("zero_variance_share"))),
        of("pass_rate_of_all", show_percent(metrics.get("pass_rate_of_all"))),
        of("tool_calls_mean", show_reward(metrics.get("tool_calls_mean"))),
        of("tool_error_share", show_percent(metrics.get("tool_error_share"))),
        of("output_tokens_mean", show_count(metrics.get("output_tokens_mean"))),
        ("Time of a rollout", show_ms(metrics.get("rollout_milliseconds_mean")),
         f"Mean; 95 % end within {show_ms(metrics.get('rollout_milliseconds_p95'))}."),
    ]  # fmt: skip


def live_context(evaluation: Evaluation) -> dict[str, Any]:
    """State, progress, figures, verdict."""
    metrics = selectors.evaluation_metrics(evaluation)
    progress = selectors.evaluation_progress(evaluation) if is_active(evaluation) else None
    verdict = selectors.readiness_of(evaluation)
    left = f"about {show_seconds(progress.seconds_left)} left" if progress and progress.seconds_left else ""
    failures = [
        {**line, "words": line["cause"].replace("_", " ")}
        for line in metrics.get("failures", [])
        if line["rollouts"] > 1
    ]
    return {
        "evaluation": evaluation,
        "title": title_of(evaluation),
        "is_active": is_active(evaluation),
        "is_checkpoint": is_checkpoint(evaluation),
        "metrics": metrics,
        "figures": figures(evaluation, metrics),
        "more_figures": more_figures(metrics),
        "progress": progress,
        "left": left,
        "failures": failures[:3],
        "verdict": verdict,
        "verdict_lines": verdict_lines(verdict),
        "verdict_tone": {"block": "bad"}.get(verdict["level"], verdict["level"]),
        "failed_url": address("rollouts:rollout-list", evaluation.team.slug, query=f"source={evaluation.public_id}&error=1"),
    }  # fmt: skip


def pivot_context(evaluation: Evaluation, wanted: str) -> dict[str, Any]:
    """Mean reward and pass rate by one of the items' tags."""
    tags = selectors.item_tags(evaluation)
    name = wanted if wanted in tags else next(iter(tags), "")
    if not name:
        return {"pivot_name": "", "pivot_names": []}
    rows = selectors.batch_rows(evaluation.batch, with_tools=False)
    return {
        "pivot_name": name,
        "pivot_names": list(tags),
        "pivot": compare.pivot(rows, tags[name], pass_threshold=evaluation.pass_threshold),
    }


def chart_context(evaluation: Evaluation) -> dict[str, Any]:
    """Variance plot, tools, histogram."""
    metrics = selectors.evaluation_metrics(evaluation)
    items = selectors.evaluation_items(evaluation)
    list_url = address("rollouts:rollout-list", evaluation.team.slug)
    source = evaluation.public_id
    plot = charts.variance_plot(
        items, threshold=evaluation.pass_threshold, learnable=metrics.get("learnable_spread") or 0.1,
        samples=evaluation.samples_per_item, list_url=list_url, source=source,
    )  # fmt: skip
    rewards = charts.reward_histogram(
        metrics.get("histogram") or {}, threshold=evaluation.pass_threshold, mean=metrics.get("mean_reward"),
        pass_rate=metrics.get("pass_rate"), list_url=list_url, source=source,
    )  # fmt: skip
    return {
        "evaluation": evaluation,
        "is_active": is_active(evaluation),
        "metrics": metrics,
        "items": items,
        "variance_plot": plot,
        "variance_table": charts.variance_table(items),
        "reward_histogram": rewards,
        "histogram_table": charts.histogram_table(metrics.get("histogram") or {}),
        "tools": metrics.get("tools", []),
        "rollouts_url": list_url,
    }


def side_context(evaluation: Evaluation, actor: Actor) -> dict[str, Any]:
    """What the person may do here, and other evaluations to compare with."""
    others = selectors.evaluation_list(team=evaluation.team).exclude(pk=evaluation.pk)
    alike = others.filter(dataset_version=evaluation.dataset_version, split=evaluation.split)[:OFFERED]
    team = evaluation.team.slug
    return {
        "others": [(one, title_of(one)) for one in alike],
        "may_launch": can(actor, Permission.JOB_LAUNCH) and evaluation.status == Evaluation.Status.SUCCEEDED,
        "may_cancel": can(actor, Permission.EVALUATION_RUN) and is_active(evaluation),
        "launch_url": address("jobs:job-new", team, query=f"baseline={evaluation.public_id}"),
        "rollouts_of_it": address("rollouts:rollout-list", team, query=f"source={evaluation.public_id}"),
        "agent_url": address("agents:agent-detail", team, evaluation.agent_version.agent.public_id),
        "grader_url": address("graders:grader-detail", team, evaluation.grader_version.grader.public_id),
        "dataset_url": address("datasets:version-detail", team, evaluation.dataset_version.public_id),
    }


def compare_context(team: Team, first: Evaluation | None, second: Evaluation | None) -> dict[str, Any]:
    """Paired difference of rewards and of passes, items by change."""
    context: dict[str, Any] = {
        "first": first,
        "second": second,
        "choices": [(one, title_of(one)) for one in selectors.evaluation_list(team=team)[: OFFERED * 2]],
    }
    if first is None or second is None:
        return context
    a, b = (selectors.batch_rows(one.batch, with_tools=False) for one in (first, second))
    found = compare.compare(a, b)
    passes = compare.compare(
        a, b, value=lambda row: float(bool(row.passed if row.passed is not None else row.passes(first.pass_threshold)))
    )
    rows = [
        {"key": pair.key, "title": pair.title, "before": pair.before, "after": pair.after, "change": pair.change}
        for pair in found.pairs
    ]
    strip = [
        {"label": "Mean change of reward", "value": show_signed(found.mean_change),
         "note": f"{show_signed(found.low)} to {show_signed(found.high)}, 90 % paired bootstrap over items"},
        {"label": "Mean change of pass rate",
         "value": "–" if passes.mean_change is None else f"{show_signed(passes.mean_change * 100, 0)} points",
         "note": "" if passes.low is None else f"{show_signed(passes.low * 100, 0)} to {show_signed(passes.high * 100, 0)}"},
        {"label": "Items better", "value": show_count(found.better), "note": f"of {len(found.pairs)} in both"},
        {"label": "Items worse", "value": show_count(found.worse), "note": f"{found.same} unchanged"},
    ]  # fmt: skip
    warnings = []
    if first.grader_version_id != second.grader_version_id:
        warnings.append("The two were judged by different graders, so their rewards do not mean the same.")
    if found.only_before or found.only_after:
        warnings.append(f"{found.only_before + found.only_after} items stand in only one of them and are left out.")
    return context | {
        "found": found,
        "strip": strip,
        "warnings": warnings,
        "worst": [row for row in rows if row["change"] < 0][:15],
        "best": [row for row in rows[::-1] if row["change"] > 0][:15],
        "first_title": title_of(first),
        "second_title": title_of(second),
        "plot": charts.difference_plot(rows, mean=found.mean_change),
        "table": {"head": ["Item", "Before", "After", "Change"],
                  "rows": [[row["title"], show_reward(row["before"]), show_reward(row["after"]), show_signed(row["change"])]
                           for row in rows]},
        "rollouts_url": address("rollouts:rollout-list", team.slug),
    }  # fmt: skip
