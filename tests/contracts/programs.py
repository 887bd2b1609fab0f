"""The programs of docs/migrate.md, by the name that stands before each."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/migrate.md"
_BLOCK = re.compile(r"<!-- run: (\w+) -->\n```python\n(.*?)```", re.S)


def programs() -> dict[str, str]:
    return dict(_BLOCK.findall(PAGE.read_text()))


def run(names: list[str], space: dict | None = None) -> dict:
    """Run them one after another in one name space, as a person would paste them."""
    space = {} if space is None else space
    for name in names:
        exec(compile(programs()[name], f"{PAGE.name}:{name}", "exec"), space)  # noqa: S102
    return space
