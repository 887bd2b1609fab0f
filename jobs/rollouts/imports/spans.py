"""Spans of any tracer to one rollout: a tree is checked, model spans become steps, tool spans their results.

Tokens are counted once: a span that only repeats what its children used adds nothing.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.rollouts.engine.types import StepRecord, ToolCallRecord
from jobs.rollouts.imports.messages import call_record
from jobs.rollouts.imports.reading import Moment, text_of
from jobs.rollouts.imports.types import ImportedRollout


@dataclass
class Span:
    """One span. `kind` is "model", "tool" or "other"."""

    id: str
    parent: str = ""
    name: str = ""
    kind: str = "other"
    start: Moment | None = None
    end: Moment | None = None
    input: Any = None
    output: Any = None
    text: str = ""  # what the model wrote
    calls: list[dict[str, Any]] = field(default_factory=list)  # what the model called
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    error: str = ""
    place: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


def add_spans(rollout: ImportedRollout, spans: Sequence[Span]) -> None:
    """Steps, sums and flags of one trace."""
    for place, span in enumerate(spans):
        span.place = place
    spans = _own_ids(rollout, spans)
    children = _tree(rollout, spans)
    _check_times(rollout, spans)
    ordered = sorted(spans, key=lambda span: (span.start.seconds if span.start else float("inf"), span.place))
    if any(span.start for span in spans) and not all(span.start for span in spans):
        ordered = list(spans)
    _add_steps(rollout, ordered, children)
    counted = _counted_once(spans, children)
    if not rollout.steps or rollout.input_tokens is None:
        rollout.input_tokens = sum(span.input_tokens for span in counted)
        rollout.output_tokens = sum(span.output_tokens for span in counted)
    cost = sum(span.cost for span in counted)
    rollout.cost_usd = cost or None
    starts = [span.start.seconds for span in spans if span.start]
    ends = [span.end.seconds for span in spans if span.end]
    if starts:
        rollout.started_at = min(starts)
        if ends and max(ends) >= min(starts):
            rollout.seconds = max(ends) - min(starts)
    rollout.extra["spans"] = [_kept(span) for span in ordered]


def _own_ids(rollout: ImportedRollout, spans: Sequence[Span]) -> list[Span]:
    """Doubled ids: the second span stays, under an id of its own."""
    seen: Counter[str] = Counter()
    for span in spans:
        seen[span.id] += 1
        if span.id and seen[span.id] > 1:
            rollout.flag("duplicate_span_id", f"span {span.id}", "The id occurs twice; both spans are shown.")
            span.id = f"{span.id}#{seen[span.id]}"
        elif not span.id:
            span.id = f"span-{span.place + 1}"
    return list(spans)


def _tree(rollout: ImportedRollout, spans: Sequence[Span]) -> dict[str, list[Span]]:
    """Children by parent. Orphans and cycles become roots, with a note."""
    known = {span.id: span for span in spans}
    for span in spans:
        if span.parent and span.parent not in known:
            rollout.flag(
                "orphan_span", f"span {span.id}", f"Its parent {span.parent} is not in the file; shown at the root."
            )
            span.parent = ""
    for span in spans:
        path, here = [span.id], span
        while here.parent:
            if here.parent in path:
                loop = path[path.index(here.parent) :]
                names = " → ".join([*loop, here.parent])
                rollout.flag(
                    "span_cycle", f"span {here.id}", f"Spans are each other's parent ({names}); shown at the root."
                )
                for member in loop:
                    known[member].parent = ""
                break
            here = known[here.parent]
            path.append(here.id)
    children: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        children[span.parent].append(span)
    return children


def _check_times(rollout: ImportedRollout, spans: Sequence[Span]) -> None:
    for span in spans:
        where = f"span {span.id}"
        if span.start and span.end and span.end.seconds < span.start.seconds:
            rollout.flag("end_before_start", where, "It ends before it starts; its duration is left empty.")
            span.end = None
        elif span.start and span.end is None:
            rollout.flag("no_end", where, "It has no end; its duration is left empty.")
        if (span.start and span.start.zone_missing) or (span.end and span.end.zone_missing):
            rollout.flag("no_time_zone", where, "Its time has no zone and was read as UTC.")


def _milliseconds(span: Span) -> float | None:
    return (span.end.seconds - span.start.seconds) * 1000 if span.start and span.end else None


def _add_steps(rollout: ImportedRollout, ordered: Sequence[Span], children: dict[str, list[Span]]) -> None:
    """Model spans are steps; tool spans fill their calls; a trace of neither shows every span as a step."""
    telling = [span for span in ordered if span.kind in ("model", "tool")]
    for span in telling or ordered:
        if span.kind == "model":
            _model_step(rollout, span)
        elif span.kind == "tool":
            _tool_result(rollout, span)
        else:
            _step(rollout, span, text=span.text or span.name)
    for step in rollout.steps:
        for call in step.tool_calls:
            if hasattr(call, "_open"):
                if call._open:
                    call.notes.append("No result in the file.")
                    rollout.flag("call_without_result", f"step {step.index + 1}, {call.name}", "No result in the file.")
                del call._open
    last = rollout.steps[-1] if rollout.steps else None
    if last is not None and not last.tool_calls and not rollout.answer:
        rollout.answer = last.text


def _step(
    rollout: ImportedRollout, span: Span, *, text: str = "", calls: list[ToolCallRecord] | None = None
) -> StepRecord:
    step = StepRecord(
        index=len(rollout.steps),
        text=text,
        tool_calls=calls or [],
        input_tokens=span.input_tokens,
        output_tokens=span.output_tokens,
        started_at=span.start.seconds if span.start else None,
        milliseconds=_milliseconds(span),
    )
    rollout.steps.append(step)
    return step


def _model_step(rollout: ImportedRollout, span: Span) -> None:
    seen: set[str] = set()
    made = []
    for count, call in enumerate(span.calls, start=1):
        record, notes = call_record(call, seen, f"{span.id}-{count}")
        for code, words in notes:
            record.notes.append(words)
            rollout.flag(code, f"span {span.id}, call {count}", words)
        made.append(record)
    _step(rollout, span, text=span.text, calls=made)


def _tool_result(rollout: ImportedRollout, span: Span) -> None:
    """Fill the waiting call of that name, the latest turn first; else the tool span is a step of its own."""
    name = span.name.removeprefix("functions.")
    for step in reversed(rollout.steps):
        for call in step.tool_calls:
            if getattr(call, "_open", False) and call.name == name:
                call.result, call._open = text_of(span.output), False
                call.is_error = bool(span.error)
                call.milliseconds = _milliseconds(span) or 0.0
                if span.error and not call.result:
                    call.result = span.error
                return
    arguments = span.input if isinstance(span.input, str) else json.dumps(span.input or {}, ensure_ascii=False)
    call = ToolCallRecord(
        id=span.id,
        name=name,
        arguments=arguments,
        result=text_of(span.output) or span.error,
        is_error=bool(span.error),
        milliseconds=_milliseconds(span) or 0.0,
    )
    _step(rollout, span, calls=[call])


def _counted_once(spans: Sequence[Span], children: dict[str, list[Span]]) -> list[Span]:
    """Spans whose tokens count: those without a counting span below them."""
    below: dict[str, bool] = {}

    def counts_below(span: Span) -> bool:
        stack, found = [*children.get(span.id, [])], False
        while stack and not found:
            child = stack.pop()
            found = bool(child.tokens) or below.get(child.id, False)
            stack += children.get(child.id, [])
        below[span.id] = found
        return found

    return [span for span in spans if (span.tokens or span.cost) and not counts_below(span)]


def _kept(span: Span) -> dict[str, Any]:
    """The span for the tree on the page, without its texts."""
    return {
        "id": span.id,
        "parent": span.parent,
        "name": span.name,
        "kind": span.kind,
        "start": span.start.seconds if span.start else None,
        "milliseconds": _milliseconds(span),
        "tokens": span.tokens,
    }
