"""Becomes the trainer: holds the run's lock, writes down who it is, then turns into the command it is given.

    python launch.py RUN_DIR PID_FILE COMMAND…

The lock is an open file that the trainer inherits, so it is held exactly as long as the trainer lives: a second start of
the same run ends here at once, whoever asked for it and whatever died in between. Standard library only.
"""

import fcntl
import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ALREADY_RUNS = 3


def _processes():
    """The process helper, loaded by path: importing its package would load the web side."""
    spec = importlib.util.spec_from_file_location("processes", ROOT / "rftstudio/ops/processes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(arguments: list[str]) -> None:
    run_dir, pid_file, command = Path(arguments[0]), Path(arguments[1]), arguments[2:]
    lock = os.open(run_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(ALREADY_RUNS)
    processes = _processes()
    me = processes.process_identity(os.getpid())
    processes.pid_file_write(run_dir / "process.json", me)
    processes.pid_file_write(pid_file, me)
    (run_dir / "heartbeat").touch()
    os.set_inheritable(lock, True)
    os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
