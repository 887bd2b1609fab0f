"""Changes of a draft from the browser: each is a POST, one service, and back to the page."""

from collections.abc import Callable
from functools import wraps

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from datasets import near_finding, repairs, rereading, selectors, services
from datasets.formats.encodings import ENCODINGS
from datasets.forms import LineForm, SplitForm
from datasets.models import DatasetVersion
from datasets.row_mapping import TARGETS
from datasets.views import version_url
from rftstudio.core.errors import NotAllowed, NotFound, StudioError
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.views_helpers import TeamRequest, errors_on, redirect_to, team_view


def version_change(change: Callable[[TeamRequest, DatasetVersion], tuple[str, str]]):
    """A POST on a version: the function does it and answers the toast and where to go; a refusal is a message."""

    @team_view
    @require_POST
    @wraps(change)
    def inner(request: TeamRequest, public_id: str) -> HttpResponse:
        version = selectors.version_get(team=request.actor.team, public_id=public_id)
        try:
            said, url = change(request, version)
            if said:
                messages.success(request, said)
        except (NotFound, NotAllowed):
            raise
        except StudioError as exc:
            messages.error(request, str(exc))
            url = version_url(version)
        return redirect_to(request, url)

    return inner


@version_change
def kind_fix(request: TeamRequest, version: DatasetVersion) -> tuple[str, str]:
    change = repairs.kind_fix(actor=request.actor, version=version, code=request.POST.get("code", ""))
    return f"Done: {change.title}.", version_url(version)


@version_change
def lines_skip(request: TeamRequest, version: DatasetVersion) -> tuple[str, str]:
    change = repairs.lines_skip(actor=request.actor, version=version, code=request.POST.get("code", ""))
    return f"{change.count:,} lines left out.", version_url(version)


@version_change
def items_drop(request: TeamRequest, version: DatasetVersion) -> tuple[str, str]:
    change = repairs.items_drop(
        actor=request.actor, version=version, code=request.POST.get("code", ""), keys=request.POST.getlist("key")
    )
    return f"{change.count:,} items left out.", version_url(version)


@version_change
def items_map(request: TeamRequest, version: DatasetVersion) -> tuple[str, str]:
    mapping = {target: request.POST[target] for target in TARGETS if request.POST.get(target)}
    change = repairs.items_map(actor=request.actor, version=version, mapping=mapping)
    return f"{change.count:,} conversations made.", version_url(version)


@version_change
def change_undo(request: TeamRequest, version: DatasetVersion) -> tuple[str, str]:
    number = request.POST.get("change", "")
    change = repairs.change_undo(
        actor=request.actor, version=version, change_id=int(number) if number.isdecimal() else 0
    )
    return f"Taken back: {change.title}.", version_url(version)


@version_change
def version_split(request: TeamRequest, version: DatasetVersion) -> tuple[str, str]:
    form = SplitForm(request.POST, fields=list(version.stats.get("fields", {})))
    if not form.is_valid():
        raise StudioError(" ".join(error for errors in form.errors.values() for error in errors))
    services.dataset_version_split(
        actor=request.actor, version=version, shares=form.shares, seed=form.cleaned_data["seed"],
        group_field=form.cleaned_data["group_field"],
    )  # fmt: skip
    return "Items dealt to train, validation and test.", version_url(version)


@version_change
def version_freeze(request: TeamRequest, version: DatasetVersion) -> tuple[str, str]:
    services.dataset_version_freeze(actor=request.actor, version=version)
    return f"Version {version.number} is frozen. Runs may point at it.", version_url(version)


@version_change
def version_copy(request: TeamRequest, version: DatasetVersion) -> tuple[str, str]:
    made = services.dataset_version_copy(actor=request.actor, version=version)
    return f"Version {made.number} started from version {version.number}.", version_url(made)


@version_change
def near_repeats(request: TeamRequest, version: DatasetVersion) -> tuple[str, str]:
    near_finding.near_repeats_start(actor=request.actor, version=version)
    return "", version_url(version, "?tab=repeats")


@version_change
def file_reread(request: TeamRequest, version: DatasetVersion) -> tuple[str, str]:
    encoding = request.POST.get("encoding", "")
    found = rereading.file_reread(actor=request.actor, version=version, encoding=encoding)
    name = found.source_file.filename
    said = f"{name} is read as {ENCODINGS[encoding]}." if encoding else f"{name} is read as it came, as UTF-8."
    return said, version_url(version)


@team_view
@require_GET
def encodings(request: TeamRequest, public_id: str) -> HttpResponse:
    """How the newest file would read in the encodings that fit it."""
    version = selectors.version_get(team=request.actor.team, public_id=public_id)
    check_can(request.actor, Permission.DATASET_EDIT, team=version.team)
    newest = rereading.import_to_reread(version)
    if newest is None:
        raise Http404
    context = {"version": version, "file": newest, "candidates": rereading.candidates_shown(newest)}
    template = "datasets/_encodings.html" if getattr(request, "htmx", False) else "datasets/encodings.html"
    return render(request, template, context)


@team_view
@require_http_methods(["GET", "POST"])
def line_edit(request: TeamRequest, public_id: str, problem_id: int) -> HttpResponse:
    """One refused line with its text, to be typed anew."""
    version = selectors.version_get(team=request.actor.team, public_id=public_id)
    problem = version.problems.select_related("file_import__source_file").filter(pk=problem_id).first()
    if problem is None:
        raise Http404
    form = LineForm(request.POST or None, initial={"text": problem.text})
    if request.method == "POST":
        check_can(request.actor, Permission.DATASET_EDIT, team=version.team)
        if form.is_valid():
            with errors_on(form):
                repairs.line_edit(
                    actor=request.actor, version=version, problem_id=problem.pk, text=form.cleaned_data["text"]
                )
                messages.success(request, f"Line {problem.line} is in.")
                return redirect_to(request, version_url(version))
    context = {"version": version, "problem": problem, "form": form}
    return render(request, "datasets/line_edit.html", context, status=422 if form.errors else 200)
