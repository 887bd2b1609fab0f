"""Which sinks there are, and the packages that two of them need. Packages are imported where they are used."""

from importlib.util import find_spec
from typing import Any, Protocol

from jobs.models import Job
from rftstudio.core.errors import UserError
from rftstudio.core.sealed import unseal
from rftstudio.notify.models import Sink

#: Kind → package; MLflow is spoken to over HTTP and needs none.
PACKAGES = {"wandb": "wandb", "trackio": "trackio"}


class Writer(Protocol):
    """What copies one job to one place."""

    def write(self, job: Job, external_id: str, rows: list[tuple[int, dict[str, float]]], *, ended: str) -> str:
        """Copy these train steps, and the end if `ended` names a status; returns the run's id there."""
        ...


def is_installed(kind: str) -> bool:
    return kind not in PACKAGES or find_spec(PACKAGES[kind]) is not None


def check_installed(kind: str) -> None:
    if not is_installed(kind):
        raise UserError(
            f"The package {PACKAGES[kind]} is not installed on this machine, so nothing can be copied to it.",
            where="kind",
            fix=f"Have the operator run: pip install {PACKAGES[kind]}.",
        )


def own_settings(sink: Sink, job: Job) -> dict[str, Any]:
    """What the job's order says about this kind of sink; nothing for a job from the pages."""
    order = getattr(job, "order", None)
    for one in order.integrations if order else ():
        if one.get("type") == sink.kind:
            told = {name: value for name, value in one[sink.kind].items() if value}
            return {"name": job.public_id} | told  # the reference names a run by the job's id unless told otherwise
    return {}


def writer_of(sink: Sink, job: Job) -> Writer:
    """The sink's writer. A job that came with an integration of its own names project, entity, run and tags itself."""
    check_installed(sink.kind)
    given: dict[str, Any] = {"url": sink.url, "project": sink.project, "secret": unseal(sink.secret_sealed) or ""}
    if sink.kind == Sink.Kind.MLFLOW:
        from rftstudio.notify.sinks.mlflow import MlflowWriter

        return MlflowWriter(**given)
    if sink.kind == Sink.Kind.WANDB:
        from rftstudio.notify.sinks.wandb import WandbWriter

        return WandbWriter(**given | own_settings(sink, job))
    from rftstudio.notify.sinks.trackio import TrackioWriter

    return TrackioWriter(**given)
