"""Reads of graders and their versions."""

from typing import Any

from django.db.models import Count, Max, Prefetch, QuerySet

from graders.labels import rollout_labels  # noqa: F401 - the floors above use it
from graders.models import Grader, GraderVersion
from graders.network import judge_source
from graders.secrets import open_config
from graders.validation import children
from rftstudio.core.errors import NotFound
from rftstudio.teams.models import Team


def _found(row: Any) -> Any:
    if row is None:
        raise NotFound("There is nothing at this address.")
    return row


def grader_list(*, team: Team) -> QuerySet[Grader]:
    """The team's graders, last changed first, each with `version_count`, `last_number` and its newest versions."""
    newest = GraderVersion.objects.order_by("-number")
    return (
        Grader.objects.filter(team=team)
        .annotate(version_count=Count("versions"), last_number=Max("versions__number"))
        .prefetch_related(Prefetch("versions", newest))
        .order_by("-updated_at", "-pk")
    )


def grader_get(*, team: Team, public_id: str) -> Grader:
    return _found(Grader.objects.select_related("team").filter(team=team, public_id=public_id).first())


def grader_version_get(*, team: Team, public_id: str) -> GraderVersion:
    rows = GraderVersion.objects.select_related("grader", "team")
    return _found(rows.filter(team=team, public_id=public_id).first())


def grader_version_list(*, team: Team, grader: Grader) -> QuerySet[GraderVersion]:
    """The versions of a grader, newest first."""
    rows = GraderVersion.objects.filter(team=team, grader=grader).select_related("created_by", "grader")
    return rows.order_by("-number")


def grader_version_newest(*, grader: Grader) -> GraderVersion | None:
    return grader.versions.order_by("-number").first()


def grader_judges(version: GraderVersion) -> dict[str, dict[str, Any]]:
    """Where the models live that the recipe names, with their keys in the clear: for a trainer's eyes only."""
    source = judge_source()
    found = {name: source(version.team, name) for name in sorted(models_of(version.config))}
    return {
        name: {"base_url": endpoint.base_url, "model": endpoint.model, "headers": endpoint.headers}
        for name, endpoint in found.items()
        if endpoint
    }


def models_of(config: Any) -> set[str]:
    """Names of the judge models in a recipe, at any depth."""
    if not isinstance(config, dict):
        return set()
    own = {config["model"]} if isinstance(config.get("model"), str) and config["model"] else set()
    return own.union(*(models_of(child) for _, child in children(config)))


def grader_wire_config(version: GraderVersion) -> dict[str, Any]:
    """The recipe as a trainer or another service needs it: header values in the clear. Never for a page."""
    return open_config(version.config)
