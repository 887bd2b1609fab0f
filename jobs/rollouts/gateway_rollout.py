"""Builds a rollout from the calls a gateway recorded.

Called inside the transaction that stored a call and holds the gateway's row, so one at a time: sample numbers are given
out here.
"""

import hashlib
import json
from typing import Any

from django.db.models import Max

from datasets.hashing import question_hash
from datasets.models import Item
from jobs.rollouts.bulk import insert
from jobs.rollouts.engine.types import StepRecord, ToolCallRecord, Trajectory
from jobs.rollouts.models import Gateway, GatewayCall, Rollout, Step
from jobs.rollouts.storing import clean, clean_json, rollout_values, step_rows

State, Kind = GatewayCall.State, GatewayCall.Kind


def rollout_rebuild(gateway: Gateway, trace_id: str) -> Rollout | None:
    """Write the trace's rollout as its calls now stand; nothing before its grade was asked for.

    The same calls give the same rollout, so building twice changes nothing.
    """
    rows = GatewayCall.objects.filter(gateway=gateway, trace_id=trace_id, state=State.DONE)
    grade_row = rows.filter(kind=Kind.GRADE).select_related("rollout").first()
    if grade_row is None:
        return None
    calls = list(rows.filter(kind=Kind.TOOL).order_by("id"))
    trajectory = trajectory_of(calls, grade_row.request.get("sample") or {})
    grade = json.loads(grade_row.result)
    values = rollout_values(trajectory, grade, pass_threshold=gateway.batch.pass_threshold)
    item = grade_row.request.get("item") or {}
    rollout = grade_row.rollout or _new_rollout(gateway, trace_id, item)
    for name, value in values.items():
        setattr(rollout, name, value)
    if rollout.pk:
        rollout.steps.all().delete()
    rollout.save()
    insert(Step, step_rows(rollout.pk, trajectory, grade))
    GatewayCall.objects.filter(gateway=gateway, trace_id=trace_id).update(rollout=rollout)
    return rollout


def _new_rollout(gateway: Gateway, trace_id: str, item: dict[str, Any]) -> Rollout:
    batch = gateway.batch
    found = _item_of(gateway, item)
    key = found.key if found else _own_key(item)
    last = Rollout.objects.filter(batch=batch, group_key=key).aggregate(last=Max("sample_index"))["last"]
    return Rollout(
        team_id=batch.team_id,
        batch=batch,
        item=found,
        group_key=key,
        sample_index=0 if last is None else last + 1,
        trace_id=_free_trace(trace_id, batch.pk),
        title=found.title if found else "",
        extra={"trace": trace_id},
    )


def _free_trace(trace_id: str, batch_id: int) -> str:
    """Another trainer's trace ids are its own; one that is taken here gets the batch's number in front."""
    is_taken = Rollout.objects.filter(trace_id=trace_id).exists()
    return f"{batch_id}:{trace_id}"[:64] if is_taken else trace_id


def _item_of(gateway: Gateway, item: dict[str, Any]) -> Item | None:
    """The dataset's item that the trainer sent back, perhaps with the empty keys that hosted services add."""
    if gateway.batch.dataset_version_id is None or not item.get("messages"):
        return None
    plain = {"messages": _plain_messages(item)}
    hashes = {question_hash(item), question_hash(plain)}
    rows = list(Item.objects.filter(version_id=gateway.batch.dataset_version_id, question_hash__in=hashes)[:20])
    added = {"messages", "tools", "parallel_tool_calls"}
    free = {key: value for key, value in item.items() if key not in added}
    exact = [row for row in rows if {k: v for k, v in row.data.items() if k not in added} == free]
    return next(iter(exact or rows), None)


def _plain_messages(item: dict[str, Any]) -> list[dict[str, Any]]:
    messages = [message for message in item["messages"] if isinstance(message, dict)]
    return [{key: value for key, value in message.items() if value is not None} for message in messages]


def _own_key(item: dict[str, Any]) -> str:
    for name in ("id", "key", "item_id"):
        if isinstance(item.get(name), str | int):
            return clean(str(item[name]))[:200]
    text = json.dumps(item, sort_keys=True, default=str).encode("utf-8", "surrogatepass")
    return f"item-{hashlib.sha256(text).hexdigest()[:16]}"


def trajectory_of(calls: list[GatewayCall], sample: dict[str, Any]) -> Trajectory:
    """Calls in the order the model wrote them, as far as the sample tells, else as they came; then the answer.

    Calls that were under way at the same time are one step with parallel calls.
    """
    order = {
        str(call.get("id")): place for place, call in enumerate(sample.get("output_tools") or []) if call.get("id")
    }
    calls = sorted(calls, key=lambda call: (order.get(call.call_id, len(order)), call.pk))
    steps: list[StepRecord] = []
    ends = 0.0
    for call in calls:
        begins = call.started_at.timestamp()
        record = ToolCallRecord(
            call.call_id or f"call_{call.pk}",
            call.name,
            str(call.request.get("arguments", "")),
            call.result,
            call.is_error,
            call.milliseconds or 0.0,
            [f"answered at try {call.attempt}"] if call.attempt > 1 else [],
        )
        if steps and begins < ends:
            steps[-1].tool_calls.append(record)
        else:
            steps.append(StepRecord(len(steps), tool_calls=[record], finish_reason="tool_calls", started_at=begins))
        ends = max(ends, begins + (call.milliseconds or 0.0) / 1000)
    answer = sample.get("output_text")
    text = answer if isinstance(answer, str) else json.dumps(clean_json(answer)) if answer is not None else ""
    steps.append(StepRecord(len(steps), text=text, finish_reason="stop"))
    started = min((step.started_at for step in steps if step.started_at), default=None)
    return Trajectory(steps, "answered", text, started_at=started)
