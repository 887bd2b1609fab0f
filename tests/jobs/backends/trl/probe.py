"""The trainer with an ear at TRL's batches: `python probe.py RUN_DIR` trains as train.py does, and writes each train step's
tokens, masks and advantages as TRL has them to `batches.jsonl`, in the order of the journal's rollouts."""

import json
import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
TRAINER = ROOT / "jobs/backends/trl/train.py"
WANTED = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "tool_mask", "advantages")


def main(run_dir: Path) -> None:
    loaded = runpy.run_path(str(TRAINER), run_name="train")  # puts sys.path in order for TRL
    from jobs.backends.trl.grpo import StudioTrainer

    real = StudioTrainer._generate_and_score_completions

    def listen(self, inputs):
        output = real(self, inputs)
        with (run_dir / "batches.jsonl").open("a") as file:
            file.write(json.dumps({name: output[name].tolist() for name in WANTED if name in output}) + "\n")
        return output

    StudioTrainer._generate_and_score_completions = listen
    sys.exit(loaded["main"](run_dir))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
