"""OTLP traces, JSON or protobuf, with the GenAI conventions: one rollout a trace.

The protobuf form is read by field number; only what a span needs is understood and the rest is skipped.
"""

import base64
import json
import struct
from collections.abc import Iterator
from typing import Any

from jobs.rollouts.imports.messages import title_of
from jobs.rollouts.imports.reading import Document, Moment, moment, number, text_of, whole
from jobs.rollouts.imports.spans import Span, add_spans
from jobs.rollouts.imports.types import Imported, ImportedRollout, Unreadable

_MODEL_OPERATIONS = {"chat", "text_completion", "generate_content", "embeddings"}
_KINDS = {"llm": "model", "generation": "model", "tool": "tool", "function": "tool"}


def is_mine(value: Any) -> bool:
    return isinstance(value, dict) and ("resourceSpans" in value or "resourceLogs" in value)


def read(documents: list[Document]) -> Imported:
    found = Imported("otlp_json")
    traces: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for document in documents:
        value = document.value
        if "resourceLogs" in value and "resourceSpans" not in value:
            raise Unreadable("This file holds OTLP log records, not spans. Export traces instead.")
        for trace_id, span, shared in spans_of(value):
            traces.setdefault(trace_id, []).append((span, shared))
    for trace_id, members in traces.items():
        found.rollouts.append(rollout_of(trace_id, members))
    return found


def spans_of(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Every span with its trace id and its resource's attributes."""
    for resource in _objects(document.get("resourceSpans")):
        shared = attributes((resource.get("resource") or {}).get("attributes"))
        for scope in _objects(resource.get("scopeSpans") or resource.get("instrumentationLibrarySpans")):
            for span in _objects(scope.get("spans")):
                yield id_of(span.get("traceId")), span, shared


def _objects(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def is_telling(span: dict[str, Any]) -> bool:
    """Whether it is a model's or a tool's, by the conventions."""
    return _kind(attributes(span.get("attributes"))) != "other"


def attributes(pairs: Any) -> dict[str, Any]:
    """The list of key and value as a dict of plain values. 64-bit numbers come as text and keep every digit."""
    return {str(p.get("key")): _plain(p.get("value")) for p in pairs or [] if isinstance(p, dict)}


def _plain(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "intValue" in value:
        return int(value["intValue"])
    if "arrayValue" in value:
        return [_plain(entry) for entry in (value["arrayValue"] or {}).get("values") or []]
    if "kvlistValue" in value:
        return attributes((value["kvlistValue"] or {}).get("values"))
    return next(iter(value.values()), None)


def id_of(value: Any) -> str:
    """Hex in the file; base64 from generic protobuf-to-JSON converters. Lower case, as the rest of the world writes it."""
    text = str(value or "")
    if len(text) in (16, 32) and all(c in "0123456789abcdefABCDEF" for c in text):
        return text.lower()
    try:
        return base64.b64decode(text, validate=True).hex() if text else ""
    except ValueError:
        return text


def rollout_of(trace_id: str, members: list[tuple[dict[str, Any], dict[str, Any]]]) -> ImportedRollout:
    rollout = ImportedRollout(key=trace_id or "trace", trace_id=trace_id)
    spans = []
    for span, shared in members:
        own = attributes(span.get("attributes"))
        for event in span.get("events") or []:
            own.update({f"event:{event.get('name')}": attributes(event.get("attributes"))})
        spans.append(_span(span, own))
        _rewards(rollout, own)
        rollout.policy = rollout.policy or str(
            own.get("gen_ai.response.model") or own.get("gen_ai.request.model") or ""
        )
        rollout.group = rollout.group or str(own.get("gen_ai.conversation.id") or "")
        if not rollout.prompt:
            rollout.prompt = _messages(own, "input")
        rollout.extra.setdefault("resource", shared)
    add_spans(rollout, spans)
    rollout.group = rollout.group or ""
    rollout.title = title_of(rollout.prompt) or next((s.name for s in spans if not s.parent), "")
    return rollout


def _span(span: dict[str, Any], own: dict[str, Any]) -> Span:
    status = span.get("status") if isinstance(span.get("status"), dict) else {}
    failed = status.get("code") in (2, "STATUS_CODE_ERROR")
    made = Span(
        id=id_of(span.get("spanId")),
        parent=id_of(span.get("parentSpanId")),
        name=str(span.get("name") or "span"),
        kind=_kind(own),
        start=_nanos(span.get("startTimeUnixNano")),
        end=_nanos(span.get("endTimeUnixNano")),
        input_tokens=whole(own.get("gen_ai.usage.input_tokens") or own.get("llm.token_count.prompt")),
        output_tokens=whole(own.get("gen_ai.usage.output_tokens") or own.get("llm.token_count.completion")),
        error=str(status.get("message") or "The span ended with an error.") if failed else "",
    )
    if made.kind == "tool":
        made.name = str(own.get("gen_ai.tool.name") or own.get("tool.name") or made.name)
        made.input = own.get("gen_ai.tool.call.arguments") or own.get("input.value") or ""
        made.output = own.get("gen_ai.tool.call.result") or own.get("output.value") or ""
    elif made.kind == "model":
        for message in _messages(own, "output"):
            made.text = "\n".join(filter(None, [made.text, text_of(message.get("content"))]))
            made.calls += [call for call in message.get("tool_calls") or [] if isinstance(call, dict)]
    return made


def _kind(own: dict[str, Any]) -> str:
    operation = str(own.get("gen_ai.operation.name") or "")
    if operation in _MODEL_OPERATIONS:
        return "model"
    if operation == "execute_tool" or "gen_ai.tool.name" in own:
        return "tool"
    return _KINDS.get(str(own.get("openinference.span.kind") or own.get("traceloop.span.kind") or "").lower(), "other")


def _messages(own: dict[str, Any], side: str) -> list[dict[str, Any]]:
    """Messages of one side, in the present convention (parts) or as plain values."""
    for key in (f"gen_ai.{side}.messages", f"gen_ai.{'prompt' if side == 'input' else 'completion'}", f"{side}.value"):
        value = own.get(key)
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                return [{"role": "user" if side == "input" else "assistant", "content": value}]
        if isinstance(value, dict):
            value = value.get("messages") or [value]
        if isinstance(value, list):
            return [_message(m) for m in value if isinstance(m, dict)]
    return []


def _message(message: dict[str, Any]) -> dict[str, Any]:
    parts = message.get("parts")
    if not isinstance(parts, list):
        return message
    texts, calls = [], []
    for part in parts:
        if isinstance(part, dict) and part.get("type") == "tool_call":
            calls.append({"id": part.get("id"), "name": part.get("name"), "arguments": part.get("arguments")})
        else:
            texts.append(text_of([part]))
    return {"role": message.get("role"), "content": "\n".join(filter(None, texts)), "tool_calls": calls}


def _rewards(rollout: ImportedRollout, own: dict[str, Any]) -> None:
    """Evaluation events and plain reward attributes."""
    score = number(own.get("reward") if "reward" in own else own.get("gen_ai.evaluation.score.value"))
    name = str(own.get("gen_ai.evaluation.name") or "reward")
    for key, value in own.items():
        if key == "event:gen_ai.evaluation.result" and isinstance(value, dict):
            score = number(value.get("gen_ai.evaluation.score.value"))
            name = str(value.get("gen_ai.evaluation.name") or "reward")
    if score is None:
        return
    if name == "reward":
        rollout.reward = score
    else:
        rollout.sub_rewards[name] = score


def _nanos(value: Any) -> Moment | None:
    if value in (None, "", 0, "0"):
        return None
    try:
        return Moment(int(value) / 1e9)
    except (TypeError, ValueError):
        return moment(value)


# Protobuf ------------------------------------------------------------------------------------------------------------


def protobuf_document(content: bytes) -> dict[str, Any]:
    """`ExportTraceServiceRequest` or `TracesData`, which have the same field numbers, as the JSON form has it."""
    try:
        return {"resourceSpans": [_resource_spans(part) for _, part in _fields(content, {1})]}
    except (ValueError, IndexError, TypeError, AttributeError, struct.error) as exc:
        raise Unreadable("The file is neither JSON nor an OTLP trace in protobuf.") from exc


def read_protobuf(content: bytes) -> Imported:
    document = protobuf_document(content)
    if not any(scope["spans"] for resource in document["resourceSpans"] for scope in resource["scopeSpans"]):
        raise Unreadable("The file is neither JSON nor an OTLP trace in protobuf.")
    found = read([Document(document, 1)])
    found.format = "otlp_protobuf"
    return found


def _fields(data: bytes, wanted: set[int] | None = None) -> Iterator[tuple[int, Any]]:
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        number_, kind = key >> 3, key & 7
        value: Any
        if kind == 0:
            value, place = _varint(data, place)
        elif kind == 1:
            value, place = data[place : place + 8], place + 8
        elif kind == 2:
            size, place = _varint(data, place)
            if place + size > len(data):
                raise ValueError("cut off")
            value, place = data[place : place + size], place + size
        elif kind == 5:
            value, place = data[place : place + 4], place + 4
        else:
            raise ValueError(f"wire type {kind}")
        if number_ == 0:
            raise ValueError("field 0")
        if wanted is None or number_ in wanted:
            yield number_, value


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place += 1
        if not byte & 0x80:
            return value, place
        shift += 7
        if shift > 63:
            raise ValueError("number too long")


def _resource_spans(data: bytes) -> dict[str, Any]:
    resource: dict[str, Any] = {}
    scopes = []
    for number_, value in _fields(data, {1, 2}):
        if number_ == 1:
            resource = {"attributes": [_pair(part) for _, part in _fields(value, {1})]}
        else:
            scopes.append({"spans": [_proto_span(part) for _, part in _fields(value, {2})]})
    return {"resource": resource, "scopeSpans": scopes}


def _proto_span(data: bytes) -> dict[str, Any]:
    span: dict[str, Any] = {"attributes": [], "events": []}
    names = {1: "traceId", 2: "spanId", 4: "parentSpanId"}
    for number_, value in _fields(data):
        if number_ in names:
            span[names[number_]] = value.hex()
        elif number_ == 5:
            span["name"] = value.decode("utf-8", "replace")
        elif number_ in (7, 8):
            span["startTimeUnixNano" if number_ == 7 else "endTimeUnixNano"] = int.from_bytes(value, "little")
        elif number_ == 9:
            span["attributes"].append(_pair(value))
        elif number_ == 11:
            span["events"].append(_event(value))
        elif number_ == 15:
            span["status"] = {
                ("message" if n == 2 else "code"): (v.decode("utf-8", "replace") if n == 2 else v)
                for n, v in _fields(value, {2, 3})
            }
    return span


def _event(data: bytes) -> dict[str, Any]:
    event: dict[str, Any] = {"attributes": []}
    for number_, value in _fields(data, {2, 3}):
        if number_ == 2:
            event["name"] = value.decode("utf-8", "replace")
        else:
            event["attributes"].append(_pair(value))
    return event


def _pair(data: bytes) -> dict[str, Any]:
    pair: dict[str, Any] = {"key": "", "value": {}}
    for number_, value in _fields(data, {1, 2}):
        if number_ == 1:
            pair["key"] = value.decode("utf-8", "replace")
        else:
            pair["value"] = _any_value(value)
    return pair


def _any_value(data: bytes) -> dict[str, Any]:
    for number_, value in _fields(data):
        if number_ == 1:
            return {"stringValue": value.decode("utf-8", "replace")}
        if number_ == 2:
            return {"boolValue": bool(value)}
        if number_ == 3:
            return {"intValue": value - (1 << 64) if value >= 1 << 63 else value}
        if number_ == 4:
            return {"doubleValue": struct.unpack("<d", value)[0]}
        if number_ == 5:
            return {"arrayValue": {"values": [_any_value(part) for _, part in _fields(value, {1})]}}
        if number_ == 6:
            return {"kvlistValue": {"values": [_pair(part) for _, part in _fields(value, {1})]}}
        if number_ == 7:
            return {"bytesValue": base64.b64encode(value).decode()}
    return {"stringValue": ""}
