"""Public files and fault reports used as cases; see tests/data/cases/graders/LICENSES.md."""

import json
from pathlib import Path
from typing import Any

from graders.types import Sample

FOLDER = Path(__file__).parent.parent / "data" / "cases" / "graders"


def load(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def load_lines(name: str) -> list[Any]:
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").split("\n") if line.strip()]


def sample(**parts: Any) -> Sample:
    return Sample(**parts)
