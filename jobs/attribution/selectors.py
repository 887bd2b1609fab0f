"""Reads of stored credit."""

from jobs.attribution.models import RolloutCredit
from jobs.rollouts.models import Rollout


def credit_for(rollout: Rollout, method: str) -> RolloutCredit | None:
    """The stored credit of one rollout by one method; None when it has none (yet)."""
    return RolloutCredit.objects.filter(rollout=rollout, method=method).first()


def credits_of(rollout: Rollout) -> dict[str, RolloutCredit]:
    """All stored credits of one rollout by method."""
    return {credit.method: credit for credit in RolloutCredit.objects.filter(rollout=rollout)}
