"""What a job's page says on top: the status in plain words, and what is next for the person who reads it."""

from dataclasses import dataclass

from jobs.agents.models import AgentVersion
from jobs.evaluations import selectors as evaluations
from jobs.evaluations.models import Evaluation
from jobs.evaluations.selectors import address
from jobs.holds import waits_for_approval
from jobs.models import Checkpoint, Job
from jobs.states import ENDED, WORDS, Status, Words


def words_of(job: Job) -> Words:
    """What the job's status says; one that rests until an owner decides says that instead."""
    if job.status in (Status.VALIDATING, Status.PAUSED) and waits_for_approval(job):
        return Words(
            "Waiting for approval",
            "It may cost more than this team spends without asking; nothing runs and nothing is spent until then.",
            "An owner of the team approves or declines it on the page of costs.",
        )
    return WORDS[job.status]


@dataclass(frozen=True)
class Next:
    """What is next for a person, with the page that it leads to or the checkpoint that is to be evaluated."""

    text: str
    url: str = ""
    link: str = ""
    evaluate: Checkpoint | None = None


def next_of(job: Job, words: Words) -> Next:
    """Follows the path on: evaluate the best checkpoint, look how it stands against the baseline, promote it."""
    text, best = words.next, job.best_checkpoint
    if job.status not in ENDED or best is None or (best.is_deleted and best.model_id is None):
        return Next(text)
    if best.model_id is None:
        return Next(text, evaluate=best)
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
