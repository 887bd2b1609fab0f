"""Chat messages to steps. Calls and results pair by id, not by place; what does not fit is kept and flagged."""

import json
from collections.abc import Sequence
from typing import Any

from jobs.rollouts.engine.types import StepRecord, ToolCallRecord
from jobs.rollouts.imports.reading import number, text_of, whole
from jobs.rollouts.imports.types import ImportedRollout

_ASSISTANT = {"assistant", "ai", "model", "agent"}
_TOOL = {"tool", "function", "ipython"}


def add_messages(rollout: ImportedRollout, messages: Sequence[Any]) -> None:
    """Append the steps of a conversation. What precedes the first answer is the prompt."""
    reader = _Reader(rollout)
    for place, message in enumerate(messages, start=1):
        if not isinstance(message, dict):
            rollout.flag("odd_message", f"message {place}", "Not an object; left out of the steps.")
            continue
        reader.read(message, place)
    reader.close()


class _Reader:
    """Keeps which calls still wait for a result."""

    def __init__(self, rollout: ImportedRollout) -> None:
        self.rollout = rollout
        self.written = 0

    def read(self, message: dict[str, Any], place: int) -> None:
        role = str(message.get("role") or message.get("type") or "").lower()
        if role in _ASSISTANT or (not role and message.get("tool_calls")):
            self._assistant(message, place)
        elif role in _TOOL:
            self._result(message, place)
        elif self.rollout.steps:
            self._reply(message, role)
        else:
            self.rollout.prompt.append({"role": role or "user", "content": text_of(message.get("content"))})

    def _assistant(self, message: dict[str, Any], place: int) -> None:
        calls = [c for c in message.get("tool_calls") or [] if isinstance(c, dict)]
        if not calls and isinstance(message.get("function_call"), dict):
            calls = [{"function": message["function_call"], "id": ""}]
        index = len(self.rollout.steps)
        seen: set[str] = set()
        made = []
        for count, call in enumerate(calls, start=1):
            record, notes = call_record(call, seen, f"step{index + 1}-{count}")
            self.written += 1
            for code, words in notes:
                record.notes.append(words)
                self.rollout.flag(code, f"message {place}, call {count}", words)
            made.append(record)
        tokens = message.get("usage") if isinstance(message.get("usage"), dict) else {}
        self.rollout.steps.append(
            StepRecord(
                index=index,
                text=text_of(message.get("content")),
                reasoning=text_of(message.get("reasoning_content") or message.get("reasoning") or ""),
                tool_calls=made,
                finish_reason=str(message.get("finish_reason") or ("tool_calls" if made else "stop")),
                input_tokens=whole(tokens.get("prompt_tokens") or tokens.get("input_tokens")),
                output_tokens=whole(tokens.get("completion_tokens") or tokens.get("output_tokens")),
                step_reward=number(message.get("reward")),
            )
        )

    def _result(self, message: dict[str, Any], place: int) -> None:
        key = str(message.get("tool_call_id") or message.get("call_id") or message.get("id") or "")
        result = text_of(message.get("content") if "content" in message else message.get("output"))
        paid = _paid(message)
        for step in reversed(self.rollout.steps):
            for call in step.tool_calls:
                if getattr(call, "_open", False) and (call.id == key or not key):
                    self._close(step, call, result, message, paid)
                    return
        known = next((c for s in self.rollout.steps for c in s.tool_calls if key and c.id == key), None)
        where = f"message {place}"
        if known is not None:
            words = f"Another result under the call id {key}; shown as a step of its own."
            self.rollout.flag("duplicate_call_id", where, words)
            name, arguments = known.name, known.arguments
        else:
            words = "A result without a call; shown as a step of its own."
            self.rollout.flag("result_without_call", where, words)
            name, arguments = str(message.get("name") or "unknown"), ""
        call = ToolCallRecord(id=key, name=name, arguments=arguments, result=result, notes=[words])
        call._open = False  # type: ignore[attr-defined]
        self.rollout.steps.append(StepRecord(index=len(self.rollout.steps), tool_calls=[call], step_reward=paid))

    def _close(self, step: StepRecord, call: Any, result: str, message: dict[str, Any], paid: float | None) -> None:
        call.result, call._open = result, False
        call.is_error = bool(message.get("is_error") or message.get("status") == "error" or message.get("error"))
        if paid is not None:
            step.step_reward = paid if step.step_reward is None else step.step_reward + paid

    def _reply(self, message: dict[str, Any], role: str) -> None:
        """A turn of the user or the system in the middle: kept with the step it answers."""
        replies = self.rollout.extra.setdefault("replies", {})
        key = str(len(self.rollout.steps))
        text = text_of(message.get("content"))
        replies[key] = f"{replies[key]}\n\n{text}" if key in replies else text

    def close(self) -> None:
        for step in self.rollout.steps:
            for call in step.tool_calls:
                if getattr(call, "_open", False):
                    words = "No result in the file."
                    call.notes.append(words)
                    self.rollout.flag("call_without_result", f"step {step.index + 1}, {call.name}", words)
                if hasattr(call, "_open"):
                    del call._open
        self.rollout.calls = self.written if self.rollout.calls is None else self.rollout.calls + self.written
        last = self.rollout.steps[-1] if self.rollout.steps else None
        if last is not None and not last.tool_calls and not self.rollout.answer:
            self.rollout.answer = last.text


def _paid(message: dict[str, Any]) -> float | None:
    metadata = message.get("metadata")
    return number(metadata.get("reward")) if isinstance(metadata, dict) else number(message.get("reward"))


def call_record(call: dict[str, Any], seen: set[str], made_id: str) -> tuple[ToolCallRecord, list[tuple[str, str]]]:
    """One call as the model wrote it, waiting for its result; empty and repeated ids get one of their own."""
    function = call.get("function") if isinstance(call.get("function"), dict) else call
    name = str(function.get("name") or call.get("name") or "").removeprefix("functions.")
    arguments = function.get("arguments", function.get("args", function.get("parameters", "")))
    if not isinstance(arguments, str):
        arguments = "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
    notes = []
    key = str(call.get("id") or call.get("call_id") or call.get("tool_call_id") or "")
    if not key:
        key = made_id
        notes.append(("empty_call_id", "The model gave no call id; one was made."))
    elif key in seen:
        notes.append(("duplicate_call_id", f"The call id {key} occurs twice in one turn; the second got its own."))
        key = made_id
    seen.add(key)
    if arguments.strip() and not _is_json(arguments):
        notes.append(("bad_arguments", f"The arguments of {name or 'the call'} are not valid JSON."))
    record = ToolCallRecord(id=key, name=name, arguments=arguments)
    record._open = True  # type: ignore[attr-defined]
    return record, notes


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def title_of(prompt: Sequence[dict[str, Any]]) -> str:
    """The start of the last user message, for lists."""
    for message in reversed(prompt):
        if message.get("role") not in ("system", "developer"):
            return " ".join(text_of(message.get("content")).removeprefix("MultimodalText\n* ").split())[:200]
    return ""
