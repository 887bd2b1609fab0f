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
from jobs.rollouts.cleaning import clean, clean_json
from jobs.rollouts.engine.types import StepRecord, ToolCallRecord, Trajectory
from jobs.rollouts.models import Gateway, GatewayCall, Rollout
from jobs.rollouts.writing import finished_values, masked, steps_insert, team_mask

State, Kind = GatewayCall.State, GatewayCall.Kind
_ADDED = {"messages", "tools", "parallel_tool_calls"}  # what hosted services fill in by themselves


def rollout_rebuild(gateway: Gateway, trace_id: str, *, is_over: bool = False) -> Rollout | None:
    """Write the trace's rollout as its calls now stand; nothing before its grade was asked for, unless the trace `is_over`.

    The same calls give the same rollout, so building twice changes nothing.
    """
    of_trace = GatewayCall.objects.filter(gateway=gateway, trace_id=trace_id)
    known = list(of_trace.values_list("kind", "state", "rollout_id"))
    stored = next((rollout_id for _, _, rollout_id in known if rollout_id), None)
    is_graded = any(kind == Kind.GRADE and state == State.DONE for kind, state, _ in known)
    if not is_graded and not is_over and stored is None:
        return None
    rows = [row for row in of_trace.order_by("id") if row.state != State.RUNNING]
    asked = next((row for row in rows if row.kind == Kind.GRADE and row.result), None)
    calls = [row for row in rows if row.kind == Kind.TOOL]
    if not rows:
        return None  # all it has is a call that is being answered
    if asked:
        trajectory = trajectory_of(calls, asked.request.get("sample") or {})
        grade, marks = json.loads(asked.result), item_marks(asked.request.get("item") or {})
    else:
        trajectory, grade, marks = _given_up(calls), {}, rows[0].request.get("item") or {}
    rollout = Rollout.objects.get(pk=stored) if stored else _new_rollout(gateway, trace_id, marks)
    mask = team_mask(gateway.team_id)
    trajectory, grade = masked(trajectory, grade, mask)
    values = finished_values(trajectory, grade, pass_threshold=gateway.batch.pass_threshold, mask=mask)
    for name, value in values.items():
        setattr(rollout, name, value)
    if stored:
        rollout.steps.all().delete()
    rollout.save()
    steps_insert([(rollout.pk, trajectory, grade)])
    of_trace.update(rollout=rollout)
    return rollout


def _given_up(calls: list[GatewayCall]) -> Trajectory:
    """What is known of a try whose grade nobody asked for: its calls, and whether a tool was the reason."""
    trajectory = trajectory_of(calls, {})
    trajectory.steps.pop()  # the answer that never came
    failed = next((call for call in reversed(calls) if call.state == State.FAILED), None)
    if failed:
        trajectory.stop_reason = Rollout.StopReason.TOOL_FAILED
        trajectory.error = failed.result or f"The call of {failed.name} failed."
    else:
        trajectory.stop_reason = Rollout.StopReason.CANCELLED
        trajectory.error = "The trainer never asked for a grade: it stopped, or gave this rollout up."
    return trajectory


def _new_rollout(gateway: Gateway, trace_id: str, marks: dict[str, Any]) -> Rollout:
    batch = gateway.batch
    found = _item_of(gateway, marks)
    key = found.key if found else marks.get("key") or "unknown"
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


def item_marks(item: dict[str, Any]) -> dict[str, Any]:
    """What tells an item apart, small enough to be kept with every call: its question, its other fields, a key."""
    free = {key: value for key, value in item.items() if key not in _ADDED}
    marks: dict[str, Any] = {"key": _own_key(item), "fields": _digest(free)}
    if item.get("messages"):
        marks["questions"] = sorted({question_hash(item), question_hash({"messages": _plain_messages(item)})})
    return marks


def _item_of(gateway: Gateway, marks: dict[str, Any]) -> Item | None:
    """The dataset's item that the trainer sent back, perhaps with the empty keys that hosted services add."""
    if gateway.batch.dataset_version_id is None or not marks.get("questions"):
        return None
    alike = Item.objects.filter(version_id=gateway.batch.dataset_version_id, question_hash__in=marks["questions"])
    rows = list(alike.order_by("position")[:20])
    exact = [row for row in rows if item_marks(row.data)["fields"] == marks["fields"]]
    return next(iter(exact or rows), None)


def _plain_messages(item: dict[str, Any]) -> list[dict[str, Any]]:
    messages = [message for message in item["messages"] if isinstance(message, dict)]
    return [{key: value for key, value in message.items() if value is not None} for message in messages]


def _own_key(item: dict[str, Any]) -> str:
    for name in ("id", "key", "item_id"):
        if isinstance(item.get(name), str | int):
            return clean(str(item[name]))[:200]
    return f"item-{_digest(item)}"


def _digest(value: dict[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, default=str).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:16]


def trajectory_of(calls: list[GatewayCall], sample: dict[str, Any]) -> Trajectory:
    """Calls in the order the model wrote them, as far as the sample tells, else as they came; then the answer.

    Calls that were under way at the same time are one step with parallel calls.
    """
    calls = _in_order(calls, sample)
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
            _notes(call),
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


def _in_order(calls: list[GatewayCall], sample: dict[str, Any]) -> list[GatewayCall]:
    """Calls that the sample lists change places among themselves. Hosted services list those of the last turn alone, so
    the others stay where they came."""
    listed = [call.get("id") for call in sample.get("output_tools") or [] if isinstance(call, dict)]
    order = {str(call_id): place for place, call_id in enumerate(listed) if call_id}
    told = iter(sorted((c for c in calls if c.call_id in order), key=lambda c: (order[c.call_id], c.pk)))
    return [next(told) if call.call_id in order else call for call in calls]


def _notes(call: GatewayCall) -> list[str]:
    if call.state == State.FAILED:
        return [f"failed at try {call.attempt}"]
    return [f"answered at try {call.attempt}"] if call.attempt > 1 else []
