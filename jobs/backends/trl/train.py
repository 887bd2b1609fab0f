"""The trainer process: `python jobs/backends/trl/train.py RUN_DIR`. No Django, no database.

It reads `spec.json`, trains with TRL's GRPO, appends to `journal.jsonl`, beats its heart and obeys `control`. The same
command after a crash or a pause goes on from the newest whole checkpoint. Exit status 0 for succeeded, paused and
cancelled, 1 for failed, 2 for wrong use.
"""

import os

# Before torch is imported: on a shared core, threads that wait actively cost more than they give to a small model.
os.environ.setdefault("OMP_NUM_THREADS", os.environ.get("STUDIO_TRAINER_THREADS", "1"))
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import json
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
# The root comes last: its package `datasets` would otherwise hide the Hugging Face library of that name from TRL.
sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() not in {ROOT, Path(__file__).resolve().parent}]
sys.path.append(str(ROOT))

warnings.filterwarnings("ignore", category=FutureWarning)  # transformers says some at every step

from jobs.backends.trl.checkpoints import checkpoint_best, checkpoints_prune, checkpoints_whole  # noqa: E402
from jobs.backends.trl.control import Cancelled, Control  # noqa: E402
from jobs.backends.trl.journal import Journal  # noqa: E402
from jobs.backends.trl.spec import SpecError, items_read, spec_read  # noqa: E402


def rehearse(run_dir: Path) -> int:
    """With STUDIO_DRY_RUN=1: everything up to the first weight is read and checked, nothing is written or trained."""
    try:
        spec = spec_read(run_dir)
        train = items_read(run_dir / "train.jsonl")
        if not train:
            raise SpecError("train.jsonl holds no items.", param="training_file", code="invalid_training_file")
        if Path(spec.base_model).is_dir():
            os.environ.setdefault("HF_HUB_OFFLINE", "1")
        from jobs.backends.trl.assembly import rehearsal

        told = rehearsal(spec, train)
    except SpecError as exc:
        sys.stderr.write(f"{exc.code}: {exc} ({exc.param})\n")
        return 1
    if os.environ.get("RANK", "0") == "0":
        sys.stdout.write(json.dumps(told) + "\n")
    return 0


def main(run_dir: Path) -> int:
    """One attempt at the run. Whatever happens, the journal's last line says how it ended."""
    journal = Journal(run_dir / "journal.jsonl", is_mute=os.environ.get("RANK", "0") != "0")
    history = journal.history
    if history.finished and history.finished["status"] in {"succeeded", "cancelled"}:
        return 0
    control, began = Control(run_dir), time.time()

    def leave() -> None:
        """The train step at work does not see the cancel: tell what is kept, and end it with the process."""
        journal.lock.acquire()  # until the end: nothing may follow the last word
        try:
            if not journal.is_closed:
                journal.log(
                    "info", "Cancelled. Complete train steps and checkpoints are kept; the train step at work was cut."
                )
                seconds = history.seconds + time.time() - began
                finish(run_dir, journal, {"status": "cancelled", "error": None}, seconds=seconds)
        except Exception:
            traceback.print_exc()
        finally:  # with the lock held, a process that could not say it (a full disk) would wait for ever
            os._exit(0)

    control.when_overdue = leave
    control.start()
    closing: dict[str, Any] = {"status": "failed", "error": None}
    try:
        closing = attempt(run_dir, journal, control)
    except Cancelled:
        closing = {"status": "cancelled", "error": None}
        journal.log("info", "Cancelled. Complete train steps and checkpoints are kept; tries under way were dropped.")
    except SpecError as exc:
        closing["error"] = {"code": exc.code, "message": str(exc), "param": exc.param or None}
    except Exception as exc:
        traceback.print_exc()
        closing["error"] = {"code": "trainer_error", "message": f"{type(exc).__name__}: {exc}", "param": None}
    finally:
        with journal.lock:
            finish(run_dir, journal, closing, seconds=history.seconds + time.time() - began)
        control.stop()
    return 1 if closing["status"] == "failed" else 0


def attempt(run_dir: Path, journal: Journal, control: Control) -> dict[str, Any]:
    """Prepare, train, and say how it ended (status, error, reason)."""
    spec = spec_read(run_dir)
    control.check_cancel()
    train, validation = items_read(run_dir / "train.jsonl"), items_read(run_dir / "validation.jsonl")
    if not train:
        raise SpecError("train.jsonl holds no items.", param="training_file", code="invalid_training_file")
    if Path(spec.base_model).is_dir():
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is here: no code path may try a hub

    from jobs.backends.trl.assembly import assemble, start_note  # imports torch and TRL: seconds

    folder = run_dir / "checkpoints"
    if not journal.is_mute:
        checkpoints_prune(folder, spec.plan.keep_best)
    whole = checkpoints_whole(folder)
    from_step = whole[-1].step if whole else 0
    if control.pause.is_set():
        return {"status": "paused", "error": None, "reason": control.reason, "train_steps": from_step}
    trainer = assemble(
        spec, train, validation, journal=journal, control=control, output_dir=folder, from_step=from_step
    )
    journal.write(
        "started",
        attempt=journal.history.attempts + 1,
        from_step=from_step,
        total_steps=spec.plan.max_steps,
        **start_note(trainer),
    )
    journal.flush()
    if from_step < spec.plan.max_steps:
        trainer.train(resume_from_checkpoint=str(whole[-1].path) if whole else None)
    done = max(trainer.state.global_step, from_step)
    if done < spec.plan.max_steps:
        return {"status": "paused", "error": None, "reason": control.reason, "train_steps": done}
    return {"status": "succeeded", "error": None, "train_steps": done}


def finish(run_dir: Path, journal: Journal, closing: dict[str, Any], *, seconds: float) -> None:
    """The last line: status, and the counts of what is true now."""
    done = closing.pop("train_steps", None)
    if done is None:
        done = max(journal.history.steps, default=0)
    best = checkpoint_best(checkpoints_whole(run_dir / "checkpoints"))
    journal.write(
        "finished",
        **closing,
        train_steps=done,
        rollouts=journal.rollouts_up_to(done),
        seconds=seconds,
        best_step=best.step if best else None,
    )
    journal.is_closed = True
    journal.flush()


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.stderr.write("usage: python jobs/backends/trl/train.py RUN_DIR\n")
        sys.exit(2)
    run = rehearse if os.environ.get("STUDIO_DRY_RUN") == "1" else main
    status = run(Path(sys.argv[1]).resolve())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # all is on disk; tearing torch down would take seconds on a busy core
