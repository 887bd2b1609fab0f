"""Langfuse trace exports: one trace with its observations is one rollout."""

import json
from typing import Any

from jobs.rollouts.imports.messages import title_of
from jobs.rollouts.imports.reading import Document, moment, number, text_of, whole
from jobs.rollouts.imports.spans import Span, add_spans
from jobs.rollouts.imports.types import Imported, ImportedRollout


def is_mine(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    inner = value.get("trace")
    listed = value.get("observations") or (inner.get("observations") if isinstance(inner, dict) else None)
    return isinstance(listed, list) and all(isinstance(o, dict) and "type" in o for o in listed)


def read(documents: list[Document]) -> Imported:
    return Imported("langfuse", [_rollout(document.value) for document in documents])


def _rollout(value: dict[str, Any]) -> ImportedRollout:
    trace = value["trace"] if isinstance(value.get("trace"), dict) else value
    listed = value.get("observations") or trace.get("observations") or []
    rollout = ImportedRollout(
        key=str(trace.get("id") or "trace"),
        trace_id=str(trace.get("id") or ""),
        group=str(trace.get("sessionId") or ""),
    )
    scores = [s for s in (trace.get("scores") or value.get("scores") or []) if isinstance(s, dict)]
    rollout.sub_rewards = {str(s.get("name")): number(s.get("value")) for s in scores}
    if "reward" in rollout.sub_rewards:
        rollout.reward = rollout.sub_rewards.pop("reward")
    spans = [_span(o) for o in listed]
    for span in sorted(spans, key=lambda s: s.start.seconds if s.start else 0.0):
        if span.kind == "model" and not rollout.prompt:
            rollout.prompt = _prompt(span.input)
    rollout.policy = next((str(o["model"]) for o in listed if o.get("model")), "")
    add_spans(rollout, spans)
    rollout.title = title_of(rollout.prompt) or str(trace.get("name") or "")
    rollout.calls = sum(len(step.tool_calls) for step in rollout.steps)
    return rollout


def _value(value: Any) -> Any:
    """Inputs and outputs are JSON in a string, sometimes twice."""
    for _ in range(2):
        if not isinstance(value, str):
            return value
        try:
            value = json.loads(value)
        except ValueError:
            return value
    return value


def _span(row: dict[str, Any]) -> Span:
    usage = row.get("usageDetails") if isinstance(row.get("usageDetails"), dict) else {}
    cost = row.get("costDetails") if isinstance(row.get("costDetails"), dict) else {}
    given, made = _value(row.get("input")), _value(row.get("output"))
    kind = {"GENERATION": "model", "TOOL": "tool"}.get(str(row.get("type")), "other")
    if kind == "other" and isinstance(made, dict) and made.get("type") == "tool" and "content" in made:
        kind = "tool"  # LangGraph marks tools only in what they return
    span = Span(
        id=str(row.get("id") or ""),
        parent=str(row.get("parentObservationId") or ""),
        name=str(row.get("name") or row.get("type") or "span"),
        kind=kind,
        start=moment(row.get("startTime")),
        end=moment(row.get("endTime")),
        input=given,
        output=made["content"] if kind == "tool" and isinstance(made, dict) and "content" in made else made,
        input_tokens=whole(usage.get("input")),
        output_tokens=whole(usage.get("output")),
        cost=number(cost.get("total")) or 0.0,
        error=str(row.get("statusMessage") or "An error.") if row.get("level") == "ERROR" else "",
    )
    if not span.tokens:
        span.input_tokens = whole(usage.get("total"))
    if kind == "model":
        _answer(span, made)
    return span


def _answer(span: Span, output: Any) -> None:
    """Text and calls out of a chat message, a Responses object, or a list of either."""
    if isinstance(output, str):
        span.text = output
        return
    entries = output if isinstance(output, list) else [output]
    if isinstance(output, dict) and isinstance(output.get("output"), list):
        entries = output["output"]
    if isinstance(output, dict) and isinstance(output.get("choices"), list):
        entries = [c.get("message") for c in output["choices"] if isinstance(c, dict)]
    texts = []
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        if entry.get("type") == "function_call":
            span.calls.append(
                {"id": entry.get("call_id"), "name": entry.get("name"), "arguments": entry.get("arguments")}
            )
            continue
        extra = entry.get("additional_kwargs") if isinstance(entry.get("additional_kwargs"), dict) else {}
        span.calls += [c for c in entry.get("tool_calls") or extra.get("tool_calls") or [] if isinstance(c, dict)]
        texts.append(text_of(entry.get("content") or entry.get("text") or ""))
    span.text = "\n".join(text for text in texts if text)


def _prompt(value: Any) -> list[dict[str, Any]]:
    value = _value(value)
    messages = value.get("messages") if isinstance(value, dict) else value
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    return [
        {"role": str(m.get("role") or "user"), "content": text_of(m.get("content"))}
        for m in messages or []
        if isinstance(m, dict) and str(m.get("role") or "user") in ("user", "system", "developer")
    ]
