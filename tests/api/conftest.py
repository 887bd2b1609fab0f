"""Keys, the SDK behind them, files with rows, and the walk from an order to its job."""

import json
from collections.abc import Callable

import pytest

from jobs.evaluations import services as evaluation_services
from jobs.models import Job
from rftstudio.orders import services as orders
from rftstudio.orders.models import JobOrder, ModelAlias
from rftstudio.teams.models import Role
from rftstudio.teams.services import api_key_create
from tests.api.sdk import sdk
from tests.factories.studio import rollouts_end
from tests.jobs.conftest import trainer  # noqa: F401  the fake trainer, scripted

EXACT = {
    "type": "string_check",
    "name": "exact",
    "operation": "eq",
    "input": "{{sample.output_text}}",
    "reference": "{{item.label}}",
}


@pytest.fixture
def secret(owner) -> str:
    return api_key_create(actor=owner, name="script")[1]


@pytest.fixture
def ai(secret):
    return sdk(secret)


@pytest.fixture
def reader(owner):
    """A key that may only look."""
    return sdk(api_key_create(actor=owner, name="reader", role=Role.VIEWER)[1])


@pytest.fixture
def foreign(stranger):
    """A key of another team."""
    return sdk(api_key_create(actor=stranger, name="foreign")[1])


@pytest.fixture
def alias(db) -> ModelAlias:
    return ModelAlias.objects.create(name="o4-mini", target="tiny/base", baseline_items=4, baseline_samples=3)


def rows_of(count: int, prefix: str = "train", **more) -> list[dict]:
    return [{"messages": [{"role": "user", "content": f"{prefix} {n}"}], "label": str(n), **more} for n in range(count)]


def jsonl(rows: list[dict]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@pytest.fixture
def upload(ai) -> Callable[..., str]:
    """`upload(rows or bytes)`: the id of the file."""

    def uploaded(content: list[dict] | bytes, name: str = "train.jsonl") -> str:
        data = content if isinstance(content, bytes) else jsonl(content)
        return ai.files.create(file=(name, data), purpose="fine-tune").id

    return uploaded


@pytest.fixture
def asked(upload, alias) -> dict:
    """A job request that works."""
    return {
        "model": "o4-mini",
        "training_file": upload(rows_of(12)),
        "validation_file": upload(rows_of(10, "validation"), "valid.jsonl"),
        "suffix": "expenses",
        "seed": 42,
        "metadata": {"team": "finance"},
        "method": {
            "type": "reinforcement",
            "reinforcement": {
                "grader": EXACT,
                "hyperparameters": {"n_epochs": 1, "batch_size": 4, "eval_interval": 1, "eval_samples": 1},
            },
        },
    }


def measure(order: JobOrder, rewards=(1.0, 0.3, 0.0)) -> None:
    """End the order's baseline with these rewards."""
    rollouts_end(order.baseline.batch, list(rewards))
    evaluation_services.evaluation_settle(evaluation=order.baseline)


def bring_to_launch(public_id: str, rewards=(1.0, 0.3, 0.0)) -> Job | JobOrder:
    """What the workers do until the order is a job, or has failed."""
    order = JobOrder.objects.get(public_id=public_id)
    orders.order_advance(order_id=order.pk)
    order.refresh_from_db()
    if order.stage != JobOrder.Stage.BASELINE:
        return order
    measure(order, rewards)
    orders.order_advance(order_id=order.pk)
    order.refresh_from_db()
    return order.job or order
