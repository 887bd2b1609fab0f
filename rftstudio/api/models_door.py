"""`GET /v1/models` and `GET /v1/models/{id}`: the models of the key's team.

Wire shape: {"object": "list", "data": [{"id", "object": "model", "created", "owned_by"}]}. The id is the name under
which the team knows the model, because that is what a client sends as `model`.
"""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import api_view
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.agents.models import ModelEndpoint
from rftstudio.core.errors import NotFound
from rftstudio.teams.permissions import Permission, check_can


class ModelWire(serializers.Serializer):
    id = serializers.CharField()
    object = serializers.CharField()
    created = serializers.IntegerField(help_text="Unix seconds")
    owned_by = serializers.CharField()


class ModelListWire(serializers.Serializer):
    object = serializers.CharField()
    data = ModelWire(many=True)


def wire_model(model: ModelEndpoint) -> dict[str, Any]:
    return {
        "id": model.name,
        "object": "model",
        "created": int(model.created_at.timestamp()),
        "owned_by": model.team.slug,
    }


@extend_schema(operation_id="listModels", responses=ModelListWire)
@api_view(["GET"])
def model_list(request: Request) -> Response:
    return Response({"object": "list", "data": [wire_model(model) for model in _visible(request)]})


@extend_schema(operation_id="retrieveModel", responses=ModelWire)
@api_view(["GET"])
def model_get(request: Request, name: str) -> Response:
    model = _visible(request).filter(name=name).first()
    if model is None:
        raise NotFound(f"The model '{name}' does not exist or you do not have access to it.", code="model_not_found")
    return Response(wire_model(model))


def _visible(request: Request) -> QuerySet[ModelEndpoint]:
    check_can(request.auth, Permission.VIEW, team=request.auth.team)
    return ModelEndpoint.objects.filter(team=request.auth.team).select_related("team").order_by("name")
