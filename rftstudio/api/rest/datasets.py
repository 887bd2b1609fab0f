"""Datasets and their versions: import, repair, split, freeze, compare, export."""

from dataclasses import asdict
from typing import Any

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from datasets import diffs, exports, near_finding, rereading, selectors, services
from datasets.formats.encodings import ENCODINGS
from datasets.models import Dataset, DatasetVersion, Split
from datasets.row_mapping import TARGETS
from rftstudio.api.rest.describe import describe
from rftstudio.api.rest.endpoint import Endpoint, stream
from rftstudio.api.rest.wire import Empty, Row, Wanted, Wire, example_id
from rftstudio.teams.permissions import Permission

EDIT = Permission.DATASET_EDIT
#: Smaller files are imported before the answer is given, as in the browser.
IMPORT_AT_ONCE = 2_000_000


class DatasetWire(Row):
    name = serializers.CharField()
    slug = serializers.CharField()

    example = {
        "id": example_id("dset-"), "created_at": "2026-11-30T08:15:00Z", "name": "Tariff questions",
        "slug": "tariff-questions",
    }  # fmt: skip


class DatasetNew(Wanted):
    name = serializers.CharField(max_length=120)

    example = {"name": "Tariff questions"}


class VersionWire(Row):
    dataset = serializers.CharField(source="dataset.public_id")
    number = serializers.IntegerField()
    status = serializers.ChoiceField(DatasetVersion.Status.values)
    item_count = serializers.IntegerField()
    content_hash = serializers.CharField(help_text="SHA-256 over the items in order.")
    frozen_at = serializers.DateTimeField(allow_null=True)

    example = {
        "id": example_id("dver-"), "created_at": "2026-11-30T08:16:00Z", "dataset": example_id("dset-"), "number": 1,
        "status": "draft", "item_count": 240, "content_hash": "3f1c", "frozen_at": None,
    }  # fmt: skip


class GateWire(Wire):
    state = serializers.ChoiceField(["ok", "warn", "bad"])
    text = serializers.CharField()
    code = serializers.CharField(allow_blank=True)


class VersionWhole(VersionWire):
    splits = serializers.SerializerMethodField(help_text="Items by split.")
    gates = serializers.SerializerMethodField(help_text="What blocks freezing and what is worth a look.")
    progress = serializers.JSONField(help_text="Rows and bytes read, of a running import.")
    report = serializers.JSONField(help_text="What the import found.")
    stats = serializers.JSONField(help_text="Fields with types and coverage, lengths, repeats, classes.")

    example = {
        **VersionWire.example, "splits": {"train": 240}, "gates": [{"state": "ok", "text": "every line is in", "code": ""}],
        "progress": {}, "report": {}, "stats": {},
    }  # fmt: skip

    def get_splits(self, version: DatasetVersion) -> dict[str, int]:
        return selectors.split_counts(version)

    @extend_schema_field(GateWire(many=True))
    def get_gates(self, version: DatasetVersion) -> list[dict[str, Any]]:
        return [asdict(gate) for gate in selectors.version_gates(version)]


class ImportNew(Wanted):
    source_file = serializers.CharField(max_length=64)
    mapping = serializers.DictField(
        child=serializers.CharField(max_length=200), required=False,
        help_text=f"Columns that become messages, for files without them: {', '.join(TARGETS)}.",
    )  # fmt: skip
    split = serializers.ChoiceField(Split.values, required=False, help_text="Where every row goes, whatever it says.")
    encoding = serializers.ChoiceField(list(ENCODINGS), required=False, help_text="When the file is not UTF-8.")
    add_to = serializers.CharField(max_length=64, required=False, help_text="A draft to add to; else a new version.")

    example = {"source_file": example_id("file-"), "mapping": {"prompt": "question", "reference": "answer"}}


class SplitNew(Wanted):
    shares = serializers.DictField(child=serializers.FloatField(min_value=0, max_value=1))
    seed = serializers.IntegerField(min_value=0, max_value=2**31 - 1, default=0)
    group_field = serializers.CharField(max_length=200, allow_blank=True, default="")

    example = {"shares": {"train": 0.8, "validation": 0.1, "test": 0.1}, "seed": 7}


class ExportQuery(serializers.Serializer):
    format = serializers.ChoiceField([*exports.FORMATS], default="jsonl")
    split = serializers.ChoiceField(Split.values, required=False)


class DiffWire(Wire):
    same = serializers.IntegerField()
    added = serializers.IntegerField()
    removed = serializers.IntegerField()
    changed = serializers.IntegerField()
    moved = serializers.IntegerField()
    added_items = serializers.ListField(child=serializers.JSONField())
    removed_items = serializers.ListField(child=serializers.JSONField())
    changed_items = serializers.ListField(child=serializers.JSONField())
    moved_items = serializers.ListField(child=serializers.JSONField())


class DatasetList(Endpoint):
    @describe("dataset_list", "List datasets", answers=DatasetWire, is_paged=True)
    def get(self, request: Request) -> Response:
        return self.page(selectors.dataset_list(team=self.team), DatasetWire)

    @describe("dataset_create", "Make a dataset", right=EDIT, takes=DatasetNew, answers=DatasetWire, status=201)
    def post(self, request: Request) -> Response:
        made = services.dataset_create(actor=self.actor, **self.values(DatasetNew))
        return self.shown(made, DatasetWire, status=201)


class OfDataset(Endpoint):
    """An address below a dataset."""

    def dataset(self) -> Dataset:
        return selectors.dataset_get(team=self.team, public_id=self.kwargs["public_id"])


class DatasetDetail(OfDataset):
    @describe("dataset_get", "Read a dataset", answers=DatasetWire)
    def get(self, request: Request, public_id: str) -> Response:
        return self.shown(self.dataset(), DatasetWire)


class DatasetVersions(OfDataset):
    @describe("dataset_version_list", "List a dataset's versions", answers=VersionWire, is_paged=True)
    def get(self, request: Request, public_id: str) -> Response:
        rows = selectors.version_list(team=self.team, dataset=self.dataset()).select_related("dataset")
        return self.page(rows, VersionWire, by="number")


class DatasetImport(OfDataset):
    @describe(
        "dataset_import", "Import a file as a version", right=EDIT, takes=ImportNew, answers=VersionWire, status=202,
        text="Small files are in when the answer comes; of large ones the version is `importing`, with its progress.",
    )  # fmt: skip
    def post(self, request: Request, public_id: str) -> Response:
        dataset, wanted = self.dataset(), self.values(ImportNew)
        source = selectors.source_file_get(team=self.team, public_id=wanted["source_file"])
        add_to = wanted.get("add_to")
        draft = selectors.version_get(team=self.team, public_id=add_to) if add_to else None
        is_small = source.bytes <= IMPORT_AT_ONCE
        started = services.dataset_version_import_start(
            actor=self.actor, dataset=dataset, source_file=source, mapping=wanted.get("mapping"), add_to=draft,
            split=wanted.get("split", ""), encoding=wanted.get("encoding", ""), queue=not is_small,
        )  # fmt: skip
        if is_small:
            services.file_import_run(file_import_id=started.pk)
        version = selectors.version_get(team=self.team, public_id=started.version.public_id)
        return self.shown(version, VersionWire, status=202)


class OfVersion(Endpoint):
    """An address below a dataset version."""

    def version(self) -> DatasetVersion:
        return selectors.version_get(team=self.team, public_id=self.kwargs["public_id"])


class VersionDetail(OfVersion):
    @describe("version_get", "Read a version with its report and statistics", answers=VersionWhole)
    def get(self, request: Request, public_id: str) -> Response:
        return self.shown(self.version(), VersionWhole)


class VersionSplit(OfVersion):
    @describe("version_split", "Deal the items to splits", right=EDIT, takes=SplitNew, answers=VersionWhole)
    def post(self, request: Request, public_id: str) -> Response:
        made = services.dataset_version_split(actor=self.actor, version=self.version(), **self.values(SplitNew))
        return self.shown(made, VersionWhole)


class VersionFreeze(OfVersion):
    @describe(
        "version_freeze", "Freeze a version, so that runs may point at it", right=EDIT, takes=Empty, answers=VersionWire
    )
    def post(self, request: Request, public_id: str) -> Response:
        version = self.version()
        self.values(Empty)
        return self.shown(services.dataset_version_freeze(actor=self.actor, version=version), VersionWire)


class VersionCopy(OfVersion):
    @describe(
        "version_copy", "Start the next draft from a version", right=EDIT, takes=Empty, answers=VersionWire, status=201
    )
    def post(self, request: Request, public_id: str) -> Response:
        version = self.version()
        self.values(Empty)
        return self.shown(services.dataset_version_copy(actor=self.actor, version=version), VersionWire, status=201)


class VersionNearRepeats(OfVersion):
    @describe(
        "version_near_repeats", "Look for questions that are almost the same", right=EDIT, takes=Empty,
        answers=VersionWhole, status=202, text="What is found stands in `stats.near`; while a worker looks, how far it is in `stats.near.looking`.",
    )  # fmt: skip
    def post(self, request: Request, public_id: str) -> Response:
        version = self.version()
        self.values(Empty)
        near_finding.near_repeats_start(actor=self.actor, version=version)
        version.refresh_from_db()
        return self.shown(version, VersionWhole, status=202)


class RereadWanted(Wanted):
    encoding = serializers.ChoiceField(
        [*ENCODINGS], allow_blank=True, default="", help_text="Empty: as it came, as UTF-8."
    )

    example = {"encoding": next(iter(ENCODINGS))}


class VersionReread(OfVersion):
    @describe(
        "file_reread", "Read the newest file of a draft in another encoding", right=EDIT, takes=RereadWanted,
        answers=VersionWhole,
    )  # fmt: skip
    def post(self, request: Request, public_id: str) -> Response:
        version, wanted = self.version(), self.values(RereadWanted)
        rereading.file_reread(actor=self.actor, version=version, **wanted)
        version.refresh_from_db()
        return self.shown(version, VersionWhole)


class VersionExport(OfVersion):
    @describe(
        "version_export", "Download the items", query=(ExportQuery,),
        bytes_of=tuple(kind.partition(";")[0] for kind in exports.FORMATS.values()),
    )  # fmt: skip
    def get(self, request: Request, public_id: str) -> HttpResponseBase:
        version, asked = self.version(), self.asked(ExportQuery)
        content = exports.export(version, asked["format"], asked.get("split", ""))
        name = f"{version.dataset.slug}-v{version.number}.{asked['format']}"
        return stream(content, exports.FORMATS[asked["format"]], name)


class VersionDiff(OfVersion):
    @describe("version_diff", "Compare a version with an earlier one", answers=DiffWire)
    def get(self, request: Request, public_id: str, other: str) -> Response:
        before = selectors.version_get(team=self.team, public_id=other)
        return Response(asdict(diffs.versions_diff(before, self.version())))
