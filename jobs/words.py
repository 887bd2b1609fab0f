"""What a job's page says on top: the status in plain words, and what is next for the person who reads it."""

from dataclasses import dataclass, replace
from datetime import timedelta

from django.utils import timezone

from jobs import holds, selectors
from jobs.agents.models import AgentVersion
from jobs.backends.registry import backend_get
from jobs.evaluations import selectors as evaluations
from jobs.evaluations.models import Evaluation
from jobs.evaluations.selectors import address
from jobs.models import Checkpoint, Job
from jobs.states import ENDED, WORDS, Status, Words
from rftstudio.core.show import show_seconds, show_when

#: A check of files, or a start with a free place, takes seconds; after so long nobody is there to do it.
UNTOUCHED = timedelta(seconds=90)
APPROVAL = Words(
    "Waiting for approval",
    "It may cost more than this team spends without asking; nothing runs and nothing is spent until then.",
    "An owner of the team approves or declines it on the page of costs.",
)


def words_of(job: Job) -> Words:
    """What the job's status says; one that rests until an owner decides says that instead."""
    if job.status in (Status.VALIDATING, Status.PAUSED) and holds.waits_for_approval(job):
        return APPROVAL
    words = WORDS[job.status]
    if job.status in (Status.FAILED, Status.CANCELLED) and not job.done_steps:
        return replace(words, text="It ended before its first train step was done, so there is nothing to keep.")
    if job.status == Status.PAUSED and not job.done_steps:
        return replace(words, text="It has not begun; nothing runs and nothing is spent.")
    return words


def queue_words(job: Job) -> str:
    """Place in line, since when, and what is ahead."""
    place = selectors.queue_place(job)
    since = f" It has waited since {show_when(place.since)}." if place.since else ""
    ahead = "".join(f" Job {one.number} is training now." for one in place.ahead[:1])
    return f"It is number {place.place} in line.{since}{ahead}"


def untouched_words(job: Job, words: Words) -> str:
    """Why a job that could go on does not: nobody has looked at it. Empty where there is no such sign."""
    if job.status not in (Status.VALIDATING, Status.QUEUED) or words == APPROVAL:
        return ""
    if not backend_get(job.backend).capabilities.is_local:
        return ""
    if job.status == Status.VALIDATING:
        # What an owner just decided is taken up by the next look, and noted as an event.
        latest = None if holds.was_decided(job) else selectors.event_list(job).first()
        waits = latest.created_at if latest else None
    else:
        waits = None if holds.stopped(job) else selectors.free_since(job)
    if waits is None or timezone.now() - waits < UNTOUCHED:
        return ""
    return (
        f"Nothing stands in its way since {show_when(waits)}, and no worker has taken it up: Studio's workers seem to be "
        "down. Whoever runs this installation starts them again; the job then goes on by itself."
    )


def _running(job: Job) -> str:
    """When validation is checked next, at the pace so far."""
    every = job.plan.get("eval_interval")
    if not every or not job.total_steps or not selectors.has_checks(job):
        return ""
    at = min((job.done_steps // every + 1) * every, job.total_steps)
    pace = selectors.step_pace(job)
    about = f", in about {show_seconds(pace * (at - job.done_steps))}" if pace and at > job.done_steps else ""
    return f" That is after train step {at}{about}."


@dataclass(frozen=True)
class Next:
    """What is next for a person, with the page that it leads to or the checkpoint that is to be evaluated."""

    text: str
    url: str = ""
    link: str = ""
    is_launch: bool = False  # only for who may launch
    evaluate: Checkpoint | None = None


def _under_way(job: Job, words: Words) -> Next:
    """Of a job that has not ended: the page with what there is to read."""
    slug, text = job.team.slug, words.next
    if words == APPROVAL:
        return Next(text, address("usage:cost-list", slug), "Open costs")
    if job.status == Status.RUNNING:
        return Next(text + _running(job), "#alarms", "See the alarms")
    if job.status == Status.PAUSED and job.done_steps:
        if "by rule" in job.status_note or "no-signal" in job.status_note:
            return Next(text, "#alarms", "See what was found")
        return Next(text, address("usage:ledger-list", slug, query=f"for={job.public_id}"), "See what it has cost")
    return Next(text)


def _again(job: Job, text: str) -> Next:
    """Of a job that ended and left no checkpoint."""
    again = address("jobs:job-new", job.team.slug, query=f"baseline={job.baseline.public_id}&clone={job.public_id}")
    if job.status != Status.FAILED:
        text = "No checkpoint is kept; launch it again if it is still wanted."
    return Next(text, again, "Open the launch form with its settings", is_launch=True)


def next_of(job: Job, words: Words) -> Next:
    """Follows the path on: evaluate the best checkpoint, look how it stands against the baseline, promote it."""
    text, best = words.next, job.best_checkpoint
    if job.status not in ENDED:
        return _under_way(job, words)
    if best is None or (best.is_deleted and best.model_id is None):
        return _again(job, text)
    if best.model_id is None:
        return replace(_again(job, text), evaluate=best) if job.status == Status.FAILED else Next(text, evaluate=best)
    slug = job.team.slug
    promoted = AgentVersion.objects.filter(agent=job.baseline.agent_version.agent, model=best.model_id).first()
    if promoted:
        page = address("agents:agent-detail", slug, promoted.agent.public_id)
        return Next(f"Nothing more here: {promoted} answers with its best checkpoint.", page, "See the versions")
    found = Evaluation.objects.filter(team=job.team, model=best.model_id).order_by("-id").first()
    if found is None:
        return Next(text, evaluate=best)
    if found.status != Evaluation.Status.SUCCEEDED:
        page = address("evaluations:evaluation-detail", slug, found.public_id)
        return Next(f"The best checkpoint's evaluation is {found.status}.", page, evaluations.title_of(found))
    compare = address("evaluations:evaluation-compare", slug, query=f"a={job.baseline.public_id}&b={found.public_id}")
    text = "The best checkpoint has been evaluated: read what changed item by item, and promote it if that holds."
    return Next(text, compare, "Compare with the baseline")
