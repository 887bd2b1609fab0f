"""What judges read and wrote, as usage to book: one wording for evaluations, training and gateways."""

from datetime import datetime
from typing import Any

from rftstudio.usage.models import Category, Unit
from rftstudio.usage.services import Usage


def judge_usages(
    key: str, used_by_model: dict[str, dict[str, Any]], *, at: datetime, batch_source: str, note: str = ""
) -> list[Usage]:
    """Usage of one grade by model; `key` names the grade, so that booking it twice counts once."""
    found = []
    for model, used in used_by_model.items():
        named = f"{key}:grade:{model}"[:150]
        ways = (
            ("in", Unit.INPUT_TOKEN, used.get("prompt_tokens", used.get("input_tokens", 0))),
            ("out", Unit.OUTPUT_TOKEN, used.get("completion_tokens", used.get("output_tokens", 0))),
        )
        found += [
            Usage(
                f"{named}:{way}", unit, model, int(tokens), at, batch_source, Category.JUDGE, note.format(model=model)
            )
            for way, unit, tokens in ways
            if isinstance(tokens, int | float) and tokens > 0
        ]
    return found
