"""Writes of credit: compute the methods for stored rollouts and keep the result."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence

from django.db import transaction

from jobs.attribution.convert import stored_rollouts
from jobs.attribution.methods.registry import METHODS, STORED_GROUP, compute_each
from jobs.attribution.models import RolloutCredit, StepMark
from jobs.attribution.types import Credit, CreditRollout
from jobs.rollouts.models import Rollout, RolloutBatch
from rftstudio.core.errors import NotFound, UserError
from rftstudio.core.queueing import queue
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit

#: Methods that see one group at a time; the others learn from all rollouts given to them.
GROUP_ONLY = ("uniform", "returns_to_go", "divergence", "anchor_state", "information_gain")
#: `prefix_value` learns from at most this many rollouts around the ones asked for.
LEARN_FROM = 2048
_WRITE = 500
_FIELDS = ("id", "batch_id", "group_key", "reward", "sample_index", "extra")


def attribution_compute(
    *, rollouts: Iterable[Rollout] | RolloutBatch, methods: Sequence[str] | None = None
) -> dict[str, int]:
    """Credit the steps of these rollouts, or of a whole batch, and store it: `{method: rollouts credited}`.

    Groups are completed from the database, so any selection gives the credits that the whole batch would. Running it
    again replaces what it stored; rollouts that cannot be credited keep no row.
    """
    chosen = list(methods or STORED_GROUP)
    if unknown := [key for key in chosen if key not in METHODS]:
        raise UserError(f"There is no method named {unknown[0]}.", where="methods", fix=f"Use {', '.join(METHODS)}.")
    wanted = _wanted(rollouts)
    if not wanted:
        return dict.fromkeys(chosen, 0)
    keys = {(rollout.batch_id, rollout.group_key) for rollout in wanted}
    mine = _load(keys)
    near = stored_rollouts(mine)
    plain = near
    if set(chosen) - set(GROUP_ONLY):
        plain = near + stored_rollouts(_around(mine))
    asked = {rollout.pk for rollout in mine}
    counts: dict[str, int] = {}
    for method in chosen:
        given = near if method in GROUP_ONLY else plain
        counts[method] = _store(method, given, compute_each(method, given), asked)
    return counts


def _wanted(rollouts: Iterable[Rollout] | RolloutBatch) -> list[Rollout]:
    if isinstance(rollouts, RolloutBatch):
        return list(rollouts.rollouts.only("id", "batch_id", "group_key"))
    return list(rollouts)


def _load(keys: set[tuple[int, str]]) -> list[Rollout]:
    """All rollouts of the groups asked for, with their steps."""
    batches, names = {batch for batch, _ in keys}, {name for _, name in keys}
    rows = Rollout.objects.filter(batch_id__in=batches).prefetch_related("steps").only(*_FIELDS).order_by("id")
    if len(names) <= _WRITE:
        rows = rows.filter(group_key__in=names)
    return [rollout for rollout in rows if (rollout.batch_id, rollout.group_key) in keys]


def _around(mine: list[Rollout]) -> list[Rollout]:
    """Graded rollouts to learn from: the same batches first, then the same source at the nearest train steps."""
    if not mine or len(mine) >= LEARN_FROM:
        return []
    batch = mine[0].batch
    related = RolloutBatch.objects.filter(team=batch.team_id, kind=batch.kind)
    related = related.filter(source=batch.source) if batch.source else related.filter(pk=batch.pk)
    here = {rollout.batch_id for rollout in mine}
    order = sorted(
        related.values_list("pk", "train_step"),
        key=lambda row: (row[0] not in here, abs((row[1] or 0) - (batch.train_step or 0)), row[0]),
    )
    known, found = {rollout.pk for rollout in mine}, []
    for number, _ in order:
        room = LEARN_FROM - len(mine) - len(found)
        if room <= 0:
            break
        rows = Rollout.objects.filter(batch=number, reward__isnull=False).exclude(pk__in=known)
        found += rows.prefetch_related("steps").only(*_FIELDS).order_by("id")[:room]
    return found


@transaction.atomic
def _store(method: str, given: list[CreditRollout], found: list[Credit | None], asked: set[int]) -> int:
    rows, gone = [], []
    groups: dict[str, list[tuple[int, float | None]]] = defaultdict(list)
    for rollout in given:
        groups[rollout.group].append((int(rollout.rollout), rollout.reward))
    learned_from = sum(rollout.reward is not None for rollout in given)
    for rollout, credit in zip(given, found, strict=True):
        key = int(rollout.rollout)
        if key not in asked:
            continue
        if credit is None:
            gone.append(key)
            continue
        rows.append(
            RolloutCredit(
                rollout_id=key,
                method=method,
                baseline=credit.baseline,
                credits=credit.credits,
                low=credit.low,
                high=credit.high,
                support=credit.support,
                is_complete=credit.is_complete,
                detail={
                    "steps": credit.detail,
                    "group": group_digest(groups[rollout.group]),
                    "learned_from": learned_from,
                },
            )
        )
    for start in range(0, len(gone), _WRITE):
        RolloutCredit.objects.filter(method=method, rollout_id__in=gone[start : start + _WRITE]).delete()
    RolloutCredit.objects.bulk_create(
        rows,
        batch_size=_WRITE,
        update_conflicts=True,
        unique_fields=["rollout", "method"],
        update_fields=["baseline", "credits", "low", "high", "support", "is_complete", "detail", "computed_at"],
    )
    return len(rows)


def source_credit(*, actor: Actor, source: str) -> int:
    """Queue the credit of every batch of a job or an evaluation; returns how many batches."""
    check_can(actor, Permission.EVALUATION_RUN, team=actor.team)
    batches = list(RolloutBatch.objects.filter(team=actor.team, source=source).values_list("pk", flat=True))
    if not batches:
        raise NotFound("There is nothing at this address.")
    from jobs.attribution import tasks

    for batch in batches:
        queue(tasks.attribution_compute, batch, is_swept=False)
    audit(actor, "credit.requested", source=source, batches=len(batches))
    return len(batches)


def group_digest(members: Iterable[tuple[int, float | None]]) -> str:
    """Names a group's rewards, so that credit computed before the last sibling came in is known to be old."""
    text = ";".join(f"{key}:{reward!r}" for key, reward in sorted(members))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def attribution_ensure(*, rollout: Rollout, siblings: Sequence[Rollout], method: str) -> RolloutCredit | None:
    """The credit of one rollout, computed now if there is none or if the group has changed since."""
    found = RolloutCredit.objects.filter(rollout=rollout, method=method).first()
    if found is not None and is_fresh(found, siblings):
        return found
    whole = rollout.batch if method not in GROUP_ONLY else list(siblings)
    attribution_compute(rollouts=whole, methods=[method])
    return RolloutCredit.objects.filter(rollout=rollout, method=method).first()


def is_fresh(credit: RolloutCredit, siblings: Sequence[Rollout]) -> bool:
    """Whether the group still has the rewards that the credit was computed from."""
    return credit.detail.get("group") == group_digest((r.pk, r.reward) for r in siblings)


@transaction.atomic
def step_mark_set(*, actor: Actor, rollout: Rollout, step_index: int, mark: int | None) -> StepMark | None:
    """Keep this person's judgement of a step; None takes it back."""
    check_can(actor, Permission.LABEL, team=rollout.team)
    if not 0 <= step_index < rollout.n_steps:
        raise NotFound("This rollout has no such step.")
    if mark is not None and mark not in StepMark.Mark.values:
        raise UserError(f"{mark} is no mark.", where="mark", fix="Use 1 (helps), 0 (neither) or -1 (harms).")
    place = {"rollout": rollout, "step_index": step_index, "user": actor.user}
    if mark is None:
        StepMark.objects.filter(**place).delete()
        audit(actor, "step_mark.removed", rollout, step=step_index)
        return None
    row, _ = StepMark.objects.update_or_create(**place, defaults={"mark": mark})
    audit(actor, "step_mark.set", rollout, step=step_index, mark=mark)
    return row
