"""Base against tuned on one item, side by side: two real rollouts with real tools and the job's grader.

A try stands beside the record, as a re-run does: it enters no evaluation, no metric and no training.
"""

from dataclasses import dataclass
from typing import Any

from django.db import transaction

from datasets.models import Item, Split
from datasets.showing import messages_shown
from jobs.backends.registry import backend_get
from jobs.checkpoints import check_kept, checkpoint_publish, name_of
from jobs.models import Checkpoint, Job
from jobs.rollouts import services as rollout_services
from jobs.rollouts.models import Rollout, RolloutBatch
from jobs.rollouts.reading import Reading, StepView, rollout_reading, step_views
from rftstudio.core.errors import Conflict, NotFound
from rftstudio.core.ids import new_id
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit
from rftstudio.usage.selectors import stopped_by

PREFIX = "try_"
MOST_STEPS = 40
OPEN = {Rollout.Status.QUEUED, Rollout.Status.RUNNING}


def _job(checkpoint: Checkpoint) -> Job:
    parts = ("base_model", "baseline__agent_version__agent", "baseline__grader_version", "baseline__dataset_version")
    return Job.objects.select_related(*parts).get(pk=checkpoint.job_id)


def held_out(job: Job):
    """Items that the job never saw: those of the test split, else of validation."""
    items = Item.objects.filter(version=job.baseline.dataset_version)
    test = items.filter(split=Split.TEST)
    return (test if test.exists() else items.filter(split=Split.VALIDATION)).order_by("position")


def item_of(checkpoint: Checkpoint, key: str) -> Item | None:
    """The held-out item of that key, else the first one; None where the dataset holds none out."""
    items = held_out(_job(checkpoint))
    if not key:
        return items.first()
    found = items.filter(key=key).first()
    if found is None:
        raise NotFound("There is no such held-out item.")
    return found


def try_start(*, actor: Actor, checkpoint: Checkpoint, item_key: str) -> str:
    """Order one rollout of the base and one of the checkpoint; returns the source that names the pair."""
    check_can(actor, Permission.EVALUATION_RUN, team=checkpoint.team)
    if reason := stopped_by(team=actor.team):
        raise Conflict(reason, fix="An owner switches spending on again.")
    job, item = _job(checkpoint), item_of(checkpoint, item_key)
    if item is None:
        raise Conflict("This dataset holds no items out.", fix="Split it, so that some items are never trained on.")
    tuned = checkpoint_publish(actor=actor, checkpoint=checkpoint)
    source, version, grader = new_id(PREFIX), job.baseline.agent_version, job.baseline.grader_version
    with transaction.atomic():
        for model, label in ((job.base_model, job.base_model.name), (tuned, name_of(checkpoint))):
            rollout_services.batch_create(
                actor=actor,
                kind=RolloutBatch.Kind.RERUN,
                source=source,
                items=[item],
                agent_version=version,
                grader_version=grader,
                model=model,
                policy_label=label,
                pass_threshold=grader.pass_threshold,
            )
        audit(actor, "checkpoint.tried", checkpoint, item=item.key)
    return source


@dataclass
class Try:
    """One side: who tried, and what became of it so far."""

    label: str
    reading: Reading
    steps: list[StepView]

    @property
    def is_open(self) -> bool:
        return self.reading.rollout.status in OPEN


def tries_of(team: Team, source: str) -> list[Try]:
    """Base first, then tuned."""
    rows = Rollout.objects.filter(team=team, batch__source=source, batch__kind=RolloutBatch.Kind.RERUN)
    found = []
    for rollout in rows.select_related("batch").order_by("batch_id"):
        reading = rollout_reading(team=team, public_id=rollout.public_id)
        steps = list(reading.rollout.steps.order_by("index")[:MOST_STEPS])
        views = step_views(steps, reading.words, last_index=reading.rollout.n_steps - 1)
        found.append(Try(rollout.batch.policy_label, reading, views))
    return found


def result_context(team: Team, checkpoint: Checkpoint, source: str) -> dict[str, Any]:
    """Both sides; NotFound for what is no try of this team."""
    tries = tries_of(team, source) if source.startswith(PREFIX) else []
    if not tries:
        raise NotFound("There is no such try.")
    return {"tries": tries, "run": source, "is_live": any(one.is_open for one in tries), "checkpoint": checkpoint}


def weights_gone(checkpoint: Checkpoint) -> str:
    """Why the checkpoint cannot be tried, in words; nothing where it is served, here or at its provider."""
    if checkpoint.model_id or not backend_get(checkpoint.job.backend).capabilities.gives_weights:
        return ""
    try:
        check_kept(checkpoint)
    except Conflict as fault:
        return str(fault)
    return ""


def page_context(checkpoint: Checkpoint, item: Item | None) -> dict[str, Any]:
    """The item as a conversation, its neighbours, and whose policies will try it."""
    job = _job(checkpoint)
    context: dict[str, Any] = {"checkpoint": checkpoint, "job": job, "item": item, "tuned_name": name_of(checkpoint)}
    if item is None:
        return context
    context["gone"] = weights_gone(checkpoint)
    items = held_out(job)
    return context | {
        "messages_shown": messages_shown(item.data),
        "previous": items.filter(position__lt=item.position).reverse().first(),
        "following": items.filter(position__gt=item.position).first(),
        "place": items.filter(position__lte=item.position).count(),
        "count": items.count(),
        "split_name": item.get_split_display(),
    }
