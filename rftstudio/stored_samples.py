"""Finds stored rollouts for the tests of graders, which stand to their left and may not import them."""

from collections.abc import Sequence

from django.db.models import QuerySet
from django.urls import reverse

from datasets.models import DatasetVersion
from graders.sample_sources import StoredSample
from jobs.rollouts.models import Rollout
from jobs.rollouts.stored import stored_sample
from rftstudio.teams.models import Team

PART = 500


def stored_samples(
    *,
    team: Team,
    version: DatasetVersion | None = None,
    limit: int = 20,
    rollout: str = "",
    rollouts: Sequence[str] | None = None,
    items: Sequence[str] | None = None,
) -> list[StoredSample]:
    """Finished rollouts that have an item, newest first; sound ones only, whatever their reward."""
    rows = Rollout.objects.filter(team=team, status=Rollout.Status.DONE, item__isnull=False)
    if rollout:
        rows = rows.filter(public_id=rollout)
    elif rollouts is not None or items is not None:
        rows = rows.filter(item__version__dataset=version.dataset_id) if version else rows
        rows = rows.filter(pk__in=_named(rows, rollouts, items, limit))
    elif version is not None:
        rows = rows.filter(item__version=version)
    rows = rows.select_related("item", "batch__agent_version", "batch__grader_version").prefetch_related("steps")
    return [_stored(row, team.slug) for row in rows.order_by("-pk")[:limit]]


def _named(
    rows: QuerySet[Rollout], rollouts: Sequence[str] | None, items: Sequence[str] | None, limit: int
) -> list[int]:
    """The newest of those with these ids, or on these items; asked for in parts, since a query takes only so many."""
    name, values = ("public_id", rollouts) if rollouts is not None else ("group_key", items or ())
    found: list[int] = []
    for start in range(0, len(values), PART):
        part = rows.filter(**{f"{name}__in": values[start : start + PART]})
        found += part.order_by("-pk").values_list("pk", flat=True)[:limit]
    return sorted(found, reverse=True)[:limit]


def _stored(row: Rollout, team: str) -> StoredSample:
    grader = row.batch.grader_version
    return StoredSample(
        id=row.public_id,
        item_key=row.group_key,
        item=row.item.data,
        sample=stored_sample(row),
        reward=row.reward,
        grader_version=grader.public_id if grader else "",
        url=reverse("rollouts:rollout-detail", args=[team, row.public_id]),
    )
