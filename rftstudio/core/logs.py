"""Logging: one line per event, JSON in production, with request and task ids, and never a secret.

Everything that goes through `logging` (Django, Celery, gunicorn's access aside) passes the same processors as structlog.
"""

import logging
import re
from typing import Any

import structlog

SECRET_NAMES = re.compile(
    r"authorization|cookie|passw|secret|api[-_]?key|access_?token|auth_?token|credential|csrf|dsn|_sealed", re.I
)
SECRET_VALUES = re.compile(
    r"rfts-[\w-]{16,}"  # our own keys
    r"|\bsk-[\w-]{16,}"  # the reference's
    r"|(?i:\bbearer\s+)[\w.~+/=-]{8,}"
    r"|(?<=://)[^\s/@:]*:[^\s/@]+(?=@)"  # user:password in an address
    r"|(?<=/invitations/)[\w-]{20,}|(?<=/gateway/)[\w-]{16,}|(?<=/password/)[\w-]+/[\w-]{8,}"  # addresses that are a right
)
REMOVED = "[removed]"


def redact(logger: Any, method: str, event: dict[str, Any]) -> dict[str, Any]:
    """Replace what is named like a secret or looks like one, at any depth."""
    return {key: _clean(key, value) for key, value in event.items()}


def _clean(key: str, value: Any) -> Any:
    if isinstance(key, str) and SECRET_NAMES.search(key) and value:
        return REMOVED
    if isinstance(value, dict):
        return {inner: _clean(inner, part) for inner, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean("", part) for part in value]
    return SECRET_VALUES.sub(REMOVED, value) if isinstance(value, str) else value


class Routine(logging.Filter):
    """Drops Celery's word that a sweep came and went well: several lines a second, for ever, that say nothing."""

    SWEEPS = re.compile(r"_(sweep|settle|sync)$")
    LOGGERS = frozenset({"celery.beat", "celery.worker.strategy", "celery.app.trace"})

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno > logging.INFO or record.name not in self.LOGGERS:
            return True
        told = [getattr(record, "data", None), *(record.args if isinstance(record.args, tuple) else [record.args])]
        names = [part.get("name", "") if isinstance(part, dict) else str(part) for part in told if part]
        return not any(self.SWEEPS.search(name) for name in names)


def _shared() -> list[Any]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]


def logging_config(*, as_json: bool, level: str) -> dict[str, Any]:
    """Django's LOGGING. Also sets structlog up, which is why it is a function that settings call once."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    last = (
        [structlog.processors.format_exc_info, redact, structlog.processors.JSONRenderer(ensure_ascii=False)]
        if as_json
        else [structlog.processors.format_exc_info, redact, structlog.dev.ConsoleRenderer(colors=False)]
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "studio": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": [*_shared(), structlog.stdlib.ExtraAdder(allow=["status_code"])],
                "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
            }
        },
        "filters": {"routine": {"()": Routine}},
        "handlers": {"stream": {"class": "logging.StreamHandler", "formatter": "studio", "filters": ["routine"]}},
        "root": {"handlers": ["stream"], "level": level},
        "loggers": {
            "django": {"level": level, "handlers": [], "propagate": True},
            "django.server": {"level": level, "handlers": [], "propagate": True},
            "django.request": {"level": "ERROR"},  # one line per refusal comes from our middleware already
            "axes": {"level": "WARNING"},
            "httpx2": {"level": "WARNING"},
            "celery.utils.functional": {"level": "WARNING"},
        },
    }
