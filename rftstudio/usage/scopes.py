"""Whose money it is: the whole team's, a member's, a key's, one job's. Quotas and sums are kept under these names."""

from rftstudio.teams.models import ApiKey, User

TEAM = "team"


def of_member(user: User | int) -> str:
    return f"member:{user if isinstance(user, int) else user.pk}"


def of_key(api_key: ApiKey | int) -> str:
    return f"key:{api_key if isinstance(api_key, int) else api_key.pk}"


def of_job(source: str) -> str:
    return f"job:{source}"


def scopes_of(*, user_id: int | None, api_key_id: int | None) -> list[str]:
    """Every scope in which a spend by that person or key counts."""
    found = [TEAM]
    if user_id is not None:
        found.append(of_member(user_id))
    if api_key_id is not None:
        found.append(of_key(api_key_id))
    return found
