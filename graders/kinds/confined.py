"""regex and json_schema: checks whose patterns could run for ever, so they run in the Python sandbox."""

import json
import re
from collections.abc import Iterator
from typing import Any

from graders.failures import Ungraded
from graders.kinds.base import INPUT, Config, Field, Kind, Scorer, Workshop, in_words
from graders.kinds.python import compile_python
from graders.types import Grade, Problem, Sample

SECONDS = 5
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
_REGEX_SOURCE = """
import re
PATTERN = re.compile({pattern}, {flags})

def grade(sample, item):
    return 1.0 if PATTERN.{how}(item["text"]) else 0.0
"""
_SCHEMA_SOURCE = """
import json
import jsonschema
SCHEMA = json.loads({schema})
VALIDATOR = jsonschema.validators.validator_for(SCHEMA, jsonschema.Draft202012Validator)(SCHEMA)

def grade(sample, item):
    errors = list(VALIDATOR.iter_errors(json.loads(item["text"])))
    for error in errors[:3]:
        print(error.json_path, error.message[:160])
    return 0.0 if errors else 1.0
"""


def _confined(source: str, workshop: Workshop) -> Scorer:
    return compile_python({"source": source, "timeout_seconds": SECONDS}, workshop)


def compile_regex(config: Config, workshop: Workshop) -> Scorer:
    given = workshop.template(config["input"]).render
    how = "fullmatch" if config.get("whole") else "search"
    source = _REGEX_SOURCE.format(pattern=repr(config["pattern"]), flags=_flags(config.get("flags")), how=how)
    inner = _confined(source, workshop)
    negated = bool(config.get("negate"))

    def score(item: dict[str, Any], sample: Sample, trace_id: str) -> float:
        found = _as_other_error(inner, given(item, sample), trace_id)
        return 1.0 - found.reward if negated else found.reward

    return score


def _as_other_error(inner: Scorer, text: str, trace_id: str) -> Grade:
    """The author of a pattern wrote no Python, so a time-out is told in other words."""
    try:
        grade = inner({"text": text}, Sample(), trace_id)
    except Ungraded as failure:
        if failure.flag != "python_grader_runtime_error":
            raise
        if "TimeoutError" in failure.details:
            raise Ungraded("other_error", f"The check took longer than {SECONDS} s on this answer.") from failure
        raise Ungraded("other_error", f"The check failed: {failure.details}") from failure
    return grade if isinstance(grade, Grade) else Grade(grade)


def _flags(flags: Any) -> int:
    return int(sum(_FLAGS[letter] for letter in set(flags or "") if letter in _FLAGS))


def _regex_problems(config: Config, path: str) -> Iterator[Problem]:
    if unknown := set(str(config.get("flags") or "")) - set(_FLAGS):
        yield Problem(f"{path}flags", "regex_flags", f"Unknown flags: {', '.join(sorted(unknown))}.", "Use i, m, s, x.")
    if not isinstance(config.get("pattern"), str):
        return
    try:
        re.compile(config["pattern"], _flags(config.get("flags")))
    except (re.error, RecursionError, OverflowError) as error:
        yield Problem(f"{path}pattern", "regex_syntax", f"The pattern cannot be read: {error}.", "Check the brackets.")


def compile_json_schema(config: Config, workshop: Workshop) -> Scorer:
    given = workshop.template(config["input"]).render
    schema = config["schema"]
    schema = schema.get("schema", schema) if "json_schema" not in schema else schema["json_schema"].get("schema", {})
    inner = _confined(_SCHEMA_SOURCE.format(schema=repr(json.dumps(schema))), workshop)

    def score(item: dict[str, Any], sample: Sample, trace_id: str) -> Grade:
        text = given(item, sample)
        try:
            json.loads(text)
        except (ValueError, RecursionError) as error:
            return Grade(0.0, details=f"The answer is not JSON: {error}.")
        found = _as_other_error(inner, text, trace_id)
        return Grade(found.reward, details=found.details.removeprefix("Printed: "))

    return score


def _schema_problems(config: Config, path: str) -> Iterator[Problem]:
    schema = config.get("schema")
    if not isinstance(schema, dict):
        return
    import jsonschema

    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        yield Problem(f"{path}schema", "schema_invalid", f"{error.json_path}: {error.message}", "Correct the schema.")
    except RecursionError:
        yield Problem(f"{path}schema", "schema_invalid", "The schema is nested too deeply.", "Make it flatter.")


REGEX = Kind(
    type="regex",
    title="Pattern",
    about="1 when a regular expression is found in the answer.",
    fields=(
        INPUT,
        Field("pattern", "text", "Pattern", "A Python regular expression.", True),
        Field("flags", "text", "Flags", "i ignores case, m lines, s lets the dot match line ends, x allows comments."),
        Field("whole", "flag", "Whole answer", "The pattern must match the whole answer.", default=False),
        Field("negate", "flag", "Must not match", "", default=False),
    ),
    compile=compile_regex,
    sentence=lambda c: (
        f"{in_words(c.get('input'))} {'does not match' if c.get('negate') else 'matches'} {c.get('pattern', '…')}"
    ),
    problems=_regex_problems,
    icon="code",
    is_ours=True,
)
JSON_SCHEMA = Kind(
    type="json_schema",
    title="JSON shape",
    about="1 when the answer is JSON that follows a schema.",
    fields=(INPUT, Field("schema", "object", "Schema", "A JSON Schema; a response format is accepted too.", True)),
    compile=compile_json_schema,
    sentence=lambda c: f"{in_words(c.get('input'))} follows the schema",
    problems=_schema_problems,
    icon="code",
    is_ours=True,
)
