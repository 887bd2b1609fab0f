"""Writes about orders: place, cancel, and the short looks that bring one forward.

An order stands for the job until there is one: its files are read, the untrained model is measured, and then the job is
launched by the same service as from the page, with the same checks, quota and audit. Each look is taken under a lease.
"""

import logging
import secrets
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from datasets.models import SourceFile
from jobs.evaluations import services as evaluation_services
from jobs.evaluations.selectors import ACTIVE
from jobs.states import ENDED
from rftstudio.core.errors import Conflict, StudioError, UpstreamUnavailable, UserError
from rftstudio.core.queueing import queue
from rftstudio.core.sealed import seal
from rftstudio.orders import parts, results, stages, tasks
from rftstudio.orders.models import JobOrder, OrderLabel
from rftstudio.orders.named import Base
from rftstudio.orders.story import story_add
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit

log = logging.getLogger(__name__)
Stage = JobOrder.Stage
OPEN = (Stage.FILES, Stage.BASELINE)
LEASE = timedelta(minutes=5)
MOST_FAULTS = 5
NEEDS = (
    Permission.JOB_LAUNCH, Permission.EVALUATION_RUN, Permission.DATASET_EDIT, Permission.GRADER_EDIT,
    Permission.AGENT_EDIT,
)  # fmt: skip


def check_may_order(actor: Actor) -> None:
    """An order makes a dataset version, a grader version, an agent version, a baseline and a job: it asks for each right."""
    for right in NEEDS:
        check_can(actor, right, team=actor.team)


def order_find(*, actor: Actor, idempotency_key: str, request_digest: str) -> JobOrder | None:
    """What an earlier request with this key made; refused when that one asked for something else."""
    if not idempotency_key:
        return None
    found = JobOrder.objects.filter(team=actor.team, idempotency_key=idempotency_key).first()
    if found and found.request_digest != request_digest:
        raise UserError(
            "This Idempotency-Key came with another request before.",
            where="Idempotency-Key",
            fix="Use a new key for a new request.",
        )
    return found


def order_place(
    *,
    actor: Actor,
    base: Base,
    model_name: str,
    training_file: SourceFile,
    validation_file: SourceFile | None,
    grader: dict[str, Any],
    tools: list[dict[str, Any]],
    method: dict[str, Any],
    hyperparameters: dict[str, Any],
    suffix: str = "",
    seed: int | None = None,
    metadata: dict[str, str] | None = None,
    integrations: list[dict[str, Any]] | None = None,
    warnings: list[str] | None = None,
    idempotency_key: str = "",
    request_digest: str = "",
) -> JobOrder:
    """Keep what was asked for and queue the first look. The same idempotency key finds the first order."""
    check_may_order(actor)
    if found := order_find(actor=actor, idempotency_key=idempotency_key, request_digest=request_digest):
        return found
    try:
        with transaction.atomic():
            order = JobOrder(
                team=actor.team, created_by=actor.user, api_key=actor.api_key, role=actor.role, model_name=model_name,
                alias=base.alias, backend=base.backend, model=base.model, training_file=training_file,
                validation_file=validation_file, suffix=suffix, seed=secrets.randbelow(2**31) if seed is None else seed,
                metadata=metadata, integrations=integrations or [], method=method, hyperparameters=hyperparameters,
                tools_sealed=seal(tools), idempotency_key=idempotency_key, request_digest=request_digest,
            )  # fmt: skip
            order.grader_version = parts.grader_version_ready(actor=actor, config=grader)
            story_add(order, f"Created fine-tuning job: {order.public_id}")
            for one in integrations or []:
                story_add(order, f"Metrics are copied to Weights & Biases, project {one['wandb']['project']}.")
            for words in warnings or []:
                story_add(order, words, level="warn")
            order.save()
            pairs = (metadata or {}).items()
            OrderLabel.objects.bulk_create(OrderLabel(order=order, key=key, value=value) for key, value in pairs)
            audit(actor, "job.ordered", order, model=model_name, training_file=training_file.public_id)
    except IntegrityError:
        # Two requests with one key at once: the other one made the order.
        found = order_find(actor=actor, idempotency_key=idempotency_key, request_digest=request_digest)
        if found is None:
            raise
        return found
    queue(tasks.order_advance, order.pk)
    return order


def order_cancel(*, actor: Actor, order: JobOrder) -> JobOrder:
    """End an order that is no job yet, and the baseline that was started for it."""
    check_can(actor, Permission.JOB_LAUNCH, team=order.team)
    with transaction.atomic():
        order = JobOrder.objects.select_for_update(of=("self",)).select_related("team", "baseline").get(pk=order.pk)
        if order.stage not in OPEN:
            raise Conflict(f"The job has ended already ({order.stage}).")
        story_add(order, f"Cancelled by {actor.name}.")
        order.stage, order.finished_at = Stage.CANCELLED, timezone.now()
        order.save(update_fields=["stage", "story", "finished_at", "updated_at"])
        audit(actor, "job.cancelled", order)
    if order.baseline and order.is_own_baseline and order.baseline.status in ACTIVE:
        evaluation_services.evaluation_cancel(actor=stages.actor_of(order), evaluation=order.baseline)
    return order


def orders_advance() -> int:
    """One look at every order that is not launched yet, and at launched ones whose result file is due."""
    ids = list(JobOrder.objects.filter(stage__in=OPEN).order_by("pk").values_list("pk", flat=True))
    for order_id in ids:
        order_advance(order_id=order_id)
    due = JobOrder.objects.filter(stage=Stage.LAUNCHED, finished_at=None, job__status__in=ENDED)
    for order in due.select_related("team", "job")[:20]:
        results.result_file_make(order)
    return len(ids)


def order_advance(*, order_id: int) -> bool:
    """One look at an order. False when another worker has it or there is nothing to do."""
    now = timezone.now()
    free = JobOrder.objects.filter(Q(lease_until=None) | Q(lease_until__lt=now), pk=order_id, stage__in=OPEN)
    if free.update(lease_until=now + LEASE) != 1:
        return False
    try:
        _look(order_id)
    finally:
        JobOrder.objects.filter(pk=order_id).update(lease_until=None)
    return True


def _look(order_id: int) -> None:
    order = JobOrder.objects.select_related(
        "team", "model", "alias", "api_key", "created_by", "training_file", "validation_file", "grader_version",
        "baseline__agent_version", "dataset_version",
    ).get(pk=order_id)  # fmt: skip
    try:
        stages.LOOKS[order.stage](order)
        JobOrder.objects.filter(pk=order_id, faults__gt=0).update(faults=0)
    except stages.Overtaken:
        log.info("Order %s was cancelled meanwhile", order.public_id)
    except UpstreamUnavailable as exc:
        log.warning("Order %s: %s", order.public_id, exc)
    except StudioError as exc:
        stages.order_fail(order, exc.code, str(exc), param=exc.where or None)
    except Exception:
        _fault(order)


def _fault(order: JobOrder) -> None:
    """Our own error: logged whole under a number, tried again a few times, then told."""
    reference = secrets.token_hex(4)
    log.exception("Order %s could not be brought forward (reference %s)", order.public_id, reference)
    JobOrder.objects.filter(pk=order.pk).update(faults=order.faults + 1)
    if order.faults + 1 >= MOST_FAULTS:
        words = f"Studio failed while preparing this job (reference {reference}). The server's log has it whole."
        stages.order_fail(order, "studio_error", words)
