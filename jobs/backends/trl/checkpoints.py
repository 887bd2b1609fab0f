"""Checkpoint folders: which are whole, which is newest, which are kept. Standard library only.

Saving a checkpoint is not atomic: a crash leaves a folder that looks like one. Only a folder with our own marker, which
is written last and after everything else has reached the disk, is ever resumed from or shown.
"""

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MARKER = "studio-complete.json"


@dataclass(frozen=True)
class Kept:
    """A whole checkpoint as its marker tells of it."""

    path: Path
    step: int
    digest: str
    validation_reward: float | None


def checkpoint_seal(folder: Path, *, step: int, validation_reward: float | None, metrics: dict[str, Any]) -> Kept:
    """Mark a saved folder as whole; everyone may read it, for a server may run as another user."""
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
        if path.is_file():
            _to_disk(path)
    digest = weights_digest(folder)
    told = {"step": step, "digest": digest, "validation_reward": validation_reward, "metrics": metrics}
    fresh = folder / f"{MARKER}.new"
    fresh.write_text(json.dumps(told, indent=2), encoding="utf-8")
    _to_disk(fresh)
    fresh.replace(folder / MARKER)
    _to_disk(folder)
    return Kept(folder, step, digest, validation_reward)


def checkpoints_whole(folder: Path) -> list[Kept]:
    """The whole checkpoints in a folder, by train step."""
    found = []
    for path in folder.glob("checkpoint-*"):
        try:
            told = json.loads((path / MARKER).read_text(encoding="utf-8"))
            if (path / "trainer_state.json").is_file():
                found.append(Kept(path, int(told["step"]), told["digest"], told["validation_reward"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return sorted(found, key=lambda kept: kept.step)


def checkpoint_best(kept: list[Kept]) -> Kept | None:
    """The highest validation reward; of equals the latest; without any validation the last."""
    return max(kept, key=lambda one: (_reward(one), one.step), default=None)


def checkpoints_prune(folder: Path, keep_best: int) -> list[Path]:
    """Delete all but the best few and the last, and folders that never became whole. Returns what went."""
    kept = checkpoints_whole(folder)
    best = sorted(kept, key=lambda one: (_reward(one), one.step), reverse=True)[:keep_best]
    stay = {one.path for one in best} | {kept[-1].path} if kept else set()
    gone = [path for path in folder.glob("checkpoint-*") if path not in stay]
    for path in gone:
        (path / MARKER).unlink(missing_ok=True)  # first, so that a half-deleted folder never looks whole
        shutil.rmtree(path, ignore_errors=True)
    return gone


def weights_digest(folder: Path) -> str:
    """SHA-256 over the names and contents of the safetensors files."""
    whole = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        whole.update(path.name.encode())
        with path.open("rb") as data:
            whole.update(hashlib.file_digest(data, "sha256").digest())
    return whole.hexdigest()


def _reward(kept: Kept) -> float:
    return float("-inf") if kept.validation_reward is None else kept.validation_reward


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
