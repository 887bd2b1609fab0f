"""What the judges of a test cost: noted like any other use, and shown beside the result."""

from collections.abc import Iterable
from decimal import Decimal

from django.utils import timezone

from graders.types import Grade
from rftstudio.core.ids import new_id
from rftstudio.teams.models import Team
from rftstudio.usage.models import Category, Unit
from rftstudio.usage.services import Usage, usage_record_many


def judging_record(*, team: Team, grades: Iterable[Grade], source: str) -> Decimal | None:
    """Note the tokens of these grades; returns their dollars, None when nothing was used or a price is missing."""
    used: dict[tuple[str, str], int] = {}
    for grade in grades:
        for model, counts in grade.usage.items():
            for unit, key in ((Unit.INPUT_TOKEN, "prompt_tokens"), (Unit.OUTPUT_TOKEN, "completion_tokens")):
                used[unit, model] = used.get((unit, model), 0) + counts.get(key, 0)
    now, key = timezone.now(), new_id("gtest-")
    usages = [
        Usage(f"{key}:{model}:{unit}"[:150], unit, model, count, now, source, Category.JUDGE)
        for (unit, model), count in used.items()
        if count
    ]
    if not usages:
        return None
    dollars = usage_record_many(team=team, usages=usages).values()
    return sum(dollars, Decimal(0)) if None not in dollars else None
