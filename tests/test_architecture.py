"""The house plan, kept by reading imports: arrows point down, portable rooms carry nothing heavy, no room hides a line.

See docs/architecture.md. A failure names the file, the line and the import that climbs.
"""

import ast
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# From the ground up. A room imports from rooms before it, and from itself.
FLOORS = [
    "rftstudio.core",
    "rftstudio.teams",
    "rftstudio.usage",
    "datasets",
    "graders",
    "jobs.agents",
    "jobs.rollouts",
    "jobs.attribution",
    "jobs.evaluations",
    "jobs",
]
# Roof: whatever else stands in rftstudio/, rooms and single modules alike, side by side above all floors, wiring them
# together. Settings may name a roof module for a floor that must not import it. The bench measures from up there.
ROOF = ["rftstudio"]
DOORS = {"models", "selectors", "services", "types"}
# Reads that were split off the selectors: attribution draws its credit onto the rollout as the rollouts room reads it.
# Labelling is a room within datasets, with services and selectors of its own.
MORE_DOORS = {"jobs.rollouts": {"reading", "drawings"}, "datasets": {"labelling", "repairs"}}
SCRIPTS = ["manage", "docker"]

# Portable: neither they nor what they import touch Django or rftstudio, so that they travel into the trainer and test
# without a database. These rooms must be; other modules may be, and are then open to every room above them.
PORTABLE = [
    "datasets.formats",
    "graders.types",
    "graders.kinds",
    "graders.grading",
    "graders.templating",
    "graders.sandbox",
    "graders.validation",
    "jobs.agents.tools",
    "jobs.rollouts.engine",
    "jobs.rollouts.policies",
    "jobs.attribution.types",
    "jobs.attribution.methods",
    "jobs.attribution.judging",
    "jobs.evaluations.metrics",
    "jobs.evaluations.readiness",
    "jobs.backends.base",
    "jobs.backends.trl.train",
]
FRAMEWORK = {"django", "rest_framework", "celery", "django_htmx"}
# Standard library only, and so for any room to use; of the core these are portable too.
ANYONES = [
    "rftstudio.ops.processes",
    "rftstudio.ops.broker",
    "rftstudio.ops.leash",
    "rftstudio.ops.keeper",
    "rftstudio.ops.pending",
]
# What a portable room may use of rftstudio all the same: plain exceptions, and the guarded network client of the trainer.
PORTABLE_MAY = ["rftstudio.core.errors", "rftstudio.core.outbound"]
# The floor that holds everything: each may use its abstract models, errors and helpers.
OPEN_ROOMS = ["rftstudio.core", "rftstudio.teams"]

HEAVY = {"torch", "transformers", "trl", "accelerate", "peft"}
HEAVY_MAY = [
    "jobs.backends.trl",
    "jobs.rollouts.policies.local_server",
    "jobs.rollouts.policies.hf_chat",
    "jobs.rollouts.policies.scoring",
    "rftstudio.demo.recipe",
    "rftstudio.bench._trl_loop",
]
# Inside the trainer's process `datasets` is the library of that name, which TRL needs, and not our app.
OTHER_DATASETS = "jobs.backends.trl"


@dataclass(frozen=True)
class Import:
    """One imported module, with where it stands. `is_top` when reading the file performs it."""

    path: Path
    line: int
    module: str
    target: str
    is_top: bool
    is_typing: bool

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line} imports {self.target}"


@cache
def tracked(pattern: str = "*") -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", pattern],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    return [ROOT / name for name in sorted(listed.split("\0")) if name and (ROOT / name).is_file()]


def sources() -> list[Path]:
    return [
        path for path in tracked("*.py") if "migrations" not in path.parts and path.parts[len(ROOT.parts)] != "tests"
    ]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def is_module(name: str) -> bool:
    place = ROOT.joinpath(*name.split("."))
    return place.with_suffix(".py").exists() or place.is_dir()


@cache
def imports() -> list[Import]:
    found = []
    for path in sources():
        tree = ast.parse(path.read_text(), filename=str(path))
        found += _imports_of(path, tree)
    return found


def _imports_of(path: Path, tree: ast.AST) -> list[Import]:
    found: list[Import] = []
    module = module_of(path)

    def visit(node: ast.AST, is_top: bool, is_typing: bool) -> None:
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            targets = _targets(node, path)
        else:
            targets = []
        found.extend(Import(path, node.lineno, module, target, is_top, is_typing) for target in targets)
        is_typing = is_typing or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        inner = is_top and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for child in ast.iter_child_nodes(node):
            visit(child, inner, is_typing)

    visit(tree, True, False)
    return found


def _targets(node: ast.ImportFrom, path: Path) -> list[str]:
    """`from jobs import services` names the module jobs.services; `from jobs.models import Job` names jobs.models."""
    base = node.module or ""
    if node.level:
        package = module_of(path).split(".")
        package = package if path.name == "__init__.py" else package[:-1]
        base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
    return [f"{base}.{alias.name}" if is_module(f"{base}.{alias.name}") else base for alias in node.names]


def within(module: str, rooms: list[str]) -> str | None:
    """The most particular of the rooms that holds the module."""
    holding = [room for room in rooms if module == room or module.startswith(f"{room}.")]
    return max(holding, key=len, default=None)


def is_ours(target: str) -> bool:
    return target.split(".")[0] in {"rftstudio", "datasets", "graders", "jobs", "tests"}


@cache
def imports_by_module() -> dict[str, list[Import]]:
    found: dict[str, list[Import]] = {}
    for one in imports():
        if not one.is_typing and not (one.target == "datasets" and within(one.module, [OTHER_DATASETS])):
            found.setdefault(one.module, []).append(one)
    return found


def heaviest(module: str) -> list[Import] | None:
    """The chain of imports by which the module reaches Django or rftstudio; None when it is portable."""
    waiting: list[tuple[str, list[Import]]] = [(module, [])]
    seen = {module}
    while waiting:
        name, chain = waiting.pop()
        for one in imports_by_module().get(name, []):
            step = [*chain, one]
            is_house = one.target.split(".")[0] == "rftstudio" and not within(one.target, [*PORTABLE_MAY, *ANYONES])
            if one.target.split(".")[0] in FRAMEWORK or is_house:
                return step
            if is_ours(one.target) and one.target not in seen and not within(one.target, PORTABLE_MAY):
                seen.add(one.target)
                waiting.append((one.target, step))
    return None


def climbs(one: Import) -> str | None:
    """Why the import goes the wrong way, or None."""
    if not is_ours(one.target) or within(one.target, ANYONES) or one.target == "rftstudio":
        return None
    if one.target == "datasets" and within(one.module, [OTHER_DATASETS]):
        return None
    if within(one.target, ["tests"]):
        return "the product does not use its tests"
    if within(one.module, [*FLOORS, *ROOF, *SCRIPTS]) in [*ROOF, *SCRIPTS]:
        return None
    here, there = within(one.module, FLOORS), within(one.target, FLOORS)
    if there is None:
        return f"{one.target} is the roof"
    if here is None:
        return f"{one.module} stands in no room of the plan"
    if here == there:
        return None
    if FLOORS.index(there) > FLOORS.index(here):
        return f"{there} lies above {here}"
    inside = one.target.removeprefix(there).lstrip(".").split(".")[0]
    doors = DOORS | MORE_DOORS.get(there, set())
    if there in OPEN_ROOMS or inside in doors or within(one.target, PORTABLE) or heaviest(one.target) is None:
        return None
    return f"{here} may use only {', '.join(sorted(DOORS))} and portable modules of {there}"


def report(lines: list[str]) -> str:
    return "\n" + "\n".join(lines)


def test_arrows_point_down():
    wrong = [f"{one}: {why}" for one in imports() if (why := climbs(one))]
    assert not wrong, report(wrong)


def test_portable_rooms_carry_no_django_and_nothing_of_rftstudio():
    modules = sorted({one.module for one in imports() if within(one.module, PORTABLE)})
    wrong = [" → ".join(map(str, chain)) for module in modules if (chain := heaviest(module))]
    assert not wrong, report(wrong)


def test_web_and_workers_load_no_training_library():
    wrong = [
        f"{one}: only the trainer and the local model server load it"
        for one in imports()
        if one.is_top and not one.is_typing and one.target.split(".")[0] in HEAVY and not within(one.module, HEAVY_MAY)
    ]
    assert not wrong, report(wrong)


def test_openai_is_imported_where_it_is_used():
    """Its import takes more than a second, so it stays inside functions."""
    wrong = [str(one) for one in imports() if one.is_top and not one.is_typing and one.target.split(".")[0] == "openai"]
    assert not wrong, report(wrong)


def test_package_files_are_empty():
    full = [
        str(path.relative_to(ROOT))
        for path in tracked("*__init__.py")
        if path.relative_to(ROOT) != Path("rftstudio/__init__.py") and path.read_text().strip()
    ]
    assert not full, report(full)


def test_no_app_has_signals():
    named = [str(path.relative_to(ROOT)) for path in sources() if path.name in {"signals.py", "receivers.py"}]
    used = [str(one) for one in imports() if one.target.startswith("django.db.models.signals")]
    assert not named + used, report(named + used)


# Written in pieces, so that this file does not name them either.
MACHINE_PATHS = re.compile(r"(?<![\w.])(?:/" + r"work/|/Users/\w+/|/roo" + r"t/)|\.\./" + r"shared\b")
REGISTRIES = re.compile(
    "|".join(
        r"\.".join(parts)
        for parts in (
            ("py" + "pi", "org"),
            ("python" + "hosted", "org"),
            ("registry", "npmjs"),
            ("deb", "debian", "org"),
        )
    ),
    re.I,
)
TEXT = {
    ".py",
    ".md",
    ".txt",
    ".in",
    ".toml",
    ".yaml",
    ".yml",
    ".html",
    ".css",
    ".js",
    ".json",
    ".sh",
    ".env",
    ".Dockerfile",
    "",
}


def test_no_file_names_a_machine_or_a_registry():
    wrong = []
    for path in tracked():
        if path.suffix not in TEXT or "vendor" in path.parts or path == Path(__file__):
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for pattern in (MACHINE_PATHS, REGISTRIES):
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                wrong.append(f"{path.relative_to(ROOT)}:{line} names {match.group()!r}")
    assert not wrong, report(wrong)


@pytest.mark.parametrize(
    ("module", "target", "expected"),
    [
        ("graders.services", "jobs.models", "jobs lies above graders"),
        ("jobs.rollouts.services", "jobs.services", "jobs lies above jobs.rollouts"),
        ("jobs.services", "jobs.rollouts.services", None),
        ("rftstudio.teams.services", "datasets.models", "datasets lies above rftstudio.teams"),
        ("jobs.rollouts.engine.loop", "graders.types", None),
        ("jobs.rollouts.engine.loop", "graders.grading", None),
        ("datasets.views", "rftstudio.teams.views_helpers", None),
        ("datasets.views", "rftstudio.api.errors", "rftstudio.api.errors is the roof"),
        ("jobs.services", "rftstudio.ops.processes", None),
        ("jobs.services", "rftstudio.ops.supervisor", "rftstudio.ops.supervisor is the roof"),
        ("rftstudio.api.models_door", "jobs.agents.models", None),
        ("datasets.services", "tests.factories", "does not use its tests"),
    ],
)
def test_climbs_knows_up_from_down(module, target, expected):
    why = climbs(Import(ROOT / "x.py", 1, module, target, True, False))
    assert (why is None) if expected is None else (why is not None and expected in why)


def test_portable_names_are_in_the_plan():
    """A portable module that moved away would otherwise go unguarded; ones not built yet may be absent."""
    for room in [*PORTABLE, *ANYONES]:
        assert within(room, [*FLOORS, *ROOF]), room
