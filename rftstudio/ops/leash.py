"""Run a program that ends when its supervisor does: `python -I -S leash.py SIGNAL SUPERVISOR_PID program argument…`

The kernel sends SIGNAL to the program when the thread that started it is gone, whatever ended it, kill -9 included. This
happens between fork and exec in a process of its own, because code between fork and exec is unsafe in a process with
threads. Without prctl (not Linux) the program just runs; then only a regular stop ends it. Standard library only.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def leashed(argv: list[str], *, signal_number: int) -> list[str]:
    """`argv` as a command line that ends with this process."""
    return [sys.executable, "-I", "-S", __file__, str(int(signal_number)), str(os.getpid()), *argv]


def _main() -> None:
    signal_number, supervisor, argv = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
        if os.getppid() != supervisor:  # it died before the leash was on
            sys.exit(1)
    os.execvp(argv[0], argv)  # noqa: S606


if __name__ == "__main__":
    _main()
