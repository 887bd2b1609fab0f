"""Pages of label tasks: making one, the queue, settling disagreements, results."""

import json

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from datasets.labelling import exchange, pages, selectors, services
from datasets.labelling.forms import ApplyForm, FieldFormSet, ImportForm, TaskForm, fields_of, values_posted
from datasets.models import Label, LabelEntry, LabelTask
from datasets.views import version_url
from rftstudio.core.errors import NotAllowed, NotFound, StudioError
from rftstudio.teams.permissions import Permission, can, check_can
from rftstudio.teams.views_helpers import TeamRequest, errors_on, redirect_to, team_view

SHOWN = 100


def _url(name: str, task: LabelTask, *more: object) -> str:
    return reverse(f"labels:{name}", args=[task.team.slug, task.public_id, *more])


@team_view
@require_GET
def task_list(request: TeamRequest) -> HttpResponse:
    tasks = list(selectors.task_list(team=request.actor.team)[:SHOWN])
    return render(
        request, "labels/task_list.html", {"tasks": tasks, "may_edit": can(request.actor, Permission.DATASET_EDIT)}
    )


@team_view
@require_http_methods(["GET", "POST"])
def task_new(request: TeamRequest) -> HttpResponse:
    actor = request.actor
    check_can(actor, Permission.DATASET_EDIT, team=actor.team)
    form = TaskForm(request.POST or None, team=actor.team, initial={"version": request.GET.get("version")})
    formset = FieldFormSet(request.POST or None, prefix="field", initial=_starting_fields())
    if request.method == "POST" and form.is_valid() and formset.is_valid():
        with errors_on(form):
            task = services.task_create(actor=actor, fields=fields_of(formset), **form.cleaned_data)
            messages.success(request, f"{task.entries.count():,} entries wait for labels.")
            return redirect_to(request, _url("task-detail", task))
    context = {"form": form, "formset": formset}
    return render(request, "labels/task_new.html", context, status=422 if form.errors else 200)


def _starting_fields() -> list[dict[str, object]]:
    return [
        {"label": "Is the answer right?", "kind": "choice", "options": "Yes\nPartly\nNo", "required": True},
        {"label": "Note for your colleagues", "kind": "note", "required": False},
    ]


@team_view
@require_http_methods(["GET", "POST"])
def task_import(request: TeamRequest) -> HttpResponse:
    check_can(request.actor, Permission.DATASET_EDIT, team=request.actor.team)
    form = ImportForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        with errors_on(form):
            task, left_out = exchange.label_studio_import(
                actor=request.actor, name=form.cleaned_data["name"], content=form.cleaned_data["file"].read()
            )
            if left_out:
                kinds = ", ".join(f"{count} of type {kind}" for kind, count in left_out.items())
                messages.warning(request, f"Answers that no field can hold were left out: {kinds}.")
            return redirect_to(request, _url("task-detail", task))
    return render(request, "labels/task_import.html", {"form": form}, status=422 if form.errors else 200)


@team_view
@require_GET
def task_detail(request: TeamRequest, public_id: str) -> HttpResponse:
    task = selectors.task_get(team=request.actor.team, public_id=public_id)
    visible = selectors.labels_visible(actor=request.actor, task=task)
    names = sorted(set(visible.filter(is_adjudication=False).values_list("annotator", flat=True)))
    settled = task.entries.exclude(status=LabelEntry.Status.OPEN).order_by("position")
    may_edit = can(request.actor, Permission.DATASET_EDIT)
    context = {
        "task": task,
        "progress": selectors.task_progress(actor=request.actor, task=task),
        "agreement": services.agreement_of(task=task),
        "disputes": list(task.entries.filter(status=LabelEntry.Status.DISPUTED).select_related("item")[:SHOWN]),
        "flagged": list(selectors.flagged_list(actor=request.actor, task=task)[:SHOWN]),
        "entries": list(settled.select_related("item")[:SHOWN]),
        "is_annotator": selectors.is_annotator(request.actor, task),
        "is_adjudicator": selectors.is_adjudicator(request.actor, task),
        "apply_form": ApplyForm(task=task, annotators=names) if may_edit and task.version else None,
        "may_edit": may_edit,
        "people": names,
    }
    return render(request, "labels/task_detail.html", context)


@team_view
@require_GET
def entry_next(request: TeamRequest, public_id: str) -> HttpResponse:
    """The person's next entry, or what is left to do when there is none."""
    task = selectors.task_get(team=request.actor.team, public_id=public_id)
    return render(request, "labels/queue.html", _next_context(request, task))


@team_view
@require_GET
def entry_ahead(request: TeamRequest, public_id: str, position: int) -> HttpResponse:
    """What most likely comes after the entry at `position`, prepared while that one is read; empty when nothing does."""
    task = selectors.task_get(team=request.actor.team, public_id=public_id)
    check_can(request.actor, Permission.LABEL, team=task.team)
    found = selectors.entry_ahead(actor=request.actor, task=task, after=position)
    if found is None:
        return HttpResponse(status=204)
    return render(request, "labels/_queue.html", _queue_context(request, task, *found, can_undo=True))


def _next_context(request: TeamRequest, task: LabelTask, notice: str = "") -> dict[str, object]:
    claimed = services.entry_claim(actor=request.actor, task=task)
    if claimed is None:
        return {
            "task": task,
            "progress": selectors.task_progress(actor=request.actor, task=task),
            "is_adjudicator": selectors.is_adjudicator(request.actor, task),
        }
    entry, label = claimed
    return _queue_context(request, task, entry, label) | {"notice": notice}


def _queue_context(
    request: TeamRequest, task: LabelTask, entry: LabelEntry, label: Label, error: str = "", can_undo: bool = False
) -> dict[str, object]:
    shown = pages.entry_shown(entry)
    return {
        "task": task,
        "entry": entry,
        "shown": shown,
        **pages.form_context(task, label.values, shown),
        "label": label,
        "progress": selectors.task_progress(actor=request.actor, task=task),
        "error": error,
        "can_undo": can_undo or selectors.last_submitted(actor=request.actor, task=task) is not None,
    }


@team_view
@require_POST
def label_save(request: TeamRequest, public_id: str, position: int) -> HttpResponse:
    """Autosave: answers the small sentence that says so."""
    task, entry = _entry(request, public_id, position)
    values = values_posted(task.fields, request.POST)
    try:
        services.label_save(actor=request.actor, entry=entry, values=values, is_flagged="flag" in request.POST)
        said = f"saved {timezone.localtime():%H:%M:%S}"
    except (NotFound, NotAllowed):
        raise
    except services.Taken as exc:
        said = str(exc)
    except StudioError as exc:
        said = f"not saved: {exc.message}"
    return render(request, "labels/_saved.html", {"said": said})


def _entry(request: TeamRequest, public_id: str, position: int) -> tuple[LabelTask, LabelEntry]:
    task = selectors.task_get(team=request.actor.team, public_id=public_id)
    return task, selectors.entry_get(task=task, position=position)


@team_view
@require_POST
def label_submit(request: TeamRequest, public_id: str, position: int) -> HttpResponse:
    """Hand the answer in. A page with htmx gets the next entry in the same answer, so nobody waits between two."""
    task, entry = _entry(request, public_id, position)
    values, is_flagged, notice = values_posted(task.fields, request.POST), "flag" in request.POST, ""
    try:
        services.label_submit(actor=request.actor, entry=entry, values=values, is_flagged=is_flagged)
    except services.Taken as exc:
        notice = str(exc)
    except (NotFound, NotAllowed):
        raise
    except StudioError as exc:
        draft = Label(entry=entry, values=values, is_flagged=is_flagged)
        context = _queue_context(request, task, entry, draft, error=str(exc))
        return render(request, _queue_template(request, entry), context, status=422)
    if request.htmx:
        context = _next_context(request, task, notice)
        return render(request, _queue_template(request, context.get("entry")), context)
    if notice:
        messages.warning(request, notice)
    return redirect_to(request, _url("entry-next", task))


def _queue_template(request: TeamRequest, entry: object) -> str:
    if not request.htmx:
        return "labels/queue.html"
    return "labels/_queue.html" if entry else "labels/_queue_empty.html"


@team_view
@require_POST
def label_skip(request: TeamRequest, public_id: str, position: int) -> HttpResponse:
    task, entry = _entry(request, public_id, position)
    try:
        services.label_skip(actor=request.actor, entry=entry, reason=request.POST.get("reason", ""))
        messages.success(request, f"Entry {entry.subject} skipped.")
    except (NotFound, NotAllowed):
        raise
    except StudioError as exc:
        messages.error(request, str(exc))
    return redirect_to(request, _url("entry-next", task))


@team_view
@require_POST
def label_undo(request: TeamRequest, public_id: str) -> HttpResponse:
    task = selectors.task_get(team=request.actor.team, public_id=public_id)
    try:
        entry = services.label_undo(actor=request.actor, task=task)
        messages.success(request, f"{entry.subject} is open again." if entry else "There is nothing to take back.")
    except (NotFound, NotAllowed):
        raise
    except StudioError as exc:
        messages.error(request, str(exc))
    return redirect_to(request, _url("entry-next", task))


@team_view
@require_http_methods(["GET", "POST"])
def entry_settle(request: TeamRequest, public_id: str, position: int) -> HttpResponse:
    """Labels side by side, names hidden until the entry is settled, and the form for the decision."""
    task, entry = _entry(request, public_id, position)
    if not selectors.is_adjudicator(request.actor, task):
        raise NotAllowed("You are not among the people who settle this task.", fix="Ask its maker to name you.")
    labels = [
        label
        for label in selectors.labels_visible(actor=request.actor, task=task).filter(entry=entry, is_adjudication=False)
        if label.status == Label.Status.SUBMITTED
    ]
    error, values = "", entry.result
    if request.method == "POST":
        values = values_posted(task.fields, request.POST)
        try:
            services.entry_adjudicate(actor=request.actor, entry=entry, values=values)
            following = task.entries.filter(status=LabelEntry.Status.DISPUTED).order_by("position").first()
            messages.success(request, f"{entry.subject} is settled.")
            url = _url("entry-settle", task, following.position) if following else _url("task-detail", task)
            return redirect_to(request, url)
        except (NotFound, NotAllowed):
            raise
        except StudioError as exc:
            error = str(exc)
    shown = pages.entry_shown(entry)
    context = {
        "task": task,
        "entry": entry,
        "shown": shown,
        "answers": pages.answers_side_by_side(entry, labels),
        **pages.form_context(task, values, shown),
        "compared_fields": task.fields,
        "error": error,
        "events": list(entry.events.all()) if entry.status == LabelEntry.Status.SETTLED else [],
    }
    return render(request, "labels/settle.html", context, status=422 if error else 200)


@team_view
@require_POST
def labels_apply(request: TeamRequest, public_id: str) -> HttpResponse:
    task = selectors.task_get(team=request.actor.team, public_id=public_id)
    names = list(Label.objects.filter(entry__task=task).values_list("annotator", flat=True).distinct())
    form = ApplyForm(request.POST, task=task, annotators=names)
    check_can(request.actor, Permission.DATASET_EDIT, team=task.team)
    try:
        if not form.is_valid():
            raise StudioError("Choose a field and a rule.")
        version, count = services.labels_apply(actor=request.actor, task=task, **form.cleaned_data)
        messages.success(request, f"{count:,} items of {version} have the labels now.")
        return redirect_to(request, version_url(version))
    except (NotFound, NotAllowed):
        raise
    except StudioError as exc:
        messages.error(request, str(exc))
        return redirect_to(request, _url("task-detail", task))


@team_view
@require_POST
def task_status(request: TeamRequest, public_id: str) -> HttpResponse:
    task = selectors.task_get(team=request.actor.team, public_id=public_id)
    status = LabelTask.Status.CLOSED if request.POST.get("status") == "closed" else LabelTask.Status.OPEN
    services.task_set_status(actor=request.actor, task=task, status=status)
    return redirect_to(request, _url("task-detail", task))


@team_view
@require_GET
def task_export(request: TeamRequest, public_id: str) -> HttpResponse:
    task = selectors.task_get(team=request.actor.team, public_id=public_id)
    rows = exchange.label_studio_export(actor=request.actor, task=task)
    response = HttpResponse(json.dumps(rows, indent=1), content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="{task.public_id}.json"'
    return response
