"""Makes .venv from the hashed requirements: `python3 rftstudio/ops/make/setup.py base|train|test`.

Runs before anything is installed, so: standard library only, Python 3.11. Each part is installed once per content of its
requirements files; a stamp inside .venv remembers it. uv installs, because it is three times as quick; where uv does not
run, pip does the same from the same files. A .venv that is a link belongs to a developer and is taken as it is.
"""

from __future__ import annotations  # so that an older Python comes as far as the refusal below

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
REQUIREMENTS = ROOT / "requirements"
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
TORCH = "torch==2.13.0"
FILES = {"base": ("base.txt",), "train": ("base.txt", "train.txt"), "test": ("base.txt", "dev.txt")}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def main(part: str) -> None:
    if part not in FILES:
        sys.exit(f"setup: {part!r} is none of {', '.join(FILES)}")
    if sys.version_info < (3, 11):  # noqa: UP036
        sys.exit(f"setup: Python 3.11 or newer is needed, this is {sys.version.split()[0]}; name another by PYTHON=…")
    if VENV.is_symlink() or os.environ.get("STUDIO_SKIP_SETUP"):
        return
    stamp, wanted = VENV / f".studio-{part}", _digest(part)
    if stamp.exists() and stamp.read_text() == wanted and PYTHON.exists():
        return
    started = time.monotonic()
    _make_venv()
    {"base": _base, "train": _train, "test": _test}[part]()
    stamp.write_text(wanted)
    _say(f"{part} is set up in .venv ({time.monotonic() - started:.0f} s)")


def _digest(part: str) -> str:
    content = b"".join((REQUIREMENTS / name).read_bytes() for name in FILES[part])
    return hashlib.sha256(content + TORCH.encode() * (part == "train")).hexdigest()


def _make_venv() -> None:
    if not PYTHON.exists():
        _say(f"making .venv with Python {sys.version.split()[0]}")
        _run([sys.executable, "-m", "venv", str(VENV)])


def _base() -> None:
    _install("base.txt")


def _train() -> None:
    # By pip and in a step of its own: torch has a build per accelerator, and pip knows where this machine keeps its own.
    extra = os.environ.get("STUDIO_TORCH_PIP_ARGS", "").split()
    _say(f"{TORCH}: this is the large one")
    _run([str(PYTHON), "-m", "pip", "install", "--quiet", TORCH, *extra])
    _install("train.txt", "--no-deps")


def _test() -> None:
    _install("dev.txt")


def _install(name: str, *options: str) -> None:
    arguments = [*options, "--require-hashes", "-r", str(REQUIREMENTS / name)]
    uv = _uv()
    if uv is not None:
        # Compiled now, as pip does: where bytecode is never written, each process would compile all of it again.
        quiet = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(PYTHON)]
        done = subprocess.run([*quiet, *arguments], check=False)
        if done.returncode == 0:
            return
        _say("uv did not manage; trying with pip")
    _run([str(PYTHON), "-m", "pip", "install", "--quiet", *arguments])


def _uv() -> str | None:
    """The pinned uv inside .venv, or None where it has no build."""
    found = PYTHON.with_name("uv.exe" if os.name == "nt" else "uv")
    if not found.exists():
        pinned = ["--require-hashes", "-r", str(REQUIREMENTS / "uv.txt")]
        done = subprocess.run([str(PYTHON), "-m", "pip", "install", "--quiet", *pinned], check=False)
        if done.returncode != 0:
            _say("uv is not to be had here; pip takes longer and installs the same")
    return str(found) if found.exists() else None


def browser() -> None:
    """Chromium for the browser tests: what there is, else Debian's where it is ours to install, else said to be missing."""
    if any(map(shutil.which, BROWSERS)):
        return
    if shutil.which("apt-get") is None or not hasattr(os, "geteuid") or os.geteuid() != 0:
        _say("no Chromium found, and not ours to install: the browser tests will be skipped")
        return
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    wanted = ["chromium", "fonts-dejavu-core"]
    for argv in (["apt-get", "update", "-qq"], ["apt-get", "install", "-qq", "-y", "--no-install-recommends", *wanted]):
        if subprocess.run(argv, check=False, env=env, stdout=subprocess.DEVNULL).returncode != 0:
            _say(f"{' '.join(argv[:2])} failed: the browser tests will be skipped")
            return


def _run(argv: list[str]) -> None:
    done = subprocess.run(argv, check=False, env={**os.environ, "UV_PYTHON_DOWNLOADS": "never"})
    if done.returncode != 0:
        sys.exit(f"setup: {' '.join(argv)} ended with {done.returncode}")


def _say(line: str) -> None:
    print(f"setup: {line}", flush=True)


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        browser() if wanted == "browser" else main(wanted)
