"""`manage.py evaluation_run`: as a person runs it, and as a process that is cut."""

import json
import os
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from jobs.evaluations.models import Evaluation
from jobs.rollouts.models import Rollout
from tests.factories.studio import evaluation_parts
from tests.fakes.server import ModelServer

ROOT = Path(__file__).parents[3]


def answers_the_number(messages: list, tools: list) -> dict:
    """Right for even items, wrong for odd ones."""
    number = int(messages[-1]["content"].split()[-1])
    return {"content": str(number if number % 2 == 0 else -1)}


@pytest.fixture
def parts(member, settings):
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    return evaluation_parts(member.team)


def serve(parts: dict, server: ModelServer) -> None:
    model = parts["agent_version"].model
    model.kind, model.base_url, model.model = "openai", server.url + "/v1", "fake"
    model.save()


def order(parts: dict) -> list[str]:
    return [
        "--team", parts["dataset_version"].team.slug, "--agent", parts["agent_version"].agent.slug,
        "--dataset", parts["dataset_version"].dataset.slug, "--grader", parts["grader_version"].public_id,
        "--samples", "2",
    ]  # fmt: skip


@pytest.mark.django_db(transaction=True)
def test_evaluation_run_prints_the_metrics_and_again_does_no_work(parts, monkeypatch):
    monkeypatch.setattr("jobs.rollouts.tasks.rollouts_run.apply_async", lambda *args, **options: None)
    with ModelServer(answers_the_number) as server:
        serve(parts, server)
        printed = StringIO()
        call_command("evaluation_run", *order(parts), "--json", stdout=printed, stderr=StringIO())
        metrics = json.loads(printed.getvalue())
        assert (metrics["items"], metrics["rollouts"], metrics["pass_rate"]) == (6, 12, 0.5)
        asked = len(server.requests)
        again = StringIO()
        call_command("evaluation_run", *order(parts), stdout=again, stderr=StringIO())
        assert len(server.requests) == asked
    assert "Pass rate" in again.getvalue()
    assert Evaluation.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    "wrong, words",
    [("--team", "no team"), ("--agent", "no agent"), ("--dataset", "no dataset"), ("--grader", "no grader")],
)
def test_evaluation_run_with_an_unknown_name_says_which(parts, wrong, words):
    told = order(parts)
    told[told.index(wrong) + 1] = "nowhere"
    with pytest.raises(CommandError, match=words):
        call_command("evaluation_run", *told)


def start(parts: dict) -> subprocess.Popen:
    found = connection.settings_dict
    url = f"sqlite:///{found['NAME']}"
    if connection.vendor == "postgresql":
        url = f"postgres://{found['USER']}:{found['PASSWORD']}@{found['HOST']}:{found['PORT']}/{found['NAME']}"
    env = {**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "rftstudio.settings.test",
           "STUDIO_ALLOWED_PRIVATE_HOSTS": "127.0.0.1"}  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "manage.py", "evaluation_run", *order(parts), "--json"], cwd=ROOT, env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.django_db(transaction=True)
def test_evaluation_run_cut_and_run_again_does_no_work_twice(parts):
    def slowly(messages, tools):
        time.sleep(0.3)
        return answers_the_number(messages, tools)

    with ModelServer(slowly) as server:
        serve(parts, server)
        first = start(parts)
        limit = time.monotonic() + 60
        while Rollout.objects.filter(status="done").count() < 3:
            assert time.monotonic() < limit
            time.sleep(0.05)
        first.send_signal(signal.SIGKILL)
        first.wait()
        stored = dict(Rollout.objects.filter(status="done").values_list("pk", "trace_id"))
        assert stored
        Rollout.objects.filter(status="running").update(lease_until="2020-01-01T00:00Z")
        second = start(parts)
        metrics = json.loads(second.communicate(timeout=90)[0])
        assert second.returncode == 0
    assert (metrics["rollouts"], metrics["pass_rate"]) == (12, 0.5)
    assert Evaluation.objects.count() == 1
    assert dict(Rollout.objects.filter(pk__in=stored).values_list("pk", "trace_id")) == stored
    assert Rollout.objects.filter(pk__in=stored, attempt=1).count() == len(stored), "none of these ran again"
