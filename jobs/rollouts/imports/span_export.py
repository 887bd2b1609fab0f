"""The wire reference's rollout export: spans of generations and functions, one rollout a row or an item."""

import hashlib
import json
from typing import Any

from jobs.rollouts.imports.messages import title_of
from jobs.rollouts.imports.reading import Document, moment, number, text_of, whole
from jobs.rollouts.imports.spans import Span, add_spans
from jobs.rollouts.imports.types import Imported, ImportedRollout


def is_mine(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("items"), list) and any(_trace(item) is not None for item in value["items"]):
        return True
    return _trace(value) is not None


def _trace(row: Any) -> dict[str, Any] | None:
    """The trace of a row, in `item` (result file) or `datasource_item` (downloaded evaluation)."""
    if not isinstance(row, dict):
        return None
    for key in ("item", "datasource_item"):
        item = row.get(key)
        if isinstance(item, dict) and isinstance(item.get("trace"), dict):
            return item["trace"] if isinstance(item["trace"].get("spans"), list) else None
    return None


def read(documents: list[Document]) -> Imported:
    found = Imported("span_export")
    for document in documents:
        value = document.value
        rows = value["items"] if isinstance(value, dict) and isinstance(value.get("items"), list) else [value]
        for row in rows:
            if _trace(row) is not None:
                found.rollouts.append(_rollout(row, value if isinstance(value, dict) else {}, len(found.rollouts)))
    return found


def _rollout(row: dict[str, Any], file: dict[str, Any], place: int) -> ImportedRollout:
    item = row.get("item") or row.get("datasource_item") or {}
    kept = {key: value for key, value in item.items() if key != "trace"}
    rollout = ImportedRollout(
        key=str(row.get("id") or f"{row.get('run_id', 'row')}-{place + 1}"),
        group=_group(row, kept),
        prompt=[m for m in item.get("messages") or [] if isinstance(m, dict)],
        policy=str((row.get("sample") or {}).get("sampled_model_name") or ""),
        extra={"item": kept, "run_id": row.get("run_id") or file.get("run_id")},
    )
    rollout.title = title_of(rollout.prompt)
    _grades(rollout, row)
    spans = [_span(span, index) for index, span in enumerate(_trace(row)["spans"]) if isinstance(span, dict)]
    first = next((s for s in _trace(row)["spans"] if isinstance(s, dict) and s.get("trace_id")), {})
    rollout.trace_id = str(first.get("trace_id") or "")
    add_spans(rollout, spans)
    rollout.calls = sum(1 for span in spans if span.kind == "tool")
    _check_sample(rollout, row.get("sample") or {})
    if rollout.steps and rollout.steps[-1].tool_calls:
        rollout.stop_reason = "max_steps"
        rollout.flag("no_final_answer", f"rollout {rollout.key}", "It ends on a tool call, without a last answer.")
    return rollout


def _group(row: dict[str, Any], item: dict[str, Any]) -> str:
    if row.get("data_source_idx") is not None:
        return f"item {row['data_source_idx']}"
    text = json.dumps(item, sort_keys=True, default=str).encode("utf-8", "surrogatepass")
    return f"item {hashlib.blake2b(text, digest_size=5).hexdigest()}"


def _grades(rollout: ImportedRollout, row: dict[str, Any]) -> None:
    """One grader's score is the reward; several are sub-rewards and their mean is not invented."""
    grades = row.get("grades")
    if not isinstance(grades, dict):
        results = [r for r in row.get("results") or [] if isinstance(r, dict)]
        grades = {str(r.get("name")): r.get("score") for r in results}
    names = {_short(name): number(value) for name, value in grades.items()}
    rollout.sub_rewards = names
    if len(names) == 1:
        rollout.reward = next(iter(names.values()))
    passes = row.get("passes")
    if isinstance(passes, dict) and passes:
        rollout.passed = all(bool(value) for value in passes.values())
    elif row.get("status") in ("pass", "fail"):
        rollout.passed = row["status"] == "pass"


def _short(name: str) -> str:
    """`grader-0b54c7de-1d0f-…` without the id that the service hangs on."""
    return name[:-37] if len(name) > 37 and name[-37] == "-" and name[-36:].count("-") == 4 else name


def _span(span: dict[str, Any], place: int) -> Span:
    data = span.get("span_data") if isinstance(span.get("span_data"), dict) else {}
    kind = {"generation": "model", "function": "tool"}.get(str(data.get("type", "")).lower(), "other")
    made = Span(
        id=str(span.get("id") or f"span-{place + 1}"),
        parent=str(span.get("parent_id") or ""),
        name=str(data.get("name") or data.get("type") or "span"),
        kind=kind,
        start=moment(span.get("started_at")),
        end=moment(span.get("ended_at")),
        input=data.get("input"),
        output=data.get("output"),
        error=_error(span.get("error")),
    )
    usage = data.get("usage") if isinstance(data.get("usage"), dict) else {}
    made.input_tokens = whole(usage.get("input_tokens") or usage.get("prompt_tokens"))
    made.output_tokens = whole(usage.get("output_tokens") or usage.get("completion_tokens"))
    if kind == "model":
        _read_output(made, data.get("output"))
    return made


def _read_output(span: Span, output: Any) -> None:
    """A message to a tool is a call: its recipient is the tool, its content the arguments."""
    texts = []
    for message in output if isinstance(output, list) else []:
        if not isinstance(message, dict):
            continue
        recipient = str(message.get("recipient") or "all")
        content = text_of(message.get("content"))
        if recipient not in ("all", "user", ""):
            span.calls.append({"id": f"{span.id}>{len(span.calls) + 1}", "name": recipient, "arguments": content})
        else:
            texts.append(content)
        for call in message.get("tool_calls") or []:
            if isinstance(call, dict):
                span.calls.append(call)
    span.text = "\n".join(texts)


def _error(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("message") or json.dumps(value))
    return str(value or "")


def _check_sample(rollout: ImportedRollout, sample: dict[str, Any]) -> None:
    """The recorded sample's calls may have empty ids; the spans tell the calls apart."""
    outputs = sample.get("outputs") or sample.get("output") or []
    for output in outputs if isinstance(outputs, list) else []:
        for call in (output.get("tool_calls") or []) if isinstance(output, dict) else []:
            if isinstance(call, dict) and not call.get("id"):
                name = (call.get("function") or {}).get("name", "call")
                words = "The sample's call has an empty id; the spans tell the calls apart."
                rollout.flag("empty_call_id", f"rollout {rollout.key}, {name}", words)
        if isinstance(output, dict) and output.get("content") and not rollout.answer:
            rollout.answer = text_of(output["content"])
