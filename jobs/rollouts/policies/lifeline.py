"""Whether the process that supervises this one still lives. Portable: standard library only.

Detached processes (the trainer, a model server) are told their supervisor by environment and end themselves when it is
gone, so that nothing is left running on a machine whose Studio was killed.
"""

import os
from pathlib import Path


def supervisor_is_gone() -> bool:
    """True when the environment names a supervisor that no longer runs. A pid alone names nobody: it may be reused."""
    pid, ticks = os.environ.get("STUDIO_SUPERVISOR_PID", ""), os.environ.get("STUDIO_SUPERVISOR_TICKS", "")
    if not pid:
        return False
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return Path("/proc/self/stat").exists()
    state, *fields = stat.rpartition(")")[2].split()
    return state == "Z" or (bool(ticks) and fields[18] != ticks)
