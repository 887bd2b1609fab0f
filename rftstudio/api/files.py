"""`/v1/files`: upload, list, retrieve, content, delete.

Wire shape: {"id": "file-…", "object": "file", "bytes", "created_at", "expires_at", "filename", "purpose", "status",
"status_details"}.
"""

from typing import Any

from django.http import StreamingHttpResponse
from drf_spectacular.utils import OpenApiParameter, OpenApiTypes
from rest_framework import serializers
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request

from datasets.models import SourceFile
from rftstudio.api.doors import (
    AFTER,
    LIMIT,
    actor_of,
    after_of,
    by_method,
    door,
    limit_of,
    newer_than,
    older_than,
    page_of,
)
from rftstudio.core.errors import NotFound, UserError
from rftstudio.orders import files
from rftstudio.teams.permissions import Permission

KNOWN = {"file", "purpose", "expires_after[anchor]", "expires_after[seconds]"}
PIECE = 256 * 1024


class FileWire(serializers.Serializer):
    id = serializers.CharField()
    object = serializers.CharField()
    bytes = serializers.IntegerField()
    created_at = serializers.IntegerField(help_text="Unix seconds")
    expires_at = serializers.IntegerField(allow_null=True)
    filename = serializers.CharField()
    purpose = serializers.CharField()
    status = serializers.ChoiceField(["uploaded", "processed", "error"])
    status_details = serializers.CharField(allow_null=True)


class FileListWire(serializers.Serializer):
    object = serializers.CharField()
    data = FileWire(many=True)
    has_more = serializers.BooleanField()
    first_id = serializers.CharField(allow_null=True)
    last_id = serializers.CharField(allow_null=True)


class FileUploadWire(serializers.Serializer):
    file = serializers.FileField()
    purpose = serializers.ChoiceField(list(files.PURPOSES))


class FileDeletedWire(serializers.Serializer):
    id = serializers.CharField()
    object = serializers.CharField()
    deleted = serializers.BooleanField()


def wire_file(row: SourceFile) -> dict[str, Any]:
    note = getattr(row, "note", None)
    return {
        "id": row.public_id,
        "object": "file",
        "bytes": row.bytes,
        "created_at": int(row.created_at.timestamp()),
        "expires_at": int(note.expires_at.timestamp()) if note and note.expires_at else None,
        "filename": row.filename,
        "purpose": row.purpose,
        "status": note.status if note else "processed",
        "status_details": (note.status_details if note else "") or None,
    }


@door("POST", "createFile", summary="Upload a file", body={"multipart/form-data": FileUploadWire}, answer=FileWire,
      parsers=(MultiPartParser,))  # fmt: skip
def file_create(request: Request) -> dict[str, Any]:
    """`purpose` fine-tune takes .jsonl only. The content is looked through at once, or soon where it is large."""
    actor = actor_of(request, Permission.DATASET_EDIT)
    unknown = [key for key in (*request.POST, *request.FILES) if key not in KNOWN]
    if unknown:
        raise UserError(f"Unknown parameter: {unknown[0][:80]}.", where=unknown[0][:80], code="unknown_parameter")
    upload = request.FILES.get("file")
    if upload is None:
        raise UserError("The file is missing.", where="file", fix="Send it as multipart form data under `file`.")
    purpose = request.POST.get("purpose")
    if not purpose:
        raise UserError("Missing required parameter: purpose.", where="purpose", code="missing_required_parameter")
    row = files.file_upload(
        actor=actor, filename=upload.name or "upload", content=upload, purpose=purpose, size=upload.size,
        expires_in=_expiry(request),
    )  # fmt: skip
    return wire_file(row)


def _expiry(request: Request) -> int | None:
    anchor, seconds = request.POST.get("expires_after[anchor]"), request.POST.get("expires_after[seconds]")
    if anchor is None and seconds is None:
        return None
    if anchor != "created_at":
        raise UserError("expires_after.anchor must be created_at.", where="expires_after.anchor")
    low, high = files.EXPIRY_SECONDS
    if not (seconds or "").isascii() or not (seconds or "").isdigit() or not low <= int(str(seconds)[:9]) <= high:
        raise UserError(
            f"expires_after.seconds must be a whole number from {low} to {high}.", where="expires_after.seconds"
        )
    return int(str(seconds))


@door("GET", "listFiles", summary="List files", answer=FileListWire, parameters=[
    AFTER, LIMIT, OpenApiParameter("purpose", str), OpenApiParameter("order", str, enum=["asc", "desc"])])  # fmt: skip
def file_list(request: Request) -> dict[str, Any]:
    """Newest first, unless `order` is asc."""
    rows = files.file_list(team=actor_of(request).team)
    if purpose := request.query_params.get("purpose"):
        rows = rows.filter(purpose=purpose[:32].replace("\x00", ""))
    limit = limit_of(request, 10_000, most=10_000)
    order = request.query_params.get("order") or "desc"
    if order not in ("asc", "desc"):
        raise UserError("order must be asc or desc.", where="order")
    after = after_of(request, rows)
    rows = rows.filter((newer_than if order == "asc" else older_than)(after, "id"))
    found = [wire_file(row) for row in rows.order_by("id" if order == "asc" else "-id")[: limit + 1]]
    return page_of(found, limit, with_ends=True)


@door("GET", "retrieveFile", summary="One file", answer=FileWire)
def file_get(request: Request, public_id: str) -> dict[str, Any]:
    """What is known of the file; `status_details` names the first lines at fault."""
    return wire_file(files.file_get(team=actor_of(request).team, public_id=public_id))


@door("DELETE", "deleteFile", summary="Delete a file", answer=FileDeletedWire)
def file_delete(request: Request, public_id: str) -> dict[str, Any]:
    """Datasets that were read from it keep their items."""
    actor = actor_of(request, Permission.DATASET_EDIT)
    files.file_delete(actor=actor, row=files.file_get(team=actor.team, public_id=public_id))
    return {"id": public_id, "object": "file", "deleted": True}


@door("GET", "downloadFile", summary="A file's bytes", answer={(200, "application/octet-stream"): OpenApiTypes.BINARY})
def file_content(request: Request, public_id: str) -> StreamingHttpResponse:
    """The bytes exactly as they came."""
    row = files.file_get(team=actor_of(request).team, public_id=public_id)
    try:
        stream = row.content.open("rb")
    except FileNotFoundError as exc:
        raise NotFound("The bytes of this file are gone.", where="id") from exc
    answer = StreamingHttpResponse(iter(lambda: stream.read(PIECE), b""), content_type="application/octet-stream")
    answer["Content-Length"] = str(row.bytes)
    answer["X-Content-Type-Options"] = "nosniff"
    answer._resource_closers.append(stream.close)  # type: ignore[attr-defined]
    return answer


files_door = by_method(file_list, file_create)
file_door = by_method(file_get, file_delete)
