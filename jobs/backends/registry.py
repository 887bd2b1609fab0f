"""Which backends there are. Imported late, so that one backend's packages are no burden to the others."""

from dataclasses import dataclass
from importlib import import_module

from jobs.backends.base import Backend
from rftstudio.core.errors import UserError


@dataclass(frozen=True)
class Entry:
    """Where a backend lives and how a form speaks of it."""

    module: str
    attribute: str
    label: str
    text: str
    icon: str


BACKENDS: dict[str, Entry] = {
    "trl": Entry(
        "jobs.backends.trl.backend", "TrlBackend", "Our own machine",
        "Trains the model's weights here with TRL. Nothing leaves the house.", "server",
    ),
    "openai": Entry(
        "jobs.backends.openai.backend", "OpenAIBackend", "Hosted",
        "The provider, or another Studio, trains its own model and calls our tools and grader from outside.", "cloud",
    ),
}  # fmt: skip


def backend_get(name: str) -> Backend:
    """The backend of that name; UserError for one that does not exist."""
    entry = BACKENDS.get(name)
    if entry is None:
        raise UserError(f"There is no backend named {name}.", where="backend", fix=f"Use one of {', '.join(BACKENDS)}.")
    return getattr(import_module(entry.module), entry.attribute)()
