"""What is told of an order before it is a job; at the launch these lines become the first events of the job."""

from typing import Any

from django.utils import timezone

from rftstudio.core.ids import new_id
from rftstudio.orders.models import JobOrder

#: The type by which such events are known among a job's own.
STORY = "story"


def story_add(order: JobOrder, message: str, *, level: str = "info", data: dict[str, Any] | None = None) -> None:
    """Add a line to the order in memory; whoever saves the order saves it."""
    line = {
        "id": new_id("ftevent-"), "at": timezone.now().timestamp(), "level": level, "message": message, "data": data,
    }  # fmt: skip
    order.story = [*order.story, line]
