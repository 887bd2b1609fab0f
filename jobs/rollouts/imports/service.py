"""Brings a file of rollouts home: one batch a file, the same file twice is the same batch."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db import transaction

from jobs.rollouts.engine.types import StepRecord, Trajectory
from jobs.rollouts.imports.detect import read_rollouts
from jobs.rollouts.imports.types import Imported, ImportedRollout, Unreadable
from jobs.rollouts.models import LargeResult, Rollout, RolloutBatch, Step
from jobs.rollouts.storing import clean, clean_json, finite, rollout_values, step_rows
from rftstudio.core.errors import UserError
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit

CHUNK = 500
#: Results longer than this are kept apart; the step keeps this much of their start.
APART, PREVIEW = 64_000, 2_000
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
    rows = [(_row(batch, rollout, taken, place), rollout) for place, rollout in enumerate(found.rollouts)]
    for start in range(0, len(rows), CHUNK):
        part = rows[start : start + CHUNK]
        Rollout.objects.bulk_create([row for row, _ in part])
        steps = Step.objects.bulk_create(_steps(part), batch_size=CHUNK)
        LargeResult.objects.bulk_create(_kept_apart(steps), batch_size=20)


def _row(batch: RolloutBatch, rollout: ImportedRollout, taken: dict[str, int], place: int) -> Rollout:
    group = clean(rollout.group)[:200]
    index = taken[group] = taken.get(group, -1) + 1
    for number, step in enumerate(rollout.steps):
        step.index = number
        step.input_tokens = min(step.input_tokens, MOST_TOKENS)
        step.output_tokens = min(step.output_tokens, MOST_TOKENS)
    grade = {"reward": rollout.reward, "sub_rewards": rollout.sub_rewards} if rollout.reward is not None else {}
    values = rollout_values(_trajectory(rollout), grade, pass_threshold=batch.pass_threshold)
    values["flags"] = [clean_json(flag.as_dict()) for flag in rollout.flags]
    values["sub_rewards"] = clean_json(rollout.sub_rewards)
    if rollout.passed is not None and values["reward"] is not None:
        values["passed"] = rollout.passed
    if rollout.input_tokens is not None:
        values["input_tokens"], values["output_tokens"] = rollout.input_tokens, rollout.output_tokens or 0
    for name in ("input_tokens", "output_tokens"):
        values[name] = min(values[name], MOST_TOKENS)
    return Rollout(
        team_id=batch.team_id,
        batch=batch,
        group_key=group,
        sample_index=index,
        trace_id=_trace_id(batch, rollout, place),
        title=clean(rollout.title or rollout.answer[:120])[:200],
        advantage=finite(rollout.advantage),
        cost_usd=None if rollout.cost_usd is None else Decimal(str(round(rollout.cost_usd, 8))),
        extra=clean_json({**rollout.extra, "trace_id": rollout.trace_id, "key": rollout.key, "prompt": rollout.prompt}),
        **values,
    )


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


def _steps(part: list[tuple[Rollout, ImportedRollout]]) -> Iterator[Step]:
    for row, rollout in part:
        large: dict[tuple[int, int], str] = {}
        for step in rollout.steps:
            _take_large(step, large)
        for values in step_rows(row.pk, Trajectory(steps=rollout.steps), {}):
            made = Step(**values)
            for (index, call), text in large.items():
                if index == made.index:
                    kept = clean(text)
                    made.tool_calls[call]["result_bytes"] = len(kept.encode())
                    made.tool_calls[call]["result_digest"] = hashlib.sha256(kept.encode()).hexdigest()[:24]
                    made.large = {**getattr(made, "large", {}), call: kept}
            yield made


def _take_large(step: StepRecord, large: dict[tuple[int, int], str]) -> None:
    for place, call in enumerate(step.tool_calls):
        if len(call.result) > APART:
            large[step.index, place] = call.result
            call.result = call.result[:PREVIEW]


def _kept_apart(steps: list[Step]) -> Iterator[LargeResult]:
    for step in steps:
        for call, text in getattr(step, "large", {}).items():
            yield LargeResult(step=step, call=call, text=text)
