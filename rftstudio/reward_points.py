"""How much reward was had for the money: sums over graded rollouts, by what ordered them or by team.

The page of costs stands left of the rollouts room and may not import it; settings name this module for it.
"""

from datetime import datetime

from django.db.models import Sum

from jobs.rollouts.models import Rollout
from rftstudio.teams.models import Team


def reward_points(*, team: Team | None, by: str, start: datetime, end: datetime) -> dict[str | int, float]:
    """Rewards added up over the rollouts of a time, ungraded ones apart: by "job" (public id) or by "team" (pk)."""
    rows = Rollout.objects.filter(reward__isnull=False, created_at__gte=start, created_at__lt=end)
    if team is not None:
        rows = rows.filter(team=team)
    key = "batch__source" if by == "job" else "team_id"
    return {one[key]: one["sum"] for one in rows.values(key).annotate(sum=Sum("reward")).order_by() if one[key]}
