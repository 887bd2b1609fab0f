"""Whatever a page can do, a program can do by /api or /v1: no deed stays behind a form."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[3]
ROOMS = ("datasets", "graders", "jobs", "rftstudio")
#: A person's own: their session, password, second factor, look; and what only a browser's log-in can settle.
PERSONAL = {"teams"}


def modules() -> list[Path]:
    return [path for room in ROOMS for path in (ROOT / room).rglob("*.py") if "migrations" not in path.parts]


def deeds() -> set[str]:
    """Functions that ask for an actor by keyword and are no reads."""
    found = set()
    for path in modules():
        if "selectors" in path.name or "/api/" in str(path) or PERSONAL & set(path.parts):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and any(one.arg == "actor" for one in node.args.kwonlyargs):
                found.add(node.name)
    return {name for name in found if not name.startswith("_")}


def words(paths: list[Path]) -> set[str]:
    """Names that the code uses; a comment or an import alone is no use."""
    nodes = (node for path in paths for node in ast.walk(ast.parse(path.read_text())))
    return {getattr(node, "attr", None) or getattr(node, "id", "") for node in nodes}


def test_every_deed_of_a_page_has_an_address_for_programs():
    views = [path for path in modules() if "views" in path.name and "/api/" not in str(path)]
    doors = [path for path in modules() if "/api/" in str(path)]
    missing = deeds() & words(views) - words(doors)
    assert not missing, f"only pages can: {', '.join(sorted(missing))}"
