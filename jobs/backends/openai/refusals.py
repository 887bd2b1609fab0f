"""What a hosted provider says no with, in plain words with the next step; and dates known for its models."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from rftstudio.core.errors import UpstreamRefused, UpstreamUnavailable

#: The provider's code → what it means, and what to do.
REFUSALS: dict[str, tuple[str, str]] = {
    "training_not_available": (
        "The provider takes no new training jobs from this organisation: its fine-tuning platform is being wound down.",
        "Train the same agent on our own machine with an open-weight model; dataset, tools and grader stay as they are.",
    ),
    "invalid_api_key": ("The provider does not accept the key.", "Enter a new key at the model's page."),
    "model_not_available": (
        "The provider does not train this model.", "Choose a base model that it lists for reinforcement fine-tuning.",
    ),
    "exceeded_quota": ("The provider's quota is used up.", "Raise the limit at the provider, or wait for the next period."),
    "insufficient_quota": ("The provider's quota is used up.", "Raise the limit at the provider, or wait."),
    "invalid_training_file": ("The provider cannot read the training file.", "Its own words name the line; mend it there."),
    "invalid_grader": ("The provider does not accept the grader.", "Its own words name the field; mend it in the grader."),
}  # fmt: skip

#: Provider → start of a model's name → what it has announced. Another Studio, or another house, announces for itself.
SHUTDOWNS: dict[str, dict[str, str]] = {
    "openai.com": {
        "o4-mini": "OpenAI shut o4-mini down on 23 October 2026; jobs that start from it are refused.",
        "ft-o4-mini": "OpenAI shut o4-mini and what was tuned from it down on 23 October 2026.",
        "gpt-5-": "OpenAI shuts gpt-5 (2025-08-07) down on 11 December 2026, and what was tuned from it with it.",
        "gpt-4.1": "OpenAI shuts the gpt-4.1 family down on 14 January 2027; tuned versions follow.",
        "gpt-4o": "OpenAI shuts the gpt-4o family down on 14 January 2027; tuned versions follow.",
        "": "OpenAI takes no new training jobs from 6 January 2027 on.",
    },
    "azure.com": {
        "o4-mini": "Azure retired the base o4-mini on 16 October 2026. Who trained it before may until 16 April 2027 at least; "
        "what was tuned is served until 16 October 2027.",
        "gpt-5": "Azure retires the base gpt-5 (2025-08-07) on 6 February 2027.",
        "gpt-4.1": "Azure ends training of the gpt-4.1 family on 14 April 2027 at the earliest.",
    },
}


def shutdowns(model: str, base_url: str) -> list[str]:
    """Dates known for a base model where it is trained. Without an address that is OpenAI."""
    host = urlsplit(base_url).hostname or "api.openai.com"
    told = next((found for name, found in SHUTDOWNS.items() if host == name or host.endswith(f".{name}")), {})
    return [text for prefix, text in told.items() if model.startswith(prefix)]


@contextmanager
def refused() -> Iterator[None]:
    """The SDK's errors become ours, once, keeping the cause and the provider's words."""
    import openai

    try:
        yield
    except openai.APIConnectionError as exc:
        raise UpstreamUnavailable("The provider did not answer.", fix="It is asked again.") from exc
    except openai.APIStatusError as exc:
        if (exc.status_code == 429 and exc.code not in REFUSALS) or exc.status_code >= 500:
            raise UpstreamUnavailable(f"The provider answered {exc.status_code}.", fix="It is asked again.") from exc
        raise _refusal(exc) from exc


def _refusal(exc) -> UpstreamRefused:
    body = exc.body if isinstance(exc.body, dict) else {}
    said = str(body.get("message") or exc.message).strip()
    code = str(exc.code or ("invalid_api_key" if exc.status_code == 401 else "upstream_refused"))
    words, fix = REFUSALS.get(code, ("The provider refused the job.", "Its own words say what to change."))
    return UpstreamRefused(f"{words} It says: {said}", where=str(exc.param or ""), fix=fix, code=code)
