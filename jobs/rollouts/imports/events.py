"""Plain records: rollouts as lists of steps, loose events that name their rollout, and bare lists of spans."""

from typing import Any

from jobs.rollouts.engine.types import StepRecord
from jobs.rollouts.imports.messages import add_messages, call_record
from jobs.rollouts.imports.reading import Document, moment, number, text_of, whole
from jobs.rollouts.imports.spans import Span, add_spans
from jobs.rollouts.imports.types import Flag, Imported, ImportedRollout

_MODEL = {"model", "llm", "generation", "chat"}
_TOOL = {"tool", "function", "execute_tool"}


def is_spans(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("spans"), list)


def read_spans(documents: list[Document]) -> Imported:
    found = Imported("spans")
    for document in documents:
        value = document.value
        rollout = ImportedRollout(
            key=str(value.get("trace_id") or value.get("id") or f"line {document.line}"),
            trace_id=str(value.get("trace_id") or ""),
            reward=number(value.get("reward")),
        )
        add_spans(rollout, [_span(span) for span in value["spans"] if isinstance(span, dict)])
        rollout.title = str(value.get("name") or "")
        found.rollouts.append(rollout)
    return found


def _span(span: dict[str, Any]) -> Span:
    def pick(*names: str) -> Any:
        return next((span[name] for name in names if span.get(name) is not None), None)

    kind = str(pick("kind", "type") or "").lower()
    return Span(
        id=str(pick("id", "span_id") or ""),
        parent=str(pick("parent", "parent_id", "parent_span_id") or ""),
        name=str(pick("name") or "span"),
        kind="model" if kind in _MODEL else "tool" if kind in _TOOL else "other",
        start=moment(pick("start", "started_at", "start_time")),
        end=moment(pick("end", "ended_at", "end_time")),
        input=pick("input", "arguments"),
        output=pick("output", "result"),
        text=text_of(pick("output", "text")) if kind in _MODEL else "",
        input_tokens=whole(pick("in", "input_tokens")),
        output_tokens=whole(pick("out", "output_tokens")),
        cost=number(pick("cost")) or 0.0,
        error=text_of(pick("error")),
    )


def is_steps(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("steps"), list) and "schema_version" not in value


def read_steps(documents: list[Document]) -> Imported:
    """Rollouts as written by our own export, or with steps in the plain shapes of training loops."""
    found = Imported("studio" if "item_key" in (documents[0].value or {}) else "steps")
    seen: dict[str, ImportedRollout] = {}
    for document in documents:
        if not is_steps(document.value):
            continue
        rollout = _rollout(document.value, document.line)
        known = seen.get(rollout.key)
        if known is None:
            seen[rollout.key] = rollout
            found.rollouts.append(rollout)
        elif (known.reward, len(known.steps)) != (rollout.reward, len(rollout.steps)):
            words = f"Rollout {rollout.key} is there already with another body; the first one is kept."
            found.flags.append(Flag("conflicting_rollout", f"line {document.line}", words))
    return found


def _rollout(row: dict[str, Any], line: int) -> ImportedRollout:
    rollout = ImportedRollout(
        key=str(row.get("rollout_id") or row.get("id") or f"line {line}"),
        group=str(row.get("item_key") or row.get("group") or row.get("prompt_id") or ""),
        trace_id=str(row.get("trace_id") or ""),
        reward=number(row.get("reward")),
        passed=row.get("passed") if isinstance(row.get("passed"), bool) else None,
        sub_rewards={str(k): number(v) for k, v in (row.get("sub_rewards") or {}).items()},
        answer=text_of(row.get("answer")),
        error=text_of(row.get("error")),
        stop_reason=str(row.get("stop_reason") or "answered"),
        title=str(row.get("title") or ""),
        advantage=number(row.get("advantage")),
        seconds=None if number(row.get("milliseconds")) is None else (number(row["milliseconds"]) or 0.0) / 1000,
        extra=_extra(row),
    )
    for place, step in enumerate(row["steps"], start=1):
        if isinstance(step, dict):
            rollout.steps.append(_step(rollout, step, place))
    paid = [step.step_reward for step in rollout.steps if step.step_reward is not None]
    if rollout.reward is None and paid and "reward" not in row:
        rollout.reward = sum(paid)  # the stated rule: without a reward of its own a rollout earned what its steps did
        rollout.flag("reward_summed", f"rollout {rollout.key}", "Its reward is the sum of its steps' rewards.")
    last = rollout.steps[-1] if rollout.steps else None
    if last is not None and not last.tool_calls:
        rollout.answer = rollout.answer or last.text
    for flag in row.get("flags") or []:
        if isinstance(flag, dict):
            rollout.flag(str(flag.get("code", "")), str(flag.get("where", "")), str(flag.get("message", "")))
    return rollout


def _extra(row: dict[str, Any]) -> dict[str, Any]:
    extra = dict(row["extra"]) if isinstance(row.get("extra"), dict) else {}
    if (before := number(row.get("reference_logprob"))) is not None:  # before the first step; each step has its own
        extra["reference_logprob"] = before
    return extra


def _step(rollout: ImportedRollout, step: dict[str, Any], place: int) -> StepRecord:
    calls, seen = [], set()
    results = {str(r.get("tool_call_id")): r for r in step.get("results") or [] if isinstance(r, dict)}
    for count, call in enumerate(step.get("tool_calls") or step.get("calls") or [], start=1):
        if not isinstance(call, dict):
            continue
        record, notes = call_record(call, seen, f"step{place}-{count}")
        del record._open  # type: ignore[attr-defined]
        for code, words in notes:
            record.notes.append(words)
            rollout.flag(code, f"step {place}, call {count}", words)
        found = results.get(str(call.get("id")))
        record.result = text_of(found.get("content") if found else call.get("result"))
        record.is_error = bool(call.get("is_error")) or any(code == "bad_arguments" for code, _ in notes)
        record.milliseconds = number(call.get("milliseconds")) or 0.0
        record.notes += [str(note) for note in call.get("notes") or []]
        calls.append(record)
    at = moment(step.get("started_at"))
    return StepRecord(
        index=place - 1,
        text=text_of(step.get("text") or step.get("content")),
        reasoning=text_of(step.get("reasoning")),
        tool_calls=calls,
        finish_reason=str(step.get("finish_reason") or ""),
        input_tokens=whole(step.get("input_tokens")),
        output_tokens=whole(step.get("output_tokens")),
        step_reward=number(step.get("step_reward", step.get("reward"))),
        reference_logprob=number(step.get("reference_logprob")),
        started_at=at.seconds if at else None,
        milliseconds=number(step.get("milliseconds")),
    )


def is_events(value: Any) -> bool:
    return isinstance(value, dict) and "rollout_id" in value


def read_events(documents: list[Document]) -> Imported:
    """Loose records, each naming its rollout: events in any order, and parts that sub-agents wrote."""
    found = Imported("events")
    rows: dict[str, list[dict[str, Any]]] = {}
    for document in documents:
        if is_events(document.value):
            rows.setdefault(str(document.value["rollout_id"]), []).append(document.value)
    for key, members in rows.items():
        rollout = ImportedRollout(key=key, group=str(members[0].get("prompt_id") or members[0].get("group") or ""))
        rewards = [number(m.get("reward")) for m in members if m.get("reward") is not None and "type" not in m]
        if rewards:
            rollout.reward = rewards[0]  # one reward a rollout, however many parts repeat it
            if any(reward != rewards[0] for reward in rewards):
                words = "Its records give different rewards; the first one is kept."
                rollout.flag("conflicting_rollout", f"rollout {key}", words)
        ordered = sorted(members, key=lambda m: (str(m.get("part") or ""), whole(m.get("i"))))
        add_messages(rollout, [_message(m) for m in ordered if "content" in m or m.get("tool_calls")])
        for member in ordered:
            if member.get("part") and "content" not in member:
                rollout.steps.append(StepRecord(index=len(rollout.steps), text=f"Part {member['part']}"))
        parts = [str(m["part"]) for m in members if m.get("part")]
        if parts:
            rollout.extra["parts"] = parts
        found.rollouts.append(rollout)
    return found


def _message(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "role": row.get("role") or ("tool" if str(row.get("type")) in _TOOL else "assistant")}


def is_calls(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("calls"), list) and isinstance(value.get("results"), list)


def read_calls(documents: list[Document]) -> Imported:
    """One turn with its parallel calls and their results in another order: pairs are made by id."""
    found = Imported("calls")
    for document in documents:
        rollout = ImportedRollout(key=f"line {document.line}")
        message = {"role": "assistant", "content": "", "tool_calls": document.value["calls"]}
        results = [{**r, "role": "tool"} for r in document.value["results"] if isinstance(r, dict)]
        add_messages(rollout, [message, *results])
        found.rollouts.append(rollout)
    return found


def is_bare_call(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") == "function" and isinstance(value.get("function"), dict)


def read_bare_calls(documents: list[Document]) -> Imported:
    calls = [document.value for document in documents if is_bare_call(document.value)]
    rollout = ImportedRollout(key="calls")
    add_messages(rollout, [{"role": "assistant", "content": "", "tool_calls": calls}])
    return Imported("calls", [rollout])
