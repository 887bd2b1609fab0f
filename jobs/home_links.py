"""Addresses and names that the home's fragments share."""

from dataclasses import dataclass
from typing import Any

from django.urls import NoReverseMatch, reverse

from jobs.models import Job


@dataclass(frozen=True)
class Action:
    label: str
    url: str


def address(name: str, *args: Any, query: str = "") -> str:
    """The address of a page, or nothing while that page does not exist."""
    try:
        return reverse(name, args=args) + query
    except NoReverseMatch:
        return ""


def job_name(job: Job) -> str:
    return job.name or f"Job {job.number} of {job.baseline.agent_version.agent.name}"
