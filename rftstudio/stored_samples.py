"""Finds stored rollouts for the tests of graders, which stand to their left and may not import them."""

from datasets.models import DatasetVersion
from graders.sample_sources import StoredSample
from jobs.rollouts.engine.sample import sample_of
from jobs.rollouts.engine.types import StepRecord, ToolCallRecord, Trajectory
from jobs.rollouts.models import Rollout
from rftstudio.teams.models import Team


def stored_samples(
    *, team: Team, version: DatasetVersion | None = None, limit: int = 20, rollout: str = ""
) -> list[StoredSample]:
    """Finished rollouts that have an item, newest first; sound ones only, whatever their reward."""
    rows = Rollout.objects.filter(team=team, status=Rollout.Status.DONE, item__isnull=False)
    if rollout:
        rows = rows.filter(public_id=rollout)
    elif version is not None:
        rows = rows.filter(item__version=version)
    rows = rows.select_related("item", "batch__agent_version", "batch__grader_version").prefetch_related("steps")
    return [_stored(row) for row in rows.order_by("-pk")[:limit]]


def _stored(row: Rollout) -> StoredSample:
    agent, grader = row.batch.agent_version, row.batch.grader_version
    return StoredSample(
        id=row.public_id,
        item_key=row.group_key,
        item=row.item.data,
        sample=sample_of(_trajectory(row), agent.response_format if agent else None),
        reward=row.reward,
        grader_version=grader.public_id if grader else "",
    )


def _trajectory(row: Rollout) -> Trajectory:
    steps = [
        StepRecord(
            index=step.index,
            text=step.text,
            reasoning=step.reasoning,
            tool_calls=[_call(call) for call in step.tool_calls],
            finish_reason=step.finish_reason,
            input_tokens=step.input_tokens,
            output_tokens=step.output_tokens,
        )
        for step in sorted(row.steps.all(), key=lambda step: step.index)
    ]
    return Trajectory(steps=steps, stop_reason=row.stop_reason, answer=row.answer)


def _call(call: dict) -> ToolCallRecord:
    known = ("id", "name", "arguments", "result", "is_error", "milliseconds", "notes")
    return ToolCallRecord(**{key: call[key] for key in known if key in call})
