"""What of a filled plan somebody chose, and what follows by itself."""

from typing import Any

from jobs.backends.registry import backend_get
from jobs.plan import FIELDS, Field, Ground, plan_fill
from rftstudio.core.errors import UserError

#: What a plan takes from its ground or from its other values where nobody chose.
_FOLLOWS = (
    "batch_size",
    "group_size",
    "max_steps",
    "learning_rate",
    "lora_alpha",
    "max_eval_items",
    "max_completion_tokens",
)
_OURS = ("stop_zero_variance", "stop_alarm", "stop_ungraded", "stop_usd")
_EXTRAS = Field("extras", "Trainer extras", "", None)
_EFFORT = Field("reasoning_effort", "Reasoning effort", "", "default")
#: Of these the form shows the number; the others it shows as automatic.
_SHOWN = ("batch_size", "max_eval_items", "max_completion_tokens")


def start_values(ground: Ground) -> dict[str, Any]:
    """What the baseline says better than the table of hyperparameters."""
    filled = plan_fill({}, ground=ground)
    return {name: filled[name] for name in _SHOWN}


def plan_chosen(plan: dict[str, Any], *, ground: Ground) -> dict[str, Any]:
    """A filled plan without what would follow by itself: on other ground that follows anew."""
    chosen = {name: plan[name] for name in FIELDS if name in plan}
    for name in _FOLLOWS:
        rest = {other: value for other, value in chosen.items() if other != name}
        try:
            if plan_fill(rest, ground=ground)[name] == plan.get(name):
                chosen = rest
        except UserError:
            continue  # its ground has changed since; keep what it says
    return chosen


def check_taken(plan: dict[str, Any], *, ground: Ground, backend: str) -> None:
    """UserError where somebody chose what this backend would not follow: a run must not differ from its plan in silence.
    When to pause is Studio's business and never the trainer's."""
    can = backend_get(backend).capabilities
    taken = can.supervised_hyperparameters if ground.is_supervised else can.hyperparameters
    if taken is None:
        return
    chosen = plan_chosen(plan, ground=ground)
    lost = [
        one for name, one in FIELDS.items()
        if name in chosen and name not in {*taken, *_OURS} and chosen[name] != one.default
    ]  # fmt: skip
    if plan.get("extras"):
        lost.append(_EXTRAS)
    if _EFFORT.name not in taken and plan.get(_EFFORT.name, _EFFORT.default) != _EFFORT.default:
        lost.append(_EFFORT)
    if lost:
        names = ", ".join(one.label for one in lost)
        raise UserError(
            f"A hosted trainer decides {names} by itself and would not follow what is set here.",
            where=lost[0].name, fix="Leave it at its start value, or train on our own machines.",
        )  # fmt: skip
