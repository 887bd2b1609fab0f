"""A judge's marks on the steps of a stored rollout: ordered by hand, priced and held, asked in the background, and shown
with the calibration on experts' marks as it stands when the page is opened."""

from collections import defaultdict
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.utils import timezone

from graders.failures import Ungraded
from graders.judging import Judge, JudgeReply
from graders.services import clients_for
from jobs.agents.models import ModelEndpoint
from jobs.agents.selectors import model_subject
from jobs.attribution.judging import SCHEMA, Calibration, NoMarks, Told, calibrated, credits_of, messages, read_marks
from jobs.attribution.models import RolloutCredit
from jobs.attribution.selectors import marks_on
from jobs.attribution.services import group_digest
from jobs.rollouts.models import Rollout
from jobs.rollouts.reading import Siblings, prompt_of
from jobs.rollouts.selectors import whole_calls
from rftstudio.core.errors import UserError
from rftstudio.core.queueing import queue
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit
from rftstudio.usage.models import Category, Reservation, Unit
from rftstudio.usage.selectors import price_at, spend_stop_reason
from rftstudio.usage.services import Usage, reservation_hold, reservation_settle, usage_record_many

METHOD = "judge"
MOST_STEPS = 100
TRIES = 2
#: Characters a token stands for when a price is guessed, and tokens of an answer for each step.
_CHARACTERS, _ANSWER = 3.5, 60
_MARGIN = Decimal("1.5")


def source_of(rollout: Rollout) -> str:
    return f"judge-{rollout.public_id}"


def why_not(rollout: Rollout, graded_siblings: int) -> str:
    if rollout.reward is None or not graded_siblings:
        return "It needs a reward and a graded sibling."
    if not 1 <= rollout.n_steps <= MOST_STEPS:
        return f"It has {rollout.n_steps} steps; a judge reads 1 to {MOST_STEPS}."
    return ""


def judges(team: Team) -> list[ModelEndpoint]:
    return list(ModelEndpoint.objects.filter(team=team).order_by("name"))


def estimate(rollout: Rollout, model: ModelEndpoint) -> Decimal | None:
    """Dollars for the reading and the marks; None where no price is set."""
    read = sum(len(message["content"]) for message in _messages(rollout)) / _CHARACTERS
    now, subject = timezone.now(), model_subject(model)
    prices = [price_at(unit=unit, subject=subject, at=now) for unit in (Unit.INPUT_TOKEN, Unit.OUTPUT_TOKEN)]
    if prices[0] is None or prices[1] is None:
        return None
    return prices[0] * Decimal(round(read)) + prices[1] * _ANSWER * rollout.n_steps


@transaction.atomic
def judge_start(*, actor: Actor, rollout: Rollout, model: ModelEndpoint) -> None:
    """Hold the money and queue the judge. Asked again, its marks are made anew."""
    from jobs.attribution import tasks

    check_can(actor, Permission.EVALUATION_RUN, team=rollout.team)
    check_can(actor, Permission.EVALUATION_RUN, team=model.team)
    others = Rollout.objects.filter(batch=rollout.batch_id, group_key=rollout.group_key, reward__isnull=False)
    if reason := why_not(rollout, others.exclude(pk=rollout.pk).count()):
        raise UserError(reason, where="rollout")
    usd = estimate(rollout, model)
    reservation_hold(
        actor=actor, source=source_of(rollout), kind=Reservation.Kind.EVALUATION,
        label=f"Judge's marks by {model.name}"[:160], amount=None if usd is None else usd * TRIES * _MARGIN,
    )  # fmt: skip
    RolloutCredit.objects.update_or_create(
        rollout=rollout,
        method=METHOD,
        defaults=_empty(rollout, {"model": model.name, "asked": timezone.now().isoformat()}),
    )
    audit(actor, "rollout.judge_asked", rollout, model=model.name)
    queue(tasks.judge_run, rollout.pk)


def _empty(rollout: Rollout, detail: dict[str, Any]) -> dict[str, Any]:
    return {
        "baseline": 0.0,
        "credits": [],
        "low": [],
        "high": [],
        "support": [],
        "is_complete": False,
        "detail": detail,
    }


def judge_run(*, rollout_id: int) -> bool:
    """Ask the judge, and store its marks or why there are none. Answered already: nothing is asked again."""
    row = RolloutCredit.objects.filter(rollout_id=rollout_id, method=METHOD).select_related("rollout__team").first()
    if row is None or "marks" in row.detail or "error" in row.detail:
        return False
    rollout, name = row.rollout, str(row.detail["model"])
    found: list[tuple[int, str]] = []
    error = spend_stop_reason(team=rollout.team, source=source_of(rollout))
    judge, asked = Judge(name, clients_for(rollout.team)), _messages(rollout)
    for number in range(0 if error else TRIES):
        try:
            reply = judge.ask(asked, {}, SCHEMA)
        except Ungraded as exc:
            error = str(exc)
            break
        _pay(rollout, row, name, reply, number)
        try:
            found, error = read_marks(reply.text, rollout.n_steps, reply.clean), ""
            break
        except NoMarks as exc:
            error = str(exc)
    outcome = {"error": error} if error else {"marks": [mark for mark, _ in found], "why": [why for _, why in found]}
    with transaction.atomic():
        RolloutCredit.objects.filter(pk=row.pk).update(detail={**row.detail, **outcome})
        reservation_settle(team=rollout.team, source=source_of(rollout))
    return not error


def judges_sweep() -> None:
    """Ask again where the worker that asked has died."""
    from jobs.attribution import tasks

    old = timezone.now() - timedelta(minutes=15)
    lost = RolloutCredit.objects.filter(
        method=METHOD, computed_at__lt=old, detail__marks__isnull=True, detail__error__isnull=True
    )
    for rollout in lost.values_list("rollout_id", flat=True)[:50]:
        queue(tasks.judge_run, rollout)


def _pay(rollout: Rollout, row: RolloutCredit, model: str, reply: JudgeReply, number: int) -> None:
    """Keyed by the order and the try, so that a task that comes twice is paid once."""
    key = f"{source_of(rollout)}:{row.detail['asked'][:26]}:{number}"
    endpoint = ModelEndpoint.objects.filter(team=rollout.team, name=model).first()
    subject = model_subject(endpoint) if endpoint else model
    counts = ((Unit.INPUT_TOKEN, "prompt_tokens"), (Unit.OUTPUT_TOKEN, "completion_tokens"))
    usage_record_many(
        team=rollout.team,
        usages=[
            Usage(
                f"{key}:{unit}"[:160],
                unit,
                subject,
                reply.usage[name],
                timezone.now(),
                source_of(rollout),
                Category.JUDGE,
            )
            for unit, name in counts
            if reply.usage.get(name)
        ],
    )


def judge_settle(*, rollout: Rollout, siblings: Siblings) -> RolloutCredit | None:
    """The marks as credit, by the calibration as it stands now; None while there are none."""
    row = RolloutCredit.objects.filter(rollout=rollout, method=METHOD).first()
    marks = row.detail.get("marks") if row else None
    if row is None or not marks or siblings.baseline is None or len(marks) != rollout.n_steps:
        return None
    rewards = [r.reward for r in (*siblings.graded, rollout) if r.reward is not None]
    scale = (max(rewards) - min(rewards)) / 2 or 0.5
    calibration = calibration_of(rollout.team, str(row.detail["model"]))
    values = credits_of(marks, calibration, scale)
    detail = {
        **row.detail,
        "group": group_digest((r.pk, r.reward) for r in siblings.everyone),
        "steps": [{"mark": mark, "why": why} for mark, why in zip(marks, row.detail["why"], strict=True)],
    }
    row.baseline, row.detail = siblings.baseline, detail
    row.credits, row.low, row.high, row.support = values["credits"], values["low"], values["high"], values["support"]
    row.save()
    return row


def calibration_of(team: Team, model: str) -> Calibration:
    """The judge beside the team's experts, over every step that both have marked."""
    judged = RolloutCredit.objects.filter(rollout__team=team, method=METHOD, detail__model=model)
    rows = [
        row
        for row in judged.select_related("rollout").only("detail", "rollout__public_id", "rollout__team_id")
        if row.detail.get("marks")
    ]
    marks = {row.rollout_id: row.detail["marks"] for row in rows}
    experts: dict[tuple[int, int], list[int]] = defaultdict(list)
    for found in marks_on([row.rollout for row in rows]):
        if found.step_index < len(marks[found.rollout_id]):
            experts[found.rollout_id, found.step_index].append(found.mark)
    return calibrated([(marks[rollout][index], sum(of) / len(of)) for (rollout, index), of in experts.items()])


def _messages(rollout: Rollout) -> list[dict[str, str]]:
    task = "\n\n".join(f"{role}: {text}" for role, text in prompt_of(rollout)) or rollout.title
    steps = rollout.steps.prefetch_related("large_results").order_by("index")
    return messages(task, [_told(step) for step in steps], rollout.get_stop_reason_display())


def _told(step: Any) -> Told:
    calls = whole_calls(step)
    if not calls:
        return Told(f"Said: {step.text}")
    did = "\n".join(f"Called {call.get('name')} with {call.get('arguments')}" for call in calls)
    return Told(did, "\n".join(str(call.get("result", "")) for call in calls))
