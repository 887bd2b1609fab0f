"""Clean values for agents, tools and models."""

import json
from typing import Any

from django import forms

from jobs.agents import selectors
from jobs.agents.models import AgentVersion, Corpus, ModelEndpoint, Tool
from jobs.agents.schema_form import TYPES, ArgumentRow, rows_of, schema_of
from jobs.agents.tools.builtins.catalog import BUILTINS
from jobs.agents.tools.http import shown_url
from jobs.agents.tools.types import Limits
from rftstudio.core.sealed import unseal
from rftstudio.core.show import show_count
from rftstudio.teams.models import Team

MONO = {"class": "mono", "spellcheck": "false", "autocomplete": "off"}


class JsonField(forms.CharField):
    """JSON typed by a person; says where it breaks."""

    def __init__(self, *, kind: type = dict, rows: int = 6, **kwargs: Any) -> None:
        self.kind = kind
        kwargs.setdefault("required", False)
        super().__init__(widget=forms.Textarea(attrs={**MONO, "rows": rows}), **kwargs)

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, dict | list):
            return json.dumps(value, ensure_ascii=False, indent=2) if value else ""
        return value

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        if not text.strip():
            return self.kind()
        try:
            found = json.loads(text)
        except json.JSONDecodeError as exc:
            message = f"Line {exc.lineno}, column {exc.colno}: {exc.msg}. Write JSON, or clear the field."
            raise forms.ValidationError(message) from exc
        except (ValueError, RecursionError) as exc:
            raise forms.ValidationError("A number is too long, or lists and objects nest too deep.") from exc
        if not isinstance(found, self.kind):
            raise forms.ValidationError(f"This must be a JSON {'object' if self.kind is dict else 'list'}.")
        return found


class SettingsField(JsonField):
    """Settings as lines `name: value`, so that nobody has to write JSON; JSON is taken as well."""

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, dict) and not any(isinstance(one, dict | list) for one in value.values()):
            return "\n".join(f"{name}: {_as_line(one)}" for name, one in value.items())
        return super().prepare_value(value)

    def clean(self, value: Any) -> Any:
        text = (value or "").strip()
        if not text or text.startswith(("{", "[")):
            return super().clean(value)
        found: dict[str, Any] = {}
        for number, line in enumerate(text.splitlines(), 1):
            name, colon, said = line.partition(":")
            if not line.strip():
                continue
            if not colon or not name.strip():
                raise forms.ValidationError(f"Line {number}: write name: value.")
            found[name.strip()] = _from_line(said.strip())
        return found


def _as_line(value: Any) -> str:
    """Text stands as it is, unless it would be read back as something else."""
    is_plain = isinstance(value, str) and value == value.strip() and "\n" not in value and _from_line(value) == value
    return value if is_plain else json.dumps(value, ensure_ascii=False)


def _from_line(said: str) -> Any:
    try:
        return json.loads(said)
    except (ValueError, RecursionError):
        return said


class ModelForm(forms.Form):
    """A model that can answer."""

    name = forms.CharField(max_length=160, help_text="How the team calls it.")
    kind = forms.ChoiceField(choices=ModelEndpoint.Kind.choices, label="Where it answers")
    model = forms.CharField(
        max_length=300, help_text="The name sent to the endpoint; for weights on this machine the folder."
    )
    base_url = forms.CharField(
        max_length=500,
        required=False,
        label="Base address",
        help_text="Up to and with /v1. For Azure: https://NAME.openai.azure.com/openai/v1.",
    )
    api_key = forms.CharField(
        required=False,
        label="API key",
        help_text="Encrypted when stored, and never shown again.",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    is_trainable = forms.BooleanField(required=False, label="Can be the base of a self-hosted job")


class AgentForm(forms.Form):
    """A new line of versions."""

    name = forms.CharField(max_length=120, help_text="What it does, in a few words: VAT desk.")


class VersionForm(forms.Form):
    """The next version of an agent."""

    system_prompt = forms.CharField(
        required=False,
        label="Prompt",
        help_text="Sent before each item's own messages. A chip puts a field of the item in.",
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "true", "data-key-target": "prompt"}),
    )
    model = forms.ModelChoiceField(queryset=ModelEndpoint.objects.none(), empty_label=None)
    tools = forms.CharField(required=False, widget=forms.HiddenInput)
    temperature = forms.FloatField(required=False, min_value=0, max_value=2)
    top_p = forms.FloatField(required=False, min_value=0, max_value=1, label="Top p")
    reply_tokens = forms.IntegerField(required=False, min_value=1, label="Tokens per reply")
    reasoning_effort = forms.ChoiceField(
        required=False,
        choices=[("", "not set"), ("low", "low"), ("medium", "medium"), ("high", "high")],
        label="Reasoning effort",
    )
    api = forms.ChoiceField(
        required=False,
        choices=[("", "Chat Completions"), ("responses", "Responses")],
        label="How the model is asked",
    )
    max_steps = forms.IntegerField(required=False, min_value=1, label="Steps")
    max_tool_calls = forms.IntegerField(required=False, min_value=0, label="Tool calls")
    max_tokens = forms.IntegerField(required=False, min_value=1, label="Tokens, all replies")
    max_seconds = forms.FloatField(required=False, min_value=1, label="Seconds")
    response_format = JsonField(
        label="Answer format", help_text="Empty for plain text, or a json_schema response format.", rows=4
    )
    change = forms.ChoiceField(
        label="What this version changes",
        choices=[
            ("prompt", "the prompt"),
            ("tools", "which tools"),
            ("tool_quality", "how good the tools are"),
            ("limits", "limits or sampling"),
            ("training", "the trained model"),
        ],
    )
    note = forms.CharField(required=False, max_length=200, help_text="One line for the ladder.")

    SAMPLING = (("temperature", "temperature"), ("top_p", "top_p"), ("reply_tokens", "max_tokens"))
    LIMITS = ("max_steps", "max_tool_calls", "max_tokens", "max_seconds")

    def __init__(self, *args: Any, team: Team, latest: AgentVersion | None = None, **kwargs: Any) -> None:
        self.team, self.latest = team, latest
        kwargs.setdefault("initial", self._initial(latest))
        super().__init__(*args, **kwargs)
        self.fields["model"].queryset = selectors.model_list(team=team)
        default = Limits()
        for name in self.LIMITS:
            self.fields[name].widget.attrs["placeholder"] = f"{getattr(default, name):g}"
        chosen = self._chosen_names()
        by_name = {tool.name: tool for tool in selectors.tool_list(team=team)}
        self.chosen = [by_name[name] for name in chosen if name in by_name]
        self.tool_rows = self.chosen + [tool for name, tool in by_name.items() if name not in chosen]

    def _initial(self, latest: AgentVersion | None) -> dict[str, Any]:
        if latest is None:
            return {}
        first = {field: latest.sampling.get(key) for field, key in self.SAMPLING}
        first |= {key: latest.sampling.get(key, "") for key in ("reasoning_effort", "api")}
        first |= {name: latest.limits.get(name) for name in self.LIMITS}
        first |= {"system_prompt": latest.system_prompt, "model": latest.model_id}
        return {**first, "response_format": latest.response_format or {}}

    def _chosen_names(self) -> list[str]:
        """Names of the ticked tools, in the order of their number fields, then as they stood."""
        if not self.is_bound:
            return [tool["name"] for tool in self.latest.tools] if self.latest else []
        ticked = self.data.getlist("tool")
        return sorted(ticked, key=lambda name: (_place(self.data.get(f"place-{name}")), ticked.index(name)))

    def version_fields(self) -> dict[str, Any]:
        """What `agent_version_publish` takes. Settings that the form does not show are carried over."""
        data = self.cleaned_data
        sampling = dict(self.latest.sampling) if self.latest else {}
        sampling |= {key: data[field] for field, key in self.SAMPLING}
        sampling |= {key: data[key] or None for key in ("reasoning_effort", "api")}
        limits = dict(self.latest.limits) if self.latest else {}
        limits |= {name: data[name] for name in self.LIMITS}
        return {
            "system_prompt": data["system_prompt"],
            "model": data["model"],
            "tools": self.chosen,
            "sampling": sampling,
            "limits": limits,
            "response_format": data["response_format"] or None,
            "change": data["change"],
            "note": data["note"],
        }


def _place(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 10_000


class FilesInput(forms.ClearableFileInput):
    allow_multiple_selected = True


class FilesField(forms.FileField):
    """Several files at once."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(widget=FilesInput(attrs={"multiple": True}), required=False, **kwargs)

    def clean(self, data: Any, initial: Any = None) -> list[Any]:
        found = data if isinstance(data, list | tuple) else [data] if data else []
        return [super(FilesField, self).clean(each, initial) for each in found]


class ToolForm(forms.Form):
    """A tool: how it reads to the model, its arguments, and how it is reached."""

    name = forms.CharField(max_length=64, widget=forms.TextInput(attrs=MONO), help_text="The deed: look_up_rate.")
    description = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="What it answers and when to use it. The model reads this in every step.",
    )
    transport = forms.ChoiceField(choices=Tool.Transport.choices, label="How it is reached")
    builtin = forms.ChoiceField(
        required=False, choices=[(kind, builtin.label) for kind, builtin in BUILTINS.items()], label="Built-in tool"
    )
    corpus = forms.ChoiceField(required=False, label="Documents that are here")
    documents = FilesField(
        label="Upload documents",
        help_text="For the document search: text, Markdown, CSV, JSON or JSON Lines; 20 MB together. They become a new "
        "choice above.",
    )
    server_url = forms.CharField(
        required=False,
        label="Server address",
        max_length=500,
        help_text="Calls are posted here in the Agent RFT wire shape.",
        widget=forms.TextInput(attrs=MONO),
    )
    headers = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={**MONO, "rows": 2}),
        help_text="One a line, Name: value. Encrypted when stored, and never shown again.",
    )
    clear_headers = forms.BooleanField(required=False, label="Remove the stored headers")
    settings = SettingsField(
        label="Settings", help_text="Of the built-in tool or MCP server. One a line, name: value; or JSON.", rows=3
    )
    sentence = forms.CharField(
        required=False, max_length=200, help_text="How a call reads on pages: Read a ruling · {id}"
    )
    is_replayable = forms.BooleanField(required=False, label="The same call may be made again without side effects")
    edit_as = forms.ChoiceField(choices=[("rows", "form"), ("json", "JSON")], required=False, widget=forms.RadioSelect)
    parameters_json = JsonField(label="Arguments as JSON schema", rows=10)

    BLANK_ROWS = 2

    def __init__(self, *args: Any, team: Team, tool: Tool | None = None, **kwargs: Any) -> None:
        self.tool = tool
        kwargs.setdefault("initial", self._initial(tool))
        super().__init__(*args, **kwargs)
        rows = selectors.corpus_list(team=team)[:200]
        named = [(row.public_id, f"{row.name} · {show_count(row.document_count)} documents") for row in rows]
        self.fields["corpus"].choices = [("", "none"), *named]
        self.header_names = list(unseal(tool.headers_sealed) or {}) if tool else []
        self.rows = self._bound_rows() if self.is_bound else rows_of(tool.parameters if tool else {})
        self.shown_rows = self.rows + [ArgumentRow()] * self.BLANK_ROWS

    @staticmethod
    def _initial(tool: Tool | None) -> dict[str, Any]:
        if tool is None:
            return {"transport": Tool.Transport.BUILTIN, "edit_as": "rows"}
        config = dict(tool.config)
        return {
            "name": tool.name,
            "description": tool.description,
            "transport": tool.transport,
            "builtin": config.pop("builtin", ""),
            "corpus": config.pop("corpus", ""),
            "server_url": shown_url(config.pop("server_url", "")) if tool.config.get("server_url") else "",
            "settings": config,
            "sentence": tool.sentence,
            "is_replayable": tool.is_replayable,
            "edit_as": "rows",
            "parameters_json": tool.parameters,
        }

    def _bound_rows(self) -> list[ArgumentRow]:
        rows = []
        for place in range(200):
            if f"arg-{place}-name" not in self.data:
                break
            name = self.data.get(f"arg-{place}-name", "").strip()
            kind = self.data.get(f"arg-{place}-type", "string")
            if name and not self.data.get(f"arg-{place}-drop"):
                rows.append(
                    ArgumentRow(
                        name,
                        kind if kind in TYPES else "string",
                        self.data.get(f"arg-{place}-description", "").strip(),
                        bool(self.data.get(f"arg-{place}-required")),
                        self.data.get(f"arg-{place}-choices", "").strip(),
                    )
                )
        return rows

    def clean_headers(self) -> dict[str, str]:
        headers = {}
        for number, line in enumerate(self.cleaned_data["headers"].splitlines(), 1):
            name, colon, value = line.partition(":")
            if not line.strip():
                continue
            if not colon or not name.strip() or not value.strip():
                raise forms.ValidationError(f"Line {number}: write Name: value.")
            headers[name.strip()] = value.strip()
        return headers

    def clean(self) -> dict[str, Any]:
        names = [row.name for row in self.rows]
        doubled = {name for name in names if names.count(name) > 1}
        if doubled and self.cleaned_data.get("edit_as") != "json":
            raise forms.ValidationError(f"Two arguments are named {', '.join(sorted(doubled))}.")
        return self.cleaned_data

    def uploads(self) -> list[tuple[str, bytes]]:
        """Uploaded documents, for `corpus_add`."""
        return [(file.name, file.read()) for file in self.cleaned_data["documents"]]

    def tool_fields(self, corpus: Corpus | None = None) -> dict[str, Any]:
        """What `tool_create` and `tool_update` take; `headers` None keeps what is stored. `corpus`: just uploaded."""
        data = self.cleaned_data
        if corpus is not None:
            data = {**data, "corpus": corpus.public_id}
        before = self.tool.parameters if self.tool else {}
        as_json = data["edit_as"] == "json"
        headers = data["headers"] or ({} if data["clear_headers"] or self.tool is None else None)
        return {
            "name": data["name"],
            "description": data["description"],
            "parameters": data["parameters_json"] if as_json else schema_of(self.rows, before) if self.rows else {},
            "transport": data["transport"],
            "config": self._config(data),
            "headers": headers,
            "sentence": data["sentence"],
            "is_replayable": data["is_replayable"],
        }

    def _config(self, data: dict[str, Any]) -> dict[str, Any]:
        if data["transport"] == Tool.Transport.HTTP:
            return {"server_url": self._server_url(data["server_url"])}
        if data["transport"] == Tool.Transport.BUILTIN:
            corpus = {"corpus": data["corpus"]} if data["corpus"] and data["builtin"] == "corpus" else {}
            return {"builtin": data["builtin"], **data["settings"], **corpus}
        return data["settings"]

    def _server_url(self, given: str) -> str:
        """An address whose parameters were hidden on the way out and not touched is the stored one."""
        stored = str(self.tool.config.get("server_url", "")) if self.tool else ""
        return stored if stored and given == shown_url(stored) else given
