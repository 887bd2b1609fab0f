"""Actor: whoever acts now, with the team they act for. Every service takes one."""

from dataclasses import dataclass

from rftstudio.teams.models import ApiKey, Team, User


@dataclass(frozen=True)
class Actor:
    """A member or an API key acting for a team; `role` is empty for the system itself."""

    team: Team
    role: str = ""
    user: User | None = None
    api_key: ApiKey | None = None
    is_system: bool = False

    @property
    def name(self) -> str:
        if self.user:
            return str(self.user)
        return f"key {self.api_key.name}" if self.api_key else "RFT Studio"


def system_actor(team: Team) -> Actor:
    """Studio's own sweeps; may do everything inside that team."""
    return Actor(team=team, is_system=True)
