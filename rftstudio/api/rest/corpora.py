"""What search tools read: documents that a team added."""

from typing import ClassVar

from rest_framework import serializers
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.agents import selectors, services
from jobs.agents.tools.builtins.corpus_files import MAX_BYTES
from rftstudio.api.rest.describe import describe
from rftstudio.api.rest.endpoint import Endpoint
from rftstudio.api.rest.wire import Row, Wanted, example_id
from rftstudio.core.errors import UserError
from rftstudio.teams.permissions import Permission

MOST_FILES = 100  # as many as Django takes in one request


class CorpusWire(Row):
    name = serializers.CharField()
    document_count = serializers.IntegerField()
    character_count = serializers.IntegerField()

    example = {
        "id": example_id("corpus-"), "created_at": "2026-11-30T08:00:00Z", "name": "tariff.txt", "document_count": 40,
        "character_count": 12000,
    }  # fmt: skip


class CorpusNew(Wanted):
    files = serializers.ListField(
        child=serializers.FileField(), min_length=1, max_length=MOST_FILES, help_text="Texts; tables of documents."
    )


class CorpusList(Endpoint):
    parser_classes: ClassVar[list] = [MultiPartParser]

    @describe("corpus_list", "List what search tools read", answers=CorpusWire, is_paged=True)
    def get(self, request: Request) -> Response:
        return self.page(selectors.corpus_list(team=self.team), CorpusWire)

    @describe(
        "corpus_add", "Add documents for a search tool", right=Permission.AGENT_EDIT, takes=CorpusNew, answers=CorpusWire,
        status=201, is_upload=True, text="The same content again is the same corpus.",
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        files = self.values(CorpusNew)["files"]
        # Before they are read into memory; the service checks again.
        if sum(file.size for file in files) > MAX_BYTES:
            raise UserError(
                f"The files are larger than {MAX_BYTES // 1_000_000} MB together.", where="files", fix="Leave some out."
            )
        made = services.corpus_add(actor=self.actor, files=[(file.name, file.read()) for file in files])
        return self.shown(made, CorpusWire, status=201)
