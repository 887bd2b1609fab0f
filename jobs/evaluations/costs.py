"""Money for evaluations: what one may cost, held at its start, given back at its end, and the stop when it is used up."""

from dataclasses import dataclass
from decimal import Decimal

from django.db import transaction
from django.utils import timezone

from graders.models import GraderVersion
from jobs.agents.models import AgentVersion, ModelEndpoint
from jobs.agents.selectors import model_subject
from jobs.agents.tools.types import limits_from
from jobs.evaluations.models import Evaluation
from jobs.rollouts.models import Rollout
from rftstudio.core.money import show_usd
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Team
from rftstudio.usage import selectors as money
from rftstudio.usage import services as usage
from rftstudio.usage.models import Reservation, Unit

#: Rollouts of the same kind may cost this much more than the last ones did.
MARGIN = Decimal("1.5")
#: Without any experience: what a policy reads before its first word, and of its limit what it usually writes.
BLIND_PROMPT_TOKENS = 1500
USUAL_SHARE = Decimal("0.25")


@dataclass(frozen=True)
class Guess:
    """Dollars for an evaluation; None where a price is missing. `basis` says where it comes from."""

    usd: Decimal | None
    usd_high: Decimal | None
    basis: str


def evaluation_guess(
    *, team: Team, agent_version: AgentVersion, grader_version: GraderVersion, model: ModelEndpoint, rollouts: int
) -> Guess:
    """From the last evaluation of the same agent, grader and model, else from the agent's limits."""
    alike = Evaluation.objects.filter(
        team=team, agent_version__agent=agent_version.agent, grader_version__grader=grader_version.grader, model=model,
        status=Evaluation.Status.SUCCEEDED,
    ).order_by("-id")  # fmt: skip
    for earlier in alike[:3]:
        spent = money.source_spent(source=earlier.public_id)
        ended = Rollout.objects.filter(batch=earlier.batch, status=Rollout.Status.DONE).count()
        if spent is not None and ended:
            each = spent / ended
            basis = f"From evaluation {earlier.number}: {show_usd(each)} a rollout."
            return Guess(each * rollouts, each * rollouts * MARGIN, basis)
    return _blind(agent_version, model, rollouts)


def _blind(agent_version: AgentVersion, model: ModelEndpoint, rollouts: int) -> Guess:
    now, subject = timezone.now(), model_subject(model)
    read = money.price_at(unit=Unit.INPUT_TOKEN, subject=subject, at=now)
    write = money.price_at(unit=Unit.OUTPUT_TOKEN, subject=subject, at=now)
    if read is None or write is None:
        return Guess(None, None, f"No price for {subject}: counted, not priced.")
    limits = limits_from(agent_version.limits or {})
    # Each step reads all that was written before it: half of it on average.
    written = limits.max_tokens
    read_tokens = limits.max_steps * (BLIND_PROMPT_TOKENS + written // 2)
    high = rollouts * (write * written + read * read_tokens)
    return Guess(
        high * USUAL_SHARE, high, "As if each rollout used all its steps and tokens; no evaluation like it has run."
    )


def evaluation_hold(*, actor: Actor, evaluation: Evaluation, rollouts: int) -> None:
    """Hold the high end of the guess, or refuse the evaluation."""
    guess = evaluation_guess(
        team=evaluation.team, agent_version=evaluation.agent_version, grader_version=evaluation.grader_version,
        model=evaluation.model, rollouts=rollouts,
    )  # fmt: skip
    usage.reservation_hold(
        actor=actor,
        source=evaluation.public_id,
        kind=Reservation.Kind.EVALUATION,
        label=f"Evaluation {evaluation.number}",
        amount=guess.usd_high,
        rollouts=rollouts,
    )


def evaluation_release(evaluation: Evaluation) -> None:
    """Give back what it did not spend. Again changes nothing."""
    usage.reservation_settle(team=evaluation.team, source=evaluation.public_id)


def stop_reason(evaluation: Evaluation) -> str:
    """Why it must stop for money's sake, or nothing."""
    return money.spend_stop_reason(team=evaluation.team, source=evaluation.public_id)


def release_forgotten() -> None:
    """Holds of evaluations that have ended, whose release was lost."""
    held = Reservation.objects.filter(kind=Reservation.Kind.EVALUATION, status=Reservation.Status.HELD)
    ended = Evaluation.objects.filter(public_id__in=held.values("source"), finished_at__isnull=False)
    for evaluation in ended.select_related("team"):
        with transaction.atomic():
            evaluation_release(evaluation)
