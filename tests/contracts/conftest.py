"""Fixtures of the jobs room, and the stages on which the suite over all backends plays."""

import pytest

from jobs.backends.base import Run
from jobs.models import Job
from jobs.supervision import jobs_sync
from rftstudio.orders.models import JobOrder, ModelAlias
from rftstudio.orders.services import orders_advance
from rftstudio.teams.services import api_key_create
from tests.api.conftest import measure
from tests.contracts.stages import Stage
from tests.fakes.hosted import HostedService
from tests.jobs.conftest import ready_baseline, trainer  # noqa: F401

JOB = "ftjob-contract"
WOUND_DOWN = {
    "message": "OpenAI is winding down the fine-tuning platform.", "type": "invalid_request_error", "param": None,
    "code": "training_not_available",
}  # fmt: skip


@pytest.fixture
def pace(trainer, tmp_path):  # noqa: F811
    """How the scripted trainer is held at its second train step, and let go."""

    def release() -> None:
        for folder in (tmp_path / "runs").iterdir():
            (folder / "go").touch()

    return {"hold": lambda: trainer(wait_at=2), "release": release}


@pytest.fixture
def on_our_machine(trainer, tmp_path, pace):  # noqa: F811
    """trl: a process of its own, with the scripted trainer in it."""
    run = Run(JOB, run_dir=str(tmp_path / "runs" / JOB))

    def starts() -> int:
        path = tmp_path / "runs" / JOB / "journal.jsonl"
        return sum('"started"' in line for line in path.read_text().splitlines()) if path.exists() else 0

    return Stage(
        "trl", run, starts, deny=lambda: trainer(fail_at=1), denied_with="grader_broken", **pace
    )  # fmt: skip


@pytest.fixture
def hosted(settings):
    """openai against a server that keeps the wire's shapes."""
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    with HostedService() as service:
        run = Run(JOB, connection={"base_url": service.url + "/v1", "api_key": "sk-fake"})
        yield Stage(
            "openai", run, lambda: len(service.jobs), deny=lambda: setattr(service, "refuse", (403, WOUND_DOWN)),
            denied_with="training_not_available", advance=service.advance,
        )  # fmt: skip


@pytest.fixture
def remote_studio(live_server, owner, settings, pace):  # noqa: F811
    """openai against our own `/v1` over HTTP, where jobs are looked after and the scripted trainer works."""
    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["localhost", "127.0.0.1"]
    ModelAlias.objects.create(name="tiny", target="tiny/base", baseline_items=4, baseline_samples=3)
    secret = api_key_create(actor=owner, name="the other Studio")[1]

    def advance() -> None:
        orders_advance()
        for order in JobOrder.objects.filter(stage=JobOrder.Stage.BASELINE, baseline__finished_at=None):
            measure(order)
        jobs_sync()

    return Stage(
        "openai", Run(JOB, connection={"base_url": live_server.url + "/v1", "api_key": secret}),
        lambda: JobOrder.objects.count() + Job.objects.filter(order=None).count(),
        deny=lambda: ModelAlias.objects.all().delete(), denied_with="model_not_found", advance=advance, **pace,
    )  # fmt: skip
