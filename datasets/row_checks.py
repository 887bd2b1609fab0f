"""What makes a row a task that can be trained on. Portable: plain values in, codes and words out.

A fault keeps the row in the draft and blocks freezing until it is fixed; a note is a warning only.
"""

import re
from typing import Any, NamedTuple

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

ROLES = {"developer", "system", "user", "assistant", "tool"}
REFERENCE_NAMES = ("reference_answer", "reference", "ground_truth", "expected_answer", "answer", "target")
_TOOL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
_PARTS = {"text", "image_url"}


class Fault(NamedTuple):
    code: str
    message: str
    fix: str


FAULTS: dict[str, Fault] = {
    fault.code: fault
    for fault in (
        Fault("messages_missing", "There is no conversation: `messages` is missing.",
              "Choose the column that holds the question (map prompt=COLUMN), or add messages."),
        Fault("messages_malformed", "`messages` is not a list of messages with a role and a content.",
              'Write it as [{"role": "user", "content": "..."}].'),
        Fault("role_unknown", "A message has a role that is not developer, system, user, assistant or tool.",
              "Use one of these five roles."),
        Fault("content_unsupported", "A message holds something other than text or images.",
              "Keep text and image parts only."),
        Fault("last_message_assistant", "The last message is from the assistant; it must be from the user.",
              "Move the answer to the reference, or cut it off."),
        Fault("last_message_not_user", "The last message is not from the user.",
              "Cut the conversation after the last user message."),
    )
}  # fmt: skip
FAULTS["tools_malformed"] = Fault(
    "tools_malformed",
    "`tools` is not a list of function tools.",
    "Write each as {type: function, function: {name, ...}}.",
)
FAULTS["prompt_missing"] = Fault(
    "prompt_missing", "The mapped question column is missing or empty in this row.", "Fill the cell, or skip the row."
)

NOTES: dict[str, str] = {
    "nul_character": "Values hold the NUL character; it is kept in the file and shown as \u2400.",
    "lone_surrogate": "Values hold half of a character pair (a lone surrogate); it is kept and shown as \ufffd.",
    "doubled_key": "A key stands twice in one object; the last value counts.",
    "eval_items": "Rows are wrapped in `item` (the evals file format); the inner rows are used.",
    "empty_reference": "The reference is empty; graders that look for it inside the answer would always say 1.",
    "system_role": "Messages use the role system; training uses developer.",
    "tool_schema": "A tool's parameters are not a valid JSON schema.",
    "mixed_types": "A field has mixed types; each value keeps its own.",
    "duplicate_question": "The same conversation stands in more than one row.",
    "json_array": "The file is one JSON array (or objects over several lines), not JSON Lines; its elements became rows.",
    "cr_line_ends": "The lines end in a bare carriage return, as old Macs wrote them; they were read as lines.",
    "column_mapped": "Columns with the usual names became the conversation and the reference.",
    "split_unknown": "Rows name a split that is not train, validation or test; they went to train.",
    "split_incomplete": "Only some rows name a split (train, validation, test), so all went to train.",
    "id_made": "The id is too long or not a text; one was made from it.",
}


def row_fault(value: dict[str, Any]) -> str:
    """The code of what keeps this row from being trained on, or the empty text."""
    messages = value.get("messages")
    if messages is None:
        return "messages_missing"
    if type(messages) is not list or not messages:
        return "messages_malformed"
    for message in messages:
        if type(message) is not dict or type(message.get("role")) is not str:
            return "messages_malformed"
        content = message.get("content")
        if type(content) is not str and (bad := _content_fault(message, content)):
            return bad
        if message["role"] not in ROLES:
            return "role_unknown"
    last = messages[-1]["role"]
    if last != "user":
        return "last_message_assistant" if last == "assistant" else "last_message_not_user"
    return "tools_malformed" if "tools" in value and _tools_fault(value["tools"]) else ""


def _content_fault(message: dict[str, Any], content: Any) -> str:
    if content is None:
        return "" if message["role"] == "assistant" else "messages_malformed"
    if type(content) is not list or not all(type(part) is dict for part in content):
        return "messages_malformed"
    return "" if all(part.get("type") in _PARTS for part in content) else "content_unsupported"


def _tools_fault(tools: Any) -> bool:
    if tools is None:
        return False
    if type(tools) is not list:
        return True
    for tool in tools:
        function = tool.get("function") if type(tool) is dict else None
        if type(function) is not dict or not _TOOL_NAME.match(str(function.get("name", ""))):
            return True
    return False


class RowNotes:
    """Warnings about rows. Keeps which tool lists were seen, because most rows of a file share one."""

    def __init__(self) -> None:
        self._tools: dict[bytes, bool] = {}

    def __call__(self, value: dict[str, Any]) -> list[str]:
        found = []
        for name in REFERENCE_NAMES:
            if name in value:
                reference = value[name]
                if reference is None or (type(reference) is str and not reference.strip()):
                    found.append("empty_reference")
                break
        messages = value.get("messages")
        if type(messages) is list and messages and type(messages[0]) is dict and messages[0].get("role") == "system":
            found.append("system_role")
        if value.get("tools") and not self._sound_tools(value["tools"]):
            found.append("tool_schema")
        return found

    def _sound_tools(self, tools: Any) -> bool:
        try:
            key = orjson.dumps(tools)
        except TypeError:
            return True
        if key not in self._tools:
            if len(self._tools) > 500:
                self._tools.clear()
            self._tools[key] = not any(schema_fault(tool) for tool in tools if type(tool) is dict)
        return self._tools[key]


def schema_fault(tool: dict[str, Any]) -> str:
    """Why a tool's `parameters` are no JSON schema for an object, or the empty text."""
    function = tool.get("function")
    parameters = function.get("parameters") if type(function) is dict else None
    if parameters is None:
        return ""
    if type(parameters) is not dict:
        return "parameters is not an object"
    if parameters and parameters.get("type") != "object":
        return 'parameters should have "type": "object" and list its fields under "properties"'
    try:
        Draft202012Validator.check_schema(parameters)
    except SchemaError as exc:
        return exc.message
    return ""


def text_of(content: Any) -> str:
    """The text of a message's content, whether one text or parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""


def question_of(value: dict[str, Any]) -> str:
    """The last user message, which lists show; without messages, the first text field."""
    messages = value.get("messages")
    if type(messages) is list:
        for message in reversed(messages):
            if type(message) is dict and message.get("role") == "user":
                return text_of(message.get("content"))
    return next((text for text in value.values() if type(text) is str), "")


def reference_of(value: dict[str, Any]) -> Any:
    """The reference under the first of its usual names, or None."""
    for name in REFERENCE_NAMES:
        if name in value:
            return value[name]
    return None
