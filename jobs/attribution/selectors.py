"""Reads of stored credit."""

from collections.abc import Iterable

from jobs.attribution.convert import credit_step
from jobs.attribution.methods.base import action_key
from jobs.attribution.models import RolloutCredit, StepMark
from jobs.rollouts.models import Rollout, Step


def credit_for(rollout: Rollout, method: str) -> RolloutCredit | None:
    """The stored credit of one rollout by one method; None when it has none (yet)."""
    return RolloutCredit.objects.filter(rollout=rollout, method=method).first()


def credits_of(rollout: Rollout) -> dict[str, RolloutCredit]:
    """All stored credits of one rollout by method."""
    return {credit.method: credit for credit in RolloutCredit.objects.filter(rollout=rollout)}


def stored_marks(rollout: Rollout) -> dict[str, bool]:
    """Whether its steps hold what these methods need."""
    return {
        "returns_to_go": rollout.steps.filter(step_reward__isnull=False).exists(),
        "information_gain": rollout.steps.filter(reference_logprob__isnull=False).exists(),
    }


#: Above this many steps in a group only the two rollouts on the page are compared.
COMPARED_STEPS = 4000


def marks_of(rollout: Rollout) -> list[StepMark]:
    """Everyone's marks on the steps of one rollout."""
    return list(StepMark.objects.filter(rollout=rollout).select_related("user").order_by("step_index", "id"))


def action_keys_of(rollouts: Iterable[Rollout]) -> dict[int, list[str]]:
    """What each rollout did, step by step, as keys that are equal for equal steps."""
    keys: dict[int, list[str]] = {rollout.pk: [] for rollout in rollouts}
    rows = Step.objects.filter(rollout_id__in=keys).order_by("rollout_id", "index")
    for rollout_id, text, calls, tokens in rows.values_list("rollout_id", "text", "tool_calls", "output_tokens"):
        keys[rollout_id].append(action_key(credit_step(text, calls or [], tokens, None)))
    return keys
