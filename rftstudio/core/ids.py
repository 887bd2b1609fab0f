"""Public ids: a prefix that names the kind, then 20 letters and digits that nobody can count."""

import os
import string

_ALPHABET = (string.ascii_letters + string.digits).encode()
_FAIR = 256 - 256 % len(_ALPHABET)  # bytes from here on would favour the first letters
_LETTERS = bytes(_ALPHABET[value % len(_ALPHABET)] for value in range(256))
_UNFAIR = bytes(range(_FAIR, 256))
LENGTH = 20


def new_id(prefix: str) -> str:
    """`new_id("ftjob-")` → `ftjob-` and 20 random characters (119 bits)."""
    made = b""
    while len(made) < LENGTH:
        made += os.urandom(LENGTH + 8).translate(_LETTERS, _UNFAIR)
    return prefix + made[:LENGTH].decode()
