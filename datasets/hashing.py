"""Fingerprints of rows and versions. Portable."""

import hashlib
from collections.abc import Iterable
from typing import Any

import orjson

from datasets.formats.strict_json import canonical_bytes

EMPTY = "0" * 64


def question_hash(value: dict[str, Any]) -> int:
    """Signed 64 bits, equal for equal conversations; 0 when there is none."""
    messages = value.get("messages")
    if type(messages) is not list or not messages:
        return 0
    try:
        text = orjson.dumps(messages, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        text = canonical_bytes(messages)
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big", signed=True)


def chain(content_hash: str, digests: Iterable[str]) -> str:
    """The hash of a list of items: each digest is hashed onto the hash so far, so it can go on where it stopped."""
    state = (content_hash or EMPTY).encode()
    for digest in digests:
        state = hashlib.sha256(state + digest.encode()).hexdigest().encode()
    return state.decode()
