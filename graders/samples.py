"""Samples from plain data: rows of a file, typed answers. Portable."""

import json
from dataclasses import fields
from typing import Any

from graders.types import Sample

_KEYS = {field.name for field in fields(Sample)}
_LISTS = ("output_tools", "choices", "steps")


def sample_from(data: Any) -> Sample:
    """A sample from its dict, or from the answer's text alone. Where `output_json` is not said, the text is parsed."""
    if isinstance(data, str):
        data = {"output_text": data}
    if not isinstance(data, dict):
        data = {}
    known = {key: value for key, value in data.items() if key in _KEYS}
    text = known.get("output_text")
    known["output_text"] = text if isinstance(text, str) else _text_of(data)
    for key in _LISTS:
        known[key] = known[key] if isinstance(known.get(key), list) else []
    known["usage"] = known["usage"] if isinstance(known.get("usage"), dict) else {}
    if "output_json" not in known:
        known["output_json"] = parsed(known["output_text"])
    return Sample(**known)


def parsed(text: str) -> Any:
    """The text as JSON, None when it is none."""
    try:
        return json.loads(text) if text.strip() else None
    except (ValueError, RecursionError):
        return None


def _text_of(data: dict[str, Any]) -> str:
    try:
        content = data["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        return ""
    return content if isinstance(content, str) else ""
