"""The plan of a job: its hyperparameters, what each one means, their defaults and limits, and what follows from them.

Names of the reference (`n_epochs`, `batch_size`, …) and advanced ones of the self-hosted trainer share one table. Every
value may be left out or be "auto"; the filled plan holds a number for each.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobs.rollouts.cleaning import clean_json, levels
from rftstudio.core.errors import UserError

AUTO = "auto"


@dataclass(frozen=True)
class Field:
    """One hyperparameter: how it is called, what it does, what it may be."""

    name: str
    label: str
    help: str
    default: Any
    kind: type = float
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    unit: str = ""
    is_advanced: bool = False
    may_be_none: bool = False

    def read(self, value: Any) -> Any:
        """The value as its kind within its limits; UserError naming the field otherwise."""
        if self.choices:
            if value not in self.choices:
                raise self.refuse(value, f"Choose one of {', '.join(self.choices)}.")
            return value
        if isinstance(value, bool):
            raise self.refuse(value, "Write a number.")
        try:
            number = self.kind(value)
            if self.kind is int and float(value) != number:
                raise ValueError
        except (TypeError, ValueError, OverflowError):
            raise self.refuse(value, "Write a whole number." if self.kind is int else "Write a number.") from None
        if not math.isfinite(number) or not self.fits(number):
            raise self.refuse(value, self.limits())
        return number

    def fits(self, number: float) -> bool:
        return (self.low is None or number >= self.low) and (self.high is None or number <= self.high)

    def limits(self) -> str:
        if self.low is not None and self.high is not None:
            return f"Write a number from {self.low:g} to {self.high:g}."
        return f"Write {self.low:g} or more." if self.low is not None else f"Write {self.high:g} or less."

    def refuse(self, value: Any, fix: str) -> UserError:
        return UserError(f"{self.label} cannot be {value!r}.", where=self.name, fix=fix)


FIELDS: dict[str, Field] = {
    one.name: one
    for one in (
        Field("n_epochs", "Epochs", "Passes over the train split. Too many, and it memorises.", 1, int, 1, 50),
        Field("batch_size", "Items per train step", "Larger is steadier and slower.", 8, int, 1, 256, unit="items"),
        Field(
            "group_size", "Rollouts per item", "Needs good and bad ones to learn from.", 8, int, 2, 64, unit="rollouts"
        ),
        Field("learning_rate", "Learning rate", "Leave it, unless rewards swing.", AUTO, float, 1e-9, 1.0),
        Field(
            "eval_interval",
            "Check on validation every",
            "Each check runs the validation items.",
            10,
            int,
            1,
            10_000,
            unit="train steps",
        ),
        Field(
            "eval_samples",
            "Rollouts per validation item",
            "2 is enough to see a trend.",
            2,
            int,
            1,
            32,
            unit="rollouts",
        ),
        Field(
            "max_steps",
            "Train steps",
            "Left out, it follows from epochs and items.",
            AUTO,
            int,
            1,
            100_000,
            is_advanced=True,
        ),
        Field(
            "learning_rate_multiplier",
            "Learning rate multiplier",
            "Times the automatic learning rate.",
            1.0,
            float,
            1e-6,
            1e3,
            is_advanced=True,
        ),
        Field(
            "compute_multiplier",
            "Compute multiplier",
            "Times the rollouts per item, where those are left as they stand.",
            1.0,
            float,
            1e-5,
            10.0,
            is_advanced=True,
        ),
        Field(
            "max_eval_items",
            "Validation items",
            "At most this many in each check.",
            48,
            int,
            1,
            10_000,
            is_advanced=True,
        ),
        Field(
            "max_completion_tokens",
            "Tokens per reply",
            "At most this many in one turn of the policy.",
            96,
            int,
            8,
            131_072,
            is_advanced=True,
        ),
        Field(
            "temperature",
            "Temperature",
            "How freely it tries. 1 trains the policy as it is.",
            1.0,
            float,
            0.01,
            2.0,
            is_advanced=True,
        ),
        Field(
            "lr_schedule",
            "Learning rate schedule",
            "How the learning rate falls over the run.",
            "linear",
            choices=("linear", "constant", "cosine"),
            is_advanced=True,
        ),
        Field(
            "loss_type",
            "Loss",
            "How a rollout's tokens are weighed.",
            "dapo",
            choices=("dapo", "grpo", "dr_grpo", "bnpo"),
            is_advanced=True,
        ),
        Field(
            "epsilon_high",
            "Upper clip",
            "How far one update may raise a token's chance.",
            0.28,
            float,
            0.0,
            5.0,
            is_advanced=True,
        ),
        Field("beta", "KL weight", "Above 0 it is held near the base model.", 0.0, float, 0.0, 10.0, is_advanced=True),
        Field(
            "scale_rewards",
            "Reward scaling",
            "Spread by which advantages are divided.",
            "group",
            choices=("group", "batch", "none"),
            is_advanced=True,
        ),
        Field(
            "lora_r", "LoRA rank", "Empty trains all weights.", None, int, 1, 1024, is_advanced=True, may_be_none=True
        ),
        Field(
            "lora_alpha",
            "LoRA alpha",
            "Scale of the adapter; twice the rank when empty.",
            None,
            float,
            0.1,
            4096,
            is_advanced=True,
            may_be_none=True,
        ),
        Field(
            "keep_best",
            "Checkpoints kept",
            "The best by validation reward; the last is kept besides.",
            3,
            int,
            1,
            20,
            is_advanced=True,
        ),
        Field(
            "keep_days",
            "Keep checkpoints",
            "After the end; empty keeps them. The best one and served ones stay.",
            None,
            int,
            1,
            3650,
            unit="days",
            is_advanced=True,
            may_be_none=True,
        ),
        Field(
            "credit",
            "Credit in training",
            "How a rollout's advantage is shared among its steps.",
            "uniform",
            choices=("uniform", "prefix_value", "divergence"),
            is_advanced=True,
        ),
        Field(
            "stop_zero_variance",
            "Pause if groups all alike",
            "Share above which there is no signal left.",
            None,
            float,
            0.01,
            1.0,
            is_advanced=True,
            may_be_none=True,
        ),
        Field(
            "stop_alarm",
            "Pause on an alarm",
            "Gaming: train runs off, one part climbs alone, answers shrink. Any: every alarm.",
            "never",
            choices=("never", "gaming", "any"),
            is_advanced=True,
        ),
        Field(
            "stop_ungraded",
            "Pause if ungraded",
            "Share above which a broken tool would spoil the job.",
            0.2,
            float,
            0.001,
            1.0,
            is_advanced=True,
            may_be_none=True,
        ),
        Field(
            "stop_usd",
            "Pause at cost",
            "Dollars after which it pauses at the next train step.",
            None,
            float,
            0.01,
            1e9,
            is_advanced=True,
            may_be_none=True,
        ),
    )
}

#: Names of the reference, as a hosted provider reads them.
WIRE_NAMES = (
    "n_epochs", "batch_size", "learning_rate_multiplier", "compute_multiplier", "eval_interval", "eval_samples",
    "reasoning_effort",
)  # fmt: skip
#: Those of them that mean something where demonstrations are learnt.
SUPERVISED_WIRE_NAMES = ("n_epochs", "batch_size", "learning_rate_multiplier")
#: Of the extras; nothing that a trainer reads is deeper.
MOST_LEVELS = 20
#: Taken from the reference and kept, although the self-hosted trainer has no use for it.
REASONING = ("default", "low", "medium", "high")


@dataclass(frozen=True)
class Ground:
    """What a plan is made for: counts of the baseline's dataset version and the size of the weights."""

    train_items: int
    validation_items: int = 0
    weights_bytes: int | None = None
    agent_max_tokens: int | None = None
    is_supervised: bool = False  # then `train_items` counts demonstrations


def automatic_learning_rate(ground: Ground, *, is_lora: bool) -> float:
    """Small models bear and need large rates: 6e-4 under 20 MB of weights, 1e-5 for adapters, else 1e-6. Learning from
    demonstrations bears more: 1e-3, 1e-4, 1e-5."""
    if ground.weights_bytes is not None and ground.weights_bytes < 20_000_000:
        return 1e-3 if ground.is_supervised else 6e-4
    rate = 1e-5 if is_lora else 1e-6
    return rate * 10 if ground.is_supervised else rate


def weights_bytes(folder: str) -> int | None:
    """Bytes of the weight files in a model folder; None when it is not a folder here."""
    path = Path(folder)
    if not path.is_dir():
        return None
    sizes = [file.stat().st_size for pattern in ("*.safetensors", "*.bin") for file in path.glob(pattern)]
    return sum(sizes) if sizes else None


def plan_fill(wanted: Mapping[str, Any] | None, *, ground: Ground) -> dict[str, Any]:
    """Every hyperparameter with its value, checked. Unknown names are refused, never dropped."""
    wanted = dict(wanted or {})
    plan: dict[str, Any] = {"reasoning_effort": wanted.pop("reasoning_effort", None) or "default"}
    if plan["reasoning_effort"] not in REASONING:
        raise UserError(
            f"Reasoning effort cannot be {plan['reasoning_effort']!r}.",
            where="reasoning_effort",
            fix=f"Choose one of {', '.join(REASONING)}.",
        )
    lora = wanted.pop("lora", None)
    if isinstance(lora, dict):
        wanted |= {"lora_r": lora.get("r"), "lora_alpha": lora.get("alpha")}
    if extras := wanted.pop("extras", None):
        check_extras(extras)
        plan["extras"] = dict(extras)
    unknown = sorted(set(wanted) - set(FIELDS))
    if unknown:
        raise UserError(
            f"There is no hyperparameter named {unknown[0]}.",
            where=unknown[0],
            fix=f"Use one of {', '.join(FIELDS)}.",
        )
    given = {name for name, value in wanted.items() if value not in (None, "", AUTO)}
    for name, one in FIELDS.items():
        if name in given:
            plan[name] = one.read(wanted[name])
        elif name in wanted and wanted[name] in (None, "") and one.may_be_none:
            plan[name] = None
        else:
            plan[name] = one.default
    _derive(plan, given, ground)
    return plan


def check_extras(extras: Any) -> None:
    """UserError for extras that are no object or bottomless, or hold what no database keeps: NaN, NUL, half a character."""
    if extras and not isinstance(extras, dict):
        raise UserError(
            "The extras must be an object.", where="extras", fix='Write {"use_vllm": true}, or leave it out.'
        )
    if levels(extras) > MOST_LEVELS:
        raise UserError("The extras are nested too deeply.", where="extras", fix=f"Nest at most {MOST_LEVELS} levels.")
    if clean_json(extras) != extras:
        raise UserError(
            "The extras hold a number that is none, a NUL or half a character pair.", where="extras",
            fix="Take it out.",
        )  # fmt: skip


def _derive(plan: dict[str, Any], given: set[str], ground: Ground) -> None:
    """Fill what follows from the rest."""
    if ground.train_items and "batch_size" not in given:
        plan["batch_size"] = min(plan["batch_size"], ground.train_items)
    if plan["batch_size"] > max(ground.train_items, 1):
        raise UserError(
            f"{plan['batch_size']} items per train step, but the train split has {ground.train_items}.",
            where="batch_size",
            fix=f"Write {ground.train_items} or less.",
        )
    if "compute_multiplier" in given and "group_size" not in given:
        plan["group_size"] = max(2, min(64, round(plan["group_size"] * plan["compute_multiplier"])))
    if plan["max_steps"] == AUTO:
        plan["max_steps"] = math.ceil(ground.train_items / plan["batch_size"]) * plan["n_epochs"]
    elif "n_epochs" not in given:
        plan["n_epochs"] = max(1, math.ceil(plan["max_steps"] * plan["batch_size"] / max(ground.train_items, 1)))
    if plan["learning_rate"] == AUTO:
        rate = automatic_learning_rate(ground, is_lora=plan["lora_r"] is not None)
        plan["learning_rate"] = rate * plan["learning_rate_multiplier"]
    if plan["lora_r"] is not None and plan["lora_alpha"] is None:
        plan["lora_alpha"] = float(plan["lora_r"] * 2)
    if ground.validation_items:
        plan["max_eval_items"] = min(plan["max_eval_items"], ground.validation_items)
    if "max_completion_tokens" not in given and ground.agent_max_tokens:
        plan["max_completion_tokens"] = ground.agent_max_tokens


def trainer_plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a filled plan that the trainer's spec holds."""
    names = (
        "max_steps", "batch_size", "group_size", "learning_rate", "lr_schedule", "temperature", "eval_interval",
        "eval_samples", "max_eval_items", "max_completion_tokens", "loss_type", "epsilon_high", "beta",
        "scale_rewards", "keep_best", "credit",
    )  # fmt: skip
    lora = None
    if plan.get("lora_r") is not None:
        lora = {"r": plan["lora_r"], "alpha": plan["lora_alpha"]}
    extras = {"extras": plan["extras"]} if plan.get("extras") else {}
    return {name: plan[name] for name in names} | {"lora": lora} | extras


@dataclass(frozen=True)
class Derived:
    """What a plan comes to, with the sums shown to the person. `demonstrations` counts one as often as it is learnt."""

    train_steps: int
    train_rollouts: int
    validation_checks: int
    validation_rollouts: int
    formula: str
    formulas: dict[str, str] = field(default_factory=dict)
    demonstrations: int = 0

    @property
    def rollouts(self) -> int:
        return self.train_rollouts + self.validation_rollouts


def plan_derive(plan: Mapping[str, Any], *, ground: Ground) -> Derived:
    """Train steps and rollouts that follow from a filled plan."""
    steps, items, group = plan["max_steps"], plan["batch_size"], plan["group_size"]
    checks = math.ceil(steps / plan["eval_interval"]) if ground.validation_items else 0
    validation_items = min(plan["max_eval_items"], ground.validation_items)
    validation = checks * validation_items * plan["eval_samples"]
    natural = math.ceil(ground.train_items / items) * plan["n_epochs"]
    formula = f"{ground.train_items:,} ÷ {items} × {plan['n_epochs']} = {natural}" if natural == steps else f"{steps}"
    train = f"{steps} × {items}" if ground.is_supervised else f"{steps} × {items} × {group}"
    return Derived(
        train_steps=steps,
        demonstrations=steps * items if ground.is_supervised else 0,
        train_rollouts=0 if ground.is_supervised else steps * items * group,
        validation_checks=checks,
        validation_rollouts=validation,
        formula=formula,
        formulas={
            "train": train,
            "validation": f"{checks} × {validation_items} × {plan['eval_samples']}",
        },
    )
