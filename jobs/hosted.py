"""What a hosted run needs of our side: the provider's address and key, the gateway it calls back through."""

from typing import Any

from django.conf import settings

from jobs.agents.selectors import model_key
from jobs.journal import batch_of
from jobs.models import Job
from jobs.rollouts.models import Gateway
from jobs.rollouts.services import gateway_addresses, gateway_close, gateway_open
from rftstudio.teams.actor import system_actor


def connection_of(job: Job) -> dict[str, str]:
    """Where the provider is and with which key; from the baseline's model."""
    return {"base_url": job.base_model.base_url, "api_key": model_key(job.base_model)}


def gateway_of(job: Job) -> dict[str, Any]:
    """Addresses at which the provider calls our tools and grader; empty where it cannot reach this installation."""
    base = settings.STUDIO_PUBLIC_URL
    if not base:
        return {}
    gateway = gateway_open(actor=system_actor(job.team), batch=batch_of(job, "train", 0))
    found = gateway_addresses(gateway, base=base)
    return {"tool": found.tool, "grader": found.grader}


def gateway_shut(job: Job) -> int | None:
    """Close the door once the job has ended; returns the batch whose rollouts can be credited now."""
    gateway = Gateway.objects.select_related("team").filter(batch__source=job.public_id, closed_at__isnull=True).first()
    if gateway is None:
        return None
    gateway_close(actor=system_actor(job.team), gateway=gateway)
    return gateway.batch_id
