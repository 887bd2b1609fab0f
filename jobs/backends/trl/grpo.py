"""TRL's GRPO trainer with our rollouts, rewards and journal inside. Imported by the trainer process only: TRL needs the
Hugging Face library `datasets`, whose name our own package bears.

What is TRL's: the loss, advantages, optimiser, schedule, checkpoints. What is ours: rollouts (`rollout_func`), rewards,
validation, when to save and stop, and what is told to the journal. The private override below hands over advantages
in rollout order; trl is pinned exactly for its sake and for the experimental `rollout_func`.
"""

import hashlib
import math
import os
import time
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object
from transformers import PrinterCallback, ProgressCallback, TrainerCallback, TrainerControl, TrainerState
from trl import GRPOTrainer

from graders.types import is_pass
from jobs.backends.trl.checkpoints import Kept, checkpoint_seal, checkpoints_prune
from jobs.backends.trl.control import Control
from jobs.backends.trl.credit import DEFAULT_CLIP, CreditWindow, step_advantages
from jobs.backends.trl.journal import Journal
from jobs.backends.trl.metrics import mean_reward, own_metrics, step_metrics
from jobs.backends.trl.rounds import Setup, rollouts_run
from jobs.backends.trl.scoring import Scored, Scorer
from jobs.backends.trl.spec import Spec, SpecError, TrainItem
from jobs.backends.trl.tries import Outcome, Try

#: So many train steps in a row without a single graded try end the run: it would only burn time.
MAX_BLIND_STEPS = 3


class Run:
    """What the trainer, its callbacks and the rollout function share: one run's state between two journal blocks."""

    def __init__(
        self,
        spec: Spec,
        train: list[TrainItem],
        validation: list[TrainItem],
        *,
        scorer: Scorer,
        journal: Journal,
        control: Control,
    ) -> None:
        self.spec, self.plan = spec, spec.plan
        self.items = {row.key: row.item for row in train}
        self.validation = validation[: self.plan.max_eval_items]
        self.scorer, self.journal, self.control = scorer, journal, control
        self.setup: Setup | None = None  # set when the model is there
        self.total_steps = self.plan.max_steps
        self.scored: list[Scored] = []
        self.validated: list[Scored] | None = None
        self.validation_reward: float | None = None
        self.metrics: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        self.blind_steps = 0

    def trial(self, phase: str, step: int, key: str, item: dict[str, Any], sample: int) -> Try:
        name = f"{phase}:{step}:{key}:{sample}"
        trace = hashlib.sha256(f"{self.spec.job_id}:{name}".encode()).hexdigest()
        return Try(key, item, sample, f"trace_{trace[:32]}", f"{self.spec.seed}:{name}")

    def attempt(self, trials: list[Try], name: str) -> list[Scored]:
        """Run and grade tries; remembers how long it took under `name`."""
        began = time.monotonic()
        outcomes = rollouts_run(self.setup, trials, should_stop=self.control.should_cancel)
        self.control.check_cancel()
        scored = self.scorer.score(outcomes)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - began
        return scored

    def validate(self, step: int) -> None:
        """Rollouts on the validation items. They draw no chance from torch, so training goes on as without them."""
        if not self.validation:
            return
        trials = [
            self.trial("validation", step, row.key, row.item, sample)
            for row in self.validation
            for sample in range(self.plan.eval_samples)
        ]
        processes = PartialState()
        self.validated = self.attempt(trials[processes.process_index :: processes.num_processes], "eval")
        if processes.num_processes > 1:  # each tried its share; all hear of the whole, in the order of one process
            places = {(trial.key, trial.sample_index): place for place, trial in enumerate(trials)}
            self.validated = sorted(
                gather_object(self.validated),
                key=lambda one: places[one.outcome.trial.key, one.outcome.trial.sample_index],
            )
        self.validation_reward = mean_reward(self.validated)

    def tell_step(self, step: int, logs: dict[str, Any]) -> None:
        """The train step's block: its rollouts, its validation, its metrics; then everything is on disk."""
        metrics = step_metrics(
            self.spec.grader, self.scored, self.validated, step=step, total_steps=self.total_steps
        ) | own_metrics(self.scored, self.validated, pass_threshold=self.spec.pass_threshold)
        whole = time.monotonic() - self.seconds.pop("began")
        sampling, evaluation = self.seconds.get("sampling", 0.0), self.seconds.get("eval", 0.0)
        metrics["timing"]["step"] = {
            "sampling": sampling,
            "training": max(0.0, whole - sampling - evaluation),
            "eval": evaluation,
            "full_iteration": whole,
        }
        for name in ("loss", "grad_norm", "learning_rate", "entropy", "kl", "mean_token_accuracy"):
            if name in logs:
                metrics[name] = finite(logs[name])
        self.metrics = metrics
        with self.journal.lock:
            self._write(step, whole)
        is_blind = bool(self.scored) and metrics["train_mean_reward"] is None
        self.blind_steps = self.blind_steps + 1 if is_blind else 0
        self.scored, self.validated, self.seconds = [], None, {}

    def _write(self, step: int, seconds: float) -> None:
        for one in self.scored:
            self.journal.write("rollout", phase="train", step=step, record=one.record(self._extra(one)))
        for one in self.validated or []:
            self.journal.write("rollout", phase="validation", step=step, record=one.record(self._extra(one)))
        self.journal.write(
            "step",
            step=step,
            total_steps=self.total_steps,
            metrics=self.metrics,
            rollouts=len(self.scored),
            seconds=seconds,
        )
        self.journal.flush()

    def _extra(self, one: Scored) -> dict[str, Any]:
        passed = None if one.reward is None else is_pass(one.reward, self.spec.pass_threshold)
        return {"passed": passed}


class StudioTrainer(GRPOTrainer):
    """GRPO with our rollouts. `credit` shares advantages among steps; None leaves them as TRL computes them."""

    def __init__(self, *, run: Run, credit: CreditWindow | None, **kwargs: Any) -> None:
        self.run, self.credit = run, credit
        super().__init__(rollout_func=self._rollouts, reward_funcs=self._rewards, **kwargs)
        for printer in (PrinterCallback, ProgressCallback):
            self.remove_callback(printer)

    def _rollouts(self, prompts: list[str], trainer: Any) -> dict[str, list]:
        """The prompts are item keys, each `group_size` times in a row over all processes."""
        run, step = self.run, self.state.global_step + 1
        first = self.accelerator.process_index * len(prompts)
        trials = [
            run.trial("train", step, key, run.items[key], (first + place) % run.plan.group_size)
            for place, key in enumerate(prompts)
        ]
        run.scored = run.attempt(trials, "sampling")
        tokens = [self._trained_tokens(one.outcome, is_left_out=self._reward(one) is None) for one in run.scored]
        return {
            "prompt_ids": [prompt for prompt, _, _, _ in tokens],
            "completion_ids": [completion for _, completion, _, _ in tokens],
            "logprobs": [logprobs for _, _, logprobs, _ in tokens],
            "env_mask": [mask for _, _, _, mask in tokens],
        }

    def _trained_tokens(self, outcome: Outcome, *, is_left_out: bool) -> tuple[list, list, list, list]:
        """Tokens as TRL takes them. An ungraded try keeps its row but every token is masked: no loss, no count."""
        tokens, pad = outcome.tokens, self.processing_class.pad_token_id
        if not tokens.completion:
            return (tokens.prompt or [pad])[:1], [pad], [0.0], [0]  # a prompt too long for the model says nothing
        mask = [0] * len(tokens.mask) if is_left_out else tokens.mask
        return tokens.prompt, tokens.completion, tokens.logprobs, mask

    def _reward(self, one: Scored) -> float | None:
        if one.reward is None and self.run.plan.ungraded == "minus_one":
            return -1.0
        return one.reward

    def _rewards(self, completions: list, **_: Any) -> list[float | None]:
        return [self._reward(one) for one in self.run.scored]

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        for one, advantage in zip(self.run.scored, output["advantages"].tolist(), strict=True):
            one.advantage = None if self._reward(one) is None else advantage
        if self.accelerator.num_processes > 1:
            self.run.scored = gather_object(self.run.scored)
        if self.credit is not None:
            output["advantages"] = self._shared_advantages(output)
        return output

    def _shared_advantages(self, output: dict[str, Any]) -> torch.Tensor:
        """(rollouts, tokens): each step's own advantage on its tokens. Credit is found over the rollouts of all processes,
        for a group may be spread over several, and a restart finds all of them in the journal."""
        scored = self.run.scored
        credits = self.credit.credits(self.state.global_step + 1, scored)
        clip = float(self.run.plan.extras.get("credit_clip", DEFAULT_CLIP))
        whole = output["advantages"]
        shared = whole[:, None].repeat(1, output["completion_ids"].shape[1])
        first = self.accelerator.process_index * len(whole)
        mine = step_advantages(scored, credits, clip=clip)[first : first + len(whole)]
        for place, values in enumerate(mine):
            turns = scored[first + place].outcome.tokens.turns
            for (start, end), value in zip(turns, values, strict=True):
                shared[place, start:end] = value
        return shared


class Steward(TrainerCallback):
    """Decides at the end of each train step: validate, save, stop; tells the journal; seals and prunes checkpoints."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.sealed: list[Kept] = []

    def on_step_begin(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.run.control.check_cancel()
        if self.run.blind_steps >= MAX_BLIND_STEPS:
            raise SpecError(
                f"No rollout of the last {MAX_BLIND_STEPS} train steps could be graded; their records say why.",
                param="grader",
                code="nothing_graded",
            )
        self.run.seconds = {"began": time.monotonic()}

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        run, step = self.run, state.global_step
        run.control.check_cancel()
        run.validation_reward = None
        is_last = step >= run.total_steps
        if step % run.plan.eval_interval == 0 or is_last:
            run.validate(step)
            control.should_save = True
        if self._is_paused() and not is_last:
            control.should_save = control.should_training_stop = True

    def _is_paused(self) -> bool:
        """What the first process sees counts for all: they must stop at the same step."""
        seen = [self.run.control.pause.is_set()]
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            broadcast_object_list(seen)
        return seen[0]

    def on_log(
        self, args: Any, state: TrainerState, control: TrainerControl, logs: dict | None = None, **_: Any
    ) -> None:
        if logs and "loss" in logs and "began" in self.run.seconds:
            self.run.tell_step(state.global_step, logs)

    def on_save(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        run, step = self.run, state.global_step
        PartialState().wait_for_everyone()  # each process has put its source of chance into the folder
        if run.journal.is_mute:
            return
        folder = run.control.run_dir / "checkpoints"
        metrics = {name: run.metrics.get(name) for name in ("full_valid_mean_reward", "valid_pass_rate")}
        kept = checkpoint_seal(
            folder / f"checkpoint-{step}", step=step, validation_reward=run.validation_reward, metrics=metrics
        )
        run.journal.write(
            "checkpoint",
            step=step,
            path=str(kept.path),
            digest=kept.digest,
            validation_reward=kept.validation_reward,
            metrics=metrics,
        )
        gone = checkpoints_prune(folder, run.plan.keep_best)
        if gone:
            names = ", ".join(path.name for path in gone)
            run.journal.log("info", f"Deleted {names}: the best {run.plan.keep_best} and the last are kept.")
        run.journal.flush()


def finite(value: Any) -> float | None:
    """The number, or None where it is none: JSON has no NaN, and neither have charts."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
