"""Source files: uploaded bytes, kept as they came."""

from collections.abc import Iterator

from django.http.response import HttpResponseBase
from rest_framework import serializers
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from datasets import readers, selectors, services
from datasets.formats.base import FileRefused
from datasets.models import SourceFile
from rftstudio.api.rest.describe import describe
from rftstudio.api.rest.endpoint import Endpoint, stream
from rftstudio.api.rest.wire import Row, Wanted, Wire, example_id
from rftstudio.core.errors import UserError
from rftstudio.teams.permissions import Permission

SHOWN_ROWS = 5
_CHUNK = 256 * 1024


class FileWire(Row):
    filename = serializers.CharField()
    bytes = serializers.IntegerField()
    sha256 = serializers.CharField()
    purpose = serializers.CharField()

    example = {
        "id": example_id("file-"), "created_at": "2026-11-30T08:15:00Z", "filename": "tariffs.jsonl", "bytes": 48213,
        "sha256": "9f2c4a1d8e7b6035c1f0a9b8d7e6f5041322314a5b6c7d8e9f0a1b2c3d4e5f60", "purpose": "fine-tune",
    }  # fmt: skip


class FileNew(Wanted):
    file = serializers.FileField(allow_empty_file=True, help_text="JSONL, JSON array, CSV, TSV, Parquet or eval items.")


class PreviewWire(Wire):
    format = serializers.CharField(help_text="What the file really is.")
    notes = serializers.ListField(child=serializers.CharField())
    rows = serializers.ListField(child=serializers.JSONField(), help_text="The first rows as they stand in the file.")
    suggested_mapping = serializers.DictField(child=serializers.CharField())


class FileList(Endpoint):
    parser_classes = [MultiPartParser]

    @describe("file_list", "List source files", answers=FileWire, is_paged=True)
    def get(self, request: Request) -> Response:
        return self.page(SourceFile.objects.filter(team=self.team), FileWire)

    @describe(
        "file_upload", "Upload a file", right=Permission.DATASET_EDIT, takes=FileNew, answers=FileWire, status=201,
        is_upload=True,
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        upload = self.values(FileNew)["file"]
        made = services.source_file_upload(actor=self.actor, filename=upload.name, content=upload)
        return self.shown(made, FileWire, status=201)


class FileDetail(Endpoint):
    @describe("file_get", "Read about a file", answers=FileWire)
    def get(self, request: Request, public_id: str) -> Response:
        return self.shown(selectors.source_file_get(team=self.team, public_id=public_id), FileWire)


class FileContent(Endpoint):
    @describe("file_content", "Download a file's bytes", bytes_of=("application/octet-stream",))
    def get(self, request: Request, public_id: str) -> HttpResponseBase:
        found = selectors.source_file_get(team=self.team, public_id=public_id)
        return stream(_pieces(found), "application/octet-stream", f"{found.public_id}.bin")


def _pieces(found: SourceFile) -> Iterator[bytes]:
    with found.content.open("rb") as content:
        while piece := content.read(_CHUNK):
            yield piece


class FilePreview(Endpoint):
    @describe("file_preview", "See a file's first rows and what it is", answers=PreviewWire)
    def get(self, request: Request, public_id: str) -> Response:
        found = selectors.source_file_get(team=self.team, public_id=public_id)
        try:
            with found.content.open("rb") as content:
                facts = readers.facts_of(content.file, found.filename)
                rows = readers.first_rows(content.file, facts, SHOWN_ROWS)
        except FileRefused as refused:
            raise UserError(refused.message, where="file", fix=refused.fix, code=refused.code) from refused
        shown = {
            "format": facts.format, "notes": facts.notes, "rows": [row.value for row in rows],
            "suggested_mapping": readers.suggested_mapping(rows, facts),
        }  # fmt: skip
        return self.shown(shown, PreviewWire)
