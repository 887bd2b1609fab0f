"""The files that a provider writes about a hosted job: brought home once it has ended."""

import io
import logging
from datetime import timedelta

from django.db.models import QuerySet
from django.utils import timezone

from datasets.models import SourceFile
from datasets.services import source_file_upload
from jobs.backends.base import Run
from jobs.backends.registry import BACKENDS, backend_get
from jobs.events import event_note
from jobs.leases import leased
from jobs.models import Job
from jobs.supervision import run_of
from rftstudio.core.errors import StudioError
from rftstudio.teams.actor import system_actor

logger = logging.getLogger(__name__)

#: A provider may write its files a little after it says that the job has ended; so long they are asked for.
RESULTS_WITHIN = timedelta(minutes=10)
#: In a job's `result`: ids of its files once all are home; and by name, those that are while others are missing.
FILES, HOME = "files", "files_home"


def results_sweep() -> None:
    """Ask for what is still missing. One job that breaks does not hold up the others."""
    for job in results_due().select_related("team", "base_model")[:20]:
        try:
            with leased(job.pk) as lease:
                if lease:
                    results_keep(job, run_of(job))
        except Exception:
            logger.exception("The result files of job %s could not be brought home", job.public_id)


def results_due() -> QuerySet[Job]:
    """Hosted jobs that ended a short while ago and whose result files have not come home."""
    backends = [name for name in BACKENDS if not backend_get(name).capabilities.is_local]
    since = timezone.now() - RESULTS_WITHIN
    return Job.objects.filter(backend__in=backends, finished_at__gt=since, result__files__isnull=True).exclude(
        external_id=""
    )


def results_keep(job: Job, run: Run) -> bool:
    """Bring the provider's files about a job into ours, each once. Call under the job's lease."""
    job.refresh_from_db(fields=["result"])
    if FILES in job.result:
        return False
    home: dict[str, str] = dict(job.result.get(HOME) or {})
    try:
        found = backend_get(job.backend).results(run)
        if not found:
            return False
        for name in [name for name in found if name not in home]:
            kept = source_file_upload(
                actor=system_actor(job.team), filename=name, content=io.BytesIO(found[name]), purpose=SourceFile.RESULTS
            )
            home[name] = kept.public_id
            _note(job, {HOME: home})  # the next one may fail, and this one is not to come again
    except StudioError as exc:
        if exc.status < 500:  # refused, or no room here: asking again would not help
            _note(job, {FILES: list(home.values())})
            event_note(job, f"The provider's result files could not be kept: {exc}", level="warn")
        return False
    _note(job, {FILES: [home[name] for name in found]})
    event_note(job, f"Kept the provider's result files: {', '.join(found)}.")
    return True


def _note(job: Job, noted: dict) -> None:
    job.result = {key: value for key, value in job.result.items() if key != HOME} | noted
    Job.objects.filter(pk=job.pk).update(result=job.result)
