"""Resolves requirements/*.in into hashed files that name no address, which uv and plain pip both accept.

torch, triton and NVIDIA's libraries are left out of train.txt: which build of them fits is the machine's matter, so
rftstudio/ops/make/setup.py installs torch in a step of its own.
"""

import re
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parents[3] / "requirements"
UV = Path(sys.executable).with_name("uv")
UNIVERSAL = ("--universal", "--python-version", "3.11", "--generate-hashes", "--no-emit-index-url", "--no-header")
MACHINES_OWN = re.compile(r"^(torch|triton|nvidia-[a-z0-9-]+|cuda-[a-z0-9-]+)==", re.M)


def compile_(name: str, *options: str, to: str | None = None) -> str:
    target = to or f"{name}.txt"
    argv = [str(UV), "pip", "compile", "--quiet", *UNIVERSAL, *options, f"{name}.in", "-o", target, *sys.argv[1:]]
    subprocess.run(argv, cwd=REQUIREMENTS, check=True)
    return (REQUIREMENTS / target).read_text()


if __name__ == "__main__":
    compile_("uv")
    compile_("base")
    compile_("dev", "-c", "base.txt")
    compile_("mcp")
    compile_("wasm")
    # Two passes, because only the resolver knows which libraries this torch brings along.
    first = compile_("train", to=".train-first-pass.txt")
    (REQUIREMENTS / ".train-first-pass.txt").unlink()
    left_out = sorted({match.group(1) for match in MACHINES_OWN.finditer(first)})
    compile_("train", *(part for name in left_out for part in ("--no-emit-package", name)))
