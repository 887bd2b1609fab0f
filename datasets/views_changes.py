"""Changes of a draft from the browser: each is a POST, one service, and back to the page."""

from collections.abc import Callable
from functools import wraps

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods, require_POST

from datasets import repairs, selectors, services, tasks
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
    check_can(request.actor, Permission.DATASET_EDIT, team=version.team)
    if version.item_count <= 2000:
        services.near_repeats_find(version_id=version.pk)
        return "Looked for questions that are almost the same.", version_url(version, "?tab=repeats")
    tasks.near_repeats_find.delay_on_commit(version.pk)
    return "Looking for questions that are almost the same; this page will list them.", version_url(
        version, "?tab=repeats"
    )


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
