"""What a tool is: its name, its schema and how it is reached. Portable: standard library only."""

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

TRANSPORTS = ("builtin", "http", "mcp")
NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}

#: Text that a template left where a real address belongs: <your-host>, {{ url }}, ${URL}, YOUR_SERVER, REPLACE-ME.
PLACEHOLDER = re.compile(
    r"[<>{}]|^#|#$|\$[A-Z_({]|\byour[-_ ]|[-_]your\b|replace[-_ ]?(me|this|with)|changeme|placeholder", re.I
)


@dataclass(frozen=True)
class ToolSpec:
    """One tool as an agent version freezes it. `headers` are secrets and stay out of `repr`."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    transport: str = "builtin"
    config: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    sentence: str = ""
    icon: str = ""
    is_replayable: bool = False
    memo: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)  # indexes built once per spec

    def schema(self) -> dict[str, Any]:
        """The function tool of Chat Completions that the policy sees."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters or NO_PARAMETERS}
        return {"type": "function", "function": function}

    def as_dict(self) -> dict[str, Any]:
        """Everything needed to run the tool elsewhere, headers included: keep it out of logs and pages."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
            "transport": self.transport,
            "config": self.config,
            "headers": self.headers,
            "sentence": self.sentence,
            "icon": self.icon,
            "is_replayable": self.is_replayable,
        }

    @property
    def server(self) -> str:
        """Whom the headers are meant for: scheme, host and port of the address, or the program that is started."""
        url = urlsplit(str(self.config.get("server_url") or self.config.get("url") or ""))
        return f"{url.scheme}://{url.netloc}".lower() if url.netloc else str(self.config.get("command") or "")

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "ToolSpec":
        """The inverse of `as_dict`; keys it does not know are left out."""
        known = {key: data[key] for key in cls.__dataclass_fields__ if key in data and key != "memo"}
        return cls(**{key: value for key, value in known.items() if value is not None})


def is_placeholder(url: str) -> bool:
    """Whether an address is a template that nobody filled in."""
    return not url.strip() or bool(PLACEHOLDER.search(url))


def call_sentence(sentence: str, name: str, arguments: dict[str, Any]) -> str:
    """How a call reads for a person: `Read a ruling · {id}` filled in, or the tool's name and first argument."""
    if sentence:
        return re.sub(r"\{(\w+)\}", lambda found: str(arguments.get(found[1], "…")), sentence)
    words = name.replace("_", " ").replace("-", " ").capitalize()
    first = next(iter(arguments.values()), None)
    return words if first is None else f"{words} · {first}"
