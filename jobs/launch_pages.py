"""What the launch page shows: where its form starts, what the form comes to, and whether it may start."""

from typing import Any

from django.utils import timezone

from jobs import demonstrations, holds, selectors
from jobs import plan as plans
from jobs.backends.registry import BACKENDS
from jobs.evaluations import selectors as evaluation_selectors
from jobs.evaluations.models import Evaluation
from jobs.models import Job
from jobs.pages import title_of
from rftstudio.core.errors import UserError
from rftstudio.core.show import show_seconds
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission, can

#: The two ways of training, as the form speaks of them.
METHOD_CARDS = [
    {"key": Job.Method.REINFORCEMENT, "label": Job.Method.REINFORCEMENT.label, "icon": "rollout",
     "text": "Tries each item several times and learns from what the grader scored better."},
    {"key": Job.Method.SUPERVISED, "label": Job.Method.SUPERVISED.label, "icon": "label",
     "text": "Imitates good rollouts or stored answers: for a model that never succeeds yet."},
]  # fmt: skip


def initial_from(query, source: Job | None) -> dict[str, Any]:
    """Start values: those of the job that is cloned, else the defaults and the method that the address names."""
    if source is None:
        return {"method": Job.Method.SUPERVISED} if query.get("method") == Job.Method.SUPERVISED else {}
    plan = {name: value for name, value in source.plan.items() if name in plans.FIELDS and value is not None}
    plan.pop("max_steps", None)
    choice = source.demonstrations
    chosen = {"learn_from": f"{choice['from']}:{choice.get('of') or choice.get('field')}"} if choice else {}
    chosen |= {name: choice[name] for name in ("least_reward", "most_per_item") if name in choice}
    own = {"seed": source.seed, "backend": source.backend, "method": source.method}
    return {"name": f"{title_of(source)}, again"[:120], **own, **chosen, **plan}


def launch_context(baseline: Evaluation, form, actor: Actor) -> dict[str, Any]:
    """What is trained, the form's groups and the sticky right column."""
    ground = selectors.plan_ground(baseline)
    return {
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


def estimate_context(baseline: Evaluation, form, actor: Actor) -> dict[str, Any]:
    """Derived sentence, estimate, readiness and the button. Reads the form as far as it is filled in."""
    filled = form.is_bound and form.is_valid()
    backend = (form.cleaned_data.get("backend") if filled else form.initial.get("backend")) or "trl"
    method = (form.chosen_method if filled else form.initial.get("method")) or Job.Method.REINFORCEMENT
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
        plan = plans.plan_fill(wanted, ground=selectors.plan_ground(baseline, choice))
    except UserError as exc:
        return context | {"plan_error": str(exc)}
    derived, guess = selectors.job_estimate(baseline=baseline, plan=plan, backend=backend, choice=choice)
    left = timezone.timedelta(seconds=guess.seconds) if guess.seconds is not None else None
    return context | {
        "plan": plan,
        "money": holds.launch_outlook(actor, derived, guess),
        "derived": derived,
        "guess": guess,
        "range": f"{show_seconds(guess.low)} to {show_seconds(guess.high)}" if guess.low is not None else "",
        "done_by": timezone.now() + left if left is not None else None,
        "has_errors": form.is_bound and not form.is_valid(),
    }
