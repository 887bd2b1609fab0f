"""The proof that the walls stand: a grader that tries to get out, run before any other. Portable.

Every probe must fail, whichever sandbox runs it. The value is the number of those that did not.
"""

import tempfile
from pathlib import Path

PROOF = """
import os

def probes(item):
    for path in item["files"]:
        yield f"open {path}", lambda: open(path)
        yield f"stat {path}", lambda: os.stat(path)
    for path in item["folders"]:
        yield f"stat {path}", lambda: os.stat(path)
        yield f"list {path}", lambda: os.listdir(path)
        yield f"write {path}", lambda: open(path + "/rft-self-test", "w")
    yield "environment", lambda: {}[None] if not os.environ else 1
    yield "fork", lambda: os.fork()
    yield "exec", lambda: os.execv("/bin/true", ["true"])
    yield "kill", lambda: os.kill(os.getppid(), 0)
    yield "connect", connect
    yield from by_hand()

def connect():
    import socket
    socket.socket()

def by_hand():
    try:
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
    except Exception:
        return
    def check(result):
        if result < 0:
            raise OSError(ctypes.get_errno(), "refused")
    yield "socket", lambda: check(libc.socket(2, 1, 0))
    yield "unix socket", lambda: check(libc.socket(1, 1, 0))
    yield "clone", lambda: check(libc.fork())

def grade(sample, item):
    breaches = 0
    for name, probe in probes(item):
        try:
            probe()
        except Exception:
            continue
        breaches += 1
        print(name, "was possible")
    return breaches
"""


def proof_item() -> dict[str, list[str]]:
    """Files and folders that are really there, so that failing to reach them says something."""
    here = Path(__file__).resolve()
    return {"files": [str(here), "/etc/passwd"], "folders": ["/", str(here.parent), tempfile.gettempdir()]}
