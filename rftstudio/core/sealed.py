"""Secrets at rest: encrypted with a key derived from the settings' secret, readable only by services that need them."""

import base64
import json
from functools import lru_cache
from typing import Any

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from rftstudio.core.errors import UserError


@lru_cache(maxsize=4)
def _fernet(secret: str) -> Fernet:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"rftstudio sealed values").derive(secret.encode())
    return Fernet(base64.urlsafe_b64encode(derived))


def seal(value: Any) -> str:
    """Encrypt a JSON value; an empty one seals to the empty text."""
    if not value:
        return ""
    return _fernet(settings.SECRET_KEY).encrypt(json.dumps(value).encode()).decode()


def unseal(token: str) -> Any:
    """The sealed value, or None for the empty text."""
    if not token:
        return None
    try:
        return json.loads(_fernet(settings.SECRET_KEY).decrypt(token.encode()))
    except InvalidToken as exc:
        raise UserError(
            "A stored secret cannot be read with this installation's SECRET_KEY.",
            fix="Restore the SECRET_KEY it was stored with, or enter the secret again.",
        ) from exc
