"""The audit line that every service writes."""

from typing import Any

from django.db import models

from rftstudio.teams.actor import Actor
from rftstudio.teams.models import AuditEvent


def audit(actor: Actor, verb: str, obj: models.Model | None = None, **data: Any) -> AuditEvent:
    """Note one write. `data` must hold no secrets."""
    return AuditEvent.objects.create(
        team=actor.team,
        user=actor.user,
        api_key=actor.api_key,
        verb=verb,
        object_type=obj._meta.model_name if obj else "",
        object_id=str(getattr(obj, "public_id", obj.pk)) if obj else "",
        data=data,
    )
