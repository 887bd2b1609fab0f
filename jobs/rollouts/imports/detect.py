"""Which format a file is, and its rollouts. Portable: standard library only."""

from collections.abc import Callable
from typing import Any

from jobs.rollouts.imports import atif, chat, events, inspect_log, langfuse, local_trace, otlp, span_export
from jobs.rollouts.imports.chat import prompt_key
from jobs.rollouts.imports.reading import Document, Source, read_source
from jobs.rollouts.imports.types import Imported, Unreadable

#: Most telling shape first.
FORMATS: dict[str, tuple[Callable[[Any], bool], Callable[[list[Document]], Imported]]] = {
    "otlp": (otlp.is_mine, otlp.read),
    "span_export": (span_export.is_mine, span_export.read),
    "langfuse": (langfuse.is_mine, langfuse.read),
    "inspect": (inspect_log.is_mine, inspect_log.read),
    "atif": (atif.is_mine, atif.read),
    "local_trace": (local_trace.is_mine, local_trace.read),
    "step_rows": (chat.is_step_rows, chat.read_step_rows),
    "chat": (chat.is_mine, chat.read),
    "spans": (events.is_spans, events.read_spans),
    "steps": (events.is_steps, events.read_steps),
    "calls": (events.is_calls, events.read_calls),
    "events": (events.is_events, events.read_events),
    "bare_calls": (events.is_bare_call, events.read_bare_calls),
}


def read_rollouts(content: bytes, *, format: str = "auto") -> Imported:
    """All rollouts of a file, with every oddity flagged. Raises Unreadable with what the file is instead."""
    source = read_source(content)
    if source.binary:
        found = otlp.read_protobuf(source.binary)
    else:
        name = _name(source, format)
        rows = [document for document in source.documents if isinstance(document.value, dict)]
        found = FORMATS[name][1](rows)
    found.flags = source.flags + found.flags
    for rollout in found.rollouts:
        if not rollout.group:
            rollout.group = prompt_key(rollout.prompt) if rollout.prompt else rollout.key
    if not found.rollouts:
        raise Unreadable("The file holds no rollout.")
    return found


def _name(source: Source, wanted: str) -> str:
    if wanted != "auto":
        if wanted not in FORMATS:
            raise Unreadable(f"There is no format named {wanted}. Use one of auto, {', '.join(FORMATS)}.")
        return wanted
    for document in source.documents[:20]:
        for name, (is_mine, _) in FORMATS.items():
            if is_mine(document.value):
                return name
    keys = ", ".join(sorted(source.first)[:8]) if isinstance(source.first, dict) else type(source.first).__name__
    raise Unreadable(f"No known trace format: the first record has {keys}. Name it with --format.")
