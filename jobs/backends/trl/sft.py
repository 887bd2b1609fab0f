"""Supervised warm start: TRL's SFT over demonstrations. Imported by the trainer process only.

A demonstration is an item with the turns that should follow it; `encoding` says which of its tokens are learnt. Validation
runs real rollouts on the validation items, so its curve and that of a later job from rewards can be laid over each other.
"""

from pathlib import Path
from typing import Any

from transformers import PrinterCallback, ProgressCallback
from trl import SFTConfig, SFTTrainer

from datasets import Dataset  # the Hugging Face library: the repository root is last on sys.path
from jobs.backends.trl.encoding import encode
from jobs.backends.trl.spec import Spec, SpecError, TrainItem
from jobs.rollouts.policies.hf_chat import HfChat

#: Extras of `GRPOConfig` that mean the same here.
PASSED_ON = ("deepspeed", "fsdp", "fsdp_config", "optim", "weight_decay", "max_grad_norm", "warmup_steps",
             "adam_beta1", "adam_beta2", "bf16", "gradient_checkpointing")  # fmt: skip


class SftTrainer(SFTTrainer):
    """TRL's trainer, silent: what is told, the steward tells."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for printer in (PrinterCallback, ProgressCallback):
            self.remove_callback(printer)


def sft_config(spec: Spec, output_dir: Path, *, gpu: bool, processes: int) -> SFTConfig:
    """Our plan in TRL's words: `batch_size` demonstrations are one train step."""
    plan = spec.plan
    local = plan.batch_size // processes
    micro = min(int(plan.extras.get("micro_batch", local)), local)
    if plan.batch_size % processes or not micro or local % micro:
        raise SpecError(
            f"{plan.batch_size} demonstrations a step do not divide by {processes} processes and micro_batch {micro}.",
            param="plan.micro_batch",
        )
    settings = {
        "output_dir": str(output_dir),
        "use_cpu": not gpu,
        "bf16": gpu,
        "gradient_checkpointing": False,
        "dataloader_pin_memory": gpu,
        "dataloader_drop_last": True,
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": local // micro,
        "learning_rate": plan.learning_rate,
        "lr_scheduler_type": plan.lr_schedule,
        "max_steps": plan.max_steps,
        "max_length": None,
        "packing": False,
        "logging_steps": 1,
        "save_strategy": "no",  # the steward says when
        "report_to": "none",
        "disable_tqdm": True,
        "seed": spec.seed,
    }
    passed = {name: value for name, value in plan.extras.items() if name in PASSED_ON}
    return SFTConfig(**{**settings, **passed})


def demonstrations(spec: Spec, rows: list[TrainItem], chat: HfChat) -> Dataset:
    """Token ids and labels of every row. One that cannot be learnt from stops the run, by its key."""
    examples = []
    for row in rows:
        try:
            ids, labels = encode(chat, spec, row)
        except ValueError as exc:  # the chat template cannot take it
            raise SpecError(f"Item {row.key}: {exc}", param="training_file") from exc
        examples.append({"input_ids": ids, "labels": labels})
    return Dataset.from_list(examples)
