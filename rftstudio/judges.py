"""Where the models named in graders live. Graders stand left of agents, so settings name this function for them."""

from pathlib import Path

from django.conf import settings

from graders.clients import JudgeEndpoint
from graders.network import GuardedHttp
from jobs.agents.models import ModelEndpoint
from rftstudio.core.sealed import unseal
from rftstudio.teams.models import Team


def judge_endpoint(team: Team, name: str) -> JudgeEndpoint | None:
    """The team's model of that name, or of that name on the wire; None when it has none."""
    models = ModelEndpoint.objects.filter(team=team)
    model = models.filter(name=name).first() or models.filter(model=name).order_by("pk").first()
    if model is None:
        return None
    if model.kind == ModelEndpoint.Kind.LOCAL:
        from jobs.rollouts.policies.local import ensure_server

        url = ensure_server(Path(model.model), run_dir=Path(settings.VAR_DIR) / "run")
        return JudgeEndpoint(url, model.model, http=GuardedHttp(frozenset({"127.0.0.1"})))
    key = unseal(model.api_key_sealed)
    headers = {"Authorization": f"Bearer {key}", "api-key": key} if key else {}
    return JudgeEndpoint(model.base_url or "https://api.openai.com/v1", model.model, headers)


def judge_names(team: Team) -> list[str]:
    """Models of the team that a grader may name."""
    return list(ModelEndpoint.objects.filter(team=team).order_by("name").values_list("name", flat=True))
