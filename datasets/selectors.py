"""Reads of datasets, versions and items."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, QuerySet

from datasets.models import Dataset, DatasetVersion, FileImport, Item, LabelEntry, LabelTask, LineProblem, SourceFile
from datasets.row_checks import FAULTS
from rftstudio.core.errors import NotFound
from rftstudio.teams.models import Team


def _found(row: Any) -> Any:
    if row is None:
        raise NotFound("There is nothing at this address.")
    return row


def source_file_get(*, team: Team, public_id: str) -> SourceFile:
    return _found(SourceFile.objects.filter(team=team, public_id=public_id).first())


def dataset_list(*, team: Team) -> QuerySet[Dataset]:
    """The team's datasets, newest first."""
    return Dataset.objects.filter(team=team).order_by("-pk")


def dataset_get(*, team: Team, public_id: str) -> Dataset:
    return _found(Dataset.objects.filter(team=team, public_id=public_id).first())


def version_get(*, team: Team, public_id: str) -> DatasetVersion:
    rows = DatasetVersion.objects.select_related("dataset", "team", "source_file", "created_by")
    return _found(rows.filter(team=team, public_id=public_id).first())


def version_list(*, team: Team, dataset: Dataset) -> QuerySet[DatasetVersion]:
    """The versions of a dataset, newest first."""
    return DatasetVersion.objects.filter(team=team, dataset=dataset).order_by("-number")


def item_list(*, team: Team, version: DatasetVersion, split: str | None = None) -> QuerySet[Item]:
    """The items in order, or those of one split."""
    rows = Item.objects.filter(version=version, version__team=team).order_by("position")
    return rows.filter(split=split) if split else rows


def item_get(*, team: Team, version: DatasetVersion, key: str) -> Item:
    return _found(item_list(team=team, version=version).filter(key=key).first())


def import_running(version: DatasetVersion) -> FileImport | None:
    return version.imports.filter(status=FileImport.Status.RUNNING).select_related("source_file").last()


def split_counts(version: DatasetVersion) -> dict[str, int]:
    rows = Item.objects.filter(version=version).order_by().values_list("split").annotate(count=Count("pk"))
    return dict(rows)


@dataclass(frozen=True)
class Gate:
    """One line of what has to hold before a version is frozen. `state` is ok, warn or bad."""

    state: str
    text: str
    code: str = ""


def open_problem_count(version: DatasetVersion) -> int:
    return version.problems.filter(state=LineProblem.State.OPEN).count()


def fault_counts(version: DatasetVersion) -> dict[str, int]:
    """Items that cannot be trained on, by the code of their fault."""
    rows = Item.objects.filter(version=version).exclude(problem="").order_by()
    return dict(rows.values_list("problem").annotate(count=Count("pk")))


def version_gates(version: DatasetVersion) -> list[Gate]:
    """What blocks freezing and what is worth a look."""
    gates = []
    if version.item_count == 0:
        gates.append(Gate("bad", "no items yet", "empty"))
    lines = open_problem_count(version)
    gates.append(Gate("bad", f"{lines:,} lines to fix or skip", "lines") if lines else Gate("ok", "every line is in"))
    faults = fault_counts(version)
    for code, count in faults.items():
        gates.append(Gate("bad", f"{count:,} items: {FAULTS[code].message}", code))
    if not faults and version.item_count:
        gates.append(Gate("ok", "every item ends with a question"))
    repeats = version.stats.get("repeats", {})
    if repeats.get("leaks"):
        gates.append(Gate("warn", f"{repeats['leaks']:,} conversations are in two splits", "leaks"))
    elif version.item_count:
        gates.append(Gate("ok", "no repeats between splits"))
    near = (version.stats.get("near") or {}).get("leaks", 0)
    if near:
        gates.append(Gate("warn", f"{near:,} almost equal questions are in two splits", "leaks"))
    empty = next((entry for entry in version.report.get("warnings", []) if entry["code"] == "empty_reference"), None)
    if empty:
        gates.append(Gate("warn", f"{empty['count']:,} items have an empty reference", "empty_reference"))
    waiting = LabelEntry.objects.filter(
        task__version=version, task__status=LabelTask.Status.OPEN, status__in=["open", "disputed"]
    ).count()
    if waiting:
        gates.append(Gate("warn", f"{waiting:,} items wait for labels", "labels"))
    return gates
