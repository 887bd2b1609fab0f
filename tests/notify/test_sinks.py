"""Metric sinks: what is copied, once, to MLflow's wire and to the packages' own calls; a sink that fails harms nothing."""

import json
import sys
import types

import pytest
from django.utils import timezone

from jobs.models import TrainStep
from rftstudio.core.errors import NotAllowed, UserError
from rftstudio.core.outbound import AddressRefused
from rftstudio.notify.models import Sink, SinkRun
from rftstudio.notify.services import sink_create
from rftstudio.notify.sinks import registry
from rftstudio.notify.sinks.copying import MOST_FAILURES, sinks_sweep
from tests.fakes.server import HttpServer, Reply

pytestmark = pytest.mark.django_db


class FakeMlflow:
    """The calls of MLflow's REST API 2.0 that are used, as its documentation describes them."""

    def __init__(self) -> None:
        self.experiments: dict[str, str] = {}
        self.runs: dict[str, dict] = {}
        self.fails = 0
        self.tokens: set[str] = set()
        self.server = HttpServer(self._answer)

    def _answer(self, request) -> Reply:
        self.tokens.add(request.headers.get("authorization", request.headers.get("Authorization", "")))
        if self.fails:
            self.fails -= 1
            return Reply(503)
        path, _, query = request.path.partition("?")
        call, body = path.removeprefix("/api/2.0/mlflow/"), json.loads(request.body or b"{}")
        if call == "experiments/get-by-name":
            name = query.removeprefix("experiment_name=")
            if name not in self.experiments:
                return Reply.of({"error_code": "RESOURCE_DOES_NOT_EXIST"}, 404)
            return Reply.of({"experiment": {"experiment_id": self.experiments[name]}})
        if call == "experiments/create":
            self.experiments[body["name"]] = "7"
            return Reply.of({"experiment_id": "7"})
        if call == "runs/create":
            self.runs["run-1"] = {**body, "metrics": []}
            return Reply.of({"run": {"info": {"run_id": "run-1"}}})
        run = self.runs[body["run_id"]]
        if call == "runs/log-batch":
            run["metrics"] += body["metrics"]
        else:
            run["status"] = body["status"]
        return Reply.of({})


@pytest.fixture
def mlflow(settings):
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    made = FakeMlflow()
    with made.server:
        yield made


@pytest.fixture
def job(ended):
    made = ended("running", done_steps=2)
    type(made).objects.filter(pk=made.pk).update(finished_at=None, started_at=timezone.now())
    for n in (1, 2):
        TrainStep.objects.create(
            job=made, number=n, mean_reward=0.2 * n,
            metrics={"seconds": 4.0, "kl": None, "tools": {"lookup": 3}, "studio": {"sub_rewards": {"duty": 0.5}}},
        )  # fmt: skip
    return made


def test_mlflow_gets_each_train_step_once_and_the_end(mlflow, owner, job):
    sink_create(actor=owner, kind="mlflow", project="customs", url=mlflow.server.url, secret="t0ken")
    assert sinks_sweep() == 1
    assert sinks_sweep() == 0
    run = mlflow.runs["run-1"]
    assert run["experiment_id"] == "7"
    assert {"key": "studio.job", "value": job.public_id} in run["tags"]
    rewards = [(one["step"], one["value"]) for one in run["metrics"] if one["key"] == "mean_reward"]
    assert rewards == [(1, 0.2), (2, 0.4)]
    assert {one["key"] for one in run["metrics"]} == {"mean_reward", "seconds", "sub_reward/duty"}
    TrainStep.objects.create(job=job, number=3, mean_reward=0.9, metrics={})
    type(job).objects.filter(pk=job.pk).update(status="succeeded", finished_at=timezone.now())
    assert sinks_sweep() == 1
    assert run["metrics"][-1]["step"] == 3
    assert run["status"] == "FINISHED"
    assert sinks_sweep() == 0
    assert mlflow.tokens == {"Bearer t0ken"}


def test_a_server_that_is_away_is_asked_later_and_given_up_in_the_end(mlflow, owner, job):
    sink = sink_create(actor=owner, kind="mlflow", project="customs", url=mlflow.server.url)
    mlflow.fails = 99
    for n in range(MOST_FAILURES):
        assert sinks_sweep() == 0
        run = SinkRun.objects.get()
        assert run.failures == n + 1
        assert run.next_at > timezone.now()
        SinkRun.objects.update(next_at=timezone.now())
    assert run.is_finished
    sink.refresh_from_db()
    assert sink.note == "MLflow answered 503."
    asked = len(mlflow.server.requests)
    sinks_sweep()
    assert len(mlflow.server.requests) == asked


def test_jobs_of_other_teams_are_not_copied(mlflow, stranger, job):
    sink_create(actor=stranger, kind="mlflow", project="customs", url=mlflow.server.url)
    assert sinks_sweep() == 0
    assert mlflow.server.requests == []


class Run:
    def __init__(self) -> None:
        self.rows, self.ended = [], None

    def log(self, values, step=None):
        self.rows.append((step, values))

    def finish(self, exit_code=0):
        self.ended = exit_code


@pytest.fixture
def package(monkeypatch):
    """`package(name)`: a stand-in with the calls that are used, and what they were given."""

    def make(name: str):
        made = types.ModuleType(name)
        made.run, made.asked = Run(), []
        made.Settings = lambda **values: values
        made.init = lambda **values: made.asked.append(values) or made.run
        monkeypatch.setitem(sys.modules, name, made)
        monkeypatch.setattr(registry, "is_installed", lambda kind: True)
        return made

    return make


@pytest.mark.parametrize("kind", ["wandb", "trackio"])
def test_packages_are_given_the_jobs_own_id_and_its_steps(package, owner, job, kind):
    module = package(kind)
    sink_create(actor=owner, kind=kind, project="customs", secret="k3y")
    assert sinks_sweep() == 1
    (asked,) = module.asked
    assert asked["project"] == "customs"
    assert asked["id" if kind == "wandb" else "name"] == job.public_id
    assert asked["resume"] == "allow"
    assert [step for step, _ in module.run.rows] == [1, 2]
    assert module.run.rows[1][1]["mean_reward"] == 0.4
    if kind == "wandb":
        assert asked["settings"]["api_key"] == "k3y"


def test_a_package_that_breaks_is_said_on_the_page(package, owner, job):
    module = package("wandb")
    sink = sink_create(actor=owner, kind="wandb", project="customs")

    def breaks(**values):
        raise RuntimeError("api_key=k3y is wrong")

    module.init = breaks
    assert sinks_sweep() == 0
    sink.refresh_from_db()
    assert sink.note == "Weights & Biases: RuntimeError."


def test_trackio_itself_keeps_the_steps(owner, job, tmp_path, monkeypatch):
    """The real package, writing to its local database."""
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    pytest.importorskip("trackio")
    from trackio.sqlite_storage import SQLiteStorage

    sink_create(actor=owner, kind="trackio", project="customs")
    assert sinks_sweep() == 1
    rows = SQLiteStorage.get_logs("customs", job.public_id)
    assert [(row["step"], row["mean_reward"]) for row in rows] == [(1, 0.2), (2, 0.4)]


def test_wandb_itself_writes_a_run_offline(owner, job, tmp_path, monkeypatch):
    """The real package without a network: the run's file holds what was logged."""
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    sink_create(actor=owner, kind="wandb", project="customs")
    assert sinks_sweep() == 1
    (kept,) = tmp_path.rglob("run-*.wandb")
    content = kept.read_bytes()
    assert b"mean_reward" in content
    assert job.public_id.encode() in content


def test_refusals(owner, member, monkeypatch):
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install wandb"):
        sink_create(actor=owner, kind="wandb", project="x")
    with pytest.raises(UserError, match="needs the address"):
        sink_create(actor=owner, kind="mlflow", project="x")
    with pytest.raises(AddressRefused):
        sink_create(actor=owner, kind="mlflow", project="x", url="http://169.254.169.254/")
    with pytest.raises(NotAllowed):
        sink_create(actor=member, kind="mlflow", project="x", url="https://mlflow.example.com")
    assert not Sink.objects.exists()
