"""The models that a team's jobs tuned: listed by the names that programs use, deleted with their weights."""

import shutil
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import ProtectedError, Q

from jobs.models import Checkpoint, Job
from jobs.states import ENDED, Status
from rftstudio.core.errors import Conflict
from rftstudio.orders.named import tuned_name
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit


def tuned_list(*, team: Team) -> list[tuple[str, Checkpoint]]:
    """Each kept checkpoint by its name, newest first; the best one of a finished job by the job's own name too."""
    kept = Q(is_deleted=False) | Q(model__isnull=False)
    rows = Checkpoint.objects.filter(kept, team=team).select_related(
        "job__team", "job__base_model", "job__order", "job__best_checkpoint"
    )
    found = []
    for row in rows.order_by("-pk"):
        job, order = row.job, getattr(row.job, "order", None)
        if job.status == Status.SUCCEEDED and job.best_checkpoint_id == row.pk:
            found.append((tuned_name(job, order), row))
        found.append((tuned_name(job, order, row.step_number), row))
    return found


@transaction.atomic
def tuned_delete(*, actor: Actor, checkpoint: Checkpoint) -> None:
    """Delete a checkpoint's weights. One that something was measured with stays, and so does one of a job that goes on."""
    check_can(actor, Permission.JOB_LAUNCH, team=checkpoint.team)
    row = Checkpoint.objects.select_for_update(of=("self",)).select_related("job", "model").get(pk=checkpoint.pk)
    if row.job.status not in ENDED:
        raise Conflict("The job has not ended; it may still go on from this checkpoint.", fix="Cancel the job first.")
    model = row.model
    row.model, row.is_deleted = None, True
    row.save(update_fields=["model", "is_deleted", "updated_at"])
    if model is not None:
        try:
            with transaction.atomic():
                model.delete()
        except ProtectedError as exc:
            raise Conflict(
                "Evaluations or agents use this model, so it is kept.", fix="Their figures would point at nothing."
            ) from exc
    Job.objects.filter(best_checkpoint=row).update(best_checkpoint=None)
    audit(actor, "checkpoint.deleted", row, job=row.job.public_id, step=row.step_number)
    transaction.on_commit(lambda: _remove(row))


def _remove(row: Checkpoint) -> None:
    """Folders of ours only: where a run keeps its checkpoints, and where published ones stand."""
    for folder in (Path(row.path), Path(settings.VAR_DIR) / "models" / row.public_id):
        inside = any(folder.is_relative_to(root) for root in (settings.RUNS_DIR, Path(settings.VAR_DIR) / "models"))
        if inside and folder.is_dir():
            shutil.rmtree(folder, ignore_errors=True)
