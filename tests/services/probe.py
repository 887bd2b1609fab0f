"""Tasks that only the services lane loads: they leave marks in a folder."""

import os
import time
from pathlib import Path

import structlog
from celery import shared_task

log = structlog.get_logger("studio.probe")


@shared_task
def mark(folder: str, name: str) -> None:
    log.info("probe.marked", name=name)
    (Path(folder) / name).touch()


@shared_task
def hold(folder: str, seconds: float) -> None:
    """Note which process began, then take a while, then say done."""
    with (Path(folder) / "began").open("a") as out:
        out.write(f"{os.getpid()}\n")
    time.sleep(seconds)
    (Path(folder) / "done").touch()
