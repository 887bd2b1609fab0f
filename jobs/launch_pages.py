"""What the launch page shows: where its form starts, what the form comes to, and whether it may start."""

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS
from django.db.models import QuerySet
from django.utils import timezone

from jobs import demonstrations, drafts, holds, selectors
from jobs import plan as plans
from jobs.backends.registry import BACKENDS
from jobs.estimate import Estimate, seconds_at
from jobs.evaluations import selectors as evaluation_selectors
from jobs.evaluations.models import Evaluation
from jobs.evaluations.selectors import address
from jobs.models import Job, LaunchDraft
from jobs.pages import title_of
from jobs.plan import Derived
from jobs.plan_choices import check_taken
from jobs.starts import Start, start_of, start_values
from rftstudio.core.errors import UserError
from rftstudio.core.show import show_money, show_seconds
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission, can

MENU_JOBS, MENU_DRAFTS = 8, 5
#: Errors that say nothing against what is filled in.
_NO_FIELDS = {"read_warnings", "override", NON_FIELD_ERRORS}
#: What a line about a draft does not say of its baseline.
_LARGE = (
    "baseline__metrics", "baseline__readiness", "baseline__agent_version__system_prompt", "baseline__agent_version__tools",
)  # fmt: skip

#: The two ways of training, as the form speaks of them.
METHOD_CARDS = [
    {"key": Job.Method.REINFORCEMENT, "label": Job.Method.REINFORCEMENT.label, "icon": "rollout",
     "text": "Tries each item several times and learns from what the grader scored better."},
    {"key": Job.Method.SUPERVISED, "label": Job.Method.SUPERVISED.label, "icon": "label",
     "text": "Imitates good rollouts or stored answers: for a model that never succeeds yet."},
]  # fmt: skip


def start_from(query, baseline: Evaluation, source: Job | None, sources: Sequence[demonstrations.Source]) -> Start:
    """Where the form starts: from the job that is cloned, else from the baseline and the method that the address names."""
    ground = selectors.plan_ground(baseline)
    if source is None:
        wanted = {"method": Job.Method.SUPERVISED} if query.get("method") == Job.Method.SUPERVISED else {}
        return Start(start_values(ground) | wanted)
    return start_of(
        source, title=title_of(source), baseline=baseline, ground=ground,
        own_ground=selectors.plan_ground(source.baseline, source.demonstrations or None),
        offered={one.key for one in sources},
    )  # fmt: skip


def menu_context(actor: Actor, draft: LaunchDraft | None) -> dict[str, Any]:
    """What the form may be filled from: the newest jobs, and drafts but the one that is open."""
    jobs = list(selectors.job_list(team=actor.team)[:MENU_JOBS])
    others = drafts.draft_list(team=actor.team).exclude(pk=draft.pk if draft else None)[:MENU_DRAFTS]
    return {
        "earlier": [
            {"job": job, "title": title_of(job), "best": job.best_checkpoint.validation_reward if job.best_checkpoint else None}
            for job in jobs
        ],
        "drafts": draft_lines(others),
        "baselines": [
            (one, f"Baseline {one.number}, {one.agent_version}, {one.policy_label}")
            for one in selectors.baseline_lines(team=actor.team)[:30]
        ],
    }  # fmt: skip


def draft_title(draft: LaunchDraft) -> str:
    agent = draft.baseline.agent_version.agent.name if draft.baseline else ""
    return draft.name or ", ".join(filter(None, [agent, draft.baseline_was[:1].lower() + draft.baseline_was[1:]]))


def draft_lines(rows: QuerySet[LaunchDraft]) -> list[dict[str, Any]]:
    return [
        {"draft": draft, "title": draft_title(draft), "is_homeless": draft.baseline is None}
        for draft in rows.defer("values", *_LARGE)
    ]


def drafts_shown(actor: Actor) -> list[dict[str, Any]]:
    """Drafts on the list of jobs: for those who may launch them."""
    return draft_lines(drafts.draft_list(team=actor.team)) if can(actor, Permission.JOB_LAUNCH) else []


def draft_note(draft: LaunchDraft, baseline: Evaluation) -> str:
    """Why the baseline on the page is not the one that the draft was saved with."""
    chosen = evaluation_selectors.title_of(baseline)
    if draft.baseline is None:
        was = draft.baseline_was or "The baseline"
        return f"{was}, for which this draft was written, has been deleted. {chosen} stands in its place; look before you launch."
    if draft.baseline_id != baseline.pk:
        return f"The draft was saved for {draft.baseline_was}. {chosen} is chosen now, and kept when you save."
    return ""


def launch_context(
    baseline: Evaluation, form, actor: Actor, *, draft: LaunchDraft | None = None, start: Start | None = None
) -> dict[str, Any]:
    """What is trained, the form's groups and the sticky right column; where the form comes from."""
    ground = selectors.plan_ground(baseline)
    source = start.source if start else None
    return {
        **menu_context(actor, draft),
        "draft": draft,
        "draft_title": draft_title(draft) if draft else "",
        "draft_note": draft_note(draft, baseline) if draft else "",
        "wrong_fields": len(set(form.errors) - _NO_FIELDS) if form.is_bound else 0,
        "source": source,
        "source_title": title_of(source) if source else "",
        "source_baseline": evaluation_selectors.title_of(source.baseline) if source else "",
        "misfits": start.misfits if start else (),
        "baseline": baseline,
        "baseline_title": evaluation_selectors.title_of(baseline),
        "baseline_mean": (baseline.metrics or {}).get("mean_reward"),
        "ground": ground,
        "form": form,
        "method_cards": METHOD_CARDS,
        "backend_cards": [
            {"key": name, "label": one.label, "text": one.text, "icon": one.icon} for name, one in BACKENDS.items()
        ],
        **estimate_context(baseline, form, actor),
    }


def has_warnings(baseline: Evaluation, backend: str, method: str = "") -> bool:
    """Warnings without a block: they need one explicit tick."""
    known = backend if backend in BACKENDS else "trl"
    method = method or Job.Method.REINFORCEMENT
    return selectors.launch_verdict(baseline=baseline, backend=known, method=method)["level"] == "warn"


def _choice_now(baseline: Evaluation, form, method: str, filled: bool) -> dict[str, Any] | None:
    """The demonstrations as the form holds them now; None for a job that practises. UserError where none are chosen."""
    if method != Job.Method.SUPERVISED:
        return None
    if filled:
        return demonstrations.choice_read(form.choice, baseline=baseline)
    kind, _, what = str(form.initial.get("learn_from") or "").partition(":")
    return demonstrations.choice_read({"from": kind, "of": what, "field": what}, baseline=baseline)


def _range(guess: Estimate, derived: Derived, actor: Actor) -> dict[str, Any]:
    """The span as words and as a drawing: earlier jobs stand where this one would end at their pace."""
    show, scale = show_seconds, 1.0
    if guess.usd is not None and guess.seconds:
        show, scale = show_money, guess.usd / guess.seconds
    ids = dict(Job.objects.filter(team=actor.team, number__in=guess.jobs).values_list("number", "public_id"))
    ends = {number: seconds_at(pace, derived) * scale for number, pace in zip(guess.jobs, guess.paces, strict=True)}
    dots = [
        {
            "at": at,
            "label": f"Job {number}: at its pace {show(at)}",
            "url": address("jobs:job-detail", actor.team.slug, ids[number]),
        }
        for number, at in ends.items()
        if number in ids
    ]
    low, likely, high = (value * scale for value in (guess.low, guess.seconds, guess.high))
    return {
        "low": low, "likely": likely, "high": high, "words": [show(low), show(likely), show(high)],
        "dots": dots, "is_money": scale != 1.0, "hour": guess.usd / guess.seconds * 3600 if scale != 1.0 else None,
    }  # fmt: skip


def estimate_context(baseline: Evaluation, form, actor: Actor) -> dict[str, Any]:
    """Derived sentence, estimate, readiness and the button. Reads the form as far as it is filled in."""
    filled = form.is_bound and not set(form.errors) - _NO_FIELDS
    backend = (form.cleaned_data.get("backend") if form.is_bound else form.initial.get("backend")) or "trl"
    method = (form.chosen_method if form.is_bound else form.initial.get("method")) or Job.Method.REINFORCEMENT
    verdict = selectors.launch_verdict(baseline=baseline, backend=backend, method=method)
    lines = evaluation_selectors.verdict_lines(verdict)
    context: dict[str, Any] = {
        "baseline": baseline,
        "team": actor.team,
        "verdict": verdict,
        "problem_lines": [line for line in lines if line["level"] != "ok"],
        "passed_count": sum(line["level"] == "ok" for line in lines),
        "is_blocked": verdict["level"] == "block",
        "may_overrule": can(actor, Permission.BUDGET_APPROVE) and baseline.status == Evaluation.Status.SUCCEEDED,
        "form": form,
        "notices": selectors.launch_notices(baseline, backend),
    }
    wanted = form.plan if filled else {}
    if not form.is_bound:
        wanted = {name: value for name, value in form.initial.items() if name in plans.FIELDS}
    try:
        choice = _choice_now(baseline, form, method, filled)
        ground = selectors.plan_ground(baseline, choice)
        plan = plans.plan_fill(wanted, ground=ground)
        check_taken(plan, ground=ground, backend=backend)
    except UserError as exc:
        return context | {"plan_error": str(exc)}
    derived, guess = selectors.job_estimate(baseline=baseline, plan=plan, backend=backend, choice=choice)
    left = timezone.timedelta(seconds=guess.seconds) if guess.seconds is not None else None
    return context | {
        "plan": plan,
        # What the form cannot say costs nothing that could be named: the button then holds no sum.
        "money": holds.launch_outlook(actor, derived, guess) if filled or not form.is_bound else None,
        "derived": derived,
        "guess": guess,
        "range": _range(guess, derived, actor) if guess.seconds is not None else None,
        "done_by": timezone.now() + left if left is not None else None,
        "has_errors": form.is_bound and not filled,
    }
