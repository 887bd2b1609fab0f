"""`/v1/fine_tuning/checkpoints/{model}/permissions`: who else may use a checkpoint. Here: nobody.

At the reference a checkpoint is lent to other projects of one organisation. Here it belongs to its team, and no row of one
team is seen by another; so the list is empty, and lending is refused with the way that there is.
"""

from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request

from jobs.models import Checkpoint
from rftstudio.api.doors import AFTER, LIMIT, actor_of, body_of, by_method, door, limit_of, page_of
from rftstudio.core.errors import NotFound, UserError
from rftstudio.orders.named import tuned_find
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission

ORDERS = ("ascending", "descending")


class PermissionWire(serializers.Serializer):
    id = serializers.CharField()
    object = serializers.CharField()
    created_at = serializers.IntegerField()
    project_id = serializers.CharField()


class PermissionListWire(serializers.Serializer):
    object = serializers.CharField()
    data = PermissionWire(many=True)
    has_more = serializers.BooleanField()
    first_id = serializers.CharField(allow_null=True)
    last_id = serializers.CharField(allow_null=True)


class PermissionCreateWire(serializers.Serializer):
    project_ids = serializers.ListField(child=serializers.CharField())


def _checkpoint(team: Team, name: str) -> Checkpoint:
    found = tuned_find(team=team, name=name)
    if found is None:
        raise NotFound(
            f"The checkpoint '{name[:200]}' does not exist or you do not have access to it.",
            where="fine_tuned_model_checkpoint", code="model_not_found",
        )  # fmt: skip
    return found


@door("GET", "listFineTuningCheckpointPermissions", summary="Who else may use a checkpoint", answer=PermissionListWire,
      parameters=[AFTER, LIMIT, OpenApiParameter("order", str, enum=list(ORDERS)), OpenApiParameter("project_id", str)])  # fmt: skip
def permission_list(request: Request, name: str) -> dict[str, Any]:
    """Always empty: a checkpoint is its team's alone."""
    _checkpoint(actor_of(request).team, name)
    if request.query_params.get("order", "descending") not in ORDERS:
        raise UserError(f"order must be one of {', '.join(ORDERS)}.", where="order")
    if request.query_params.get("after"):
        raise UserError("There is no row to go on after: the list is empty.", where="after")
    return page_of([], limit_of(request, 10), with_ends=True)


@door("POST", "createFineTuningCheckpointPermission", summary="Lend a checkpoint (refused)", body=PermissionCreateWire,
      answer=PermissionListWire)  # fmt: skip
def permission_create(request: Request, name: str) -> dict[str, Any]:
    """Refused in words, whatever is asked."""
    actor = actor_of(request, Permission.JOB_LAUNCH)
    body_of(request, known={"project_ids"})
    _checkpoint(actor.team, name)
    raise UserError(
        "A checkpoint belongs to its team and cannot be lent to another.", where="project_ids",
        fix="Download it on its job's page and add its folder to the other team's models.", code="sharing_not_available",
    )  # fmt: skip


@door("DELETE", "deleteFineTuningCheckpointPermission", summary="End a loan (there are none)")
def permission_delete(request: Request, name: str, permission: str) -> dict[str, Any]:
    """Nothing is lent, so there is nothing to end."""
    _checkpoint(actor_of(request, Permission.JOB_LAUNCH).team, name)
    raise NotFound(f"There is no permission {permission[:80]!r} of this checkpoint.", where="permission_id")


permissions = by_method(permission_list, permission_create)
