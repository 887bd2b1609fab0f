"""JSON as foldable HTML. Objects over five keys start folded, long texts are cut, and nothing above a megabyte is drawn."""

import json
from html import escape
from typing import Any

FOLD_OVER = 5
CUT_TEXT = 2_000
MAX_BYTES = 1_000_000
DEEPEST = 40  # what lies below is shown as its text: each level costs the drawing five calls


def too_large(value: Any) -> bool:
    return len(json.dumps(value, ensure_ascii=False, default=str)) > MAX_BYTES


def tree(value: Any, *, depth: int = 0) -> str:
    """Safe HTML of any JSON value; the outermost object or list stands open without a handle."""
    if isinstance(value, dict | list) and value:
        return _children(value, depth)
    return _node("", value, depth)


def _node(name: str, value: Any, depth: int) -> str:
    key = f"<span>{escape(name)}: </span>" if name else ""
    if isinstance(value, dict | list) and value:
        return (
            _branch(key, value, depth) if depth < DEEPEST else f'<div class="leaf">{key}{_leaf(_as_text(value))}</div>'
        )
    return f'<div class="leaf">{key}{_leaf(value)}</div>'


def _as_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _branch(key: str, value: dict | list, depth: int) -> str:
    is_dict, count = isinstance(value, dict), len(value)
    noun = ("key" if is_dict else "entry") if count == 1 else ("keys" if is_dict else "entries")
    brackets = "{}" if is_dict else "[]"
    is_open = " open" if count <= FOLD_OVER and depth < 4 else ""
    fold = f'<span class="fold">{brackets[0]} {count} {noun} {brackets[1]}</span>'
    return f"<details{is_open}><summary>{key}{fold}</summary><div>{_children(value, depth)}</div></details>"


def _children(value: dict | list, depth: int) -> str:
    pairs = value.items() if isinstance(value, dict) else (("", entry) for entry in value)
    return "".join(_node(str(name), item, depth + 1) for name, item in pairs)


def _leaf(value: Any) -> str:
    if isinstance(value, str):
        if len(value) > CUT_TEXT:
            size = f"{len(value.encode()) / 1000:.0f} kB"
            return (
                f'<span class="string">"{escape(value[:CUT_TEXT])}…</span>'
                f"<details><summary>show all {size}</summary>"
                f'<div class="string">{escape(value)}</div></details>'
            )
        return f'<span class="string">"{escape(value)}"</span>'
    text = json.dumps(value, default=str)
    return f'<span class="number">{escape(text)}</span>'
