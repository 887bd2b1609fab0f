"""One training loop on the example, timed step by step: `python _trl_loop.py studio|bare STEPS`. A process of its own,
because TRL needs the Hugging Face library whose name our package `datasets` bears.

`bare` is TRL as its documentation shows it: GRPOTrainer with an environment class and a reward function, nothing stored.
`studio` is the trainer that jobs run: portable engine, the recipe's graders, journal, control file. Same model, items,
seed and settings; the learning rate is so small that both keep the policy they start with.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"

import json
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() not in {ROOT, HERE}]
sys.path.append(str(ROOT))
warnings.filterwarnings("ignore", category=FutureWarning)

import torch  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback  # noqa: E402
from trl import GRPOConfig, GRPOTrainer  # noqa: E402

from datasets import Dataset  # noqa: E402  the Hugging Face library: the root is last on sys.path
from rftstudio.demo import world  # noqa: E402

DEMO = Path(world.__file__).parent
RATE = 1e-12
ORDER = {"lookup": 0, "calc": 1}


class Clock(TrainerCallback):
    """Wall and CPU seconds from the beginning of a train step to that of the next; the first one warms up."""

    def __init__(self) -> None:
        self.marks: list[tuple[float, float]] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.marks.append((time.perf_counter(), time.process_time()))

    def steps(self) -> list[dict[str, float]]:
        pairs = zip(self.marks[1:], self.marks[2:], strict=False)
        return [{"wall": after[0] - before[0], "cpu": after[1] - before[1]} for before, after in pairs]


class Desk:
    """The example's tools as an environment of TRL."""

    def reset(self, item: str = "", **_: Any) -> None:
        self._item = json.loads(item) if item else {}

    def lookup(self, good: str) -> str:
        """Read one line of the tariff.

        Args:
            good: The good, in one word.
        """
        return self._item["schedule"].get(good, "no such line")

    def calc(self, a: float, b: float) -> str:
        """Multiply two numbers.

        Args:
            a: The rate in percent.
            b: The declared value in pounds.
        """
        return f"{float(a) * float(b):g}"


def reward(completions: list, item: list[str], **_: Any) -> list[float]:
    rows = zip(completions, map(json.loads, item), strict=True)
    return [float(said[-1].get("content") == row["reference_answer"]) for said, row in rows]


def plan() -> dict[str, Any]:
    return json.loads((DEMO / "plan.json").read_text())


def bare(steps: int, folder: Path, clock: Clock) -> GRPOTrainer:
    told = plan()
    rows = [row for row in world.items_make() if row["split"] == "train"]
    system = {"role": "system", "content": world.SYSTEM_PROMPT}
    data = Dataset.from_list([{"prompt": [system, *row["messages"]], "item": json.dumps(row)} for row in rows])
    size = told["batch_size"] * told["group_size"]
    args = GRPOConfig(
        output_dir=str(folder), use_cpu=True, bf16=False, gradient_checkpointing=False, dataloader_pin_memory=False,
        per_device_train_batch_size=size, num_generations=told["group_size"], max_completion_length=96,
        max_tool_calling_iterations=6, learning_rate=RATE, beta=0.0, epsilon_high=told["epsilon_high"], temperature=1.0,
        max_steps=steps, logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True, seed=1,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(DEMO / "base_model", dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(DEMO / "base_model", padding_side="left"),
        args=args, train_dataset=data, reward_funcs=reward, environment_factory=Desk, callbacks=[clock],
    )  # fmt: skip
    # TRL lists an environment's tools by name; the model was taught this order, and another one makes it stumble.
    for tools in (trainer.tools, *trainer._env_tools.values()):
        tools.sort(key=lambda tool: ORDER[tool.__name__])
    trainer.remove_callback(PrinterCallback)
    return trainer


def studio(steps: int, folder: Path, clock: Clock) -> GRPOTrainer:
    from jobs.backends.trl.assembly import assemble
    from jobs.backends.trl.control import Control
    from jobs.backends.trl.journal import Journal
    from jobs.backends.trl.spec import Spec, TrainItem, plan_read

    rows = [TrainItem(row["id"], row) for row in world.items_make() if row["split"] == "train"]
    told = plan() | {"max_steps": steps, "learning_rate": RATE, "eval_interval": 10_000}
    (folder / "control").write_text("")
    spec = Spec(
        job_id="ftjob-bench", base_model=str(DEMO / "base_model"), seed=1, system_prompt=world.SYSTEM_PROMPT,
        tools=list(world.TOOLS), limits=world.LIMITS, response_format=None, pass_threshold=0.75, plan=plan_read(told),
        grader=json.loads((DEMO / "grader.json").read_text()),
    )  # fmt: skip
    control = Control(folder)
    control.start()
    trainer = assemble(
        spec, rows, [], journal=Journal(folder / "journal.jsonl"), control=control, output_dir=folder / "checkpoints",
        from_step=0,
    )  # fmt: skip
    trainer.add_callback(clock)
    return trainer


def main(which: str, steps: int) -> None:
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = {"bare": bare, "studio": studio}[which](steps, Path(folder), clock)
        trainer.train()
        logs = [row for row in trainer.state.log_history if "completions/mean_length" in row]
    tokens = [row["completions/mean_length"] for row in logs]
    print("bench-loop:" + json.dumps({"steps": clock.steps(), "tokens": sum(tokens) / max(len(tokens), 1)}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
