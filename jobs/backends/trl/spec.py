"""What a training run is told: `spec.json` and the item files, read into plain objects. Standard library only."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class SpecError(Exception):
    """The order cannot be carried out; `param` names the part at fault."""

    def __init__(self, message: str, *, param: str = "", code: str = "invalid_spec") -> None:
        super().__init__(message)
        self.param, self.code = param, code


@dataclass(frozen=True)
class Plan:
    """Hyperparameters with their defaults: those measured on the example. `extras` are this backend's own."""

    max_steps: int = 80
    batch_size: int = 8  # items a train step
    group_size: int = 8  # rollouts an item
    learning_rate: float = 6e-4
    lr_schedule: str = "linear"
    temperature: float = 1.0
    eval_interval: int = 10
    eval_samples: int = 2
    max_eval_items: int | None = 48
    max_completion_tokens: int = 96  # one reply
    loss_type: str = "dapo"
    epsilon_high: float = 0.28
    beta: float = 0.0
    scale_rewards: str = "group"
    lora: dict[str, Any] | None = None
    keep_best: int = 3
    credit: str = "uniform"
    ungraded: str = "exclude"  # or "minus_one", as the hosted service counts them
    extras: dict[str, Any] = field(default_factory=dict)

    @property
    def rollouts_per_step(self) -> int:
        return self.batch_size * self.group_size


@dataclass(frozen=True)
class TrainItem:
    """One line of an item file. `turns` are what should follow the item's messages, in a demonstration."""

    key: str
    item: dict[str, Any]
    turns: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Spec:
    """The whole order."""

    job_id: str
    base_model: str
    seed: int
    system_prompt: str
    tools: list[dict[str, Any]]
    limits: dict[str, Any]
    response_format: dict[str, Any] | None
    grader: dict[str, Any]
    pass_threshold: float
    plan: Plan
    method: str = "reinforcement"  # or "supervised": learn the turns of the train items
    judges: dict[str, dict[str, Any]] = field(default_factory=dict)  # model name → {base_url, model, headers}


#: Extras that reach `GRPOConfig` under their own name. Each needs hardware or packages the CPU default lacks.
PASSED_THROUGH = (
    "use_vllm", "vllm_mode", "vllm_server_base_url", "vllm_gpu_memory_utilization", "vllm_tensor_parallel_size",
    "bf16", "gradient_checkpointing", "deepspeed", "fsdp", "fsdp_config", "optim", "weight_decay", "max_grad_norm",
    "warmup_steps", "num_iterations", "adam_beta1", "adam_beta2", "importance_sampling_level", "model_init_kwargs",
)  # fmt: skip
METHODS = ("reinforcement", "supervised")
OWN_EXTRAS = ("micro_batch", "max_generation_batch", "credit_clip", "grader_workers", "device")


def spec_read(run_dir: Path) -> Spec:
    """Read and check `spec.json`. Raises SpecError with the part at fault."""
    try:
        data = json.loads((run_dir / "spec.json").read_text(encoding="utf-8"))
        agent = data["agent"]
        spec = Spec(
            job_id=str(data.get("job_id", "")),
            base_model=str(data["base_model"]),
            seed=int(data.get("seed") or 0),
            system_prompt=str(agent.get("system_prompt") or ""),
            tools=list(agent.get("tools") or []),
            limits=dict(agent.get("limits") or {}),
            response_format=agent.get("response_format"),
            grader=dict(data["grader"]),
            pass_threshold=float(data.get("pass_threshold", 0.5)),
            plan=plan_read(data.get("plan") or {}),
            method=str(data.get("method") or "reinforcement"),
            judges=dict(data.get("judges") or {}),
        )
    except FileNotFoundError as exc:
        raise SpecError(f"{run_dir} holds no spec.json.") from exc
    except (ValueError, KeyError, TypeError) as exc:
        raise SpecError(f"spec.json cannot be read: {exc!r}.") from exc
    if spec.method not in METHODS:
        raise SpecError(f"method is {spec.method!r}; use one of {', '.join(METHODS)}.", param="method")
    if data.get("spec_version") != 1:
        raise SpecError(
            f"spec.json has version {data.get('spec_version')!r}; this trainer reads 1.", param="spec_version"
        )
    return spec


def plan_read(values: dict[str, Any]) -> Plan:
    """A plan from JSON: missing or null values take their default; unknown ones become extras and are checked."""
    known = {key: value for key, value in values.items() if key in Plan.__dataclass_fields__ and value is not None}
    extras = {**(known.pop("extras", None) or {})}
    extras |= {key: value for key, value in values.items() if key in PASSED_THROUGH + OWN_EXTRAS}
    unknown = sorted(set(extras) - set(PASSED_THROUGH) - set(OWN_EXTRAS))
    if unknown:
        raise SpecError(f"Unknown backend extras: {', '.join(unknown)}.", param=f"plan.extras.{unknown[0]}")
    plan = Plan(**known, extras=extras)
    _check(plan)
    return plan


def _check(plan: Plan) -> None:
    for name in ("max_steps", "batch_size", "eval_interval", "eval_samples", "max_completion_tokens", "keep_best"):
        if getattr(plan, name) < 1:
            raise SpecError(f"{name} must be at least 1.", param=f"plan.{name}")
    if plan.group_size < 2:
        raise SpecError(
            "group_size must be at least 2: a reward is measured against its group.", param="plan.group_size"
        )
    if not 0 < plan.temperature <= 5:
        raise SpecError("temperature must lie between 0 and 5; training needs chance.", param="plan.temperature")
    if plan.ungraded not in {"exclude", "minus_one"}:
        raise SpecError('ungraded must be "exclude" or "minus_one".', param="plan.ungraded")
    if plan.extras.get("num_iterations", 1) != 1:
        raise SpecError(
            "num_iterations must be 1: a buffered batch is not saved, so a paused run could not continue as it was.",
            param="plan.num_iterations",
        )


def items_read(path: Path) -> list[TrainItem]:
    """The lines of an item file, in order; none when there is no such file."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    return [TrainItem(str(row["key"]), row["item"], list(row.get("turns") or [])) for row in rows]
