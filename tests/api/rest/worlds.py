"""What the addresses of /api name, by the first part of the address: ids of one team's things."""

from datasets.models import ChangeSet
from tests.rights.world import world_of

#: First part of an address → the thing of the world that its first parameter names.
NAMES = {
    "files": "file", "datasets": "dataset", "versions": "draft", "label-tasks": "task", "graders": "grader",
    "grader-versions": "grader_version", "regrades": "regrade", "models": "model", "tools": "tool", "agents": "agent",
    "agent-versions": "agent_version", "evaluations": "evaluation", "jobs": "job", "checkpoints": "checkpoint",
    "rollouts": "rollout", "batches": "batch", "sources": "evaluation", "members": "member", "invitations": "invitation",
    "keys": "key", "ledger": "line", "approvals": "approval", "credit-methods": "method", "webhooks": "webhook",
    "webhook-deliveries": "delivery", "sinks": "sink",
}  # fmt: skip
#: Further parameters.
OTHERS = {"position": 0, "index": 0, "call": 0, "problem_id": "problem"}


def rest_world(team) -> dict[str, object]:
    from jobs.evaluations.models import Evaluation

    world = world_of(team)
    evaluation = Evaluation.objects.select_related("batch", "agent_version").get(public_id=world["evaluation"])
    ChangeSet.objects.create(version_id=evaluation.dataset_version_id, verb="x", title="x")
    return {
        **world,
        "agent_version": evaluation.agent_version.public_id,
        "batch": evaluation.batch.public_id,
        "method": "divergence",
    }


def parameters(path: str, names: list[str], world: dict[str, object]) -> dict[str, object]:
    """Values for the parameters of an address below /api."""
    part = path.split("/")[2]
    found = {}
    for place, name in enumerate(names):
        if name == "other" or place == 0:
            found[name] = world[NAMES[part]]
        else:
            thing = OTHERS[name]
            found[name] = world[thing] if isinstance(thing, str) else thing
    return found
