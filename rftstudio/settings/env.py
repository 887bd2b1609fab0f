"""Typed readers of environment variables that name the variable when its value is bad."""

import contextlib
import os
import secrets
from pathlib import Path

import environ
from django.core.exceptions import ImproperlyConfigured

_env = environ.Env()


def text(name: str, default: str | None = None) -> str:
    """The variable's value, or the default; without default the variable is required."""
    value = _env.str(name, default=default)
    if value is None:
        raise ImproperlyConfigured(f"{name} is not set. Set it in the environment of this process.")
    return value


def flag(name: str, default: bool) -> bool:
    try:
        return _env.bool(name, default=default)
    except ValueError as exc:
        raise ImproperlyConfigured(f"{name} must be true or false: {exc}") from exc


def number(name: str, default: int) -> int:
    try:
        return _env.int(name, default=default)
    except ValueError as exc:
        raise ImproperlyConfigured(f"{name} must be a whole number: {exc}") from exc


def names(name: str, default: list[str]) -> list[str]:
    """A comma-separated list."""
    return _env.list(name, default=default)


def database(name: str, default: str) -> dict:
    """A database URL such as postgres://user:pass@host/name, as a Django DATABASES entry."""
    try:
        return _env.db_url(name, default=default)
    except (ValueError, KeyError) as exc:
        raise ImproperlyConfigured(f"{name} is not a database URL: {exc}") from exc


def kept_secret(path: Path) -> str:
    """A secret that is made once and kept in a file only its owner may read, also when two processes start at once."""
    if not path.exists():
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        fresh.touch(mode=0o600)
        fresh.write_text(secrets.token_urlsafe(50))
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
        fresh.unlink()
    return path.read_text()
