"""Brings a file of rollouts home: one batch a file, the same file twice is the same batch."""

import hashlib
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db import transaction

from jobs.rollouts.bulk import insert
from jobs.rollouts.cleaning import clean, clean_json, finite
from jobs.rollouts.engine.types import Trajectory
from jobs.rollouts.imports.detect import read_rollouts
from jobs.rollouts.imports.types import Imported, ImportedRollout, Unreadable
from jobs.rollouts.masking import Mask
from jobs.rollouts.models import Rollout, RolloutBatch
from jobs.rollouts.writing import finished_values, masked, steps_insert, team_mask
from rftstudio.core.errors import UserError
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit

CHUNK = 500
#: What the columns can count to.
MOST_TOKENS = 2**31 - 1


@dataclass
class Outcome:
    """The batch that holds the file's rollouts, and what was found in it."""

    batch: RolloutBatch
    report: dict[str, Any]
    is_new: bool


def rollouts_import(
    *, actor: Actor, content: bytes, filename: str = "", format: str = "auto", pass_threshold: float = 0.5
) -> Outcome:
    """Store every rollout of a file. The same bytes again change nothing."""
    check_can(actor, Permission.EVALUATION_RUN, team=actor.team)
    try:
        found = read_rollouts(content, format=format)
    except Unreadable as exc:
        raise UserError(f"{filename or 'The file'} was not imported. {exc}", where="file") from exc
    report = found.report()
    source = "import-" + hashlib.sha256(content).hexdigest()[:24]
    with transaction.atomic():
        batch = RolloutBatch.objects.filter(team=actor.team, kind=RolloutBatch.Kind.IMPORT, source=source).first()
        if batch is not None:
            return Outcome(batch, report, is_new=False)
        batch = RolloutBatch.objects.create(
            team=actor.team,
            created_by=actor.user,
            kind=RolloutBatch.Kind.IMPORT,
            source=source,
            policy_label=_policy(found),
            pass_threshold=pass_threshold,
        )
        _store(batch, found)
        audit(
            actor, "rollouts.imported", batch, filename=filename[:200], format=found.format, count=len(found.rollouts)
        )
    return Outcome(batch, report, is_new=True)


def _policy(found: Imported) -> str:
    names = {rollout.policy for rollout in found.rollouts if rollout.policy}
    return clean(names.pop())[:200] if len(names) == 1 else f"imported, {found.format}"


def _store(batch: RolloutBatch, found: Imported) -> None:
    taken: dict[str, int] = {}
    mask = team_mask(batch.team_id)
    for start in range(0, len(found.rollouts), CHUNK):
        part = [
            _row(batch, rollout, taken, place, mask)
            for place, rollout in enumerate(found.rollouts[start : start + CHUNK], start=start)
        ]
        rollouts_insert(part)


def rollouts_insert(part: list[tuple[dict[str, Any], Trajectory]]) -> None:
    """New rollouts with their steps."""
    insert(Rollout, [row for row, _ in part])
    traces = [row["trace_id"] for row, _ in part]
    ids = dict(Rollout.objects.filter(trace_id__in=traces).values_list("trace_id", "pk"))
    steps_insert([(ids[row["trace_id"]], trajectory, {}) for row, trajectory in part])


def _row(
    batch: RolloutBatch, rollout: ImportedRollout, taken: dict[str, int], place: int, mask: Mask | None
) -> tuple[dict[str, Any], Trajectory]:
    group = clean(rollout.group)[:200]
    index = taken[group] = taken.get(group, -1) + 1
    values, trajectory = imported_values(rollout, pass_threshold=batch.pass_threshold, mask=mask)
    row = {
        "team_id": batch.team_id,
        "batch_id": batch.pk,
        "group_key": group,
        "sample_index": index,
        "trace_id": _trace_id(batch, rollout, place),
        **values,
    }
    return row, trajectory


def imported_values(
    rollout: ImportedRollout, *, pass_threshold: float, mask: Mask | None
) -> tuple[dict[str, Any], Trajectory]:
    """Every column that a rollout from elsewhere fills, and its trajectory; masked where the team asks for it."""
    for number, step in enumerate(rollout.steps):
        step.index = number
        step.input_tokens = min(step.input_tokens, MOST_TOKENS)
        step.output_tokens = min(step.output_tokens, MOST_TOKENS)
    reward = {"reward": rollout.reward, "sub_rewards": rollout.sub_rewards} if rollout.reward is not None else {}
    trajectory, grade = masked(_trajectory(rollout), reward, mask)
    kept = {**rollout.extra, "trace_id": rollout.trace_id, "key": rollout.key, "prompt": rollout.prompt}
    title = rollout.title or trajectory.answer[:120]
    if mask is not None:
        kept, title = mask.value(kept), mask.text(title)
    flags = [flag.as_dict() for flag in rollout.flags]
    values = finished_values(trajectory, grade, pass_threshold=pass_threshold, mask=mask)
    values |= {
        "flags": clean_json(flags + [flag for flag in values["flags"] if flag["code"] == "masked"]),
        "sub_rewards": clean_json(rollout.sub_rewards),
        "title": clean(title)[:200],
        "advantage": finite(rollout.advantage),
        "cost_usd": None if rollout.cost_usd is None else Decimal(str(round(rollout.cost_usd, 8))),
        "extra": clean_json(kept),
    }
    if rollout.passed is not None and values["reward"] is not None:
        values["passed"] = rollout.passed
    if rollout.input_tokens is not None:
        values["input_tokens"], values["output_tokens"] = rollout.input_tokens, rollout.output_tokens or 0
    for name in ("input_tokens", "output_tokens"):
        values[name] = min(values[name], MOST_TOKENS)
    return values, trajectory


def _trajectory(rollout: ImportedRollout) -> Trajectory:
    known = rollout.stop_reason in Rollout.StopReason.values
    return Trajectory(
        steps=rollout.steps,
        stop_reason=rollout.stop_reason if known else "answered",
        answer=rollout.answer,
        error=rollout.error,
        started_at=rollout.started_at,
        milliseconds=None if rollout.seconds is None else rollout.seconds * 1000,
    )


def _trace_id(batch: RolloutBatch, rollout: ImportedRollout, place: int) -> str:
    """One of our own, because two teams may import the same trace; the file's is kept with the rollout."""
    text = f"{batch.team_id}:{batch.source}:{rollout.key}:{place}"
    return "imp_" + hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
