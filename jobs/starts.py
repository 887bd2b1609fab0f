"""Where the launch form starts: from its baseline, or from an earlier job, and what of that job does not fit."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from jobs.backends.registry import BACKENDS
from jobs.demonstrations import ROLLOUTS
from jobs.evaluations.models import Evaluation
from jobs.evaluations.selectors import title_of
from jobs.models import Job
from jobs.plan import FIELDS, Ground, plan_fill
from rftstudio.core.errors import UserError

#: What a plan takes from its ground or from its other values where nobody chose.
_FOLLOWS = ("batch_size", "max_steps", "learning_rate", "lora_alpha", "max_eval_items", "max_completion_tokens")
#: Of these the form shows the number; the others it shows as automatic.
_SHOWN = ("batch_size", "max_eval_items", "max_completion_tokens")


@dataclass(frozen=True)
class Start:
    """Start values of the form. From an earlier job it also says what was not taken over, and why."""

    values: dict[str, Any]
    source: Job | None = None
    misfits: tuple[str, ...] = ()


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


def start_of(
    source: Job, *, title: str, baseline: Evaluation, ground: Ground, own_ground: Ground, offered: Collection[str]
) -> Start:
    """The settings of an earlier job on this baseline. `offered` are the demonstrations that this baseline has."""
    misfits: list[str] = []
    values: dict[str, Any] = {"seed": source.seed, "method": source.method, "name": f"{title}, again"[:120]}
    if source.backend in BACKENDS:
        values["backend"] = source.backend
    else:
        misfits.append(f"It ran on {source.backend}, which is not offered here.")
    chosen = plan_chosen(source.plan, ground=own_ground)
    items = chosen.get("batch_size")
    if items and not source.is_supervised and items > ground.train_items:
        del chosen["batch_size"]
        misfits.append(f"{items} items per train step: the train split of this baseline has {ground.train_items:,}.")
    values |= start_values(ground) | {name: "" if value is None else value for name, value in chosen.items()}
    if source.plan.get("extras"):
        values["extras"] = source.plan["extras"]
    if (effort := source.plan.get("reasoning_effort", "default")) != "default":
        misfits.append(
            f"Reasoning effort {effort}: hosted trainers take it by the API, and this form has no field for it."
        )
    if choice := source.demonstrations:
        key = f"{choice['from']}:{choice.get('of') or choice.get('field')}"
        values |= {name: choice[name] for name in ("least_reward", "most_per_item") if name in choice}
        if key in offered:
            values["learn_from"] = key
        else:
            what = f"rollouts of {choice['of']}" if choice["from"] == ROLLOUTS else f"the field {choice['field']}"
            misfits.append(f"It learnt from {what}, which {title_of(baseline)} does not offer. Choose anew.")
    return Start(values, source, tuple(misfits))
