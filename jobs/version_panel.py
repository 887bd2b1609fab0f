"""What a dataset's page shows of this floor: the evaluations and jobs that rest on a version."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from datasets.selectors import version_get
from jobs.evaluations.selectors import evaluation_list
from jobs.selectors import job_list
from rftstudio.teams.views_helpers import TeamRequest, team_view

SHOWN = 20


@team_view
@require_GET
def version_panel(request: TeamRequest, public_id: str) -> HttpResponse:
    team = request.actor.team
    version = version_get(team=team, public_id=public_id)
    evaluations = evaluation_list(team=team).filter(dataset_version=version)
    jobs = job_list(team=team).filter(baseline__dataset_version=version)
    context = {
        "version": version,
        "evaluations": list(evaluations[:SHOWN]),
        "evaluation_count": evaluations.count(),
        "jobs": list(jobs[:SHOWN]),
        "job_count": jobs.count(),
    }
    return render(request, "jobs/_version_panel.html", context)
