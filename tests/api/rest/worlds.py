"""What the addresses of /api and /v1 name, by the first part of the address: ids of one team's things."""

#: First part of an address → the thing of the world that its first parameter names.
NAMES = {
    "files": "file", "datasets": "dataset", "versions": "draft", "label-tasks": "task", "graders": "grader",
    "grader-versions": "grader_version", "regrades": "regrade", "models": "model", "tools": "tool", "agents": "agent",
    "agent-versions": "agent_version", "evaluations": "evaluation", "jobs": "job", "checkpoints": "checkpoint",
    "rollouts": "rollout", "batches": "batch", "sources": "evaluation", "members": "member", "invitations": "invitation",
    "keys": "key", "ledger": "line", "approvals": "approval", "credit-methods": "method", "webhooks": "webhook",
    "webhook-deliveries": "delivery", "sinks": "sink", "saved-views": "saved_view",
    "mask-rules": "mask_rule", "drafts": "launch_draft",
}  # fmt: skip
#: The same for /v1, where each parameter has a name of its own.
V1_NAMES = {
    "files": {"public_id": "file"},
    "fine_tuning": {"public_id": "job", "name": "tuned_name", "permission": "nonsense"},
    "evals": {"wanted": "eval", "run": "eval_run", "item": "eval_item"},
    "models": {"name": "model_name"},
}
#: Further parameters.
OTHERS = {"position": 0, "index": 0, "call": 0, "key": "nonsense", "problem_id": "problem"}


def parameters(path: str, names: list[str], world: dict[str, object]) -> dict[str, object]:
    """Values for the parameters of an address below /api or /v1."""
    part = path.split("/")[2]
    if path.startswith("/v1/"):
        return {name: world[V1_NAMES[part][name]] for name in names}
    found = {}
    for place, name in enumerate(names):
        if name == "other" or place == 0:
            found[name] = world[NAMES[part]]
        else:
            thing = OTHERS[name]
            found[name] = world[thing] if isinstance(thing, str) else thing
    return found
