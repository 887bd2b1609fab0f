"""`/v1/fine_tuning/jobs`: create, list, retrieve, cancel, pause, resume, events, checkpoints."""

import hashlib
import json
import time
from typing import Any

from django.db.models import Case, Q, QuerySet, When
from drf_spectacular.utils import OpenApiParameter, OpenApiTypes
from rest_framework import serializers
from rest_framework.request import Request

from datasets.models import SourceFile
from jobs import selectors as job_selectors
from jobs import services as job_services
from jobs.models import Checkpoint, Job, JobEvent
from jobs.states import ENDED
from rftstudio.api import job_wire
from rftstudio.api.doors import (
    AFTER,
    LIMIT,
    WrongState,
    actor_of,
    after_of,
    body_of,
    by_method,
    door,
    in_state,
    limit_of,
    older_than,
    page_of,
)  # fmt: skip
from rftstudio.api.job_requests import KNOWN, job_request
from rftstudio.core.errors import NotFound, UserError
from rftstudio.notify.selectors import sink_find
from rftstudio.notify.sinks.registry import check_installed
from rftstudio.orders import files, named, services
from rftstudio.orders.models import JobOrder
from rftstudio.orders.story import STORY
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission

#: How long a cancel waits for the trainer to be gone before it answers.
CANCEL_SECONDS = 8.0


class JobCreateWire(serializers.Serializer):
    model = serializers.CharField(max_length=200)
    training_file = serializers.CharField(max_length=64)
    validation_file = serializers.CharField(max_length=64, allow_null=True, required=False)
    suffix = serializers.CharField(max_length=64, allow_null=True, required=False)
    seed = serializers.IntegerField(min_value=0, max_value=2**31 - 1, allow_null=True, required=False)
    metadata = serializers.DictField(child=serializers.CharField(max_length=512), allow_null=True, required=False)
    integrations = serializers.ListField(child=serializers.DictField(), allow_null=True, required=False)
    method = serializers.DictField(
        required=False, allow_null=True,
        help_text="type reinforcement (grader, tools, hyperparameters, …) or supervised (hyperparameters); without it the "
        "job is supervised",
    )  # fmt: skip
    hyperparameters = serializers.DictField(
        required=False,
        allow_null=True,
        help_text="Only where method is left out; the reference keeps it for old programs.",
    )


@door("POST", "createFineTuningJob", summary="Create a job", body=JobCreateWire, answer=job_wire.JobWire)
def job_create(request: Request) -> dict[str, Any]:
    """The files are read and the untrained model is measured first; until then the job is validating its files."""
    actor = actor_of(request)
    services.check_may_order(actor)
    body = body_of(request, known=KNOWN)
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    key = request.headers.get("Idempotency-Key", "")[:200]
    if found := services.order_find(actor=actor, idempotency_key=key, request_digest=digest):
        return wire_one(actor.team, found.public_id)
    asked = job_request(body)
    _check_integrations(actor.team, asked.integrations)
    base = named.base_find(team=actor.team, name=asked.model)
    if base is None:
        raise _no_model(actor.team, asked.model)
    order = services.order_place(
        actor=actor,
        base=base,
        model_name=asked.model,
        training_file=_file(actor.team, asked.training_file, "training_file"),
        validation_file=_file(actor.team, asked.validation_file, "validation_file") if asked.validation_file else None,
        grader=asked.grader,
        tools=asked.tools,
        method=asked.method(),
        hyperparameters=asked.hyperparameters,
        suffix=asked.suffix,
        seed=asked.seed,
        metadata=asked.metadata,
        integrations=asked.integrations,
        warnings=asked.warnings,
        idempotency_key=key,
        request_digest=digest,
    )
    return wire_one(actor.team, order.public_id)


def _check_integrations(team: Team, integrations: list[dict[str, Any]]) -> None:
    """The reference refuses an integration that was not enabled before; the team's sink is what enables it here."""
    for one in integrations:
        if sink_find(team=team, kind=one["type"]) is None:
            raise UserError(
                "This team copies no metrics to Weights & Biases, so the job's could not go there.",
                where="integrations[0]",
                fix="An owner adds a sink of that kind, with its key, on the page of notices. Or leave integrations out.",
                code="integration_not_enabled",
            )
        try:
            check_installed(one["type"])
        except UserError as exc:
            raise UserError(exc.message, where="integrations[0]", fix=exc.fix, code="integration_not_enabled") from exc


def _no_model(team: Team, name: str) -> UserError:
    known = named.names_known(team=team)
    shown = ", ".join(known[:20]) if known else "none yet"
    return UserError(
        f"The model '{name}' does not exist or cannot be trained here. Known: {shown}.",
        where="model",
        fix="An administrator of this installation maps names to weights in the console, under model aliases.",
        code="model_not_found",
    )


def _file(team: Team, public_id: str, where: str) -> SourceFile:
    try:
        row = files.file_get(team=team, public_id=public_id, where=where)
    except NotFound as exc:
        raise UserError(exc.message, where=where, code="invalid_file_id") from exc
    if row.purpose != "fine-tune":
        raise UserError(f"{public_id} has the purpose {row.purpose}.", where=where, fix="Upload it for fine-tune.")
    return row


# -- reading ----------------------------------------------------------------------------------------------------------


def jobs_of(team: Team) -> QuerySet[Job]:
    return Job.objects.filter(team=team).select_related(*job_wire.PARTS)


def orders_of(team: Team) -> QuerySet[JobOrder]:
    """Those that are no job (yet)."""
    return JobOrder.objects.filter(team=team, job=None).select_related(*job_wire.ORDER_PARTS)


def find(team: Team, public_id: str) -> Job | JobOrder:
    """The job, or the order that stands for it. Looked up in this order twice: it may be launched in between."""
    for rows in (jobs_of(team), orders_of(team), jobs_of(team)):
        found = rows.filter(public_id=public_id[:64].replace("\x00", "")).first()
        if found is not None:
            return found
    raise NotFound(
        f"Could not find fine tune: {public_id[:80]}", where="fine_tuning_job_id", code="fine_tune_not_found"
    )


def wire_one(team: Team, public_id: str) -> dict[str, Any]:
    found = find(team, public_id)
    if isinstance(found, JobOrder):
        return job_wire.wire_order(found)
    left = job_selectors.job_state(found).seconds_left
    return job_wire.wire_jobs([found], left={found.pk: left})[found.pk]


@door("GET", "listFineTuningJobs", summary="List jobs", answer=job_wire.JobListWire, parameters=[
    AFTER, LIMIT, OpenApiParameter("metadata", OpenApiTypes.STR,
                                   description="`metadata[key]=value` filters; the word null finds jobs without any.")])  # fmt: skip
def job_list(request: Request) -> dict[str, Any]:
    """Newest first, those from the pages too."""
    team = actor_of(request).team
    limit = limit_of(request, 20)
    pairs, none = _metadata_of(request)
    after = find(team, request.query_params["after"]) if request.query_params.get("after") else None
    older = older_than(after, "created_at", "public_id") if after else Q()
    found: list[Job | JobOrder] = []
    for rows, prefix in ((jobs_of(team), "order__"), (orders_of(team), "")):
        for key, value in pairs.items():
            rows = rows.filter(**{f"{prefix}labels__key": key, f"{prefix}labels__value": value})
        if none:
            rows = rows.filter(**{f"{prefix}labels": None})
        found += rows.filter(older).order_by("-created_at", "-public_id")[: limit + 1]
    found.sort(key=lambda row: (row.created_at, row.public_id), reverse=True)
    found = found[: limit + 1]
    told = job_wire.wire_jobs([row for row in found if isinstance(row, Job)])
    lines = [told[row.pk] if isinstance(row, Job) else job_wire.wire_order(row) for row in found]
    return page_of(lines, limit)


def _metadata_of(request: Request) -> tuple[dict[str, str], bool]:
    """The wanted pairs, and whether jobs without metadata are wanted."""
    pairs = {
        name[9:-1]: value
        for name, value in request.query_params.items()
        if name.startswith("metadata[") and name.endswith("]")
    }
    none = request.query_params.get("metadata")
    if none not in (None, "null"):
        raise UserError("metadata is either the word null or metadata[key]=value.", where="metadata")
    if none and pairs:
        raise UserError("metadata=null and metadata[key]=value cannot be combined.", where="metadata")
    if any("\x00" in f"{key}{value}" for key, value in pairs.items()):
        raise UserError("metadata holds the NUL character.", where="metadata")
    return pairs, none is not None


@door("GET", "retrieveFineTuningJob", summary="One job", answer=job_wire.JobWire)
def job_get(request: Request, public_id: str) -> dict[str, Any]:
    """`studio` says which backend and weights stand behind the model's name."""
    return wire_one(actor_of(request).team, public_id)


# -- moving -----------------------------------------------------------------------------------------------------------


@door("POST", "cancelFineTuningJob", summary="Cancel a job", answer=job_wire.JobWire)
def job_cancel(request: Request, public_id: str) -> dict[str, Any]:
    """Answers when the trainer is gone, or after some seconds with the state it is in."""
    actor = actor_of(request, Permission.JOB_LAUNCH)
    found = find(actor.team, public_id)
    if isinstance(found, JobOrder):
        in_state(services.order_cancel, actor=actor, order=found)
    else:
        job = in_state(job_services.job_cancel, actor=actor, job=found)
        _wait_for_end(job)
    return wire_one(actor.team, public_id)


def _wait_for_end(job: Job) -> None:
    """Look after the job as a worker would; the trainer is killed when it does not leave by itself."""
    limit = time.monotonic() + CANCEL_SECONDS
    while job.status not in ENDED and time.monotonic() < limit:
        job_services.job_sync(job_id=job.pk)
        job.refresh_from_db()
        if job.status not in ENDED:
            time.sleep(0.2)


@door("POST", "pauseFineTuningJob", summary="Pause a job", answer=job_wire.JobWire)
def job_pause(request: Request, public_id: str) -> dict[str, Any]:
    """A running job finishes its train step first and is `running` until then."""
    actor = actor_of(request, Permission.JOB_LAUNCH)
    in_state(job_services.job_pause, actor=actor, job=_launched(actor, public_id, "paused"))
    return wire_one(actor.team, public_id)


@door("POST", "resumeFineTuningJob", summary="Resume a job", answer=job_wire.JobWire)
def job_resume(request: Request, public_id: str) -> dict[str, Any]:
    """It goes on from its newest checkpoint, when there is room."""
    actor = actor_of(request, Permission.JOB_LAUNCH)
    in_state(job_services.job_resume, actor=actor, job=_launched(actor, public_id, "resumed"))
    return wire_one(actor.team, public_id)


def _launched(actor: Actor, public_id: str, verb: str) -> Job:
    found = find(actor.team, public_id)
    if isinstance(found, JobOrder):
        status = job_wire.wire_order(found)["status"]
        raise WrongState(f"The job is {status}; only a launched job can be {verb}.", fix="Wait, or cancel it.")
    return found


# -- events and checkpoints -------------------------------------------------------------------------------------------


@door("GET", "listFineTuningEvents", summary="A job's events", answer=job_wire.EventListWire, parameters=[AFTER, LIMIT])
def event_list(request: Request, public_id: str) -> dict[str, Any]:
    """Newest first, in the order in which they became known: what was listed once never moves."""
    found, limit = find(actor_of(request).team, public_id), limit_of(request, 20)
    if isinstance(found, JobOrder):
        return _story_page(request, found, limit)
    # What was told before the launch was written down as events after the launch's own.
    rank = Case(When(type=STORY, then=0), default=1)
    rows = JobEvent.objects.filter(job=found).annotate(rank=rank)
    after = after_of(request, rows)
    rows = rows.filter(older_than(after, "rank", "id")).order_by("-rank", "-id")
    return page_of([job_wire.wire_event(event) for event in rows[: limit + 1]], limit)


def _story_page(request: Request, order: JobOrder, limit: int) -> dict[str, Any]:
    lines = order.story[::-1]
    if after := request.query_params.get("after"):
        places = [place for place, line in enumerate(lines) if line["id"] == after]
        if not places:
            raise UserError(f"There is no event {after[:80]!r}.", where="after", fix="Pass the last id you got.")
        lines = lines[places[0] + 1 :]
    return page_of([job_wire.wire_story(line) for line in lines[: limit + 1]], limit)


@door("GET", "listFineTuningJobCheckpoints", summary="A job's checkpoints", answer=job_wire.CheckpointListWire,
      parameters=[AFTER, LIMIT])  # fmt: skip
def checkpoint_list(request: Request, public_id: str) -> dict[str, Any]:
    """Those whose weights are kept, newest first."""
    found, limit = find(actor_of(request).team, public_id), limit_of(request, 10)
    if isinstance(found, JobOrder):
        return page_of([], limit, with_ends=True)
    rows = Checkpoint.objects.filter(job=found).exclude(is_deleted=True, model=None)
    after = after_of(request, Checkpoint.objects.filter(job=found))
    rows = rows.filter(older_than(after, "step_number")).order_by("-step_number")[: limit + 1]
    return page_of(job_wire.wire_checkpoints(found, rows), limit, with_ends=True)


jobs = by_method(job_list, job_create)
