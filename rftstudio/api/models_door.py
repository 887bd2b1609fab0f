"""`/v1/models`: the models that a program may name: aliases of the console, the team's models, and what its jobs tuned.

Wire shape: {"id", "object": "model", "created", "owned_by"}; `studio` says what stands behind the name.
"""

from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request

from jobs.agents.models import ModelEndpoint
from jobs.models import Checkpoint
from rftstudio.api.doors import actor_of, by_method, door, in_state
from rftstudio.core.errors import NotFound
from rftstudio.orders import named, tuned
from rftstudio.orders.models import ModelAlias
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission


class ModelWire(serializers.Serializer):
    id = serializers.CharField()
    object = serializers.CharField()
    created = serializers.IntegerField(help_text="Unix seconds")
    owned_by = serializers.CharField()
    studio = serializers.DictField()


class ModelListWire(serializers.Serializer):
    object = serializers.CharField()
    data = ModelWire(many=True)


class ModelDeletedWire(serializers.Serializer):
    id = serializers.CharField()
    object = serializers.CharField()
    deleted = serializers.BooleanField()


def _wire(name: str, created: Any, owner: str, **studio: Any) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": int(created.timestamp()), "owned_by": owner, "studio": studio}


def wire_model(model: ModelEndpoint) -> dict[str, Any]:
    return _wire(model.name, model.created_at, model.team.slug, kind=model.kind, is_trainable=model.is_trainable)


def wire_alias(alias: ModelAlias) -> dict[str, Any]:
    return _wire(alias.name, alias.created_at, "system", kind="alias", means=alias.target, backend=alias.backend)


def wire_tuned(name: str, row: Checkpoint) -> dict[str, Any]:
    job = row.job
    return _wire(name, row.created_at, job.team.slug, kind="tuned", job=job.public_id, step=row.step_number,
                 validation_reward=row.validation_reward)  # fmt: skip


def _own(team: Team) -> QuerySet[ModelEndpoint]:
    """Without those that were made of checkpoints: they stand here under the names that their jobs give them."""
    rows = ModelEndpoint.objects.filter(team=team).select_related("team").order_by("name")
    return rows.exclude(pk__in=Checkpoint.objects.filter(team=team, model__isnull=False).values("model"))


@door("GET", "listModels", summary="Models", answer=ModelListWire)
def model_list(request: Request) -> dict[str, Any]:
    """All of them: there are no pages, as in the reference."""
    team = actor_of(request).team
    found = {one["id"]: one for one in map(wire_model, _own(team))}
    found |= {alias.name: wire_alias(alias) for alias in named.alias_list(team=team)}
    found |= {name: wire_tuned(name, row) for name, row in tuned.tuned_list(team=team)}
    return {"object": "list", "data": list(found.values())}


@door("GET", "retrieveModel", summary="One model", answer=ModelWire)
def model_get(request: Request, name: str) -> dict[str, Any]:
    """By any of its names."""
    team = actor_of(request).team
    if row := named.tuned_find(team=team, name=name):
        return wire_tuned(name, row)
    if alias := named.alias_find(team=team, name=name):
        return wire_alias(alias)
    model = ModelEndpoint.objects.filter(team=team, name=name.replace("\x00", "")).select_related("team").first()
    if model is None:
        raise _absent(name)
    return wire_model(model)


@door("DELETE", "deleteModel", summary="Delete a tuned model", answer=ModelDeletedWire)
def model_delete(request: Request, name: str) -> dict[str, Any]:
    """Only what a job tuned. Its weights go; the job's story stays."""
    actor = actor_of(request, Permission.JOB_LAUNCH)
    row = named.tuned_find(team=actor.team, name=name)
    if row is None:
        raise _absent(name)
    in_state(tuned.tuned_delete, actor=actor, checkpoint=row)
    return {"id": name, "object": "model", "deleted": True}


def _absent(name: str) -> NotFound:
    return NotFound(
        f"The model '{name[:200]}' does not exist or you do not have access to it.", where="model",
        code="model_not_found",
    )  # fmt: skip


model_door = by_method(model_get, model_delete)
