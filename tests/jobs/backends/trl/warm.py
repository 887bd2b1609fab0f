"""Trainers from one warmed-up process: torch and TRL are imported once, and each run is a fork of that.

Importing them costs eight seconds of computing, more than a small run trains. A fork runs `main` of `train.py` as the
script does, in a process of its own with the run's log, and can be paused, killed and waited for like any other.

What is about the process itself stays on the real command in a fresh process: the undisturbed run that others are
held against (so a fork must come to the very weights of the script), kill -9 and the start after it, the supervisor
that is gone, a run without items, processes under accelerate, a cancel in the middle of a step, and all that a served
Studio trains.

    python warm.py    answers each JSON line with one: {"start": RUN_DIR, "listen": false} or {"poll": PID}
"""

import atexit
import functools
import json
import os
import runpy
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

TRAINER = Path(__file__).resolve().parents[4] / "jobs/backends/trl/train.py"
WANTED = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "tool_mask", "advantages")


# -- the tests' side --------------------------------------------------------------------------------------------------


class Trainer:
    """One forked trainer, with what the tests use of a Popen."""

    def __init__(self, run: Path, *, listen: bool) -> None:
        self.pid: int = _ask(start=str(run), listen=listen)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = _ask(poll=self.pid)
        return self.returncode

    def wait(self, timeout: float) -> int:
        limit = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > limit:
                raise TimeoutError(f"the trainer still runs after {timeout} s")
            time.sleep(0.02)
        return code


def start(run: Path) -> Trainer:
    return Trainer(run, listen=False)


def train(run: Path, *, listen: bool = False) -> int:
    """With `listen`, each train step's rows as TRL has them are written to `batches.jsonl`, in the journal's order."""
    return Trainer(run, listen=listen).wait(timeout=300)


def _ask(**words) -> int | None:
    parent = _parent()
    parent.stdin.write(json.dumps(words) + "\n")
    parent.stdin.flush()
    line = parent.stdout.readline()
    assert line, "the warmed-up process ended; its error stands above"
    return json.loads(line)


@functools.cache
def _parent() -> subprocess.Popen:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    pipe = subprocess.PIPE
    one = subprocess.Popen([sys.executable, __file__], env=env, stdin=pipe, stdout=pipe, text=True)
    atexit.register(lambda: (one.stdin.close(), one.wait(timeout=30)))
    return one


# -- the warmed-up process --------------------------------------------------------------------------------------------


def serve() -> None:
    """Answer until the tests are gone; no trainer outlives them."""
    answers = os.dup(1)
    os.dup2(2, 1)
    main, living = _load(), set()
    for line in sys.stdin:
        asked = json.loads(line)
        if "start" in asked:
            answer = os.fork()
            if not answer:
                os.close(answers)
                _become_trainer(main, Path(asked["start"]), listen=asked["listen"])
            living.add(answer)
        else:
            ended, status = os.waitpid(asked["poll"], os.WNOHANG)
            living.discard(ended)
            answer = os.waitstatus_to_exitcode(status) if ended else None
        os.write(answers, (json.dumps(answer) + "\n").encode())
    for pid in living:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _load() -> Callable[[Path], int]:
    """The script's `main`, and what it would import on the way to its first weight."""
    sys.path.pop(0)  # this folder, which the script's process does not see
    main = runpy.run_path(str(TRAINER), run_name="train")["main"]
    import jobs.backends.trl.assembly  # noqa: F401

    return main


def _become_trainer(main: Callable[[Path], int], run_dir: Path, *, listen: bool) -> None:
    """As the script ends: with the status, and without tearing torch down."""
    status = 70
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        log = os.open(run_dir / "trainer.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        if listen:
            _listen(run_dir)
        status = main(run_dir.resolve())
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _listen(run_dir: Path) -> None:
    from jobs.backends.trl.grpo import StudioTrainer

    real = StudioTrainer._generate_and_score_completions

    def listening(self, inputs):
        output = real(self, inputs)
        with (run_dir / "batches.jsonl").open("a") as file:
            file.write(json.dumps({name: output[name].tolist() for name in WANTED if name in output}) + "\n")
        return output

    StudioTrainer._generate_and_score_completions = listening


if __name__ == "__main__":
    serve()
