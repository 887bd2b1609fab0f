"""Re-run from here: fresh continuations from after each step, and the credit that follows from their rewards.

VinePPO (Kazemnejad et al. 2024, arXiv 2410.01679): the value of a prefix is the mean reward of K continuations that the
same policy makes from it, tools called for real. Credit is V_t − V_{t−1}; V_0 is the siblings' mean b, because siblings
are continuations from the start; after the last step the reward itself stands, so the credits sum to R − b. The
intervals come from the spread of the rewards. This is the local truth that the other methods are checked against.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from statistics import fmean

from django.db import transaction
from django.utils import timezone

from jobs.agents.models import ModelEndpoint
from jobs.attribution.methods.base import Z90, closed
from jobs.attribution.models import RolloutCredit
from jobs.attribution.policies import why_gone
from jobs.attribution.services import group_digest
from jobs.rollouts.models import Rollout, RolloutBatch
from jobs.rollouts.services import batch_cancel, batch_create
from rftstudio.core.errors import Conflict, UserError
from rftstudio.core.ids import new_id
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit
from rftstudio.usage.models import Reservation, Unit
from rftstudio.usage.selectors import price_at, spend_stop_reason
from rftstudio.usage.services import reservation_hold, reservation_settle

METHOD = "rerun"
#: Continuations of each prefix, and the longest rollout that is re-run.
CONTINUATIONS, MOST_STEPS = 8, 40
#: Continuations may cost this much more than the rollout they go on from would have.
MARGIN = Decimal("1.5")
#: Fewer graded continuations than this leave a prefix without a value of its own.
LEAST = 3


@dataclass(frozen=True)
class Estimate:
    """What a re-run would take. `usd` is None where no price is set."""

    rollouts: int
    tokens: int
    usd: Decimal | None
    is_local: bool


@dataclass(frozen=True)
class State:
    """How far a re-run is; `batch` is None when none was ordered. `note` says why it stopped early."""

    batch: RolloutBatch | None = None
    total: int = 0
    ended: int = 0
    note: str = ""

    @property
    def is_running(self) -> bool:
        return self.batch is not None and self.ended < self.total


def source_of(rollout: Rollout) -> str:
    return f"rerun-{rollout.public_id}"


def why_not(rollout: Rollout, graded_siblings: int) -> str:
    """Why a rollout cannot be re-run, with the way to enable it; empty when it can."""
    batch = rollout.batch
    if batch.agent_version is None or batch.model is None:
        return "Studio did not run this rollout, so it has no policy to go on with."
    if gone := why_gone(batch):
        return gone
    if batch.grader_version is None:
        return "Its batch has no grader to score the continuations."
    if rollout.item is None:
        return "Its item is not stored here."
    if rollout.reward is None or not graded_siblings:
        return "It needs a reward and a graded sibling."
    if not 2 <= rollout.n_steps <= MOST_STEPS:
        return f"It has {rollout.n_steps} steps; rollouts of 2 to {MOST_STEPS} can be re-run."
    for tool in batch.agent_version.tools:
        if tool.get("transport") != "builtin" and not tool.get("is_replayable"):
            return f"The tool {tool.get('name')} may have side effects. Mark it as replayable if it has none."
    return ""


def estimate(rollout: Rollout, continuations: int = CONTINUATIONS) -> Estimate:
    """Rollouts, the tokens they would use if they went on like this one, and dollars where prices are set."""
    tokens = list(rollout.steps.order_by("index").values_list("input_tokens", "output_tokens"))
    places = len(tokens) - 1
    read = sum(sum(step[0] for step in tokens[place:]) for place in range(1, len(tokens))) * continuations
    written = sum(sum(step[1] for step in tokens[place:]) for place in range(1, len(tokens))) * continuations
    model = rollout.batch.model
    is_local = model is not None and model.kind == ModelEndpoint.Kind.LOCAL
    name = "" if model is None else model.name if is_local else model.model
    now = timezone.now()
    prices = [price_at(unit=unit, subject=name, at=now) for unit in (Unit.INPUT_TOKEN, Unit.OUTPUT_TOKEN)]
    usd = None if None in prices else prices[0] * read + prices[1] * written
    return Estimate(places * continuations, read + written, usd, is_local)


@transaction.atomic
def rerun_start(*, actor: Actor, rollout: Rollout, continuations: int = CONTINUATIONS) -> RolloutBatch:
    """Order the continuations and hold their money; workers run them like any other rollouts. Asked twice, it is
    ordered once. When the money is used up, the rest is cancelled and the credit is made of what has ended."""
    check_can(actor, Permission.EVALUATION_RUN, team=rollout.team)
    graded = Rollout.objects.filter(batch=rollout.batch_id, group_key=rollout.group_key, reward__isnull=False)
    if reason := why_not(rollout, graded.exclude(pk=rollout.pk).count()):
        raise UserError(reason, where="rollout")
    found = RolloutBatch.objects.filter(team=rollout.team, kind=RolloutBatch.Kind.RERUN, source=source_of(rollout))
    if found.exists():
        raise Conflict("This rollout is being re-run already, or was.")
    cost = estimate(rollout, continuations)
    reservation_hold(
        actor=actor, source=source_of(rollout), kind=Reservation.Kind.EVALUATION,
        label=f"Re-run of rollout {rollout.sample_index + 1}, {rollout.title}"[:160],
        amount=None if cost.usd is None else cost.usd * MARGIN, rollouts=cost.rollouts,
    )  # fmt: skip
    origin = rollout.batch
    batch = batch_create(
        actor=actor,
        kind=RolloutBatch.Kind.RERUN,
        source=source_of(rollout),
        items=[],
        agent_version=origin.agent_version,
        grader_version=origin.grader_version,
        model=origin.model,
        policy_label=f"{origin.policy_label or origin.model.name}, re-run",
        pass_threshold=origin.pass_threshold,
    )
    Rollout.objects.bulk_create(
        Rollout(
            team_id=rollout.team_id,
            batch=batch,
            item=rollout.item,
            group_key=f"after step {place}",
            sample_index=index,
            trace_id=new_id("trace_"),
            title=rollout.title,
            extra={"goes_on_from": {"rollout": rollout.public_id, "steps": place}},
        )
        for place in range(1, rollout.n_steps)
        for index in range(continuations)
    )
    audit(actor, "rollout.rerun_started", rollout, rollouts=(rollout.n_steps - 1) * continuations)
    return batch


def rerun_state(rollout: Rollout) -> State:
    batch = RolloutBatch.objects.filter(
        team=rollout.team_id, kind=RolloutBatch.Kind.RERUN, source=source_of(rollout)
    ).first()
    if batch is None:
        return State()
    waiting = [Rollout.Status.QUEUED, Rollout.Status.RUNNING]
    note = "stopped when its money was used up" if batch.is_cancelled else ""
    return State(batch, batch.rollouts.count(), batch.rollouts.exclude(status__in=waiting).count(), note)


def reruns_sweep() -> None:
    """Stop re-runs whose money is used up, and give back what ended ones did not spend."""
    held = Reservation.objects.filter(status=Reservation.Status.HELD, source__startswith="rerun-").values("source")
    for batch in RolloutBatch.objects.filter(kind=RolloutBatch.Kind.RERUN, source__in=held).select_related("team"):
        if not batch.is_cancelled and spend_stop_reason(team=batch.team, source=batch.source):
            batch_cancel(batch=batch)
        if not batch.rollouts.filter(status__in=[Rollout.Status.QUEUED, Rollout.Status.RUNNING]).exists():
            reservation_settle(team=batch.team, source=batch.source)


def rerun_settle(*, rollout: Rollout, siblings: Sequence[Rollout]) -> RolloutCredit | None:
    """Credit from the continuations that are graded; None until all have ended."""
    state = rerun_state(rollout)
    if state.batch is None or state.is_running or rollout.reward is None:
        return None
    rewards: dict[int, list[float]] = {}
    for key, reward in state.batch.rollouts.filter(reward__isnull=False).values_list("group_key", "reward"):
        rewards.setdefault(int(key.rsplit(" ", 1)[1]), []).append(reward)
    others = [s.reward for s in siblings if s.pk != rollout.pk and s.reward is not None]
    if not others:
        return None
    values = credit_of(rollout.reward, others, [rewards.get(place, []) for place in range(1, rollout.n_steps)])
    row, _ = RolloutCredit.objects.update_or_create(
        rollout=rollout,
        method=METHOD,
        defaults={
            **values,
            "is_complete": True,
            "detail": {**values["detail"], "group": group_digest((s.pk, s.reward) for s in siblings)},
        },
    )
    return row


def credit_of(reward: float, others: Sequence[float], rewards: Sequence[Sequence[float]]) -> dict:
    """Credits, bounds and support from the rewards of the continuations of each prefix."""
    baseline = fmean(others)
    every = [reward, *others, *(r for found in rewards for r in found)]
    span = (max(every) - min(every)) or 1.0
    levels: list[tuple[float, float, int]] = [(baseline, _error(others, span), len(others))]
    for found in rewards:
        # A prefix with too few graded continuations moves nothing and is known as badly as the one before it.
        levels.append((fmean(found), _error(found, span), len(found)) if len(found) >= LEAST else (*levels[-1][:2], 0))
    levels.append((reward, 0.0, len(rewards[-1]) if rewards else len(others)))
    credits, low, high, support = [], [], [], []
    for (start, start_error, start_count), (end, end_error, end_count) in pairwise(levels):
        count = min(start_count, end_count)
        error = Z90 * math.hypot(start_error, end_error)
        credits.append(end - start)
        low.append(end - start - error if count else None)
        high.append(end - start + error if count else None)
        support.append(count)
    return {
        "baseline": baseline,
        "credits": closed(credits, reward - baseline),
        "low": low,
        "high": high,
        "support": support,
        "detail": {"steps": [{"before": a[0], "after": b[0]} for a, b in pairwise(levels)]},
    }


def _error(rewards: Sequence[float], span: float) -> float:
    """Standard error of a mean, with two pretended rewards a quarter of the range apart from it."""
    mean = fmean(rewards)
    spread = sum((reward - mean) ** 2 for reward in rewards) + 2 * (span / 4) ** 2
    return math.sqrt(spread / (len(rewards) + 1) / len(rewards))
