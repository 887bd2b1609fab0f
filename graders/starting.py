"""Starting points: complete working graders with sample rows, read from starting_points/. Portable."""

import json
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("starting_points")


@dataclass(frozen=True)
class StartingPoint:
    """A recipe to pick and adapt. `rows` are {"item", "sample", "reward"}; a judge's marks stand beside them."""

    key: str
    order: int
    title: str
    field: str
    about: str
    icon: str
    config: dict[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)


@lru_cache(maxsize=1)
def starting_points() -> dict[str, StartingPoint]:
    """All of them by key, in the order they are offered."""
    found = [StartingPoint(**json.loads(path.read_text(encoding="utf-8"))) for path in FOLDER.glob("*.json")]
    return {point.key: point for point in sorted(found, key=lambda point: point.order)}
