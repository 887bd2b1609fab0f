"""Puts a trainer together from a spec: model, tokenizer, configuration. Imports torch, transformers and TRL."""

import importlib.util
import os
import platform
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers
import trl
from accelerate import PartialState
from transformers import AutoTokenizer
from trl import GRPOConfig

from datasets import Dataset  # the Hugging Face library: the repository root is last on sys.path
from graders.failures import GraderInvalid
from graders.grading import compile_grader
from jobs.agents.tools.spec import ToolSpec
from jobs.agents.tools.types import limits_from
from jobs.backends.trl.clients import grader_clients
from jobs.backends.trl.control import Control
from jobs.backends.trl.credit import CreditWindow
from jobs.backends.trl.grpo import Run, Steward, StudioTrainer
from jobs.backends.trl.journal import Journal
from jobs.backends.trl.rounds import Setup
from jobs.backends.trl.scoring import Scorer
from jobs.backends.trl.sft import SftTrainer, demonstrations, sft_config
from jobs.backends.trl.spec import PASSED_THROUGH, Plan, Spec, SpecError, TrainItem
from jobs.backends.trl.vllm_chat import VllmChat
from jobs.rollouts.policies.hf_chat import HfChat, load_network


def assemble(
    spec: Spec,
    train: list[TrainItem],
    validation: list[TrainItem],
    *,
    journal: Journal,
    control: Control,
    output_dir: Path,
    from_step: int,
) -> StudioTrainer | SftTrainer:
    """A trainer ready to train."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    spec = fitted(spec, train, journal)
    try:
        compiled = compile_grader(spec.grader, grader_clients(spec.judges, spec.job_id))
    except GraderInvalid as exc:
        raise SpecError(f"The grader cannot be used: {exc}", param="grader", code="invalid_grader") from exc
    scorer = Scorer(
        compiled,
        spec.grader,
        response_format=spec.response_format,
        workers=int(spec.plan.extras.get("grader_workers", 8)),
    )
    run = Run(spec, train, validation, scorer=scorer, journal=journal, control=control)
    tokenizer = AutoTokenizer.from_pretrained(spec.base_model, padding_side="left")
    if spec.method == "supervised":
        return supervised(run, train, tokenizer, output_dir)
    args = config_of(spec, output_dir)  # joins the other processes
    trainer = StudioTrainer(
        run=run,
        credit=credit_window(spec.plan.credit, control.run_dir / "journal.jsonl", from_step),
        args=args,
        model=policy_load(spec, control.run_dir),
        train_dataset=Dataset.from_list([{"prompt": row.key} for row in train]),
        processing_class=tokenizer,
        peft_config=lora_config(spec.plan),
        callbacks=[Steward(run)],
    )
    run.setup = setup_of(spec, trainer, tokenizer)
    return trainer


def supervised(run: Run, train: list[TrainItem], tokenizer: Any, output_dir: Path) -> SftTrainer:
    """A trainer that learns the demonstrations; validation, checkpoints and pauses are the same."""
    spec, model = run.spec, model_load(run.spec.base_model, run.spec.plan)
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    trainer = SftTrainer(
        model=model,
        args=sft_config(spec, output_dir, gpu=has_gpu(spec.plan), processes=processes),
        train_dataset=demonstrations(spec, train, HfChat(model, tokenizer)),
        processing_class=tokenizer,
        peft_config=lora_config(spec.plan),
        callbacks=[Steward(run)],
    )
    run.setup = setup_of(spec, trainer, tokenizer)
    return trainer


def rehearsal(spec: Spec, train: list[TrainItem]) -> dict[str, Any]:
    """What would run, found without loading weights: configuration, process group, tokenizer, template and grader."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    with tempfile.TemporaryDirectory() as folder:
        if spec.method == "supervised":
            config = sft_config(spec, Path(folder), gpu=has_gpu(spec.plan), processes=processes)
        else:
            config = config_of(spec, Path(folder))
        state = PartialState(cpu=config.use_cpu)
        state.wait_for_everyone()
    try:
        compile_grader(spec.grader, grader_clients(spec.judges, spec.job_id)).close()
    except GraderInvalid as exc:
        raise SpecError(f"The grader cannot be used: {exc}", param="grader", code="invalid_grader") from exc
    tokenizer = AutoTokenizer.from_pretrained(spec.base_model, padding_side="left")
    return {
        "device": str(config.device),
        "processes": state.num_processes,
        "rollouts_per_process": config.per_device_train_batch_size * config.gradient_accumulation_steps,
        "train_items": len(train),
        "train_steps": spec.plan.max_steps,
        "vocabulary": len(tokenizer),
        "use_vllm": bool(getattr(config, "use_vllm", False)),
    }


def fitted(spec: Spec, train: list[TrainItem], journal: Journal) -> Spec:
    """The spec with a batch no larger than the train split: a larger one would leave TRL without any batch."""
    if spec.plan.batch_size <= len(train):
        return spec
    journal.log("warn", f"batch_size {spec.plan.batch_size} is more than the {len(train)} train items; using all.")
    return replace(spec, plan=replace(spec.plan, batch_size=len(train)))


def setup_of(spec: Spec, trainer: StudioTrainer | SftTrainer, tokenizer: Any) -> Setup:
    limits = limits_from(spec.limits)
    model = trainer.accelerator.unwrap_model(trainer.model)
    batch = int(spec.plan.extras.get("max_generation_batch", 128))
    chat = HfChat(model, tokenizer, max_batch=batch)
    if getattr(trainer, "use_vllm", False):
        chat = VllmChat(model, tokenizer, generation=trainer.vllm_generation)
    return Setup(
        chat=chat,
        tools=[ToolSpec.from_dict(tool) for tool in spec.tools],
        limits=limits,
        system_prompt=spec.system_prompt,
        temperature=spec.plan.temperature,
        max_reply_tokens=spec.plan.max_completion_tokens,
    )


def model_load(name: str, plan: Plan) -> Any:
    """The base model. Full training keeps weights in float32 (bf16 computing comes from the configuration); a frozen base
    under LoRA is loaded in bf16 where there is a GPU."""
    dtype = torch.bfloat16 if has_gpu(plan) and plan.lora else torch.float32
    kwargs = plan.extras.get("model_init_kwargs") or {}
    return load_network(name, **{"dtype": dtype, **kwargs})


def policy_load(spec: Spec, run_dir: Path) -> Any:
    """The policy to begin with. TRL loads the reference of a divergence penalty anew, by the policy's path, and reads only
    whole weights there: a base that is an adapter is written down merged."""
    model = model_load(spec.base_model, spec.plan)
    if not spec.plan.beta or spec.plan.lora or not (Path(spec.base_model) / "adapter_config.json").is_file():
        return model
    merged, fresh = run_dir / "base", run_dir / "base.new"
    with PartialState().main_process_first():
        if not merged.is_dir():
            model.save_pretrained(fresh)
            fresh.replace(merged)
    return model_load(str(merged), spec.plan)


def has_gpu(plan: Plan) -> bool:
    return torch.cuda.is_available() and plan.extras.get("device") != "cpu"


def config_of(spec: Spec, output_dir: Path) -> GRPOConfig:
    """Our plan in TRL's words. One generation batch is one train step, so that a pause always falls on its boundary."""
    plan, gpu = spec.plan, has_gpu(spec.plan)
    passed = {name: value for name, value in plan.extras.items() if name in PASSED_THROUGH}
    if passed.get("use_vllm") and importlib.util.find_spec("vllm") is None:
        raise SpecError(
            "The plan asks for vLLM, which is not installed here. Install a version TRL supports on a GPU machine, or "
            "leave use_vllm out: generation then runs in transformers.",
            param="plan.use_vllm",
            code="vllm_unavailable",
        )
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    local = plan.rollouts_per_step // processes
    micro = min(int(plan.extras.get("micro_batch", local)), local)
    if plan.rollouts_per_step % processes or local % micro:
        raise SpecError(
            f"{plan.rollouts_per_step} rollouts a step do not divide by {processes} processes and micro_batch {micro}.",
            param="plan.micro_batch",
        )
    settings = {
        "output_dir": str(output_dir),
        "use_cpu": not gpu,
        "bf16": gpu,
        "gradient_checkpointing": False,
        "dataloader_pin_memory": gpu,
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": local // micro,
        "num_generations": plan.group_size,
        "max_completion_length": plan.max_completion_tokens,
        "learning_rate": plan.learning_rate,
        "lr_scheduler_type": plan.lr_schedule,
        "temperature": plan.temperature,
        "beta": plan.beta,
        "epsilon_high": plan.epsilon_high,
        "loss_type": plan.loss_type,
        "scale_rewards": plan.scale_rewards,
        "max_steps": plan.max_steps,
        "logging_steps": 1,
        "save_strategy": "no",  # we say when
        "report_to": "none",
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "seed": spec.seed,
    }
    return GRPOConfig(**{**settings, **passed})


def lora_config(plan: Plan) -> Any:
    """LoRA on all linear layers, or None for full training."""
    if not plan.lora:
        return None
    from peft import LoraConfig

    rank = int(plan.lora.get("r", 16))
    return LoraConfig(
        r=rank,
        lora_alpha=int(plan.lora.get("alpha", 2 * rank)),
        lora_dropout=float(plan.lora.get("dropout", 0.0)),
        target_modules=plan.lora.get("target_modules", "all-linear"),
        task_type="CAUSAL_LM",
    )


def credit_window(method: str, journal: Path, from_step: int) -> CreditWindow | None:
    """What shares advantages among steps; None for `uniform`, which training does by itself."""
    if method == "uniform":
        return None
    from jobs.attribution.methods.registry import METHODS, compute

    if method not in METHODS:
        known = ", ".join(METHODS)
        raise SpecError(f"There is no attribution method {method!r}; use one of {known}.", param="plan.credit")
    window = CreditWindow(lambda rollouts: compute(method, rollouts))
    window.fill(journal, from_step)
    return window


def start_note(trainer: StudioTrainer | SftTrainer) -> dict[str, Any]:
    """What the run runs on."""
    return {
        "device": str(trainer.accelerator.device),
        "threads": torch.get_num_threads(),
        "processes": trainer.accelerator.num_processes,
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "trl": trl.__version__,
        },
    }
