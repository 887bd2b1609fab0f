"""The browser's door to jobs."""

from django.contrib import messages
from django.http import FileResponse, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from jobs import launch_pages, pages, selectors, services
from jobs.columns import COLUMNS, cells, columns_chosen
from jobs.forms import NoteForm
from rftstudio.core.errors import NotFound
from rftstudio.teams.permissions import Permission, can
from rftstudio.teams.views_helpers import TeamRequest, redirect_to, team_view

PAGE, EVENT_PAGE = 50, 100


@team_view
@require_GET
def job_list(request: TeamRequest) -> HttpResponse:
    """All jobs, newest first. The columns a person chose stay until they choose others."""
    if chosen := request.GET.getlist("column"):
        request.session["job_columns"] = chosen[: len(COLUMNS)]
    columns = columns_chosen(request.session.get("job_columns") or ())
    rows = selectors.job_list(team=request.actor.team).order_by("-number")
    before = request.GET.get("before", "")
    if before.isdigit():
        rows = rows.filter(number__lt=int(before))
    page = list(rows[: PAGE + 1])
    lines = pages.list_lines(page[:PAGE])
    context = {
        "lines": [line | {"cells": cells(line, columns)} for line in lines],
        "columns": columns,
        "every_column": [(column, column in columns) for column in COLUMNS],
        "next_before": page[PAGE - 1].number if len(page) > PAGE else None,
        "may_launch": can(request.actor, Permission.JOB_LAUNCH),
        "drafts": launch_pages.drafts_shown(request.actor),
        "newest_baseline": selectors.baseline_list(team=request.actor.team).first(),
    }
    return render(request, "jobs/job_list.html", context)


@team_view
@require_GET
def job_detail(request: TeamRequest, public_id: str) -> HttpResponse:
    """Is it learning, is it honest, is there anything to do?"""
    job = selectors.job_get(team=request.actor.team, public_id=public_id)
    context = pages.state_context(job, request.actor) | pages.charts_context(job, request.actor)
    return render(request, "jobs/job_detail.html", context | pages.detail_context(job, request.actor))


@team_view
@require_GET
def job_state(request: TeamRequest, public_id: str) -> HttpResponse:
    job = selectors.job_get(team=request.actor.team, public_id=public_id)
    return render(request, "jobs/_job_state.html", pages.state_context(job, request.actor))


@team_view
@require_GET
def job_charts(request: TeamRequest, public_id: str) -> HttpResponse:
    job = selectors.job_get(team=request.actor.team, public_id=public_id)
    return render(request, "jobs/_job_charts.html", pages.charts_context(job, request.actor))


@team_view
@require_GET
def job_events(request: TeamRequest, public_id: str) -> HttpResponse:
    """The whole story, newest first. A page goes on after an event, so what is added meanwhile shifts nothing."""
    job = selectors.job_get(team=request.actor.team, public_id=public_id)
    rows = selectors.event_list(job, before=request.GET.get("before", ""))
    level = request.GET.get("level", "")
    if level in {"info", "warn", "error"}:
        rows = rows.filter(level=level)
    page = list(rows.defer("data")[: EVENT_PAGE + 1])
    context = {
        "job": job,
        "title": pages.title_of(job),
        "events": page[:EVENT_PAGE],
        "level": level,
        "next_before": page[EVENT_PAGE - 1].public_id if len(page) > EVENT_PAGE else None,
    }
    return render(request, "jobs/job_events.html", context)


@team_view
@require_GET
def job_result(request: TeamRequest, public_id: str, file_id: str) -> FileResponse:
    """A file that the provider wrote about the job."""
    job = selectors.job_get(team=request.actor.team, public_id=public_id)
    found = selectors.result_files(job).filter(public_id=file_id).first()
    if found is None:
        raise NotFound("The job has no such result file.")
    return FileResponse(found.content.open("rb"), as_attachment=True, filename=found.filename)


@team_view
@require_POST
def job_pause(request: TeamRequest, public_id: str) -> HttpResponse:
    job = selectors.job_get(team=request.actor.team, public_id=public_id)
    job = services.job_pause(actor=request.actor, job=job, note=_note(request))
    messages.success(request, "Paused." if job.status == "paused" else "It pauses after this train step.")
    return redirect_to(request, _address(request, job))


@team_view
@require_POST
def job_resume(request: TeamRequest, public_id: str) -> HttpResponse:
    job = services.job_resume(actor=request.actor, job=selectors.job_get(team=request.actor.team, public_id=public_id))
    waits = job.status == "paused"
    messages.success(request, job.status_note if waits else "Resumed; it goes on from its newest checkpoint.")
    return redirect_to(request, _address(request, job))


@team_view
@require_POST
def job_cancel(request: TeamRequest, public_id: str) -> HttpResponse:
    job = selectors.job_get(team=request.actor.team, public_id=public_id)
    job = services.job_cancel(actor=request.actor, job=job, note=_note(request))
    messages.success(request, "Cancelled." if job.status == "cancelled" else "It ends within seconds.")
    return redirect_to(request, _address(request, job))


@team_view
@require_POST
def alarm_mute(request: TeamRequest, public_id: str, key: str) -> HttpResponse:
    """Set an alarm aside for this job, or take that back."""
    job = selectors.job_get(team=request.actor.team, public_id=public_id)
    is_muted = request.POST.get("is_muted") != "0"
    services.alarm_mute(actor=request.actor, job=job, key=key, is_muted=is_muted)
    messages.success(request, "Muted for this job." if is_muted else "No longer muted.")
    return redirect_to(request, f"{_address(request, job)}#alarms")


@team_view
@require_GET
def job_compare(request: TeamRequest) -> HttpResponse:
    """Two or more jobs: curves over each other, settings in which they differ."""
    team = request.actor.team
    wanted = request.GET.getlist("job")[:6]
    jobs = [selectors.job_get(team=team, public_id=public_id) for public_id in dict.fromkeys(wanted)]
    every = list(selectors.job_list(team=team)[:40])
    return render(request, "jobs/job_compare.html", pages.compare_context(jobs, every))


def _note(request: TeamRequest) -> str:
    form = NoteForm(request.POST)
    return form.cleaned_data["note"] if form.is_valid() else ""


def _address(request: TeamRequest, job) -> str:
    return reverse("jobs:job-detail", args=[request.actor.team.slug, job.public_id])
