"""python: a team's own `grade(sample, item)`, run in the sandbox. `grade_steps` beside it gives a mark to every step."""

import ast
from collections.abc import Iterator
from typing import Any

from graders import sandbox
from graders.failures import SandboxUnavailable, Ungraded
from graders.kinds.base import Config, Field, Kind, Scorer, Workshop
from graders.sandbox_modules import ROOTS
from graders.sandbox_process import PythonFailed, PythonLimits
from graders.types import Grade, Problem, Sample

MAX_SOURCE = 256 * 1024
MAX_SECONDS = 120.0
STARTER = '''def grade(sample, item):
    """Return a number, best between 0 and 1."""
    answer = sample["output_text"].strip()
    return 1.0 if answer == item["reference_answer"] else 0.0
'''


def compile_python(config: Config, workshop: Workshop) -> Scorer:
    source = config["source"]
    clients = workshop.clients
    pool = clients.sandbox or sandbox.shared()
    seconds = min(float(config.get("timeout_seconds") or clients.python.seconds), MAX_SECONDS)
    limits = PythonLimits(seconds, clients.python.memory_bytes, clients.python.cpu_seconds)
    workshop.closers.append(lambda: pool.forget(clients.owner, source))

    def score(item: dict[str, Any], sample: Sample, trace_id: str) -> float | Grade:
        try:
            answer = pool.run(clients.owner, source, sample.as_dict(), item, limits)
        except PythonFailed as exc:
            details = exc.trace or exc.details
            text = exc.details + (f" (line {exc.line})" if exc.line else "")
            raise Ungraded("python_grader_runtime_error", text, python_grader_runtime_error_details=details) from exc
        except SandboxUnavailable as exc:
            raise Ungraded(
                "python_grader_server_error", str(exc), python_grader_server_error_type="sandbox_unavailable"
            ) from exc
        if answer.steps or answer.output:
            printed = f"Printed: {answer.output.strip()}" if answer.output.strip() else ""
            return Grade(answer.value, details=printed, step_rewards=answer.steps)
        return answer.value

    return score


def _problems(config: Config, path: str) -> Iterator[Problem]:
    source = config.get("source")
    if not isinstance(source, str):
        return
    where = f"{path}source"
    if len(source.encode("utf-8", "surrogatepass")) >= MAX_SOURCE:
        yield Problem(where, "source_too_long", "The source is longer than 256 kB.", "Move data into the items.")
        return
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        text = f"Line {error.lineno}, column {error.offset}: {error.msg}."
        yield Problem(where, "source_syntax", text, "Python cannot read this line.")
        return
    except (ValueError, RecursionError, MemoryError):
        yield Problem(where, "source_syntax", "Python cannot read this source.", "Remove NUL bytes and deep nesting.")
        return
    yield from _function_problems(tree, where)
    yield from _import_problems(tree, where)


def _function_problems(tree: ast.Module, where: str) -> Iterator[Problem]:
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "grade"]
    assigned = any(
        isinstance(target, ast.Name) and target.id == "grade"
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
    )
    if not found:
        anywhere = assigned or any(
            isinstance(n, ast.ImportFrom | ast.FunctionDef) and _names_grade(n) for n in ast.walk(tree)
        )
        if not anywhere:
            yield Problem(
                where,
                "source_no_grade",
                "The source defines no function grade(sample, item).",
                "Add: def grade(sample, item): …",
            )
        return
    arguments = found[-1].args
    positional = len(arguments.posonlyargs) + len(arguments.args)
    required = positional - len(arguments.defaults)
    accepts_two = required <= 2 and (positional >= 2 or arguments.vararg)
    needs_more = any(default is None for default in arguments.kw_defaults)
    if not accepts_two or needs_more:
        yield Problem(
            where,
            "source_signature",
            f"Line {found[-1].lineno}: grade must take two arguments, sample and item.",
            "Write def grade(sample, item):",
        )


def _names_grade(node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef):
        return node.name == "grade"
    return any(alias.name == "*" or (alias.asname or alias.name) == "grade" for alias in getattr(node, "names", []))


def _import_problems(tree: ast.Module, where: str) -> Iterator[Problem]:
    seen: set[str] = set()
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        for name in names:
            root = name.partition(".")[0]
            if root in ROOTS or root in seen or root == "__future__":
                continue
            seen.add(root)
            yield Problem(
                where,
                "source_import",
                f"Line {node.lineno}: module {root} is not available in graders.",
                "Graders have no files, processes or network; docs/graders.md lists the modules.",
                "warning",
            )


KIND = Kind(
    type="python",
    title="Python",
    about="Your own function grade(sample, item), run confined: no files, no network.",
    fields=(
        Field("source", "source", "Source", "Defines grade(sample, item) and returns a number.", True, STARTER),
        Field(
            "timeout_seconds", "number", "Time limit, seconds", "One call may take this long; 30 if empty.",
            minimum=0.05, maximum=MAX_SECONDS,
        ),
        Field("image_tag", "text", "Image tag", "Kept for hosted services; not used here."),
    ),
    compile=compile_python,
    sentence=lambda c: f"Python, {len(str(c.get('source', '')).splitlines())} lines, confined",
    problems=_problems,
    icon="code",
)  # fmt: skip
