"""`POST /v1/traces`: OpenTelemetry's OTLP over HTTP, protobuf or JSON, gzip or plain.

Point an exporter here: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://studio.example/v1/traces and
OTEL_EXPORTER_OTLP_TRACES_HEADERS="Authorization=Bearer rfts-…". Answers are those of the protocol: an
ExportTraceServiceResponse, with `partialSuccess` when spans were refused; 400 for what cannot be read, which an exporter
does not send again.
"""

import json
import zlib

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request
from rest_framework.views import APIView

from jobs.rollouts.imports.otlp import protobuf_document
from jobs.rollouts.imports.types import Unreadable
from jobs.rollouts.tracing import Received, traces_receive
from rftstudio.core.errors import UserError

MAX_BODY = 32_000_000  # after unpacking
PROTOBUF, JSON = "application/x-protobuf", "application/json"


class _Any(DefaultContentNegotiation):
    """Exporters may ask for protobuf only; what is answered follows what was sent."""

    def select_renderer(self, request, renderers, format_suffix=None):
        return renderers[0], renderers[0].media_type


class TooLarge(UserError):
    status = 413
    code = "too_large"


@extend_schema(exclude=True)
class TracesDoor(APIView):
    """OTLP's address for traces."""

    content_negotiation_class = _Any

    def post(self, request: Request) -> HttpResponse:
        kind = (request.content_type or "").partition(";")[0].strip().lower()
        if kind not in (PROTOBUF, JSON):
            raise UnsupportedMediaType(kind or "none", detail=f"Send {PROTOBUF} or {JSON}.")
        is_protobuf = kind == PROTOBUF
        content = _body(request)
        received = traces_receive(actor=request.auth, document=_document(content, is_protobuf))
        if is_protobuf:
            return HttpResponse(_protobuf_answer(received), content_type=PROTOBUF)
        return HttpResponse(json.dumps(_json_answer(received)), content_type=JSON)


def _body(request: Request) -> bytes:
    raw = request._request.read(MAX_BODY + 1)
    if len(raw) > MAX_BODY:
        raise TooLarge(f"The export is larger than {MAX_BODY} bytes.", fix="Send smaller batches.")
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        return raw
    if encoding not in ("gzip", "deflate"):
        raise UserError(f"The content encoding {encoding} is not known.", fix="Use gzip or none.")
    unpacker = zlib.decompressobj(wbits=47)  # gzip or zlib, by their first bytes
    try:
        content = unpacker.decompress(raw, MAX_BODY + 1)
    except zlib.error as exc:
        raise UserError("The body is not what its content encoding says.") from exc
    if len(content) > MAX_BODY:
        raise TooLarge(f"The export unpacks to more than {MAX_BODY} bytes.", fix="Send smaller batches.")
    if not unpacker.eof:
        raise UserError("The packed body is cut off.")
    return content


def _document(content: bytes, is_protobuf: bool) -> dict:
    if is_protobuf:
        try:
            return protobuf_document(content)
        except Unreadable as exc:
            raise UserError("The body is no OTLP trace in protobuf.") from exc
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as exc:
        raise UserError("The body is not JSON.", fix=f"Send protobuf with content type {PROTOBUF}.") from exc
    if not isinstance(document, dict) or not isinstance(document.get("resourceSpans", []), list):
        raise UserError("The body is no OTLP trace: it has no list of resourceSpans.", where="resourceSpans")
    return document


def _json_answer(received: Received) -> dict:
    if not received.refused:
        return {"partialSuccess": {}}
    return {"partialSuccess": {"rejectedSpans": str(received.refused), "errorMessage": received.reason}}


def _protobuf_answer(received: Received) -> bytes:
    """ExportTraceServiceResponse: field 1 holds the refused spans (1) and the reason (2)."""
    if not received.refused:
        return b""
    reason = received.reason.encode()
    inner = b"\x08" + _varint(received.refused) + b"\x12" + _varint(len(reason)) + reason
    return b"\x0a" + _varint(len(inner)) + inner


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])
