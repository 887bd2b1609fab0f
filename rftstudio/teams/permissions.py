"""Rights and roles as one table. A service calls `check_can` before anything else."""

from enum import StrEnum

from rftstudio.core.errors import NotAllowed, NotFound
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Role, Team


class Permission(StrEnum):
    VIEW = "view"
    LABEL = "label"
    DATASET_EDIT = "dataset_edit"
    GRADER_EDIT = "grader_edit"
    AGENT_EDIT = "agent_edit"
    EVALUATION_RUN = "evaluation_run"
    JOB_LAUNCH = "job_launch"
    KEY_MANAGE = "key_manage"
    TEAM_MANAGE = "team_manage"
    COST_VIEW = "cost_view"
    BUDGET_APPROVE = "budget_approve"


_EXPERT = {Permission.VIEW, Permission.LABEL}
_ENGINEER = _EXPERT | {
    Permission.DATASET_EDIT,
    Permission.GRADER_EDIT,
    Permission.AGENT_EDIT,
    Permission.EVALUATION_RUN,
    Permission.JOB_LAUNCH,
    Permission.COST_VIEW,
}

RIGHTS: dict[str, set[Permission]] = {
    Role.VIEWER: {Permission.VIEW},
    Role.EXPERT: _EXPERT,
    Role.ENGINEER: _ENGINEER,
    Role.OWNER: set(Permission),
}


def can(actor: Actor, permission: Permission) -> bool:
    return actor.is_system or permission in RIGHTS.get(actor.role, set())


def check_can(actor: Actor, permission: Permission, *, team: Team) -> None:
    """Raise NotFound for another team's row, NotAllowed for a missing right."""
    if actor.team.pk != team.pk:
        raise NotFound("There is nothing at this address.")
    if not can(actor, permission):
        who = ", ".join(role for role, rights in RIGHTS.items() if permission in rights)
        raise NotAllowed(
            f"Your role may not do this ({permission.replace('_', ' ')}).",
            fix=f"Ask a member with one of these roles: {who}.",
        )
