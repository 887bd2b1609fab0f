"""Finds stored rollouts for the tests of graders, which stand to their left and may not import them."""

from datasets.models import DatasetVersion
from graders.sample_sources import StoredSample
from jobs.rollouts.models import Rollout
from jobs.rollouts.stored import stored_sample
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
    grader = row.batch.grader_version
    return StoredSample(
        id=row.public_id,
        item_key=row.group_key,
        item=row.item.data,
        sample=stored_sample(row),
        reward=row.reward,
        grader_version=grader.public_id if grader else "",
    )
