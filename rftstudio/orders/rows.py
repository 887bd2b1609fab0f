"""Makes a frozen dataset version of a job's two files: the training file is its train split, the other its validation split.

A field named `split` or `id` in a row is the row's own business, as with the hosted service: it moves no row to the other
side, and a row whose id stood before gets a key of its own.
"""

from typing import Any

from django.utils.text import slugify

from datasets import repairs, repeats, reports
from datasets.models import Dataset, DatasetVersion, FileImport, Item, LineProblem, SourceFile, Split
from datasets.row_stats import Stats
from datasets.services import dataset_create, dataset_version_freeze, dataset_version_import
from rftstudio.core.errors import Conflict, UpstreamUnavailable, UserError
from rftstudio.orders.models import JobOrder
from rftstudio.orders.parts import line_name
from rftstudio.orders.shown_rows import items_file
from rftstudio.teams.actor import Actor

LEAST_ROWS = 10
SHOWN_LINES = 3


def version_ready(*, actor: Actor, order: JobOrder) -> DatasetVersion:
    """The version of these bytes: one that an earlier order made, else a new one. UserError says what is wrong, by line."""
    if found := _earlier(order):
        return found
    train, valid = (_readable(actor, order, param) for param in ("training_file", "validation_file"))
    name = line_name(order.training_file.filename.rsplit(".", 1)[0] or "Training file")
    dataset = Dataset.objects.filter(team=actor.team, slug=slugify(name)[:120]).first()
    dataset = dataset or dataset_create(actor=actor, name=name)
    version = _take_in(actor, dataset, train, "training_file", None)
    Item.objects.filter(version=version).update(split=Split.TRAIN)
    if valid:
        first = Item.objects.filter(version=version).order_by("-position").first().position + 1
        version = _take_in(actor, dataset, valid, "validation_file", version)
        Item.objects.filter(version=version, position__gte=first).update(split=Split.VALIDATION)
    version.stats = version.stats | {"repeats": repeats.repeats_find(version)}
    version.save(update_fields=["stats", "updated_at"])
    return dataset_version_freeze(actor=actor, version=version)


def _readable(actor: Actor, order: JobOrder, param: str) -> SourceFile | None:
    """The file as rows that can be taken in: chats with their answers are cut where the first answer stands."""
    file: SourceFile | None = getattr(order, param)
    return items_file(actor=actor, file=file, param=param) if file and order.is_supervised else file


def _earlier(order: JobOrder) -> DatasetVersion | None:
    """Of an earlier order of this method with the very same bytes."""
    rows = JobOrder.objects.filter(
        team=order.team, dataset_version__isnull=False, training_file__sha256=order.training_file.sha256,
        method__type=order.method["type"],
    )  # fmt: skip
    if order.validation_file:
        rows = rows.filter(validation_file__sha256=order.validation_file.sha256)
    else:
        rows = rows.filter(validation_file=None)
    found = rows.select_related("dataset_version").order_by("-pk").first()
    return found.dataset_version if found else None


def _take_in(
    actor: Actor, dataset: Dataset, file: SourceFile, param: str, add_to: DatasetVersion | None
) -> DatasetVersion:
    try:
        version = dataset_version_import(actor=actor, dataset=dataset, source_file=file, add_to=add_to)
    except Conflict as exc:  # another order is taking in the same bytes; its version is found at the next look
        raise UpstreamUnavailable(exc.message, where=param, fix=exc.fix) from exc
    if version.problems.filter(code="duplicate_id", state=LineProblem.State.OPEN).exists():
        repairs.kind_fix(actor=actor, version=version, code="duplicate_id")
        version.refresh_from_db()
    done = version.imports.order_by("-pk").first()
    errors = [one for one in reports.report_full(done)["errors"] if one["code"] != "duplicate_id"]
    if errors:
        raise UserError(_lines(errors), where=param, code=f"invalid_{param}")
    first = add_to.item_count if add_to else 0
    count = version.item_count - first
    if count < LEAST_ROWS:
        which = param.replace("_", " ").capitalize()
        raise UserError(
            f"{which} has {count} example(s), but must have at least {LEAST_ROWS} examples",
            where=param,
            code="invalid_n_examples",
        )
    return version


def _lines(errors: list[dict[str, Any]]) -> str:
    shown = [
        " ".join(filter(None, [f"Line {one['line']}, column {one['column']}: {one['message']}", one["fix"]]))
        for one in errors[:SHOWN_LINES]
    ]
    more = [f"And {len(errors) - SHOWN_LINES:,} more."] if len(errors) > SHOWN_LINES else []
    return " ".join(shown + more)


def fields_of(version: DatasetVersion) -> dict[str, dict[str, dict[str, int]]]:
    """Per file (`training_file`, `validation_file`): each field with how many rows have it."""
    imports = list(FileImport.objects.filter(version=version).order_by("pk"))
    found = {}
    for param, one in zip(("training_file", "validation_file"), imports, strict=False):
        stats = Stats(one.stats)
        found[param] = {
            name: {"present": sum(kinds.values()) - kinds.get("null", 0), "of": max(stats.rows, 1)}
            for name, kinds in stats.fields.items()
        }
    return found


#: Rows read when looking for the tools' schemas.
READ_ROWS = 5000


def tool_schemas(version: DatasetVersion) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Functions that the rows offer, by name, as the first row describes each; and those that later rows describe otherwise."""
    found: dict[str, dict[str, Any]] = {}
    differ: dict[str, None] = {}
    for item in Item.objects.filter(version=version).order_by("position")[:READ_ROWS].iterator(chunk_size=500):
        for tool in item.data.get("tools") or []:
            function = tool.get("function") if isinstance(tool, dict) else None
            if not isinstance(function, dict) or not isinstance(function.get("name"), str):
                continue
            if found.setdefault(function["name"], function) != function:
                differ[function["name"]] = None
    return found, list(differ)
