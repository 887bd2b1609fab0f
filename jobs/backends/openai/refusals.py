"""What a hosted provider says no with, in plain words with the next step; and dates known for its models."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from jobs.backends.base import LONGEST_WAIT
from jobs.rollouts.cleaning import clean
from rftstudio.core.errors import UpstreamRefused, UpstreamUnavailable

#: The provider's code → what it means, and what to do.
REFUSALS: dict[str, tuple[str, str]] = {
    "training_not_available": (
        "The provider takes no new training jobs from this organisation: its fine-tuning platform is being wound down.",
        "Train the same agent on our own machine with an open-weight model; dataset, tools and grader stay as they are.",
    ),
    "invalid_api_key": ("The provider does not accept the key.", "Enter a new key at the model's page."),
    "not_found": (
        "The provider does not know what it was asked for.",
        "Its own words say what is missing. A job that was deleted there can be launched again from its page.",
    ),
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
def refused(*, acts: bool = False) -> Iterator[None]:
    """The SDK's errors become ours, once, keeping the cause and the provider's words. `acts` is for a request that must
    not be made twice: where its answer is lost, the error says that it may have been heard."""
    import openai

    try:
        yield
    except openai.APIConnectionError as exc:
        raise unavailable("The provider did not answer.", may_have_acted=acts) from exc
    except openai.APIStatusError as exc:
        is_fault = exc.status_code >= 500
        if is_fault or exc.status_code == 408 or (exc.status_code == 429 and exc.code not in REFUSALS):
            raise unavailable(
                f"The provider answered {exc.status_code}.",
                retry_after=_seconds(exc.response.headers),
                may_have_acted=acts and is_fault,
            ) from exc
        raise _refusal(exc) from exc
    except (openai.APIResponseValidationError, json.JSONDecodeError, UnicodeDecodeError) as exc:
        raise unavailable("The provider's answer cannot be read: it is no JSON.", may_have_acted=acts) from exc


def unavailable(words: str, *, retry_after: float = 0.0, may_have_acted: bool = False) -> UpstreamUnavailable:
    found = UpstreamUnavailable(words, fix="It is asked again.")
    found.retry_after, found.may_have_acted = retry_after, may_have_acted
    return found


def _seconds(headers: Mapping[str, str]) -> float:
    """How long the provider wants to be left alone; 0 where it does not say so in seconds."""
    with suppress(ValueError):
        return min(max(0.0, float(headers.get("retry-after", ""))), LONGEST_WAIT)  # 0 first: NaN is not above it
    return 0.0


def _refusal(exc) -> UpstreamRefused:
    body = exc.body if isinstance(exc.body, dict) else {}
    said = clean(str(body.get("message") or exc.message)).strip()
    code = clean(str(exc.code or {401: "invalid_api_key", 404: "not_found"}.get(exc.status_code, "upstream_refused")))
    words, fix = REFUSALS.get(code, ("The provider refused the job.", "Its own words say what to change."))
    return UpstreamRefused(f"{words} It says: {said}", where=clean(str(exc.param or "")), fix=fix, code=code)
