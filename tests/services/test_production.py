"""The production settings as plain processes: PostgreSQL, Valkey, gunicorn, a worker, beat. What the compose file runs."""

import json
import os
import re
import secrets
import signal
import sys

import pytest

from rftstudio.ops.keeper import Keeper, Program
from tests.services.conftest import ROOT, ask, clean_env, json_lines, manage, wait_for

PUBLIC = {"Host": "studio.example.com", "X-Forwarded-Proto": "https"}


class Production:
    def __init__(self, keeper: Keeper, env: dict[str, str], url: str, folder) -> None:
        self.keeper, self.env, self.url, self.folder = keeper, env, url, folder

    def log(self, name: str) -> list[dict]:
        return json_lines(self.keeper.log_dir / f"{name}.log")


@pytest.fixture(scope="module")
def production(postgres_url, broker_url, tmp_path_factory):
    folder = tmp_path_factory.mktemp("production")
    env = clean_env(
        DJANGO_SETTINGS_MODULE="rftstudio.settings.production",
        STUDIO_VAR_DIR=str(folder / "var"),
        DATABASE_URL=postgres_url,
        CELERY_BROKER_URL=broker_url,
        SECRET_KEY=secrets.token_urlsafe(50),
        ALLOWED_HOSTS="studio.example.com,127.0.0.1",
        STUDIO_VISIBILITY_TIMEOUT="5",
    )
    manage("migrate", "--verbosity", "0", env=env)
    manage("collectstatic", "--noinput", "--verbosity", "0", env=env)
    keeper = Keeper(var_dir=folder / "var", cwd=ROOT, env=env, echo=print)
    python = (sys.executable, "-m")
    celery = (*python, "celery", "-A", "rftstudio")
    web = (*python, "gunicorn", "--config", "docker/gunicorn_conf.py", "rftstudio.wsgi", "--bind", "127.0.0.1:0")
    worker = (*celery, "worker", "-Q", "default,rollouts,training", "-c", "2", "-I", "tests.services.probe")
    for name, argv in (
        ("web", web),
        ("worker", worker),
        ("beat", (*celery, "beat", "-s", str(folder / "schedule"), "--pidfile", "")),
    ):
        keeper.start(Program(name, argv, stop_signals=(signal.SIGTERM, signal.SIGQUIT), grace=10))
    try:
        yield Production(keeper, env, _url_of(keeper), folder)
    finally:
        keeper.stop()


def _url_of(keeper: Keeper) -> str:
    log = keeper.log_dir / "web.log"
    found = wait_for(lambda: re.search(r"Listening at: (http://[\w.:]+)", log.read_text()), 90, "gunicorn")
    url = found[1]
    wait_for(lambda: ask(f"{url}/healthz")[0] == 200, 90, "healthz")
    return url


def test_healthz_answers_without_tls_for_the_runtime_inside(production):
    status, _, body = ask(f"{production.url}/healthz")
    assert (status, json.loads(body)) == (200, {"status": "ok", "database": "ok", "broker": "ok"})


def test_everything_else_is_sent_to_tls(production):
    status, headers, _ = ask(f"{production.url}/v1/models", Host="studio.example.com")
    assert (status, headers["Location"]) == (301, "https://studio.example.com/v1/models")


def test_a_foreign_host_is_refused(production):
    assert ask(f"{production.url}/v1/models", **{**PUBLIC, "Host": "evil.example.net"})[0] == 400


def test_key_from_the_command_opens_v1_models(production):
    manage("user_create", "ann@example.com", "--team", "Duty desk", env=production.env)
    secret = manage("apikey_create", "--team", "duty-desk", "--name", "x", env=production.env).strip()
    status, headers, body = ask(f"{production.url}/v1/models", Authorization=f"Bearer {secret}", **PUBLIC)
    assert (status, json.loads(body)) == (200, {"object": "list", "data": []})
    assert headers["Strict-Transport-Security"].startswith("max-age=31536000")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    lines = [line for line in production.log("web") if line.get("request_id") == headers["X-Request-ID"]]
    assert lines[0]["path"] == "/v1/models"
    assert secret not in (production.keeper.log_dir / "web.log").read_text()


def test_task_travels_with_the_request_id_of_whoever_queued_it(production):
    marks = production.folder / "marks"
    marks.mkdir()
    queue = (
        "import structlog; from tests.services.probe import mark; "
        "structlog.contextvars.bind_contextvars(request_id='req_from_here'); "
        f"mark.delay({str(marks)!r}, 'one')"
    )
    manage("shell", "-c", queue, env=production.env)
    wait_for((marks / "one").exists, 60, "the task")
    lines = wait_for(lambda: [x for x in production.log("worker") if x["event"] == "probe.marked"], 10, "its line")
    assert lines[0]["request_id"] == "req_from_here"
    assert lines[0]["task"] == "tests.services.probe.mark"
    assert lines[0]["task_id"]


def test_task_of_a_killed_worker_is_run_again(production):
    marks = production.folder / "held"
    marks.mkdir()
    manage("shell", "-c", f"from tests.services.probe import hold; hold.delay({str(marks)!r}, 3)", env=production.env)
    wait_for((marks / "began").exists, 60, "the task to begin")
    os.killpg(production.keeper.pid("worker"), signal.SIGKILL)
    wait_for((marks / "done").exists, 60, "the task to be run again")
    assert len((marks / "began").read_text().splitlines()) == 2


def test_beat_sends_its_looks_and_the_worker_takes_them(production):
    script = "from rftstudio.celery import app; import json; print(json.dumps(app.control.inspect().stats()))"

    def taken() -> set[str]:
        answer = manage("shell", "--verbosity", "0", "-c", script, env=production.env)
        stats = json.loads(answer.strip().splitlines()[-1]) or {}
        return {name for worker in stats.values() for name in worker["total"]}

    looks = {"jobs.tasks.jobs_sync", "jobs.rollouts.tasks.rollouts_sweep", "jobs.evaluations.tasks.evaluations_settle"}
    wait_for(lambda: looks <= taken(), 60, "every look")


def test_lines_are_json(production):
    """Celery's few words on its way up and down are printed, not logged, and so are not."""
    for name in ("web", "worker", "beat"):
        text = (production.keeper.log_dir / f"{name}.log").read_text()
        assert production.log(name), name
        assert not [line for line in text.splitlines() if re.match(r"\[?\d{4}-\d\d-\d\d", line)], name
