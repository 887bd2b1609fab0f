"""The local trace format of the build-hours harness: one item a row, its trace a list of events."""

from typing import Any

from jobs.rollouts.engine.types import StepRecord, ToolCallRecord
from jobs.rollouts.imports.messages import title_of
from jobs.rollouts.imports.reading import Document, number, text_of, whole
from jobs.rollouts.imports.types import Imported, ImportedRollout


def is_mine(value: Any) -> bool:
    if isinstance(value, dict) and isinstance(value.get("results"), list):
        value = value["results"][0] if value["results"] else None
    trace = value.get("trace") if isinstance(value, dict) else None
    return isinstance(trace, list) and (
        "sample_index" in value or any(isinstance(event, dict) and "event" in event for event in trace)
    )


def read(documents: list[Document]) -> Imported:
    found = Imported("local_trace")
    for document in documents:
        value = document.value
        rows = value["results"] if isinstance(value, dict) and isinstance(value.get("results"), list) else [value]
        found.rollouts += [
            _rollout(row, document.line, index) for index, row in enumerate(rows) if isinstance(row, dict)
        ]
    return found


def _rollout(row: dict[str, Any], line: int, index: int) -> ImportedRollout:
    item = row.get("input_item") if isinstance(row.get("input_item"), dict) else {}
    usage = row.get("usage_cumulative") if isinstance(row.get("usage_cumulative"), dict) else {}
    metrics = row.get("metrics") if isinstance(row.get("metrics"), dict) else {}
    prompt = [m for m in item.get("messages") or [] if isinstance(m, dict)]
    rollout = ImportedRollout(
        key=f"line {line}-{index + 1}",
        group=f"sample {row['sample_index']}" if row.get("sample_index") is not None else "",
        prompt=prompt,
        title=title_of(prompt),
        answer=text_of(row.get("final_message_text")),
        error=str(row.get("error") or ""),
        seconds=number(row.get("duration_seconds")),
        input_tokens=whole(usage.get("input_tokens")) if usage else None,
        output_tokens=whole(usage.get("output_tokens")) if usage else None,
        extra={"item": item, "grader_durations": row.get("grader_durations")},
    )
    rewards = {str(name): number(value) for name, value in metrics.items()}
    rollout.reward = rewards.pop("reward", None)
    rollout.sub_rewards = rewards
    events = [event for event in row.get("trace") or [] if isinstance(event, dict)]
    _Events(rollout).read(events)
    if rollout.error or rollout.reward == -1:
        # The harness writes −1 for a failure; that is no reward.
        rollout.reward, rollout.stop_reason = None, "model_failed"
        rollout.error = rollout.error or "The harness marked this rollout as failed (reward −1)."
        rollout.flag("failed_reward", f"rollout {rollout.key}", "Its reward of −1 marks a failure and was not kept.")
    return rollout


class _Events:
    """Turns events into steps: a call begins or continues a step, a result closes it."""

    def __init__(self, rollout: ImportedRollout) -> None:
        self.rollout = rollout
        self.text: list[str] = []
        self.thoughts: list[str] = []
        self.open: dict[int, ToolCallRecord] = {}

    def read(self, events: list[dict[str, Any]]) -> None:
        last = ""
        for event in events:
            kind = str(event.get("event") or event.get("type") or "")
            if kind == "tool_call":
                self._call(event, starts=last != "tool_call")
            elif kind in ("tool_result", "tool_error"):
                self._result(event, kind)
            elif kind == "reasoning_summary":
                self.thoughts.append(text_of(event.get("summary")))
            elif kind == "preamble_message":
                self.text.append(text_of(event.get("text")))
            elif kind == "final_message":
                self._step(text_of(event.get("text")))
                self.rollout.answer = self.rollout.answer or text_of(event.get("text"))
            elif kind == "runtime_error":
                self.rollout.error = self.rollout.error or text_of(event.get("error"))
                self._step(text_of(event.get("error")))
            else:
                self.rollout.flag(
                    "unknown_event", f"rollout {self.rollout.key}", f"An event of kind {kind!r}; shown as a step."
                )
                self._step(text_of(event.get("text") or event))
            last = kind
        if self.text or self.thoughts:
            self._step("")

    def _step(self, text: str, calls: list[ToolCallRecord] | None = None) -> StepRecord:
        step = StepRecord(
            index=len(self.rollout.steps),
            text="\n".join([*self.text, text] if text else self.text),
            reasoning="\n".join(self.thoughts),
            tool_calls=calls or [],
        )
        self.text, self.thoughts = [], []
        self.rollout.steps.append(step)
        return step

    def _call(self, event: dict[str, Any], *, starts: bool) -> None:
        arguments = event.get("arguments")
        key = str(event.get("call_id") or "")
        call = ToolCallRecord(
            id=key or f"step{len(self.rollout.steps) + 1}",
            name=str(event.get("name") or "").removeprefix("functions."),
            arguments=arguments if isinstance(arguments, str) else text_of(arguments),
        )
        if not key:
            call.notes.append("The model gave no call id; one was made.")
            self.rollout.flag("empty_call_id", f"rollout {self.rollout.key}, {call.name}", call.notes[0])
        self.open[id(call)] = call
        if starts or not self.rollout.steps:
            self._step("", [call])
        else:
            self.rollout.steps[-1].tool_calls.append(call)

    def _result(self, event: dict[str, Any], kind: str) -> None:
        key, name = str(event.get("call_id") or ""), str(event.get("name") or "")
        call = next((c for c in self.open.values() if key and c.id == key), None)
        if call is None:
            call = next((c for c in self.open.values() if not key and (not name or c.name == name)), None)
        output = text_of(event.get("output") if kind == "tool_result" else event.get("error"))
        if call is None:
            words = "A result without a call; shown as a step of its own."
            self.rollout.flag("result_without_call", f"rollout {self.rollout.key}", words)
            self._step("", [ToolCallRecord(id=key, name=name or "unknown", arguments="", result=output, notes=[words])])
            return
        call.result, call.is_error = output, kind == "tool_error"
        del self.open[id(call)]
