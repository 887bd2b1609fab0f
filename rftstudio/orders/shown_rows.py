"""Rows of a supervised file as items: the messages up to the first answer that is learnt, and the turns that follow it.

A chat `[system, user, assistant, user, assistant]` becomes an item with `[system, user]`; the rest is its demonstration,
and the first answer of that is the reference its replies are measured against. Turns of `weight` 0 are context.
"""

import hashlib
import json
import tempfile
from collections.abc import Iterator
from typing import Any

from django.utils import timezone

from datasets import readers
from datasets.formats.base import BadLine, FileRefused, Row
from datasets.models import SourceFile
from datasets.services import source_file_upload
from jobs.demonstrations import TURNS_FIELD
from rftstudio.core.errors import UserError
from rftstudio.orders.models import FileNote
from rftstudio.teams.actor import Actor

ROLES = ("system", "developer", "user", "assistant")
KEYS = {"role", "content", "name", "weight"}
SHOWN_LINES = 3
_KEPT_IN_MEMORY = 8_000_000


class BadRow(Exception):
    """What keeps a row from being learnt, and how to mend it."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(f"{message} {fix}")


def is_shown(value: dict[str, Any]) -> bool:
    """Whether a row is a chat with its answer, as supervised jobs read it."""
    messages = value.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    return isinstance(last, dict) and last.get("role") == "assistant"


def item_of(value: dict[str, Any]) -> dict[str, Any]:
    """The row as an item with its demonstration. BadRow says what is wrong with it."""
    if value.get("tools") or value.get("functions"):
        raise BadRow(
            "Rows that call tools are not learnt through this door: no program of yours stands behind the call.",
            "Leave the tools out, or collect good rollouts with real tools and learn from those on the page of jobs.",
        )
    if TURNS_FIELD in value:
        raise BadRow(f"The field {TURNS_FIELD} is where the turns to learn will stand.", "Call yours otherwise.")
    messages = [_message(one) for one in _messages(value)]
    first = _first_learnt(messages)
    turns = messages[first:]
    if not turns[0]["content"].strip():
        raise BadRow("The answer is empty.", "Write what the model should say.")
    rest = {key: one for key, one in value.items() if key not in ("messages", "tools", "functions")}
    return {
        **rest,
        "messages": [{key: one for key, one in message.items() if key != "weight"} for message in messages[:first]],
        "reference_answer": turns[0]["content"],
        TURNS_FIELD: turns,
    }


def _messages(value: dict[str, Any]) -> list[Any]:
    messages = value.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRow("There is no conversation: `messages` is missing.", "Write the chat that should be learnt.")
    return messages


def _message(one: Any) -> dict[str, Any]:
    """A message with plain text, without keys that hold nothing."""
    if not isinstance(one, dict) or one.get("role") not in (*ROLES, "tool", "function"):
        raise BadRow("A message has none of the roles system, developer, user and assistant.", "Give it one.")
    kept = {key: value for key, value in one.items() if value is not None}
    if kept["role"] in ("tool", "function") or kept.get("tool_calls") or kept.get("function_call"):
        raise BadRow(
            "The chat calls a tool, which is not learnt through this door.", "Keep chats of text, or use a rollout."
        )
    if unknown := sorted(kept.keys() - KEYS):
        raise BadRow(f"A message has the key {unknown[0]}.", f"Keep {', '.join(sorted(KEYS))}.")
    if "weight" in kept and (kept["role"] != "assistant" or kept["weight"] not in (0, 1)):
        raise BadRow("A weight is 0 or 1, and stands at messages of the assistant.", "Mend or remove it.")
    return kept | {"content": _text(kept.get("content"))}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [None]
    if not all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in parts):
        raise BadRow("A message holds something other than text.", "Keep text only.")
    return "".join(part["text"] for part in parts)


def _first_learnt(messages: list[dict[str, Any]]) -> int:
    """The place of the first answer to a user that is learnt."""
    if messages[-1]["role"] != "assistant":
        raise BadRow("The last message is not from the assistant.", "End each chat with the answer to learn.")
    for place, message in enumerate(messages):
        asked = place > 0 and messages[place - 1]["role"] == "user"
        if asked and message["role"] == "assistant" and message.get("weight", 1):
            return place
    raise BadRow("No message of the assistant follows one of the user and has a weight.", "Add the answer to learn.")


def fault_of(event: Any) -> str:
    """What is wrong with a line of a supervised file, in words; nothing where it can be learnt."""
    if isinstance(event, BadLine):
        return f"Line {event.line}, column {event.column}: {event.message} {event.fix}".strip()
    if isinstance(event, Row):
        try:
            item_of(event.value)
        except BadRow as bad:
            return f"Line {event.line}: {bad}"
    return ""


def items_file(*, actor: Actor, file: SourceFile, param: str) -> SourceFile:
    """The file's rows as items, kept beside it and not listed. UserError names the first lines at fault."""
    faults, bad = [], 0
    with tempfile.SpooledTemporaryFile(_KEPT_IN_MEMORY) as made:
        for event in _events(file, param):
            if words := fault_of(event):
                bad += 1
                faults = faults if len(faults) >= SHOWN_LINES else [*faults, words]
            elif isinstance(event, Row):
                line = json.dumps(item_of(event.value), ensure_ascii=False, separators=(",", ":"))
                made.write(line.encode("utf-8", "surrogatepass") + b"\n")
        if faults:
            more = [f"And {bad - len(faults):,} more."] if bad > len(faults) else []
            raise UserError(" ".join(faults + more), where=param, code=f"invalid_{param}")
        made.seek(0)
        sha256 = hashlib.file_digest(made, "sha256").hexdigest()  # type: ignore[arg-type]
        if found := SourceFile.objects.filter(team=actor.team, sha256=sha256, note__deleted_at__isnull=False).first():
            return found  # of an earlier look, or an earlier order
        made.seek(0)
        row = source_file_upload(actor=actor, filename=file.filename, content=made)  # type: ignore[arg-type]
    FileNote.objects.create(source_file=row, status=FileNote.Status.PROCESSED, deleted_at=timezone.now())
    return row


def _events(file: SourceFile, param: str) -> Iterator[Any]:
    try:
        with file.content.open("rb") as stream:
            yield from readers.read(stream, readers.facts_of(stream, file.filename))
    except FileRefused as refused:
        raise UserError(f"{refused.message} {refused.fix}", where=param, code=f"invalid_{param}") from refused
