"""Reads of stored credit."""

from collections.abc import Iterable, Sequence

from datasets.labelling.selectors import step_labels
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


def failed_steps(rollout: Rollout) -> list[int]:
    """Indices of the steps in which a tool call failed, of the whole rollout."""
    if not rollout.n_tool_errors:
        return []
    rows = rollout.steps.order_by("index").values_list("index", "tool_calls")
    return [index for index, calls in rows if any(call.get("is_error") for call in calls or [])]


#: Above this many steps in a group only the two rollouts on the page are compared.
COMPARED_STEPS = 4000


def marks_of(rollout: Rollout) -> list[StepMark]:
    """Everyone's marks on the steps of one rollout."""
    return sorted(marks_on([rollout]), key=lambda mark: mark.step_index)


def marks_on(rollouts: Sequence[Rollout]) -> list[StepMark]:
    """Everyone's marks on steps: those set on a rollout's page, and those handed in at a label queue by people who set
    none on the page. The latter are rows of another room, so they are built here and never saved."""
    if not rollouts:
        return []
    by_id = {rollout.public_id: rollout for rollout in rollouts}
    marks = list(StepMark.objects.filter(rollout__in=rollouts).select_related("user").order_by("step_index", "id"))
    known = {(mark.rollout_id, mark.step_index, mark.user_id) for mark in marks}
    for label in step_labels(team_id=rollouts[0].team_id, subjects=list(by_id)):
        place = (by_id[label.subject].pk, label.step, label.user.pk)
        if place not in known:
            known.add(place)
            marks.append(
                StepMark(rollout=by_id[label.subject], step_index=label.step, user=label.user, mark=label.mark)
            )
    return marks


def action_keys_of(rollouts: Iterable[Rollout]) -> dict[int, list[str]]:
    """What each rollout did, step by step, as keys that are equal for equal steps."""
    keys: dict[int, list[str]] = {rollout.pk: [] for rollout in rollouts}
    rows = Step.objects.filter(rollout_id__in=keys).order_by("rollout_id", "index")
    for rollout_id, text, calls, tokens in rows.values_list("rollout_id", "text", "tool_calls", "output_tokens"):
        keys[rollout_id].append(action_key(credit_step(text, calls or [], tokens, None)))
    return keys
