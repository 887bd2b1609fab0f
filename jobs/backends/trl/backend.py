"""Self-hosted training with TRL, seen from the web side: write the spec, start the trainer, read its journal home.

The trainer is a process of its own (`train.py`), which outlives the worker that started it. Nothing here imports TRL.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings

from jobs.backends.base import Capabilities, Chunk, Health, Problem, Run, RunSpec
from rftstudio.ops import processes

ROOT = Path(__file__).resolve().parents[3]
#: Events brought home in one transaction, and how many bytes they may have.
CHUNK_EVENTS, CHUNK_BYTES = 256, 4_000_000
#: A trainer that lives but whose heart stopped this long is hung: it is ended and started again.
HUNG_SECONDS = 900
#: A trainer that said its last word is given this long to leave by itself.
LEAVING_SECONDS = 3.0
LAST_LINE_BYTES = 65_536
#: What only the web side may know.
WEB_SECRETS = {
    "SECRET_KEY", "DJANGO_SECRET_KEY", "DATABASE_URL", "CELERY_BROKER_URL", "EMAIL_HOST_PASSWORD", "STUDIO_OIDC_CLIENT_SECRET",
}  # fmt: skip
#: What a server needs of a checkpoint; optimizer state and pickles stay behind.
NOT_SERVED = shutil.ignore_patterns("optimizer*", "scheduler*", "rng_state*", "training_args*", "*.pt", "*.pth")


class TrlBackend:
    """One child process for each run; spec in, journal and checkpoints out, control by a small file."""

    name = "trl"
    label = "Our own machine"
    capabilities = Capabilities()

    def validate(self, spec: dict[str, Any]) -> list[Problem]:
        """The base model must be a folder here or a hub name; the trainer checks the rest as it starts."""
        model = str(spec.get("base_model") or "")
        if not model:
            return [Problem("model_missing", "The baseline's model names no weights.", "base_model")]
        if model.startswith(("/", ".")) and not is_model(Path(model)):
            return [
                Problem(
                    "model_missing",
                    f"There is no model at {model}: the folder has neither config.json nor adapter_config.json.",
                    "base_model",
                    "Put the weights back, or make a baseline with another model.",
                )
            ]
        return []

    def notices(self, spec: dict[str, Any]) -> list[str]:
        return []

    def submit(self, run: Run, work: RunSpec) -> Run:
        """Write what is not there yet and start the trainer, unless it runs already."""
        folder = Path(run.run_dir or settings.RUNS_DIR / run.job_id)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        if not (folder / "spec.json").exists():
            _write_lines(folder / "train.jsonl", work.train)
            _write_lines(folder / "validation.jsonl", work.validation)
            _write_whole(folder / "spec.json", json.dumps(work.spec, ensure_ascii=False, indent=1))
        leaving = self._identity_alive(folder, run.process)
        if leaving and _has_finished(folder):
            processes.end(leaving, grace=LEAVING_SECONDS, group=True)
        if not self._identity_alive(folder, run.process):
            _write_whole(folder / "control", "")
        pid_file = Path(settings.VAR_DIR) / "run" / f"trainer-{run.job_id}.pid"
        identity = processes.spawn_detached(
            [sys.executable, str(Path(__file__).with_name("launch.py")), str(folder), str(pid_file), *_command(folder)],
            cwd=folder,
            log_path=folder / "trainer.log",
            env=_environment(),
        )
        return Run(run.job_id, run_dir=str(folder), external_id=run.job_id, process=dict(identity))

    def poll(self, run: Run, cursor: int) -> Iterator[Chunk]:
        """Whole lines after the cursor, which counts bytes. A last line without its end waits for the next look."""
        path = Path(run.run_dir) / "journal.jsonl"
        if not run.run_dir or not path.exists():
            return
        with path.open("rb") as journal:
            while True:
                # Every time: half a line at the end of the last chunk was read and not counted, and is read again whole.
                journal.seek(cursor)
                events, size = _read_chunk(journal)
                if not size:
                    return
                cursor += size
                yield Chunk(events, cursor)

    def health(self, run: Run) -> Health:
        folder = Path(run.run_dir)
        beat = None
        if run.run_dir and (folder / "heartbeat").exists():
            beat = (folder / "heartbeat").stat().st_mtime
        identity = self._identity_alive(folder, run.process)
        if identity and beat and time.time() - beat > HUNG_SECONDS:
            processes.end(identity, grace=0, group=True)
            return Health(False, beat, f"The trainer hung for {HUNG_SECONDS // 60} minutes and was ended.")
        return Health(bool(identity), beat, "" if identity else last_words(folder))

    def pause(self, run: Run) -> None:
        self._tell(run, "pause")

    def cancel(self, run: Run, *, grace: float) -> bool:
        """The control file's age says how long ago the trainer was asked."""
        folder = Path(run.run_dir)
        identity = self._identity_alive(folder, run.process) if run.run_dir else None
        if not identity:
            return True
        self._tell(run, "cancel")
        if time.time() - (folder / "control").stat().st_mtime >= grace:
            processes.end(identity, grace=0, group=True)
        return not processes.is_alive(identity)

    def results(self, run: Run) -> dict[str, bytes]:
        return {}

    def export(self, run: Run, path: str, target: Path) -> Path:
        """Whole or not at all: copied beside the target, then moved."""
        if is_model(target):
            return target
        fresh = target.with_name(f"{target.name}.{os.getpid()}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.copytree(path, fresh, ignore=NOT_SERVED)
        fresh.replace(target)
        return target

    def _tell(self, run: Run, word: str) -> None:
        folder = Path(run.run_dir)
        if run.run_dir and folder.is_dir() and _read(folder / "control") != word:
            _write_whole(folder / "control", word)

    def _identity_alive(self, folder: Path, process: dict[str, Any]) -> dict[str, Any] | None:
        """The trainer's identity while it lives. The launcher wrote it down itself; ours is the one just started."""
        for identity in (processes.pid_file_read(folder / "process.json"), process):
            if identity and processes.is_alive(identity):
                return dict(identity)
        return None


def is_model(folder: Path) -> bool:
    """Whether a server can load it: whole weights, or an adapter that names its base."""
    return any((folder / name).is_file() for name in ("config.json", "adapter_config.json"))


def _command(folder: Path) -> list[str]:
    """The trainer's command. A setting may name another, as tests and launchers over several processes do."""
    command = settings.STUDIO_TRAINER_COMMAND
    return [*(command or [sys.executable, str(ROOT / "jobs/backends/trl/train.py")]), str(folder)]


def _environment() -> dict[str, str]:
    """Ours without its secrets. One thread unless told otherwise: on a busy core more of them only wait for each other."""
    threads = os.environ.get("STUDIO_TRAINER_THREADS", "1")
    quiet = {"OMP_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "false", "PYTHONUNBUFFERED": "1"}
    return {**quiet, **{key: value for key, value in os.environ.items() if key not in WEB_SECRETS}}


def _read_chunk(journal) -> tuple[list[dict[str, Any]], int]:
    """The next events and their bytes. A line that is no JSON becomes a log event, so nothing stops behind it."""
    events: list[dict[str, Any]] = []
    size = 0
    while len(events) < CHUNK_EVENTS and size < CHUNK_BYTES:
        line = journal.readline()
        if not line.endswith(b"\n"):
            break
        size += len(line)
        if not line.strip():
            continue
        try:
            events.append(json.loads(line))
        except ValueError:
            events.append(
                {
                    "seq": 0,
                    "at": time.time(),
                    "type": "log",
                    "level": "warn",
                    "message": "A line of the trainer's journal could not be read and was left out.",
                }
            )
    return events, size


def _has_finished(folder: Path) -> bool:
    """Whether the trainer has said its last word. It is then on its way out, and holds the run's lock a moment longer."""
    path = folder / "journal.jsonl"
    if not path.exists():
        return False
    with path.open("rb") as journal:
        journal.seek(max(0, path.stat().st_size - LAST_LINE_BYTES))
        lines = journal.read().splitlines()
    try:
        return bool(lines) and json.loads(lines[-1]).get("type") == "finished"
    except ValueError:
        return False


def last_words(folder: Path, *, lines: int = 3) -> str:
    """The end of the trainer's log: what it said before it died."""
    path = folder / "trainer.log"
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - 4000))
            text = log.read().decode("utf-8", "replace")
    except OSError:
        return ""
    kept = [line.strip() for line in text.splitlines() if line.strip()]
    return " · ".join(kept[-lines:])[:1000]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def _write_lines(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _write_whole(path: Path, text: str) -> None:
    """Replaced in one move, readable by us alone: the spec holds tool headers."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)
