"""Public ids: a prefix that names the kind, then 20 letters and digits that nobody can count."""

import secrets
import string

_ALPHABET = string.ascii_letters + string.digits


def new_id(prefix: str) -> str:
    """`new_id("ftjob-")` → `ftjob-` and 20 random characters (119 bits)."""
    return prefix + "".join(secrets.choice(_ALPHABET) for _ in range(20))
