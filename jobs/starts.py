"""Where the launch form starts: from its baseline, or from an earlier job, and what of that job does not fit."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from jobs.backends.registry import BACKENDS
from jobs.demonstrations import ROLLOUTS
from jobs.evaluations.models import Evaluation
from jobs.evaluations.selectors import title_of
from jobs.models import Job
from jobs.plan import Ground
from jobs.plan_choices import plan_chosen, start_values


@dataclass(frozen=True)
class Start:
    """Start values of the form. From an earlier job it also says what was not taken over, and why."""

    values: dict[str, Any]
    source: Job | None = None
    misfits: tuple[str, ...] = ()


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
