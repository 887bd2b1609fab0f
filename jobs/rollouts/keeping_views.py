"""Pages around the rollout list: kept searches, masking rules, files of traces."""

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from jobs.rollouts import keeping
from jobs.rollouts.imports.detect import FORMATS
from jobs.rollouts.imports.service import rollouts_import
from jobs.rollouts.masking import KINDS
from jobs.rollouts.models import MaskRule
from rftstudio.core.errors import NotAllowed, NotFound, UserError
from rftstudio.teams.permissions import Permission, can, check_can
from rftstudio.teams.views_helpers import TeamRequest, errors_on, redirect_to, team_view

#: Larger files come by the command, which needs no browser to wait.
MOST_BYTES = 64_000_000


def _list_url(request: TeamRequest, query: str = "") -> str:
    url = reverse("rollouts:rollout-list", args=[request.actor.team.slug])
    return f"{url}?{query}" if query else url


@team_view
@require_POST
def view_save(request: TeamRequest) -> HttpResponse:
    query = request.POST.get("query", "")
    try:
        row = keeping.saved_view_save(actor=request.actor, name=request.POST.get("name", ""), query=query)
    except (NotAllowed, NotFound):
        raise
    except UserError as exc:
        messages.error(request, str(exc))
        return redirect_to(request, _list_url(request, query))
    messages.success(request, f"Kept as “{row.name}”.")
    return redirect_to(request, _list_url(request, row.query))


@team_view
@require_POST
def view_remove(request: TeamRequest, pk: int) -> HttpResponse:
    keeping.saved_view_remove(actor=request.actor, pk=pk)
    return redirect_to(request, _list_url(request))


class MaskForm(forms.Form):
    """One rule."""

    kind = forms.ChoiceField(label="Take out", choices=list(KINDS.items()))
    words = forms.CharField(
        label="Word or phrase",
        required=False,
        max_length=200,
        help_text="Only for your own words: case-* or Project Blue.",
    )


@team_view
@require_http_methods(["GET", "POST"])
def mask_list(request: TeamRequest) -> HttpResponse:
    """What is taken out of this team's rollouts before they are stored."""
    team = request.actor.team
    check_can(request.actor, Permission.VIEW, team=team)
    form = MaskForm(request.POST if request.method == "POST" else None)
    if request.method == "POST":
        check_can(request.actor, Permission.TEAM_MANAGE, team=team)
        if form.is_valid():
            with errors_on(form):
                keeping.mask_rule_add(actor=request.actor, **form.cleaned_data)
                return redirect_to(request, reverse("rollouts:mask-list", args=[team.slug]))
    can_edit = can(request.actor, Permission.TEAM_MANAGE)
    rules = [
        {"pk": row.pk, "title": KINDS[row.kind] if row.kind != "words" else row.words if can_edit else "A phrase of the team",
         "by": row.created_by, "at": row.created_at}
        for row in MaskRule.objects.filter(team=team).select_related("created_by").order_by("pk") if row.kind in KINDS
    ]  # fmt: skip
    context = {"form": form, "rules": rules, "can_edit": can_edit}
    return render(request, "rollouts/mask_list.html", context, status=422 if form.errors else 200)


@team_view
@require_POST
def mask_remove(request: TeamRequest, pk: int) -> HttpResponse:
    keeping.mask_rule_remove(actor=request.actor, pk=pk)
    return redirect_to(request, reverse("rollouts:mask-list", args=[request.actor.team.slug]))


class ImportForm(forms.Form):
    """A file of traces."""

    file = forms.FileField(label="File", help_text="JSON, JSON lines or OTLP protobuf, plain or gzipped, up to 64 MB.")
    format = forms.ChoiceField(
        label="Format",
        choices=[("auto", "find out")] + [(key, key.replace("_", " ")) for key in FORMATS],
        initial="auto",
    )
    pass_threshold = forms.FloatField(
        label="Passes from", initial=0.5, help_text="The reward from which a rollout passes."
    )

    def clean_file(self):
        file = self.cleaned_data["file"]
        if file.size > MOST_BYTES:
            raise forms.ValidationError(
                f"The file has {file.size / 1e6:,.0f} MB. Split it, or use manage.py rollouts_import FILE --team SLUG."
            )
        return file


@team_view
@require_http_methods(["GET", "POST"])
def rollout_import(request: TeamRequest) -> HttpResponse:
    """Bring traces from elsewhere; afterwards, what was found in the file."""
    team = request.actor.team
    check_can(request.actor, Permission.EVALUATION_RUN, team=team)
    form = ImportForm(request.POST or None, request.FILES or None)
    context: dict = {"form": form}
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        with errors_on(form):
            outcome = rollouts_import(
                actor=request.actor, content=data["file"].read(), filename=data["file"].name,
                format=data["format"], pass_threshold=data["pass_threshold"],
            )  # fmt: skip
            context |= {"outcome": outcome, "flags": outcome.report["flags"][:200], "form": ImportForm()}
    return render(request, "rollouts/rollout_import.html", context, status=422 if form.errors else 200)
