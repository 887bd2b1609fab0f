"""The filter menu of the rollout list: what it offers, and its fields read back as one tidy query string."""

from collections.abc import Iterable
from typing import Any

from django.http import QueryDict

from jobs.rollouts.filters import Filters, between_text, show_number
from jobs.rollouts.models import Rollout, RolloutBatch

#: Filters that the menu has fields for; the others of the present search go along with its form.
OFFERED = ("tool", "item", "source", "stop", "kind", "alike", "tokens", "sub_reward")
#: Fields of the form that together make one filter.
_ENDS = {"tokens": ("tokens_from", "tokens_to"), "sub_reward": ("part_from", "part_to")}
_PART = "part"


def menu(filters: Filters, query: QueryDict, tools: Iterable[str], shown: Iterable[Rollout]) -> dict[str, Any]:
    """What the fields hold now and what they suggest; parts are those of the rollouts on the page."""
    left_out = {*OFFERED, "after", "before", "peek"}
    tokens, part = filters.tokens or (None, None), filters.sub_reward
    ends = part.ends if part else (None, None)
    return {
        "kept": [(name, value) for name, value in query.items() if name not in left_out],
        "tools": list(tools),
        "parts": sorted({name for rollout in shown for name in rollout.sub_rewards or {}}),
        "stop_reasons": Rollout.StopReason.choices,
        "kinds": [(value, label.lower()) for value, label in RolloutBatch.Kind.choices],
        "alike": "" if filters.alike is None else "1" if filters.alike else "0",
        "tokens": [show_number(end) for end in tokens],
        "part": part.name if part else "",
        "part_ends": [show_number(end) for end in ends],
    }


def tidied(query: QueryDict) -> QueryDict | None:
    """The query that the menu's fields come to, without its empty ones; None when it came from elsewhere."""
    own = {_PART, *(name for names in _ENDS.values() for name in names)}
    if not own & query.keys():
        return None
    made = query.copy()
    low, high = (made.get(name, "").strip() for name in _ENDS["tokens"])
    if low or high:
        made["tokens"] = between_text(low, high)
    part = made.get(_PART, "").strip()
    low, high = (made.get(name, "").strip() for name in _ENDS["sub_reward"])
    if part or low or high:
        made["sub_reward"] = f"{part}:{between_text(low, high)}"
    for name in [name for name in made if name in own or not made[name].strip()]:
        del made[name]
    return made
