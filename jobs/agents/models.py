"""Agents (prompt, tools, limits), the tools they call and the models that answer."""

from typing import Any

from django.db import models

from rftstudio.core.models import OrderedJSONField, PublicIdField
from rftstudio.teams.models import TeamOwned


class ModelEndpoint(TeamOwned):
    """A model that can answer: an OpenAI-compatible endpoint, or a folder of weights that Studio serves itself."""

    class Kind(models.TextChoices):
        OPENAI = "openai", "OpenAI-compatible endpoint"
        LOCAL = "local", "weights on this machine"

    public_id = PublicIdField("model-")
    name = models.CharField(max_length=160)
    kind = models.CharField(max_length=12, choices=Kind.choices)
    base_url = models.URLField(max_length=500, blank=True)
    model = models.CharField(max_length=300, help_text="The name sent on the wire; for local weights the folder.")
    api_key_sealed = models.TextField(blank=True, help_text="Encrypted; never shown again.")
    digest = models.CharField(max_length=64, blank=True, help_text="SHA-256 of local weights.")
    is_trainable = models.BooleanField(default=False, help_text="Can be the base of a self-hosted job.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="model_name_once_per_team")]

    def __str__(self) -> str:
        return self.name


class Corpus(TeamOwned):
    """Documents that search tools read. Its content never changes, so versions freeze its id alone."""

    public_id = PublicIdField("corpus-")
    name = models.CharField(max_length=200, help_text="The files it came from.")
    digest = models.CharField(max_length=64, help_text="SHA-256 of the documents: the same files make the same corpus.")
    document_count = models.PositiveIntegerField()
    character_count = models.PositiveBigIntegerField()
    documents = models.JSONField(help_text="[{id, title, text}]")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "digest"], name="corpus_once_per_team")]

    def __str__(self) -> str:
        return self.name


class Tool(TeamOwned):
    """A named function with a schema that the policy may call."""

    class Transport(models.TextChoices):
        BUILTIN = "builtin", "built in"
        HTTP = "http", "HTTP, wire shape"
        MCP = "mcp", "MCP server"

    public_id = PublicIdField("tool-")
    name = models.CharField(max_length=64, help_text="Letters, digits, _ and -, at most 64.")
    description = models.TextField(blank=True)
    parameters = OrderedJSONField(default=dict, help_text="JSON schema of the arguments.")
    transport = models.CharField(max_length=12, choices=Transport.choices)
    config = models.JSONField(
        default=dict, blank=True, help_text="What the transport needs: server_url, or a built-in and its settings."
    )
    headers_sealed = models.TextField(blank=True, help_text="HTTP headers, encrypted.")
    sentence = models.CharField(max_length=200, blank=True, help_text="How a call reads: Read a ruling · {id}")
    icon = models.CharField(max_length=32, blank=True)
    is_replayable = models.BooleanField(
        default=False, help_text="The same call may be made again without side effects."
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="tool_name_once_per_team")]

    def __str__(self) -> str:
        return self.name


class Agent(TeamOwned):
    """A named line of agent versions."""

    public_id = PublicIdField("agent-")
    name = models.CharField(max_length=120)
    slug = models.SlugField(max_length=120)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "slug"], name="agent_slug_once_per_team")]

    def __str__(self) -> str:
        return self.name


SAMPLING_WORDS = {
    "temperature": "Temperature",
    "top_p": "Top p",
    "max_tokens": "Tokens per reply",
    "reasoning_effort": "Reasoning effort",
    "api": "How the model is asked",
}
LIMIT_WORDS = {
    "max_steps": "Steps, at most",
    "max_tool_calls": "Tool calls, at most",
    "max_tokens": "Tokens of all replies, at most",
    "max_seconds": "Seconds, at most",
}


class AgentVersion(TeamOwned):
    """One published agent: prompt, model, sampling, tools and limits. Never changes."""

    public_id = PublicIdField("aver-")
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    system_prompt = models.TextField(
        blank=True, help_text="Sent as the developer message before the item's own; templates allowed."
    )
    model = models.ForeignKey(ModelEndpoint, on_delete=models.PROTECT, related_name="+")
    sampling = models.JSONField(default=dict, help_text="temperature, top_p, max_tokens, reasoning_effort")
    tools = OrderedJSONField(default=list, help_text="Frozen tool specs in order; see jobs/agents/tools/spec.py.")
    headers_sealed = models.TextField(blank=True, help_text="Tool id → HTTP headers as they were then, encrypted.")
    keeps_headers = models.BooleanField(default=False, help_text="Headers entered at a tool later are not for it.")
    limits = models.JSONField(default=dict, help_text="max_steps, max_tool_calls, max_tokens, max_seconds")
    response_format = OrderedJSONField(null=True, blank=True)
    change = models.CharField(
        max_length=16, default="prompt", help_text="What this version changed: prompt, tools, tool_quality, training."
    )
    note = models.CharField(max_length=200, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "number"], name="agent_version_number_once")]

    def __str__(self) -> str:
        return f"{self.agent.name}, version {self.number}"

    @property
    def number_text(self) -> str:
        return str(self.number)

    @property
    def change_words(self) -> str:
        return self.change.replace("_", " ")

    @property
    def sampling_words(self) -> dict[str, Any]:
        """Sampling as a person reads it."""
        return {SAMPLING_WORDS.get(key, key): value for key, value in self.sampling.items()}

    @property
    def limit_words(self) -> dict[str, Any]:
        """Limits as a person reads them."""
        return {LIMIT_WORDS.get(key, key): value for key, value in self.limits.items()}
