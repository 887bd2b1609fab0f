"""Log lines: JSON, with ids, without secrets."""

import io
import json
import logging
import logging.config

import pytest
import structlog
from django.conf import settings

from rftstudio.core.logs import REMOVED, logging_config, redact


@pytest.fixture
def json_lines():
    out = io.StringIO()
    config = logging_config(as_json=True, level="INFO")
    config["handlers"]["stream"]["stream"] = out
    logging.config.dictConfig(config)
    yield lambda: [json.loads(line) for line in out.getvalue().splitlines()]
    logging_config(as_json=False, level="INFO")
    logging.config.dictConfig(settings.LOGGING)


def test_line_is_json_with_level_time_and_name(json_lines):
    structlog.get_logger("studio.x").info("job.launched", job="ftjob-1")
    (line,) = json_lines()
    assert {"event": "job.launched", "job": "ftjob-1", "level": "info", "logger": "studio.x"}.items() <= line.items()
    assert line["timestamp"].endswith("Z")


def test_line_of_plain_logging_passes_the_same_way(json_lines):
    logging.getLogger("some.library").warning("key %s", "rfts-abcdefghijklmnopqrstuvwxyz")
    (line,) = json_lines()
    assert line["event"] == f"key {REMOVED}"


def test_exception_is_one_line_and_clean(json_lines):
    try:
        raise ValueError("postgres://studio:hunter2@db/x")
    except ValueError:
        structlog.get_logger("studio.x").exception("went wrong")
    (line,) = json_lines()
    assert "ValueError" in line["exception"]
    assert "hunter2" not in line["exception"]


@pytest.mark.parametrize(
    "event",
    [
        {"authorization": "Bearer abcdefgh12345678"},
        {"headers": {"X-Api-Key": "12345"}},
        {"config": [{"password": "hunter2"}]},
        {"event": "sent Authorization: Bearer abcdefgh12345678"},
        {"event": "used sk-abcdefghijklmnopqrstuvwx"},
        {"url": "redis://:hunter2@host/0"},
        {"event": "Internal Server Error: /invitations/abcdefgh12345678901234/"},
        {"event": "Not Found: /gateway/abcdefgh12345678/tool"},
        {"event": "Bad Request: /password/MQ/abcdefgh12345678/"},
    ],
)
def test_redact_removes(event):
    told = json.dumps(redact(None, "info", event))
    assert REMOVED in told
    for secret in ("abcdefgh1", "12345", "hunter2", "sk-abc"):
        assert secret not in told


def test_redact_leaves_ordinary_words_alone():
    event = {"event": "tokens 5", "n_tokens": 5, "address": "http://host:8000/a", "key": "item-1", "monkey": "no"}
    assert redact(None, "info", event) == event


@pytest.mark.parametrize(
    ("name", "level", "extra", "args", "is_kept"),
    [
        ("celery.app.trace", "INFO", {"data": {"name": "jobs.tasks.jobs_sync"}}, (), False),
        ("celery.app.trace", "ERROR", {"data": {"name": "jobs.tasks.jobs_sync"}}, (), True),
        ("celery.app.trace", "INFO", {"data": {"name": "datasets.tasks.dataset_version_import"}}, (), True),
        ("celery.beat", "INFO", {}, ("jobs-sync", "jobs.tasks.jobs_sync"), False),
        ("studio.jobs", "INFO", {"data": {"name": "x_sync"}}, (), True),
    ],
)
def test_sweeps_that_went_well_are_not_told(json_lines, name, level, extra, args, is_kept):
    logging.getLogger(name).log(getattr(logging, level), "%s %s" if args else "done", *args, extra=extra)
    assert bool(json_lines()) is is_kept
