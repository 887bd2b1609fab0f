"""The recording gateway: hosted and external trainers call our tools and grader, and we keep what happened.

A call is known by its trace, its id and what it asks. The first to arrive runs; a retry gets the stored answer, or
waits for the one that runs, or takes over when its worker died. A rollout is built from its calls when its grade is
asked for, and built again when a call comes home later. So retries and calls out of order lose and double nothing.
A trace whose grade nobody asks for becomes a rollout too, once it has been silent for long or the door is closed.
"""

import hashlib
import json
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Max
from django.utils import timezone

from graders.types import Sample
from jobs.rollouts.gateway_loop import call_tool, compiled_grader
from jobs.rollouts.gateway_rollout import item_marks, rollout_rebuild
from jobs.rollouts.judge_costs import judge_usages
from jobs.rollouts.models import Gateway, GatewayCall, RolloutBatch
from rftstudio.core.errors import Conflict, NotFound, UpstreamUnavailable, UserError
from rftstudio.core.sealed import seal, unseal
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import ApiKey, hash_key
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit
from rftstudio.usage.services import usage_record_many

MAX_BODY = 1_000_000
CALL_SECONDS = 600.0
LEASE = timedelta(seconds=CALL_SECONDS + 30)
WAIT_SECONDS = 60.0  # how long a retry waits for the call that runs, before the trainer is asked to come again
LOOK_SECONDS = 0.05
SILENCE = timedelta(minutes=30)  # a trace without a grade that was quiet so long has been given up by its trainer
GIVEN_UP_TOGETHER = 200

State, Kind = GatewayCall.State, GatewayCall.Kind
_BATCH = ("team_id", "source", "pass_threshold", "dataset_version_id", "grader_version_id")
_AGENT = ("team_id", "tools", "limits")
_NEEDED = (
    "public_id",
    "team_id",
    *(f"batch__{name}" for name in _BATCH),
    *(f"batch__agent_version__{name}" for name in _AGENT),
)


@dataclass(frozen=True)
class Addresses:
    """What the trainer is given. All tools share one address; the call says which it means."""

    tool: str
    grader: str


@transaction.atomic
def gateway_open(*, actor: Actor, batch: RolloutBatch) -> Gateway:
    """Open the door to a batch; asked again, the same door."""
    check_can(actor, Permission.JOB_LAUNCH, team=batch.team)
    if batch.agent_version is None or batch.grader_version is None:
        raise UserError("A gateway needs a batch with an agent version and a grader version.")
    found = Gateway.objects.filter(batch=batch).first()
    if found:
        return found
    secret = ApiKey.new_secret()  # its looks make log filters remove it from addresses
    gateway = Gateway.objects.create(
        team=batch.team, created_by=actor.user, batch=batch, digest=hash_key(secret), secret_sealed=seal(secret)
    )
    audit(actor, "gateway.opened", gateway, batch=batch.public_id)
    return gateway


@transaction.atomic
def gateway_close(*, actor: Actor, gateway: Gateway) -> None:
    """Refuse every call from now on."""
    check_can(actor, Permission.JOB_LAUNCH, team=gateway.team)
    Gateway.objects.filter(pk=gateway.pk, closed_at__isnull=True).update(closed_at=timezone.now())
    audit(actor, "gateway.closed", gateway)
    for trace_id in (
        GatewayCall.objects.filter(gateway=gateway, rollout=None).values_list("trace_id", flat=True).distinct()
    ):
        rollout_rebuild(gateway, trace_id, is_over=True)


def traces_give_up() -> int:
    """Make rollouts of traces that fell silent without a grade; returns how many. A grade that comes later still counts."""
    open_calls = GatewayCall.objects.filter(rollout=None).values("gateway", "trace_id")
    silent = open_calls.annotate(last=Max("started_at")).filter(last__lt=timezone.now() - SILENCE)
    rows = list(silent[:GIVEN_UP_TOGETHER])
    for row in rows:
        with transaction.atomic():
            gateway = Gateway.objects.select_related("batch").select_for_update(of=("self",)).get(pk=row["gateway"])
            rollout_rebuild(gateway, row["trace_id"], is_over=True)
    return len(rows)


def gateway_addresses(gateway: Gateway, *, base: str) -> Addresses:
    """The addresses in the clear, for the backend that submits the job. `base` is our address as the trainer sees it."""
    root = f"{base.rstrip('/')}/gateway/{unseal(gateway.secret_sealed)}"
    return Addresses(tool=f"{root}/tool", grader=f"{root}/grader")


def gateway_get(secret: str) -> Gateway:
    """The open gateway of that secret; NotFound for unknown and closed ones alike."""
    # Every call asks this, so it reads what a call needs and leaves the rest until somebody looks.
    rows = Gateway.objects.select_related("batch__agent_version").only(*_NEEDED)
    found = rows.filter(digest=hash_key(secret), closed_at__isnull=True).first()
    if found is None:
        raise NotFound("There is nothing at this address.")
    return found


def tool_answer(gateway: Gateway, body: dict[str, Any]) -> dict[str, Any]:
    """Answer a tool call in the wire shape. Raises UpstreamUnavailable when the tool keeps failing: the trainer retries."""
    name, trace_id = _text(body, "name"), _text(body, "trace_id")
    arguments = body.get("arguments", "{}")
    arguments = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call_id = str(body.get("call_id") or body.get("id") or "")[:120]
    item = body.get("item") if isinstance(body.get("item"), dict) else {}

    def run(row: GatewayCall) -> None:
        result = call_tool(gateway, name, arguments, call_id=call_id or row.digest[:16], trace_id=trace_id, item=item)
        if result.fatal:
            raise UpstreamUnavailable(result.output)
        row.result, row.is_error, row.milliseconds = result.output, result.is_error, result.milliseconds

    asked = {"name": name, "arguments": arguments, "id": str(body.get("id") or ""), "item": item_marks(item)}
    key = {"kind": Kind.TOOL, "trace_id": trace_id, "call_id": call_id, "digest": _digest(name, arguments)}
    row = _once(gateway, key, asked, run)
    return {"type": "function_call_output", "call_id": body.get("call_id"), "id": body.get("id"), "output": row.result}


def grade_answer(gateway: Gateway, body: dict[str, Any]) -> dict[str, Any]:
    """Grade a finished rollout, once for its trace. Raises UpstreamUnavailable when it cannot be graded now."""
    trace_id = _text(body, "trace_id")
    sample = body.get("sample") if isinstance(body.get("sample"), dict) else {}
    item = body.get("item") if isinstance(body.get("item"), dict) else {}

    def run(row: GatewayCall) -> None:
        grade = compiled_grader(gateway).grade(item, _sample_of(sample, gateway, trace_id), trace_id)
        row.result, row.is_error, row.milliseconds = (
            json.dumps(grade.as_dict()),
            not grade.is_graded,
            grade.milliseconds,
        )

    asked = {"sample": sample, "item": item}
    row = _once(gateway, {"kind": Kind.GRADE, "trace_id": trace_id, "call_id": "", "digest": ""}, asked, run)
    reward = json.loads(row.result).get("reward")
    if reward is None:
        # The trainer tries again and then discards the rollout, as the reference has it. The row may run again.
        GatewayCall.objects.filter(pk=row.pk, state=State.DONE).update(state=State.FAILED)
        raise UpstreamUnavailable("This sample could not be graded.")
    return {"score": reward}


def _once(gateway: Gateway, key: dict[str, str], asked: dict[str, Any], run) -> GatewayCall:
    """The call's row with its answer; `run` is called by whoever holds the row, and by nobody twice at a time."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        row, is_mine = _claim(gateway, key, asked)
        if is_mine:
            return _run_claimed(row, run)
        if row.state == State.DONE:
            return row
        if time.monotonic() >= deadline:
            raise Conflict("This call is still being answered.", fix="Ask again.")
        time.sleep(LOOK_SECONDS)


def _claim(gateway: Gateway, key: dict[str, str], asked: dict[str, Any]) -> tuple[GatewayCall, bool]:
    """Make the row, or take it over where the last try failed or died; False when another has it or it is done."""
    now = timezone.now()
    held = {"state": State.RUNNING, "lease_until": now + LEASE}
    row = GatewayCall.objects.filter(gateway=gateway, **key).first()
    if row is None:
        try:
            with transaction.atomic():
                fresh = {"request": asked, "name": asked.get("name", ""), "started_at": now, **held}
                return GatewayCall.objects.create(gateway=gateway, **key, **fresh), True
        except IntegrityError:
            return GatewayCall.objects.get(gateway=gateway, **key), False
    is_free = row.state == State.FAILED or (row.state == State.RUNNING and row.lease_until and row.lease_until < now)
    if not is_free:
        return row, False
    mine = GatewayCall.objects.filter(pk=row.pk, state=row.state, attempt=row.attempt)
    taken = mine.update(attempt=row.attempt + 1, **held) == 1
    row.attempt += taken
    return row, taken


def _run_claimed(row: GatewayCall, run) -> GatewayCall:
    try:
        run(row)
        _store(row)
    except BaseException as exc:  # whatever it was, a retry may run the call at once and need not wait for the lease
        said = str(exc) if isinstance(exc, UpstreamUnavailable) else ""
        GatewayCall.objects.filter(pk=row.pk, attempt=row.attempt, state=State.RUNNING).update(
            state=State.FAILED, lease_until=None, result=said, is_error=bool(said)
        )
        raise
    return row


@transaction.atomic
def _store(row: GatewayCall) -> None:
    """Keep the answer and build the rollout. The gateway is locked first: its calls are, only ever after it."""
    list(Gateway.objects.select_for_update(no_key=True).filter(pk=row.gateway_id).values_list("pk"))
    stored = GatewayCall.objects.filter(pk=row.pk, attempt=row.attempt).update(
        state=State.DONE, lease_until=None, result=row.result, is_error=row.is_error, milliseconds=row.milliseconds
    )
    if not stored:  # another took it over meanwhile, and its answer is the one that counts
        row.refresh_from_db()
        return
    row.state = State.DONE
    if row.kind == Kind.GRADE:
        _judges_charge(row)
    rollout_rebuild(row.gateway, row.trace_id)


def _judges_charge(row: GatewayCall) -> None:
    """Book what judges read and wrote. A grade that was asked for again did cost again."""
    batch = row.gateway.batch
    key = f"{row.gateway.public_id}:{row.trace_id}:{row.attempt}"
    used = json.loads(row.result).get("usage") or {}
    if usages := judge_usages(key, used, at=timezone.now(), batch_source=batch.source):
        usage_record_many(team=batch.team, usages=usages)


def _sample_of(sample: dict[str, Any], gateway: Gateway, trace_id: str) -> Sample:
    """The trainer's sample; where it lists fewer calls than we answered, ours are the truth."""
    known = {key: sample[key] for key in Sample.__dataclass_fields__ if sample.get(key) is not None}
    calls = GatewayCall.objects.filter(gateway=gateway, kind=Kind.TOOL, trace_id=trace_id, state=State.DONE)
    ours = [
        {
            "id": call.call_id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.request.get("arguments", "{}")},
        }
        for call in calls.order_by("id")
    ]
    if len(ours) > len(known.get("output_tools") or []):
        known["output_tools"] = ours
    return Sample(**known)


def _text(body: dict[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str) or not value or len(value) > 64:
        raise UserError(f"{key} must be a text of 1 to 64 characters.", where=key)
    return value


def _digest(*parts: str) -> str:
    return hashlib.sha256("\x00".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
