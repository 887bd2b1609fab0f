"""`manage.py dataset_import FILE --team demo --dataset NAME [--map prompt=COL,reference=COL] [--json]`"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils.text import slugify

from datasets import services
from datasets.formats.encodings import ENCODINGS
from datasets.models import Dataset, DatasetVersion, FileImport
from datasets.reports import report_full
from datasets.row_mapping import parse_mapping
from rftstudio.core.errors import Conflict, NotFound, StudioError, UserError
from rftstudio.teams.actor import Actor, system_actor
from rftstudio.teams.models import Team


class Command(BaseCommand):
    help = (
        "Import a file (JSONL, JSON array, CSV, TSV, Parquet, eval items) into a dataset. Into a draft it adds; after "
        "a frozen version, or with --new-version, it starts the next one. Exits 1 when anything was refused."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--team", required=True, help="the team's short name")
        parser.add_argument("--dataset", required=True, help="the dataset's name; made when there is none")
        parser.add_argument("--map", default="", help="prompt=COLUMN,reference=COLUMN,developer=…,id=…,split=…")
        parser.add_argument("--split", default="", help="train, validation or test: where every row of the file goes")
        parser.add_argument("--encoding", default="", help=f"when it is not UTF-8: {', '.join(ENCODINGS)}")
        parser.add_argument("--new-version", action="store_true", help="start a version with this file's rows alone")
        parser.add_argument("--freeze", action="store_true", help="freeze the version when nothing is in its way")
        parser.add_argument("--json", action="store_true", help="print the report as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            report = self._import(self._actor(options["team"]), options, self._mapping(options))
        except StudioError as exc:
            report = _refused(exc)
        self._print(report, as_json=options["json"])
        if report["errors"]:
            sys.exit(1)

    def _actor(self, slug: str) -> Actor:
        team = Team.objects.filter(slug=slug).first()
        if team is None:
            raise NotFound(
                f"There is no team {slug!r}.", where="team",
                fix=f"Make it with `manage.py user_create ADDRESS --team {slug}`, or give the short name of another.",
            )  # fmt: skip
        return system_actor(team)

    def _mapping(self, options: dict[str, Any]) -> dict[str, str]:
        path = options["file"]
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "does not exist"
            raise NotFound(f"{path} {what}.", where="file", fix="Give the path of a file.")
        if not os.access(path, os.R_OK):
            raise UserError(f"{path} may not be read by this user.", where="file", fix="Change its permissions.")
        try:
            return parse_mapping(options["map"])
        except ValueError as exc:
            raise UserError(f"--map: {exc}.", where="map", fix="Write --map prompt=COLUMN,reference=COLUMN.") from exc

    def _import(self, actor: Actor, options: dict[str, Any], mapping: dict[str, str]) -> dict[str, Any]:
        dataset = self._dataset(actor, options["dataset"])
        with options["file"].open("rb") as stream:
            source_file = services.source_file_upload(actor=actor, filename=options["file"].name, content=stream)
        known = self._known(dataset, source_file.sha256, mapping, options) if not options["new_version"] else None
        if known:
            report = report_full(known)
            report["warnings"] = [*report["warnings"], _already(known)]
            return report
        add_to = None if options["new_version"] else self._draft(actor, dataset)
        started = services.dataset_version_import_start(
            actor=actor,
            dataset=dataset,
            source_file=source_file,
            mapping=mapping,
            split=options["split"],
            encoding=options["encoding"],
            add_to=add_to,
            queue=False,
        )
        if not services.file_import_run(file_import_id=started.pk, on_progress=self._progress(options["json"])):
            raise Conflict(
                "Another process is importing this file.", where="file", fix="Wait for it, then run the command again."
            )
        started = FileImport.objects.select_related("version").get(pk=started.pk)
        if options["freeze"]:
            services.dataset_version_freeze(actor=actor, version=started.version)
        return report_full(started)

    def _dataset(self, actor: Actor, name: str) -> Dataset:
        found = Dataset.objects.filter(team=actor.team, slug=slugify(name)[:120]).first() if slugify(name) else None
        found = found or Dataset.objects.filter(team=actor.team, name=name).first()
        return found or services.dataset_create(actor=actor, name=name)

    def _known(
        self, dataset: Dataset, sha256: str, mapping: dict[str, str], options: dict[str, Any]
    ) -> FileImport | None:
        """An import of the same bytes into the newest version, which is not done twice."""
        newest = dataset.versions.exclude(status=DatasetVersion.Status.FAILED).order_by("-number").first()
        if newest is None:
            return None
        done = newest.imports.filter(
            source_file__sha256=sha256, status=FileImport.Status.DONE, encoding=options["encoding"]
        )
        same = [each for each in done if not mapping or each.mapping == mapping]
        return same[-1] if same else None

    def _draft(self, actor: Actor, dataset: Dataset) -> DatasetVersion | None:
        newest = dataset.versions.order_by("-number").first()
        if newest is None or newest.status in (DatasetVersion.Status.FAILED, DatasetVersion.Status.IMPORTING):
            return None
        if newest.status == DatasetVersion.Status.FROZEN:
            return services.dataset_version_copy(actor=actor, version=newest)
        return newest

    def _progress(self, quiet: bool):
        if quiet or not sys.stderr.isatty():
            return None

        def show(progress: dict[str, Any]) -> None:
            share = progress["bytes"] / max(progress["bytes_total"], 1)
            self.stderr.write(f"\r{progress['rows']:,} rows, {share:.0%}, {progress['rate']:,} a second", ending="")

        return show

    def _print(self, report: dict[str, Any], *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(report, ensure_ascii=True))
            return
        if report["version"]:
            self.stdout.write(f"{report['rows']:,} rows in {report['version']}, content {report['content_hash'][:12]}")
        for error in report["errors"]:
            self.stdout.write(f"line {error['line']}, column {error['column']}: {error['message']} {error['fix']}")
        for warning in report["warnings"]:
            self.stdout.write(f"note: {warning['message']} {_lines(warning['lines'])}")


def _refused(exc: StudioError) -> dict[str, Any]:
    """What was refused before a line was read, in the shape of a report."""
    error = {
        "line": 0,
        "column": 0,
        "code": f"{exc.where}_refused" if exc.where else "refused",
        "message": exc.message,
        "fix": exc.fix,
    }
    return {
        "rows": 0, "skipped_blank": 0, "errors": [error], "warnings": [], "fields": {}, "version": "", "content_hash": "",
    }  # fmt: skip


def _lines(lines: list[int]) -> str:
    return f"Lines {', '.join(map(str, lines[:10]))}{' …' if len(lines) > 10 else ''}." if lines else ""


def _already(known: FileImport) -> dict[str, Any]:
    message = f"The same file is in {known.version} already; it was not imported twice. Use --new-version to do so."
    return {"code": "already_imported", "message": message, "lines": []}
