"""Which backends there are. Imported late, so that one backend's packages are no burden to the others."""

from importlib import import_module

from jobs.backends.base import Backend
from rftstudio.core.errors import UserError

#: name → module that holds a class `Backend` of that name's kind.
PATHS = {"trl": ("jobs.backends.trl.backend", "TrlBackend")}


def backend_get(name: str) -> Backend:
    """The backend of that name; UserError for one that does not exist."""
    if name not in PATHS:
        raise UserError(f"There is no backend named {name}.", where="backend", fix=f"Use one of {', '.join(PATHS)}.")
    module, attribute = PATHS[name]
    return getattr(import_module(module), attribute)()
