"""What a hosted run needs of our side: the provider's address and key, the gateway it calls back through, and room for
the files that the provider writes about it."""

import io
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from datasets.services import source_file_upload
from jobs.agents.selectors import model_key
from jobs.backends.base import Run
from jobs.backends.registry import BACKENDS, backend_get
from jobs.events import event_note
from jobs.journal import batch_of
from jobs.models import Job
from jobs.rollouts.models import Gateway
from jobs.rollouts.services import gateway_addresses, gateway_close, gateway_open
from rftstudio.core.errors import StudioError
from rftstudio.teams.actor import system_actor

RESULTS = "fine-tune-results"
#: A provider may write its files a little after it says that the job has ended; so long they are asked for.
RESULTS_WITHIN = timedelta(minutes=10)


def connection_of(job: Job) -> dict[str, str]:
    """Where the provider is and with which key; from the baseline's model."""
    return {"base_url": job.base_model.base_url, "api_key": model_key(job.base_model)}


def gateway_of(job: Job) -> dict[str, Any]:
    """Addresses at which the provider calls our tools and grader; empty where it cannot reach this installation."""
    base = settings.STUDIO_PUBLIC_URL
    if not base:
        return {}
    gateway = gateway_open(actor=system_actor(job.team), batch=batch_of(job, "train", 0))
    found = gateway_addresses(gateway, base=base)
    return {"tool": found.tool, "grader": found.grader}


def gateway_shut(job: Job) -> int | None:
    """Close the door once the job has ended; returns the batch whose rollouts can be credited now."""
    gateway = Gateway.objects.select_related("team").filter(batch__source=job.public_id, closed_at__isnull=True).first()
    if gateway is None:
        return None
    gateway_close(actor=system_actor(job.team), gateway=gateway)
    return gateway.batch_id


def results_due() -> QuerySet[Job]:
    """Hosted jobs that ended a short while ago and whose result files have not come home."""
    backends = [name for name in BACKENDS if not backend_get(name).capabilities.is_local]
    since = timezone.now() - RESULTS_WITHIN
    return Job.objects.filter(backend__in=backends, finished_at__gt=since, result__files__isnull=True).exclude(
        external_id=""
    )


def results_keep(job: Job, run: Run) -> bool:
    """Bring the provider's files about a job into ours, once. Call under the job's lease."""
    job.refresh_from_db(fields=["result"])
    if "files" in job.result:
        return False
    try:
        found = backend_get(job.backend).results(run)
        if not found:
            return False
        actor = system_actor(job.team)
        kept = [
            source_file_upload(actor=actor, filename=name, content=io.BytesIO(content), purpose=RESULTS)
            for name, content in found.items()
        ]
    except StudioError as exc:
        if exc.status < 500:  # refused, or no room here: asking again would not help
            _results_note(job, [])
            event_note(job, f"The provider's result files could not be kept: {exc}", level="warn")
        return False
    _results_note(job, [one.public_id for one in kept])
    event_note(job, f"Kept the provider's result files: {', '.join(one.filename for one in kept)}.")
    return True


def _results_note(job: Job, ids: list[str]) -> None:
    job.result = {**job.result, "files": ids}
    Job.objects.filter(pk=job.pk).update(result=job.result)
