"""Writes about checkpoints: publish as a model, promote to an agent version, download, delete, expire.

The trainer itself keeps the best few and the last; this is what people decide about those.
"""

import shutil
import tarfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from jobs import hosted
from jobs.agents import services as agent_services
from jobs.agents.models import AgentVersion, ModelEndpoint
from jobs.backends.registry import BACKENDS, backend_get
from jobs.backends.trl.checkpoints import MARKER
from jobs.evaluations import services as evaluation_services
from jobs.evaluations.models import Evaluation
from jobs.events import event_note
from jobs.journal import best_choose
from jobs.models import Checkpoint, Job
from jobs.states import ENDED
from jobs.supervision import run_of
from rftstudio.core.errors import Conflict, UserError
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit
from rftstudio.usage.services import notice_once

MOST_DAYS = 3650
#: So long before it goes, owners are told of a checkpoint.
WARNING = timedelta(days=3)
CHUNK = 1_000_000


def _locked(checkpoint: Checkpoint) -> Checkpoint:
    rows = Checkpoint.objects.select_for_update(of=("self",)).select_related("job__team", "job__base_model", "model")
    return rows.get(pk=checkpoint.pk)


def check_kept(checkpoint: Checkpoint) -> None:
    """Raise Conflict where there are no weights here any more, or never were."""
    if not backend_get(checkpoint.job.backend).capabilities.gives_weights:
        raise Conflict("The provider keeps the weights of this checkpoint.", fix="It is served by its name.")
    if checkpoint.is_deleted or not Path(checkpoint.path).is_dir():
        raise Conflict(
            f"The weights of train step {checkpoint.step_number} are no longer kept.",
            fix="Choose one of the checkpoints that the job page lists.",
        )


def model_folder(checkpoint: Checkpoint) -> Path:
    """Where a published checkpoint's weights lie."""
    return Path(settings.VAR_DIR) / "models" / checkpoint.public_id


def checkpoint_publish(*, actor: Actor, checkpoint: Checkpoint) -> ModelEndpoint:
    """Make a checkpoint a model that can be evaluated, served and trained further. Twice gives the same model."""
    check_can(actor, Permission.JOB_LAUNCH, team=checkpoint.team)
    checkpoint = Checkpoint.objects.select_related("job__team", "job__base_model", "model").get(pk=checkpoint.pk)
    if checkpoint.model:
        return checkpoint.model
    backend = backend_get(checkpoint.job.backend)
    if not backend.capabilities.gives_weights:
        return _hosted_publish(actor, checkpoint)
    check_kept(checkpoint)
    target = model_folder(checkpoint)
    target.parent.mkdir(parents=True, exist_ok=True)
    backend.export(run_of(checkpoint.job), checkpoint.path, target)
    with transaction.atomic():
        checkpoint = _locked(checkpoint)
        if checkpoint.model is None:
            checkpoint.model = agent_services.model_endpoint_create(
                actor=actor,
                name=name_of(checkpoint),
                kind=ModelEndpoint.Kind.LOCAL,
                model=str(target),
                is_trainable=True,
                digest=checkpoint.digest,
            )
            checkpoint.save(update_fields=["model"])
            audit(actor, "checkpoint.published", checkpoint, model=checkpoint.model.public_id)
    return checkpoint.model


def name_of(checkpoint: Checkpoint) -> str:
    return f"Job {checkpoint.job.number}, train step {checkpoint.step_number}"


@transaction.atomic
def _hosted_publish(actor: Actor, checkpoint: Checkpoint) -> ModelEndpoint:
    """A hosted checkpoint is a name at the provider of its base model, reached with the same key."""
    checkpoint = _locked(checkpoint)
    if checkpoint.model is None:
        found = hosted.connection_of(checkpoint.job)
        checkpoint.model = agent_services.model_endpoint_create(
            actor=actor,
            name=name_of(checkpoint),
            kind=ModelEndpoint.Kind.OPENAI,
            model=checkpoint.path,
            base_url=found["base_url"],
            api_key=found["api_key"],
        )
        checkpoint.save(update_fields=["model"])
        audit(actor, "checkpoint.published", checkpoint, model=checkpoint.model.public_id)
    return checkpoint.model


def checkpoint_evaluate(*, actor: Actor, checkpoint: Checkpoint) -> Evaluation:
    """Publish a checkpoint and measure it exactly as its baseline was measured."""
    model = checkpoint_publish(actor=actor, checkpoint=checkpoint)
    baseline = checkpoint.job.baseline
    return evaluation_services.evaluation_start(
        actor=actor, dataset_version=baseline.dataset_version, agent_version=baseline.agent_version,
        grader_version=baseline.grader_version, split=baseline.split, model=model,
        samples_per_item=baseline.samples_per_item, max_items=baseline.max_items, seed=baseline.seed,
        policy_label=model.name,
    )  # fmt: skip


def checkpoint_promote(*, actor: Actor, checkpoint: Checkpoint) -> AgentVersion:
    """Let the agent answer with this checkpoint: its next version, with the prompt and tools it was trained on."""
    model = checkpoint_publish(actor=actor, checkpoint=checkpoint)
    version = (
        Job.objects.select_related("baseline__agent_version__agent").get(pk=checkpoint.job_id).baseline.agent_version
    )
    found = version.agent.versions.filter(model=model).order_by("number").first()
    if found:
        return found
    with transaction.atomic():
        promoted = agent_services.agent_version_republish(
            actor=actor, version=version, model=model, note=name_of(checkpoint)
        )
        event_note(checkpoint.job, f"{actor.name} promoted train step {checkpoint.step_number} to {promoted}.")
        audit(actor, "checkpoint.promoted", checkpoint, agent_version=promoted.public_id)
    return promoted


def checkpoint_download(*, actor: Actor, checkpoint: Checkpoint) -> tuple[str, Iterator[bytes]]:
    """A name and the bytes of a tar archive with what a server needs: weights or adapter, tokenizer, templates."""
    check_can(actor, Permission.JOB_LAUNCH, team=checkpoint.team)
    folder = Path(checkpoint.model.model) if checkpoint.model and model_folder(checkpoint).is_dir() else None
    if folder is None:
        check_kept(checkpoint)
        folder = Path(checkpoint.path)
    audit(actor, "checkpoint.downloaded", checkpoint)
    return f"{checkpoint.public_id}.tar", tar_stream(folder, name=checkpoint.public_id)


def tar_stream(folder: Path, *, name: str) -> Iterator[bytes]:
    """The folder as a tar archive, a chunk at a time. Optimizer state and pickles are left out, as in an export."""
    from jobs.backends.trl.backend import NOT_SERVED

    left_out = NOT_SERVED(str(folder), [path.name for path in folder.iterdir()]) | {MARKER, "trainer_state.json"}
    for path in sorted(path for path in folder.iterdir() if path.is_file() and path.name not in left_out):
        with path.open("rb") as file:
            info = tarfile.TarInfo(f"{name}/{path.name}")
            info.size, info.mtime, info.mode = path.stat().st_size, int(path.stat().st_mtime), 0o644
            yield info.tobuf(tarfile.PAX_FORMAT)
            while chunk := file.read(CHUNK):
                yield chunk
            yield b"\0" * (-info.size % tarfile.BLOCKSIZE)
    yield b"\0" * (2 * tarfile.BLOCKSIZE)


def checkpoint_delete(*, actor: Actor, checkpoint: Checkpoint) -> None:
    """Delete the weights, for good. Refused where something still needs them; what was measured with them stays."""
    check_can(actor, Permission.JOB_LAUNCH, team=checkpoint.team)
    with transaction.atomic():
        checkpoint = _locked(checkpoint)
        check_kept(checkpoint)
        _check_not_needed(checkpoint)
        Checkpoint.objects.filter(pk=checkpoint.pk).update(is_deleted=True, expires_at=None)
        if checkpoint.model:
            ModelEndpoint.objects.filter(pk=checkpoint.model_id).update(is_trainable=False)
        job = Job.objects.select_for_update(of=("self",)).get(pk=checkpoint.job_id)
        best_choose(job)
        event_note(job, f"{actor.name} deleted the checkpoint of train step {checkpoint.step_number}.")
        audit(actor, "checkpoint.deleted", checkpoint)
        transaction.on_commit(lambda: _remove(checkpoint))


def _check_not_needed(checkpoint: Checkpoint) -> None:
    job = checkpoint.job
    newest = Checkpoint.objects.filter(job=job, is_deleted=False).order_by("-step_number").first()
    if job.status not in ENDED and newest == checkpoint:
        raise Conflict("The job goes on from this checkpoint.", fix="End the job first, or wait for a newer one.")
    if checkpoint.model is None:
        return
    version = AgentVersion.objects.filter(model=checkpoint.model).select_related("agent").first()
    if version:
        raise Conflict(f"{version} answers with this checkpoint.", fix="Keep it: agent versions never change.")
    later = Job.objects.filter(base_model=checkpoint.model).first()
    if later:
        raise Conflict(
            f"Job {later.number} started from this checkpoint.", fix="Keep it: what that job trained rests on it."
        )


def _remove(checkpoint: Checkpoint) -> None:
    """The marker first, so that a half-deleted folder never looks whole to a trainer. Never by a provider's name: that is
    no path, whatever it looks like."""
    if not backend_get(checkpoint.job.backend).capabilities.gives_weights:
        return
    (Path(checkpoint.path) / MARKER).unlink(missing_ok=True)
    shutil.rmtree(checkpoint.path, ignore_errors=True)
    shutil.rmtree(model_folder(checkpoint), ignore_errors=True)


@transaction.atomic
def checkpoint_expiry_set(*, actor: Actor, checkpoint: Checkpoint, days: int | None) -> Checkpoint:
    """Delete the weights in so many days unless they are served as a model by then; None keeps them."""
    check_can(actor, Permission.JOB_LAUNCH, team=checkpoint.team)
    if days is not None and not 1 <= days <= MOST_DAYS:
        raise UserError(f"{days} days are not possible.", where="days", fix=f"Write 1 to {MOST_DAYS}.")
    checkpoint = _locked(checkpoint)
    check_kept(checkpoint)
    checkpoint.expires_at = None if days is None else timezone.now() + timedelta(days=days)
    checkpoint.save(update_fields=["expires_at"])
    audit(actor, "checkpoint.expiry_set", checkpoint, days=days)
    return checkpoint


def checkpoints_warn() -> int:
    """Tell owners, once for each date, which checkpoints go within three days and which page keeps them."""
    now = timezone.now()
    soon = Checkpoint.objects.filter(expires_at__gt=now, expires_at__lte=now + WARNING, is_deleted=False, model=None)
    told = 0
    for checkpoint in soon.select_related("job__team").order_by("id")[:200]:
        job = checkpoint.job
        told += notice_once(
            key=f"checkpoint-expiry/{checkpoint.public_id}/{checkpoint.expires_at:%Y-%m-%d}",
            team=job.team,
            title=f"A checkpoint of {job.name or f'job {job.number}'} is deleted on {checkpoint.expires_at:%d %B %Y}",
            text=f"The checkpoint of train step {checkpoint.step_number} expires then. To keep it, change its date on the "
            "job's page, download it, or publish it as a model.",
            url=reverse("jobs:job-detail", args=[job.team.slug, job.public_id]),
        )
    return told


def checkpoints_expire() -> int:
    """Delete what has expired and nobody serves; returns how many went. What is still needed is looked at again."""
    gone = 0
    here = [name for name in BACKENDS if backend_get(name).capabilities.gives_weights]
    due = Checkpoint.objects.filter(expires_at__lte=timezone.now(), is_deleted=False, model=None, job__backend__in=here)
    for checkpoint in due.select_related("job__team").order_by("id")[:20]:
        with transaction.atomic():
            checkpoint = _locked(checkpoint)
            newest = Checkpoint.objects.filter(job=checkpoint.job, is_deleted=False).order_by("-step_number").first()
            if checkpoint.model or (checkpoint.job.status not in ENDED and newest == checkpoint):
                continue
            Checkpoint.objects.filter(pk=checkpoint.pk).update(is_deleted=True)
            job = Job.objects.select_for_update(of=("self",)).get(pk=checkpoint.job_id)
            best_choose(job)
            event_note(job, f"The checkpoint of train step {checkpoint.step_number} expired and was deleted.")
        _remove(checkpoint)
        gone += 1
    return gone
