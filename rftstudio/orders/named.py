"""Which model a name means: a tuned model's `ft:…`, an alias of the console, or one of the team's models."""

import re
from dataclasses import dataclass
from pathlib import Path

from django.db.models import Q, QuerySet

from jobs.agents.models import ModelEndpoint
from jobs.agents.services import model_endpoint_create
from jobs.models import Checkpoint, Job
from rftstudio.core.errors import UserError
from rftstudio.orders.models import JobOrder, ModelAlias
from rftstudio.teams.actor import system_actor
from rftstudio.teams.models import Team

_TUNED = re.compile(r"^ft:.+:(?P<tail>[A-Za-z0-9]{20})(?::ckpt-step-(?P<step>\d{1,9}))?$", re.S)
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Base:
    """What a job starts from."""

    model: ModelEndpoint
    backend: str
    alias: ModelAlias | None = None


def tail(public_id: str) -> str:
    """The part of an id behind its prefix."""
    return re.split(r"[-_]", public_id, maxsplit=1)[-1]


def tuned_name(job: Job, order: JobOrder | None, step: int | None = None) -> str:
    """`ft:<base>:<team>:<suffix>:<id>`, for a checkpoint with its train step: the reference's form, one for each job."""
    base = order.model_name if order else job.base_model.name
    parts = [
        "ft",
        _UNFIT.sub("-", base).strip("-"),
        job.team.slug,
        _UNFIT.sub("-", order.suffix if order else ""),
        tail(job.public_id),
    ]
    return ":".join(parts) + (f":ckpt-step-{step}" if step is not None else "")


def tuned_find(*, team: Team, name: str) -> Checkpoint | None:
    """The checkpoint that a tuned model's name means: the named train step, else the best one. None when it is no such name."""
    found = _TUNED.match(name)
    if not found:
        return None
    job = Job.objects.filter(team=team, public_id=f"ftjob-{found['tail']}").select_related("best_checkpoint").first()
    if job is None or _order_name(job, found["step"]) != name:
        return None
    if found["step"] is None:
        best = job.best_checkpoint
        return None if best is None or (best.is_deleted and best.model_id is None) else best
    rows = Checkpoint.objects.filter(job=job, step_number=int(found["step"]))
    return rows.filter(Q(is_deleted=False) | Q(model__isnull=False)).first()


def _order_name(job: Job, step: str | None) -> str:
    job = Job.objects.select_related("team", "base_model", "order").get(pk=job.pk)
    return tuned_name(job, getattr(job, "order", None), None if step is None else int(step))


def alias_list(*, team: Team) -> QuerySet[ModelAlias]:
    """Those that hold for the team, its own first."""
    return ModelAlias.objects.filter(Q(team=team) | Q(team=None)).order_by("name", "team_id")


def alias_find(*, team: Team, name: str) -> ModelAlias | None:
    rows = list(alias_list(team=team).filter(name=name.replace("\x00", "")))
    return next((row for row in rows if row.team_id), rows[0] if rows else None)


def model_find(*, team: Team, name: str) -> ModelEndpoint | None:
    """One of the team's models by our name for it, or by its name on the wire."""
    name = name.replace("\x00", "")
    rows = ModelEndpoint.objects.filter(team=team).select_related("team")
    return rows.filter(name=name).first() or rows.filter(model=name).order_by("pk").first()


def base_find(*, team: Team, name: str) -> Base | None:
    """What a job that names this model starts from; None when the name means nothing here."""
    if alias := alias_find(team=team, name=name):
        return Base(_alias_model(team, alias), alias.backend, alias)
    model = model_find(team=team, name=name)
    if model is None:
        return None
    return Base(model, "trl" if model.kind == ModelEndpoint.Kind.LOCAL else "openai")


def _alias_model(team: Team, alias: ModelAlias) -> ModelEndpoint:
    """The team's model behind an alias. Weights are added to the team's models at first use; a hosted one needs a key of its own."""
    found = model_find(team=team, name=alias.target)
    if found is not None:
        return found
    if alias.backend != ModelAlias.Backend.TRL:
        raise UserError(
            f"{alias.name} means {alias.target} at a hosted provider here, and this team has no such model.",
            where="model",
            fix="Add it on the page of models, with the provider's address and key.",
        )
    name = Path(alias.target).name or alias.target
    if ModelEndpoint.objects.filter(team=team, name=name).exists():
        name = alias.target[:160]
    return model_endpoint_create(
        actor=system_actor(team), name=name, kind=ModelEndpoint.Kind.LOCAL, model=alias.target, is_trainable=True
    )


def names_known(*, team: Team) -> list[str]:
    """What may be sent as `model`."""
    aliases = alias_list(team=team).values_list("name", flat=True)
    return list(dict.fromkeys([*aliases, *ModelEndpoint.objects.filter(team=team).values_list("name", flat=True)]))
