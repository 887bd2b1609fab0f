"""Columns to messages, for files that have no `messages`. Portable.

A mapping is `{"prompt": column, "reference": column, "developer": column, "id": column, "split": column}`; only
`prompt` is needed. Columns that are not mapped stay as free fields.
"""

from typing import Any

from datasets.formats.strict_json import dumps

TARGETS = ("prompt", "reference", "developer", "id", "split")
USUAL_PROMPTS = ("prompt", "question", "input")
USUAL_REFERENCES = ("reference_answer", "reference", "answer", "target", "output")


class UnknownColumn(Exception):
    """A mapping names a column that the rows do not have."""


def parse_mapping(text: str) -> dict[str, str]:
    """`prompt=COL,reference=COL` → dict. ValueError says which part is wrong."""
    mapping: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        target, equals, column = part.partition("=")
        target = target.strip()
        if target not in TARGETS or not equals or not column.strip():
            raise ValueError(f"{part!r} is not one of {', '.join(f'{name}=COLUMN' for name in TARGETS)}")
        mapping[target] = column.strip()
    if mapping and "prompt" not in mapping:
        raise ValueError("name the column of the question with prompt=COLUMN")
    return mapping


def usual_mapping(columns: list[str]) -> dict[str, str]:
    """The mapping that a table's column names suggest; empty when they suggest none or have messages."""
    if "messages" in columns:
        return {}
    prompt = next((name for name in USUAL_PROMPTS if name in columns), "")
    if not prompt:
        return {}
    reference = next((name for name in USUAL_REFERENCES if name in columns), "")
    return {"prompt": prompt} | ({"reference": reference} if reference else {})


def apply_mapping(value: dict[str, Any], mapping: dict[str, str]) -> dict[str, Any] | None:
    """The row as it will become, or None when the question is missing or blank."""
    prompt = value.get(mapping["prompt"])
    if prompt is None or (isinstance(prompt, str) and not prompt.strip()):
        return None
    used = set(mapping.values())
    messages = [{"role": "user", "content": prompt if isinstance(prompt, str) else dumps(prompt)}]
    developer = value.get(mapping.get("developer", ""))
    if isinstance(developer, str) and developer:
        messages.insert(0, {"role": "developer", "content": developer})
    made: dict[str, Any] = {}
    for target in ("id", "split"):
        if mapping.get(target) in value:
            made[target] = value[mapping[target]]
    made["messages"] = messages
    if mapping.get("reference") in value:
        made["reference_answer"] = value[mapping["reference"]]
    for name, cell in value.items():
        if name not in used and name not in made:
            made[name] = cell
    return made
