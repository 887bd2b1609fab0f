"""The Agent Trajectory Interchange Format (ATIF): one trajectory a document."""

import json
from typing import Any

from jobs.rollouts.engine.types import StepRecord, ToolCallRecord
from jobs.rollouts.imports.messages import title_of
from jobs.rollouts.imports.reading import Document, moment, number, text_of, whole
from jobs.rollouts.imports.types import Imported, ImportedRollout


def is_mine(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("steps"), list) and (
        str(value.get("schema_version", "")).upper().startswith("ATIF")
        or ("session_id" in value and isinstance(value.get("agent"), dict))
    )  # fmt: skip


def read(documents: list[Document]) -> Imported:
    return Imported("atif", [_rollout(document.value, document.line) for document in documents])


def _rollout(value: dict[str, Any], line: int) -> ImportedRollout:
    agent = value.get("agent") if isinstance(value.get("agent"), dict) else {}
    final = value.get("final_metrics") if isinstance(value.get("final_metrics"), dict) else {}
    more = final.get("extra") if isinstance(final.get("extra"), dict) else {}
    rollout = ImportedRollout(
        key=str(value.get("session_id") or f"line {line}"),
        trace_id=str(value.get("session_id") or ""),
        policy=str(agent.get("model_name") or ""),
        reward=number(more.get("reward", (value.get("extra") or {}).get("reward"))),
        sub_rewards={str(k): number(v) for k, v in (more.get("sub_rewards") or {}).items()},
        cost_usd=number(final.get("total_cost_usd")),
        extra={"agent": {key: agent.get(key) for key in ("name", "version")}},
    )
    if "total_prompt_tokens" in final or "total_completion_tokens" in final:
        rollout.input_tokens = whole(final.get("total_prompt_tokens"))
        rollout.output_tokens = whole(final.get("total_completion_tokens"))
    for place, step in enumerate(value["steps"], start=1):
        if isinstance(step, dict):
            _add_step(rollout, step, place)
        else:
            rollout.flag("odd_step", f"step {place}", "Not an object; left out.")
    rollout.title = title_of(rollout.prompt)
    last = rollout.steps[-1] if rollout.steps else None
    if last is not None and not last.tool_calls:
        rollout.answer = last.text
    return rollout


def _add_step(rollout: ImportedRollout, step: dict[str, Any], place: int) -> None:
    source, text = str(step.get("source") or "agent"), text_of(step.get("message"))
    if source != "agent":
        if rollout.steps:
            rollout.extra.setdefault("replies", {})[str(len(rollout.steps))] = text
        else:
            rollout.prompt.append({"role": source, "content": text})
        return
    observation = step.get("observation") if isinstance(step.get("observation"), dict) else {}
    results = [r for r in observation.get("results") or [] if isinstance(r, dict)]
    metrics = step.get("metrics") if isinstance(step.get("metrics"), dict) else {}
    at = moment(step.get("timestamp"))
    made = StepRecord(
        index=len(rollout.steps),
        text=text,
        reasoning=text_of(step.get("reasoning_content")),
        input_tokens=whole(metrics.get("prompt_tokens")),
        output_tokens=whole(metrics.get("completion_tokens")),
        started_at=at.seconds if at else None,
        step_reward=number((step.get("extra") or {}).get("reward")),
    )
    for count, call in enumerate(step.get("tool_calls") or [], start=1):
        made.tool_calls.append(_call(rollout, call, results, place, count))
    for left in results:
        words = "A result without a call."
        rollout.flag("result_without_call", f"step {place}", words)
        made.tool_calls.append(
            ToolCallRecord(id="", name="observation", arguments="", result=text_of(left.get("content")), notes=[words])
        )
    rollout.steps.append(made)


def _call(
    rollout: ImportedRollout, call: dict[str, Any], results: list[dict[str, Any]], place: int, count: int
) -> ToolCallRecord:
    arguments = call.get("arguments")
    key = str(call.get("tool_call_id") or "")
    made = ToolCallRecord(
        id=key or f"step{place}-{count}",
        name=str(call.get("function_name") or ""),
        arguments=arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False),
    )
    found = next((r for r in results if key and r.get("source_call_id") == key), None)
    if found is None and results and not results[0].get("source_call_id"):
        found = results[0]
    if found is None:
        made.notes.append("No result in the file.")
        rollout.flag("call_without_result", f"step {place}, {made.name}", made.notes[0])
    else:
        results.remove(found)
        made.result = text_of(found.get("content"))
    return made
