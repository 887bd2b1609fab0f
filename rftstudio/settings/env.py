"""Typed readers of environment variables that name the variable when its value is bad.

An empty variable counts as absent: compose files and make pass on what nobody set.
"""

import contextlib
import os
import secrets
from pathlib import Path

import environ
from django.core.exceptions import ImproperlyConfigured

_env = environ.Env()


def _is_given(name: str) -> bool:
    return bool(os.environ.get(name, "").strip())


def text(name: str, default: str | None = None) -> str:
    """The variable's value, or the default; without default the variable is required."""
    if _is_given(name):
        return _env.str(name)
    if default is None:
        raise ImproperlyConfigured(f"{name} is not set. Set it in the environment of this process.")
    return default


def flag(name: str, default: bool) -> bool:
    if not _is_given(name):
        return default
    given = os.environ[name].strip().lower()
    if given in {"1", "true", "yes", "on"}:
        return True
    if given in {"0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name} must be true or false, not {given!r}.")


def number(name: str, default: int) -> int:
    try:
        return _env.int(name) if _is_given(name) else default
    except ValueError as exc:
        raise ImproperlyConfigured(f"{name} must be a whole number: {exc}") from exc


def names(name: str, default: list[str]) -> list[str]:
    """A comma-separated list."""
    return [part.strip() for part in os.environ[name].split(",") if part.strip()] if _is_given(name) else default


def database(name: str, default: str) -> dict:
    """A database URL such as postgres://user:pass@host/name, as a Django DATABASES entry."""
    url = text(name, default)
    if url.partition("://")[0] not in {"postgres", "postgresql", "sqlite"}:
        raise ImproperlyConfigured(f"{name} is not a database URL. Write postgres://user:pass@host/name.")
    try:
        return environ.Env.db_url_config(url)
    except (ValueError, KeyError) as exc:
        raise ImproperlyConfigured(f"{name} is not a database URL: {exc}") from exc


def kept_secret(path: Path) -> str:
    """A secret that is made once and kept in a file only its owner may read, also when two processes start at once."""
    if not path.exists():
        fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        fresh.touch(mode=0o600)
        fresh.write_text(secrets.token_urlsafe(50))
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
        fresh.unlink()
    return path.read_text()
