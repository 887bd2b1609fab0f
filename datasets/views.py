"""Pages of datasets and versions: looking at them, uploading, exporting. Changes are in views_changes.py."""

import csv
import io
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods

from datasets import diffs, exports, pages, readers, selectors, services, showing
from datasets.formats.base import FileRefused
from datasets.forms import FilterForm, MappingForm, SplitForm, UploadForm
from datasets.labelling.pages import item_labels, label_figure, label_marks
from datasets.labelling.selectors import task_list
from datasets.models import DatasetVersion, LineProblem, SourceFile
from datasets.near_finding import near_state
from datasets.rereading import import_to_reread
from datasets.row_checks import reference_of
from datasets.row_mapping import USUAL_PROMPTS, USUAL_REFERENCES
from rftstudio.teams.permissions import Permission, can, check_can
from rftstudio.teams.views_helpers import TeamRequest, errors_on, redirect_to, team_view

IMPORT_AT_ONCE = 4 * 1024 * 1024
TABS = ("items", "lines", "labels", "repeats", "fields", "used", "history")


def version_url(version: DatasetVersion, query: str = "") -> str:
    return reverse("datasets:version-detail", args=[version.team.slug, version.public_id]) + query


@team_view
@require_GET
def dataset_list(request: TeamRequest) -> HttpResponse:
    before = request.GET.get("before", "")
    rows, cursor = pages.dataset_rows(request.actor.team, before=int(before) if before.isdecimal() else None)
    context = {"datasets": rows, "cursor": cursor, "may_edit": can(request.actor, Permission.DATASET_EDIT)}
    return render(request, "datasets/dataset_list.html", context)


@team_view
@require_http_methods(["GET", "POST"])
def dataset_new(request: TeamRequest) -> HttpResponse:
    """Upload a file. One that holds conversations is imported at once; the columns of another are asked for."""
    actor = request.actor
    check_can(actor, Permission.DATASET_EDIT, team=actor.team)
    first = {
        "dataset": selectors.dataset_list(team=actor.team).filter(public_id=request.GET.get("dataset", "")).first()
    }
    form = UploadForm(request.POST or None, request.FILES or None, team=actor.team, initial=first)
    add_to = _draft_wanted(request)
    if request.method == "POST" and form.is_valid():
        with errors_on(form):
            upload = form.cleaned_data["file"]
            dataset = form.cleaned_data["dataset"] or services.dataset_create(
                actor=actor, name=form.cleaned_data["name"]
            )
            source_file = services.source_file_upload(actor=actor, filename=upload.name, content=upload)
            query = f"?dataset={dataset.public_id}" + (f"&add_to={add_to.public_id}" if add_to else "")
            if split := form.cleaned_data["split"]:
                query += f"&split={split}"
            if _wants_mapping(source_file):
                url = reverse("datasets:source-file-map", args=[actor.team.slug, source_file.public_id])
                return redirect_to(request, url + query)
            return redirect_to(request, version_url(_import(request, dataset, source_file, {}, split, add_to)))
    context = {"form": form, "add_to": add_to}
    return render(request, "datasets/dataset_new.html", context, status=422 if form.errors else 200)


def _draft_wanted(request: TeamRequest) -> DatasetVersion | None:
    public_id = request.GET.get("add_to", "")
    return selectors.version_get(team=request.actor.team, public_id=public_id) if public_id else None


def _first_rows(source_file: SourceFile, count: int = 20) -> tuple[list[Any], Any]:
    with source_file.content.open("rb") as stream:
        facts = readers.facts_of(stream, source_file.filename)
        return readers.first_rows(stream, facts, count), facts


def _wants_mapping(source_file: SourceFile) -> bool:
    try:
        rows, _ = _first_rows(source_file, 3)
    except FileRefused:
        return False
    return bool(rows) and not any("messages" in row.value for row in rows)


def _import(
    request: TeamRequest, dataset: Any, source_file: SourceFile, mapping: dict[str, str], split: str,
    add_to: DatasetVersion | None,
) -> DatasetVersion:  # fmt: skip
    is_small = source_file.bytes <= IMPORT_AT_ONCE
    started = services.dataset_version_import_start(
        actor=request.actor,
        dataset=dataset,
        source_file=source_file,
        mapping=mapping,
        split=split,
        add_to=add_to,
        queue=not is_small,
    )
    if is_small:
        services.file_import_run(file_import_id=started.pk)
    return started.version


@team_view
@require_http_methods(["GET", "POST"])
def source_file_map(request: TeamRequest, public_id: str) -> HttpResponse:
    """Choose the columns; the first rows are shown as they will become, at every change."""
    actor = request.actor
    check_can(actor, Permission.DATASET_EDIT, team=actor.team)
    source_file = selectors.source_file_get(team=actor.team, public_id=public_id)
    dataset = selectors.dataset_get(team=actor.team, public_id=request.GET.get("dataset", ""))
    try:
        rows, _ = _first_rows(source_file)
    except FileRefused as refused:
        raise Http404(refused.message) from refused
    columns = list(dict.fromkeys(name for row in rows for name in row.value))
    is_asked = request.method == "POST" or "prompt" in request.GET
    data = (request.POST if request.method == "POST" else request.GET) if is_asked else _suggested(columns)
    form = MappingForm(data, columns=columns)
    is_valid = form.is_valid()
    if request.method == "POST" and is_valid:
        split = request.GET.get("split", "")
        version = _import(request, dataset, source_file, form.mapping, split, _draft_wanted(request))
        return redirect_to(request, version_url(version))
    shown = [_preview(row.value, form.mapping if is_valid else {}) for row in rows[:3]]
    context = {"form": form, "source_file": source_file, "dataset": dataset, "preview": shown, "columns": columns}
    template = "datasets/_mapping_preview.html" if getattr(request, "htmx", False) else "datasets/source_file_map.html"
    return render(request, template, context, status=422 if request.method == "POST" else 200)


def _suggested(columns: list[str]) -> dict[str, str]:
    names = {"prompt": USUAL_PROMPTS, "reference": USUAL_REFERENCES}
    found = {
        target: next((column for usual in usuals for column in columns if usual in column.lower()), "")
        for target, usuals in names.items()
    }
    found["prompt"] = found["prompt"] or next((column for column in columns if "quer" in column.lower()), columns[0])
    found["reference"] = found["reference"] or next((name for name in columns if "truth" in name.lower()), "")
    return found | {"id": "id" if "id" in columns else "", "split": "split" if "split" in columns else ""}


def _preview(value: dict[str, Any], mapping: dict[str, str]) -> dict[str, Any]:
    made = readers.apply_mapping(value, mapping) if mapping else None
    value = made or value
    return {"messages": showing.messages_shown(value), "fields": showing.fields_shown(value), "is_made": bool(made)}


@team_view
@require_GET
def version_detail(request: TeamRequest, public_id: str) -> HttpResponse:
    version = selectors.version_get(team=request.actor.team, public_id=public_id)
    tab = request.GET.get("tab", "items")
    tab = tab if tab in TABS else "items"
    context = {
        "version": version,
        "tab": tab,
        **version_context(request, version),
        **_TAB_CONTEXTS[tab](request, version),
    }
    return render(request, "datasets/version_detail.html", context)


def version_context(request: TeamRequest, version: DatasetVersion) -> dict[str, Any]:
    """What every tab of the page shows."""
    counts = selectors.split_counts(version)
    kinds = pages.problem_kinds(version) if version.status != DatasetVersion.Status.IMPORTING else []
    earlier = selectors.version_list(team=version.team, dataset=version.dataset).exclude(pk=version.pk)
    is_draft = version.status == DatasetVersion.Status.DRAFT
    may_edit = can(request.actor, Permission.DATASET_EDIT)
    gates = selectors.version_gates(version) if is_draft else []
    return {
        "files": list(version.imports.select_related("source_file")),
        "counts": [(side, counts.get(side, 0), tone) for side, tone in SIDE_TONES],
        "gates": gates,
        "is_ready": is_draft and all(gate.state != "bad" for gate in gates),
        "is_draft": is_draft,
        "is_frozen": version.status == DatasetVersion.Status.FROZEN,
        "may_edit": may_edit,
        "may_change": is_draft and may_edit,
        "kinds": kinds,
        "problem_count": sum(kind.count for kind in kinds),
        "labelled": label_figure(version),
        "lengths": pages.length_bars(version.stats),
        "classes": pages.class_rows(version.stats),
        "others": list(earlier[:12]),
        "last_change": version.changes.filter(undone_at=None).first() if is_draft else None,
        "tabs": _tabs(version, kinds, request.GET.get("tab", "items")),
        "exports": list(exports.FORMATS),
        "reread": import_to_reread(version) if may_edit else None,
        "progress": progress_context(version) if version.status == DatasetVersion.Status.IMPORTING else None,
    }


SIDE_TONES = (("train", "c1"), ("validation", "c2"), ("test", "c6"))


def _tabs(version: DatasetVersion, kinds: list[pages.ProblemKind], current: str) -> list[dict[str, Any]]:
    repeats = version.stats.get("repeats", {})
    lines = sum(kind.count for kind in kinds)
    near = (version.stats.get("near") or {}).get("count", 0)
    words = (
        ("items", "Items", version.item_count, None),
        ("lines", "Lines to fix", None if lines else 0, lines or None),
        ("labels", "Labels", None, None),
        ("repeats", "Repeats and leaks", repeats.get("count", 0) + near, repeats.get("leaks") or None),
        ("fields", "Fields", len(version.stats.get("fields", {})), None),
        ("used", "Used by", None, None),
        ("history", "History", None, None),
    )
    current = current if current in TABS else "items"
    return [
        {"label": label, "url": f"?tab={name}", "count": count, "problems": problems, "is_current": name == current}
        for name, label, count, problems in words
    ]


def _items_context(request: TeamRequest, version: DatasetVersion) -> dict[str, Any]:
    values = FilterForm(request.GET).values()
    split, problem, search = values["split"] or "", values["problem"] or "", (values["q"] or "").strip()
    page = pages.item_page(
        version, split=split, problem=problem, search=search, after=values["after"], before=values["before"]
    )
    marks = label_marks(page.items)
    for item in page.items:
        item.reference, item.label_mark = _short(item), marks.get(item.pk, "")
    return {
        "page": page,
        "split": split,
        "problem": problem,
        "search": search,
        "has_labels": bool(marks),
        "is_filtered": bool(split or problem or search),
    }


def _short(item: Any) -> str:
    reference = reference_of(item.data)
    return "" if reference is None else showing.plain(reference)[:120]


def _lines_context(request: TeamRequest, version: DatasetVersion) -> dict[str, Any]:
    code = request.GET.get("code", "")
    lines = version.problems.order_by("line", "pk")
    lines = lines.filter(code=code) if code else lines
    return {
        "code": code,
        "lines": list(lines[:100]),
        "skipped": version.problems.filter(state=LineProblem.State.SKIPPED).count(),
    }


def _repeats_context(request: TeamRequest, version: DatasetVersion) -> dict[str, Any]:
    near = near_state(version)
    return {
        "repeats": version.stats.get("repeats", {}),
        "near": near.found,
        "looking": near.looking,
        "is_stopped": near.is_stopped,
    }


def _fields_context(request: TeamRequest, version: DatasetVersion) -> dict[str, Any]:
    return {
        "fields": pages.field_rows(version.stats, pages.split_coverage(version), pages.text_hints(version)),
        "warnings": version.report.get("warnings", []),
    }


def _labels_context(request: TeamRequest, version: DatasetVersion) -> dict[str, Any]:
    return {"label_tasks": list(task_list(team=version.team).filter(version=version))}


def _history_context(request: TeamRequest, version: DatasetVersion) -> dict[str, Any]:
    return {
        "changes": list(version.changes.all()[:100]),
        "split_form": SplitForm(fields=list(version.stats.get("fields", {}))),
    }


_TAB_CONTEXTS = {
    "items": _items_context, "lines": _lines_context, "labels": _labels_context, "repeats": _repeats_context, "fields": _fields_context,
    "used": lambda request, version: {}, "history": _history_context,
}  # fmt: skip


def progress_context(version: DatasetVersion) -> dict[str, Any]:
    """Rows, rate and time left of the import at work."""
    done = version.progress or {}
    running = selectors.import_running(version)
    share = done.get("bytes", 0) / max(done.get("bytes_total", 0), 1)
    rows, rate = done.get("rows", 0), done.get("rate", 0)
    total = round(rows / share) if share > 0.01 else None
    left = round((total - rows) / rate) if total and rate else None
    return {
        "rows": rows, "total": total, "rate": rate, "left": left, "problems": done.get("problems", 0),
        "filename": running.source_file.filename if running else "", "is_waiting": not done,
    }  # fmt: skip


@team_view
@require_GET
def import_progress(request: TeamRequest, public_id: str) -> HttpResponse:
    """The progress while the import runs; when it has ended, the whole page is asked for anew."""
    version = selectors.version_get(team=request.actor.team, public_id=public_id)
    if version.status != DatasetVersion.Status.IMPORTING:
        return redirect_to(request, version_url(version))
    context = {"version": version, "team": version.team, "progress": progress_context(version)}
    return render(request, "datasets/_import_progress.html", context)


@team_view
@require_GET
def near_found(request: TeamRequest, public_id: str) -> HttpResponse:
    """How far the look for almost equal questions is; when it has ended, the tab is asked for anew."""
    version = selectors.version_get(team=request.actor.team, public_id=public_id)
    looking = near_state(version).looking
    if looking is None:
        return redirect_to(request, version_url(version, "?tab=repeats"))
    return render(
        request, "datasets/_near_looking.html", {"version": version, "team": version.team, "looking": looking}
    )


@team_view
@require_GET
def item_detail(request: TeamRequest, public_id: str, position: int) -> HttpResponse:
    version = selectors.version_get(team=request.actor.team, public_id=public_id)
    item = selectors.item_list(team=request.actor.team, version=version).filter(position=position).first()
    if item is None:
        raise Http404
    value = item.data
    context = {
        "version": version, "item": item, "messages_shown": showing.messages_shown(value),
        "fields": showing.fields_shown(value), "value": value, "changes": list(item.changes.select_related("change")[:20]),
        "labels": item_labels(item),
    }  # fmt: skip
    template = "datasets/_item.html" if getattr(request, "htmx", False) else "datasets/item_detail.html"
    return render(request, template, context)


@team_view
@require_GET
def version_compare(request: TeamRequest, public_id: str, other: str) -> HttpResponse:
    after = selectors.version_get(team=request.actor.team, public_id=public_id)
    before = selectors.version_get(team=request.actor.team, public_id=other)
    context = {"version": after, "before": before, "diff": diffs.versions_diff(before, after)}
    return render(request, "datasets/version_compare.html", context)


@team_view
@require_GET
def version_export(request: TeamRequest, public_id: str, file_format: str) -> StreamingHttpResponse:
    version = selectors.version_get(team=request.actor.team, public_id=public_id)
    split = request.GET.get("split", "")
    content = exports.export(version, file_format, split)
    response = StreamingHttpResponse(content, content_type=exports.FORMATS[file_format])
    name = "-".join(filter(None, (version.dataset.slug, f"v{version.number}", split)))
    response["Content-Disposition"] = f'attachment; filename="{name}.{file_format}"'
    return response


@team_view
@require_GET
def problems_csv(request: TeamRequest, public_id: str) -> StreamingHttpResponse:
    """Every line that was not imported, for a spreadsheet."""
    version = selectors.version_get(team=request.actor.team, public_id=public_id)
    response = StreamingHttpResponse(_problem_lines(version), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{version.dataset.slug}-lines.csv"'
    return response


def _problem_lines(version: DatasetVersion):
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow(["file", "line", "column", "code", "message", "fix", "state", "text"])
    rows = version.problems.select_related("file_import__source_file").order_by("line", "pk")
    for problem in rows.iterator(chunk_size=1000):
        cells = (problem.file_import.source_file.filename, problem.code, problem.message, problem.fix, problem.state)
        name, code, message, fix, state = map(exports.safe_cell, cells)
        writer.writerow(
            [name, problem.line, problem.column, code, message, fix, state, exports.safe_cell(problem.text)]
        )
        yield buffer.getvalue().encode()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue().encode()


def say(request: TeamRequest, text: str) -> None:
    messages.success(request, text)
