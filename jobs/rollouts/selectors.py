"""Reads of batches. The explorer's reads live in explorer.py."""

from urllib.parse import parse_qsl

from django.db.models import Count, QuerySet

from jobs.rollouts.filters import filters_from, rows
from jobs.rollouts.models import Rollout, RolloutBatch
from jobs.rollouts.stored import stored_trajectory, whole_calls  # noqa: F401 - the floors above read steps whole
from rftstudio.teams.models import Team


def batch_counts(batch: RolloutBatch) -> dict[str, int]:
    """How many rollouts are in each status, all statuses named, and `total`."""
    rows = Rollout.objects.filter(batch=batch).values_list("status").annotate(n=Count("id")).order_by()
    counts = dict.fromkeys(Rollout.Status.values, 0) | dict(rows)
    return {**counts, "total": sum(counts.values())}


def query_count(*, team: Team, query: str) -> int:
    """How many of the team's rollouts the list would show for this query string."""
    return rows(team=team, filters=filters_from(dict(parse_qsl(query)))).order_by().count()


def batches_waiting() -> QuerySet[RolloutBatch]:
    """Batches with queued rollouts and nobody at work on them."""
    queued = Rollout.objects.filter(status=Rollout.Status.QUEUED).values("batch_id")
    running = Rollout.objects.filter(status=Rollout.Status.RUNNING).values("batch_id")
    return RolloutBatch.objects.filter(pk__in=queued, is_cancelled=False).exclude(pk__in=running).order_by("id")
