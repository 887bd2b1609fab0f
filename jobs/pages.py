"""What the job pages show: values made ready to read. One function for each part, used by page and fragment."""

from collections.abc import Sequence
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from graders.ranges import reward_ends
from jobs import charts, demonstrations, holds, selectors
from jobs import plan as plans
from jobs.backends.registry import backend_get
from jobs.estimate import held
from jobs.evaluations import selectors as evaluation_selectors
from jobs.evaluations.models import Evaluation
from jobs.evaluations.selectors import address, evaluation_list
from jobs.figures import StepFigures
from jobs.home_running import recent_rewards
from jobs.models import Checkpoint, Job
from jobs.rollouts.selectors import query_count
from jobs.states import ACTIVE, AT_WORK, ENDED, Status
from jobs.words import next_of, queue_words, untouched_words, words_of
from rftstudio.core.show import show_ago, show_count, show_reward, show_seconds, show_signed, show_when
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission, can

EVENTS_SHOWN = 8


def title_of(job: Job) -> str:
    return job.name or f"{job.baseline.agent_version.agent.name}, job {job.number}"


def is_live(job: Job) -> bool:
    """Worth polling: something may change without a person."""
    return job.status in ACTIVE


# -- the list ---------------------------------------------------------------------------------------------------------


def list_lines(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """Rows of the runs table; one query for all sparks, which draw the latest train steps."""
    curves = recent_rewards(jobs)
    lines = []
    for job in jobs:
        baseline = (job.baseline.metrics or {}).get("mean_reward")
        best = job.best_checkpoint.validation_reward if job.best_checkpoint else None
        known = [value for value in curves.get(job.pk, []) if value is not None]
        lines.append(
            {
                "job": job,
                "title": title_of(job),
                "baseline": baseline,
                "best": best,
                "gain": best - baseline if best is not None and baseline is not None else None,
                "last": known[-1] if known else None,
                "spark": known if len(known) > 1 else [],
                "base": job.base_model.name,
            }
        )
    return lines


# -- one job ----------------------------------------------------------------------------------------------------------


def _phases(job: Job) -> list[dict[str, Any]]:
    """Four bars: files, waiting, training, final check. `state` is done, now, stopped or todo."""
    reached = 2 if job.started_at else 1 if job.queued_at else 0
    at = {Status.VALIDATING: 0, Status.QUEUED: 1, Status.SUCCEEDED: 4}.get(job.status, reached)
    waited = ""
    if job.queued_at and job.started_at and job.started_at >= job.queued_at:
        waited = f"Waited {show_seconds((job.started_at - job.queued_at).total_seconds())}"
    words = [
        "Files checked" if at > 0 else "Checking files",
        waited or "Waited" if at > 1 else "Waiting" if at == 1 else "Wait",
        f"Train step {job.done_steps} of {job.total_steps}",
        "Done" if at == 4 else "End",
    ]
    phases = []
    for place, text in enumerate(words):
        state = "done" if place < at else "now" if place == at and job.status in ACTIVE else "todo"
        if place == at and job.status in (Status.FAILED, Status.CANCELLED):
            state, text = "stopped", text if place == 2 else f"Stopped while {text[0].lower()}{text[1:]}"
        share = 1.0 if state == "done" or (state == "stopped" and place < 2) else 0.0
        if place == 2 and at == 2:
            share = job.done_steps / job.total_steps if job.total_steps else 0.0
        tone = {"done": "ok", "stopped": "bad" if job.status == Status.FAILED else "idle"}.get(state, "run")
        phases.append({"text": text, "state": state, "share": min(share, 1.0), "tone": tone})
    return phases


def _money(job: Job, cost: Decimal | None) -> str:
    """Spent, held, and what it comes to at the end at the pace so far."""
    if cost is None:
        return "counted, not priced" if job.done_steps else "nothing yet"
    words, held = f"${cost:,.2f}", holds.held_usd(job)
    if held is not None and job.status not in ENDED:
        words += f" of ${held:,.2f} held"
    if job.status == Status.RUNNING and 0 < job.done_steps < job.total_steps:
        words += f", near ${cost / job.done_steps * job.total_steps:,.2f} at the end"
    return words


def _estimate_held(job: Job, cost: Decimal | None) -> list[tuple[str, str]]:
    """After the run: what was estimated at launch beside what it took and cost."""
    seconds, estimated = (job.result or {}).get("seconds"), selectors.launch_estimate(job)
    is_held = held(estimated, seconds)
    if job.status != Status.SUCCEEDED or estimated is None or is_held is None:
        return []
    span = f"{show_seconds(estimated['low'])} to {show_seconds(estimated['high'])}"
    lines = [("Estimated time", f"{span}; {'it held' if is_held else 'it did not hold'}")]
    if cost is not None and estimated.get("usd_high") is not None:
        verdict = "it held" if float(cost) <= estimated["usd_high"] else "it did not hold"
        lines.append(("Estimated cost", f"${estimated['usd']:,.2f}, at most ${estimated['usd_high']:,.2f}; {verdict}"))
    return lines


def state_context(job: Job, actor: Actor) -> dict[str, Any]:
    """State in plain words, what is next, phases, sign of life, money, and what the person may do."""
    words, state = words_of(job), selectors.job_state(job)
    says = queue_words(job) if job.status == Status.QUEUED else words.text
    seconds = (job.result or {}).get("seconds")
    facts = []
    if job.status in AT_WORK and job.heartbeat_at:
        facts.append(("Last sign of life", show_ago(job.heartbeat_at)))
    if state.seconds_left is not None:
        facts.append(("Time left", f"about {show_seconds(state.seconds_left)}"))
    if job.status in ENDED and seconds:
        facts.append(("Trained for", show_seconds(seconds)))
    facts += _estimate_held(job, state.cost)
    facts.append(("Cost so far", _money(job, state.cost)))
    if job.restarts:
        facts.append(("Restarted", f"{job.restarts} times after a crash"))
    may = can(actor, Permission.JOB_LAUNCH)
    return {
        "job": job,
        "team": actor.team,
        "words": words,
        "next": next_of(job, words),
        "may_launch": may,
        "untouched": untouched_words(job, words),
        "rest": holds.rest_cost(job) if may and job.status == Status.PAUSED else None,
        "may_evaluate": can(actor, Permission.EVALUATION_RUN) and may,
        "says": says,
        "tone": {"succeeded": "ok", "failed": "bad", "paused": "warn", "cancelled": "idle"}.get(job.status, "run"),
        "state": state,
        "phases": _phases(job),
        "facts": facts,
        "is_live": is_live(job),
        "silent_since": state.silent_since,
        "is_local": backend_get(job.backend).capabilities.is_local,
        "ledger_url": address("usage:ledger-list", job.team.slug, query=f"for={job.public_id}")
        if state.cost and can(actor, Permission.COST_VIEW)
        else "",
        "error": job.error or None,
        "may_pause": may and job.status in (Status.QUEUED, Status.RUNNING),
        "may_resume": may and job.status == Status.PAUSED,
        "may_cancel": may and job.status not in ENDED and job.status != Status.CANCELLING,
    }


def _sub_rewards(steps: Sequence[StepFigures]) -> list[dict[str, Any]]:
    """Each part of the reward at the start and now; its share for a bar of 0 to 1."""
    known = [step for step in steps if step.sub_rewards]
    if not known:
        return []
    first, last = known[0].sub_rewards, known[-1].sub_rewards
    return [
        {"name": name, "start": first.get(name), "now": last.get(name), "share": max(0.0, min(1.0, last.get(name) or 0.0)),
         "colour": f"c{place % 6 + 1}"}
        for place, name in enumerate(sorted(last))
    ]  # fmt: skip


def _alarm_lines(job: Job, steps: list[StepFigures], list_url: str) -> list[dict[str, Any]]:
    """Each alarm with the page of its rollouts and their number; without a link where none of them came home."""
    lines = []
    for alarm in selectors.job_alarms(job, steps):
        query = f"source={alarm.source or job.public_id}&{alarm.query}".rstrip("&")
        count = query_count(team=job.team, query=query) if alarm.link else 0
        url = f"{list_url}?{query}" if count and list_url else ""
        lines.append({**asdict(alarm), "url": url, "count": count, "is_open": alarm.is_open})
    return lines


def charts_context(job: Job, actor: Actor) -> dict[str, Any]:
    """Curves, alarms, sub-rewards, checkpoints and the end of the story."""
    steps = selectors.step_figures(job, with_intervals=True)
    baseline = (job.baseline.metrics or {}).get("mean_reward")
    list_url, source = address("rollouts:rollout-list", job.team.slug), job.public_id
    checkpoints = list(selectors.checkpoint_list(job))
    alarms, drawn = _alarm_lines(job, steps, list_url), charts.thin(steps)
    small = [
        {"id": f"chart-{key}", "title": charts.SMALL[key], "figure": made}
        for key in charts.SMALL
        if (made := charts.small_chart(drawn, key, list_url=list_url, source=source))
    ]
    latest = next((step for step in reversed(steps) if step.sub_rewards), None)
    events = list(selectors.event_list(job).exclude(type="metrics").defer("data")[:EVENTS_SHOWN])
    return {
        "job": job,
        "team": actor.team,
        "steps": steps,
        "is_live": is_live(job),
        "is_ended": job.status in ENDED,
        "reward_chart": charts.reward_chart(
            steps, total=job.total_steps, baseline=baseline, is_ended=job.status in ENDED, list_url=list_url, source=source,
            ends=reward_ends(job.baseline.grader_version.config),
            checkpoints=[(one.step_number, address("jobs:checkpoint-try", job.team.slug, one.public_id)) for one in checkpoints],
            alarms=[(one["step"], one["name"], one["url"]) for one in alarms if one["is_open"] and one["step"]],
        ),
        "steps_table": charts.steps_table(drawn),
        "tools_chart": charts.tools_chart(
            drawn, known=[tool["name"] for tool in job.baseline.agent_version.tools], list_url=list_url, source=source
        ) if any(step.tools for step in steps) else None,
        "flat_chart": charts.flat_chart(drawn, limit=job.plan.get("stop_zero_variance"), list_url=list_url, source=source)
        if any(step.groups for step in steps) else None,
        "parts_chart": charts.parts_chart(drawn, list_url=list_url, source=source)
        if any(len(step.sub_rewards) > 1 for step in steps) else None,
        "small_charts": small,
        "alarms": alarms,
        "open_alarms": sum(alarm["is_open"] for alarm in alarms),
        "may_launch": can(actor, Permission.JOB_LAUNCH),
        "sub_rewards": _sub_rewards(steps),
        "sub_reward_step": latest.number if latest else None,
        "checkpoints": [_checkpoint_line(job, one, baseline) for one in checkpoints],
        "gives_weights": backend_get(job.backend).capabilities.gives_weights,
        "may_evaluate": can(actor, Permission.EVALUATION_RUN) and can(actor, Permission.JOB_LAUNCH),
        "events": events,
    }  # fmt: skip


def _checkpoint_line(job: Job, checkpoint: Checkpoint, baseline: float | None) -> dict[str, Any]:
    reward = checkpoint.validation_reward
    return {
        "checkpoint": checkpoint,
        "is_best": checkpoint.pk == job.best_checkpoint_id,
        "gain": reward - baseline if reward is not None and baseline is not None else None,
    }


def detail_context(job: Job, actor: Actor) -> dict[str, Any]:
    """The head of the page and what stands still."""
    baseline = job.baseline
    of_checkpoints = evaluation_list(team=job.team).filter(
        model__in=Checkpoint.objects.filter(job=job, model__isnull=False).values("model")
    )
    return {
        "job": job,
        "title": title_of(job),
        "baseline": baseline,
        "baseline_title": evaluation_selectors.title_of(baseline),
        "baseline_url": address("evaluations:evaluation-detail", job.team.slug, baseline.public_id),
        "rollouts_url": address("rollouts:rollout-list", job.team.slug, query=f"source={job.public_id}"),
        "clone_url": address("jobs:job-new", job.team.slug, query=f"baseline={baseline.public_id}&clone={job.public_id}"),
        "compare_url": address("jobs:job-compare", job.team.slug, query=f"job={job.public_id}"),
        "result_files": selectors.result_files(job) if not backend_get(job.backend).capabilities.is_local else [],
        "may_launch": can(actor, Permission.JOB_LAUNCH),
        "plan_lines": [("Method", job.get_method_display()), *demonstration_lines(job), *plan_lines(job.plan)],
        "evaluations": [
            {**evaluation_selectors.list_line(one), "gain": _gain(one, baseline),
             "compare": address("evaluations:evaluation-compare", job.team.slug,
                                query=f"a={baseline.public_id}&b={one.public_id}")}
            for one in of_checkpoints[:10]
        ],
    }  # fmt: skip


def _gain(one: Evaluation, baseline: Evaluation) -> float | None:
    after, before = (one.metrics or {}).get("pass_rate"), (baseline.metrics or {}).get("pass_rate")
    return after - before if after is not None and before is not None else None


def demonstration_lines(job: Job) -> list[tuple[str, str]]:
    """What a supervised job learns from, in words."""
    choice = job.demonstrations
    if not choice:
        return []
    if choice["from"] != demonstrations.ROLLOUTS:
        what = "turns" if choice["from"] == demonstrations.TURNS else "answers"
        return [("Learns from", f"{what} in {choice['field']}")]
    words = f"rollouts of {choice['of']} from {show_reward(choice['least_reward'])} up"
    return [("Learns from", f"{words}, at most {choice['most_per_item']} of one item")]


def plan_lines(plan: dict[str, Any]) -> list[tuple[str, str]]:
    """The plan in words, in the table's order."""
    lines = []
    for name, one in plans.FIELDS.items():
        value = plan.get(name)
        if value is not None:
            lines.append((one.label, f"{value:g}" if isinstance(value, float) else str(value)))
    return lines


# -- several jobs -----------------------------------------------------------------------------------------------------


def compare_context(jobs: Sequence[Job], every: Sequence[Job]) -> dict[str, Any]:
    """Curves over each other, and only the settings in which the jobs differ."""
    runs = [
        (f"job {job.number}", charts.thin(selectors.step_figures(job)), (job.baseline.metrics or {}).get("mean_reward"))
        for job in jobs
    ]
    names = [f"Job {job.number}" for job in jobs]
    rows = [
        (label, values)
        for label, values in _settings(jobs)
        if len(jobs) < 2 or len(set(values)) > 1
    ]  # fmt: skip
    return {
        "jobs": jobs,
        "names": names,
        "titles": [title_of(job) for job in jobs],
        "every": [(job, title_of(job)) for job in every],
        "chosen": {job.pk for job in jobs},
        "train_chart": charts.overlay_chart(runs, of="mean_reward") if jobs else None,
        "validation_chart": charts.overlay_chart(runs, of="validation_reward")
        if any(step.validation_reward is not None for _, steps, _ in runs for step in steps) else None,
        "more_charts": [
            {"id": f"compare-{key}", "title": title, "figure": charts.overlay_chart(runs, of=key, axis="")}
            for key, title in charts.OVERLAYS.items()
            if any(getattr(step, key) is not None for _, steps, _ in runs for step in steps)
        ],
        "rows": rows,
        "results": _results(jobs, runs),
    }  # fmt: skip


def _settings(jobs: Sequence[Job]) -> list[tuple[str, list[str]]]:
    def of(make) -> list[str]:
        return [str(make(job)) for job in jobs]

    lines = [
        ("Baseline", of(lambda job: job.baseline.number)),
        ("Agent", of(lambda job: job.baseline.agent_version)),
        ("Grader", of(lambda job: job.baseline.grader_version)),
        ("Dataset", of(lambda job: job.baseline.dataset_version)),
        ("Base model", of(lambda job: job.base_model.name)),
        ("Backend", of(lambda job: job.backend)),
        ("Seed", of(lambda job: job.seed)),
    ]
    lines += [
        (one.label, of(lambda job, name=name: "–" if job.plan.get(name) is None else f"{job.plan[name]}"))
        for name, one in plans.FIELDS.items()
    ]
    return lines


def _results(jobs: Sequence[Job], runs) -> list[tuple[str, list[str]]]:
    def last(steps, key):
        known = [getattr(step, key) for step in steps if getattr(step, key) is not None]
        return known[-1] if known else None

    return [
        ("Status", [job.status for job in jobs]),
        ("Train steps", [f"{job.done_steps} of {job.total_steps}" for job in jobs]),
        ("Last train reward", [show_reward(last(steps, "mean_reward")) for _, steps, _ in runs]),
        ("Best validation", [show_reward(job.best_checkpoint.validation_reward if job.best_checkpoint else None) for job in jobs]),
        ("Over its baseline", [show_signed(line["gain"]) for line in list_lines(jobs)]),
        ("Rollouts", [show_count((job.result or {}).get("rollouts")) for job in jobs]),
        ("Seconds", [show_seconds((job.result or {}).get("seconds")) for job in jobs]),
        ("Started", [show_when(job.started_at) for job in jobs]),
    ]  # fmt: skip
