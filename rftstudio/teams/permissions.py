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


#: What a key may be narrowed to. It never manages members or other keys, nor approves money.
KEY_RIGHTS = tuple(
    right
    for right in Permission
    if right not in {Permission.KEY_MANAGE, Permission.TEAM_MANAGE, Permission.BUDGET_APPROVE}
)


def is_within(role: str, other: str) -> bool:
    """Whether a role has no right that the other lacks."""
    return RIGHTS[role] <= RIGHTS[other]


def can(actor: Actor, permission: Permission) -> bool:
    if actor.is_system:
        return True
    if actor.api_key is not None:
        scopes = actor.api_key.scopes
        if permission not in KEY_RIGHTS or (scopes and permission not in scopes):
            return False
    return permission in RIGHTS.get(actor.role, set())


def check_can(actor: Actor, permission: Permission, *, team: Team) -> None:
    """Raise NotFound for another team's row, NotAllowed for a missing right."""
    if actor.team.pk != team.pk:
        raise NotFound("There is nothing at this address.")
    if not can(actor, permission):
        if actor.api_key is not None and permission in RIGHTS.get(actor.role, set()):
            raise NotAllowed(
                f"This key may not do this ({permission.replace('_', ' ')}).",
                fix="Use a key that was not narrowed, or ask an owner of the team.",
            )
        who = ", ".join(role for role, rights in RIGHTS.items() if permission in rights)
        raise NotAllowed(
            f"Your role may not do this ({permission.replace('_', ' ')}).",
            fix=f"Ask a member with one of these roles: {who}.",
        )
