"""A finished rollout on its way home: from the trainer's journal or an import into our tables. Portable."""

from dataclasses import dataclass, field
from typing import Any

from jobs.rollouts.engine.types import Trajectory, trajectory_from_dict


@dataclass
class RolloutRecord:
    """One graded rollout. Natural key within its batch: `item_key`, `sample_index`."""

    item_key: str
    sample_index: int
    trace_id: str
    trajectory: Trajectory
    grade: dict[str, Any] = field(default_factory=dict)  # graders.types.Grade.as_dict(); empty when ungraded
    advantage: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {
            "item_key": self.item_key,
            "sample_index": self.sample_index,
            "trace_id": self.trace_id,
            "trajectory": self.trajectory.as_dict(),
            "grade": self.grade,
            "advantage": self.advantage,
            "extra": self.extra,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "RolloutRecord":
        """The inverse of `as_dict`."""
        return cls(**{**data, "trajectory": trajectory_from_dict(data["trajectory"])})
