"""When a look at a job does not go well: a provider that is away, or that says no."""

import time

from jobs.backends.base import LONGEST_WAIT
from jobs.events import event_note
from jobs.models import Job
from jobs.moves import job_fail
from jobs.states import Status
from rftstudio.core.errors import UpstreamRefused, UpstreamUnavailable

#: Looks in a row that may end in an error of our own, or in a provider's no, before the job is failed.
MOST_FAULTS = 20
#: A provider's no that a person can turn into a yes.
KEY_REFUSED = "invalid_api_key"


def forget_faults(job: Job) -> None:
    """A whole look went well, so faults are counted anew."""
    job.refresh_from_db()
    if "faults" in job.process:
        rest = {key: value for key, value in job.process.items() if key != "faults"}
        note = "" if job.status == Status.RUNNING else job.status_note
        Job.objects.filter(pk=job.pk, status=job.status).update(process=rest, status_note=note)


def ask_later(job: Job, exc: UpstreamUnavailable, seconds: float) -> None:
    """Leave a provider alone for as long as it wishes, or for a while. A job that has not begun says what it waits for."""
    job.refresh_from_db()
    waits = {**job.process, "ask_at": time.time() + (exc.retry_after or seconds)}
    begun = {} if job.external_id or job.status in (Status.PAUSING, Status.CANCELLING) else {"status_note": str(exc)}
    Job.objects.filter(pk=job.pk, status=job.status).update(process=waits, **begun)


def is_left_alone(job: Job) -> bool:
    """What a person wishes for is passed on all the same; and a wait that no provider may ask for is a clock set back."""
    wait = float(job.process.get("ask_at") or 0) - time.time()
    return job.status in (Status.QUEUED, Status.RUNNING) and 0 < wait <= LONGEST_WAIT


def refused(job: Job, exc: UpstreamRefused) -> None:
    """A provider says no when it is asked about a run: told once in its words. A key can be entered anew, so that waits;
    anything else ends the job after some looks, for its truth is then only known at the provider."""
    job.refresh_from_db()
    faults = int(job.process.get("faults") or 0) + 1
    Job.objects.filter(pk=job.pk).update(process={**job.process, "faults": faults}, status_note=str(exc))
    job.refresh_from_db()
    if faults == 1:
        event_note(job, str(exc), level="warn")
    if faults >= MOST_FAULTS and (exc.code != KEY_REFUSED or job.status == Status.CANCELLING):
        job_fail(job, exc.code, f"{exc} See at the provider whether the job still runs there.", param=exc.where or None)
