"""Steps into the tables: masked first, long results apart."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from jobs.rollouts.bulk import insert
from jobs.rollouts.engine.types import ToolCallRecord, Trajectory
from jobs.rollouts.masking import Mask, Rule, mask_of
from jobs.rollouts.models import LargeResult, MaskRule, Step
from jobs.rollouts.storing import call_dict, clean, rollout_values, step_rows
from rftstudio.teams.models import Team

#: Results longer than this are kept apart; the step keeps this much of their start.
APART, PREVIEW = 64_000, 2_000


def team_mask(team: Team | int) -> Mask | None:
    """The team's masking rules; None when it has none."""
    key = team if isinstance(team, int) else team.pk
    rules = MaskRule.objects.filter(team_id=key).order_by("pk").values_list("kind", "words")
    return mask_of(Rule(kind, words) for kind, words in rules)


def masked(trajectory: Trajectory, grade: dict[str, Any], mask: Mask | None) -> tuple[Trajectory, dict[str, Any]]:
    """What may be stored of a finished rollout. Graders have seen it whole before."""
    if mask is None:
        return trajectory, grade
    return mask.trajectory(trajectory), mask.value(grade)


def finished_values(
    trajectory: Trajectory, grade: dict[str, Any], *, pass_threshold: float, mask: Mask | None = None
) -> dict[str, Any]:
    """The columns of a finished rollout, with a flag where something was masked in what `masked` gave."""
    values = rollout_values(trajectory, grade, pass_threshold=pass_threshold)
    if mask is not None and (flag := mask.take_flag()):
        values["flags"] = [*values["flags"], flag]
    return values


def steps_insert(found: Iterable[tuple[int, Trajectory, dict[str, Any]]]) -> None:
    """Store the steps of rollouts, given as id, trajectory and grade."""
    apart: dict[tuple[int, int, int], str] = {}
    insert(Step, _rows(found, apart))
    if apart:
        _insert_apart(apart)


def _rows(
    found: Iterable[tuple[int, Trajectory, dict[str, Any]]], apart: dict[tuple[int, int, int], str]
) -> Iterator[dict[str, Any]]:
    """Rows of steps; long results are put into `apart`, by rollout, step and place of the call."""
    for rollout_id, trajectory, grade in found:
        for row in step_rows(rollout_id, trajectory, grade):
            for call in row["tool_calls"]:
                if len(call.result) > APART:
                    row["tool_calls"] = list(_cut(rollout_id, row["index"], row["tool_calls"], apart))
                    break
            yield row


def _cut(
    rollout_id: int, index: int, calls: Iterable[ToolCallRecord], apart: dict[tuple[int, int, int], str]
) -> Iterable[dict[str, Any]]:
    """Calls as dicts; a long result leaves its start, its size and its digest."""
    for place, call in enumerate(calls):
        made = call_dict(call)
        if len(call.result) > APART:
            whole = apart[rollout_id, index, place] = clean(call.result)
            data = whole.encode()
            made |= {
                "result": whole[:PREVIEW],
                "result_bytes": len(data),
                "result_digest": hashlib.sha256(data).hexdigest()[:24],
            }
        yield made


def _insert_apart(apart: dict[tuple[int, int, int], str]) -> None:
    rows = Step.objects.filter(rollout_id__in={key[0] for key in apart})
    ids = {(rollout, index): pk for pk, rollout, index in rows.values_list("pk", "rollout_id", "index")}
    for (rollout, index, place), text in apart.items():  # one at a time: a batch of them could be a gigabyte
        insert(LargeResult, [{"step_id": ids[rollout, index], "call": place, "text": text}])
