"""The same conversation twice, and the same conversation on two sides of a split. Near repeats are in near_repeats.py."""

from array import array
from collections import defaultdict
from typing import Any

import numpy as np

from datasets.models import DatasetVersion, Item, Split

SHOWN_GROUPS = 100
_SIDES = list(Split.values)
Questions = tuple[array, array]


def repeats_find(version: DatasetVersion, questions: Questions | None = None) -> dict[str, Any]:
    """`groups` of equal conversations (the first hundred), how many items repeat an earlier one, and how many leak.

    With the hashes at hand (`questions`) the items are not read for it.
    """
    values, item_sides = questions if questions is not None else _questions(version)
    values, item_sides = np.asarray(values, dtype=np.int64), np.asarray(item_sides, dtype=np.int8)
    values, item_sides = values[values != 0], item_sides[values != 0]
    hashes, starts, counts = np.unique(values, return_inverse=True, return_counts=True)
    repeated = hashes[counts > 1]
    sides = np.zeros(len(hashes), dtype=np.int8)
    np.bitwise_or.at(sides, starts, np.left_shift(1, item_sides).astype(np.int8))
    leaking = hashes[(sides & (sides - 1)) != 0]
    return {
        "count": int((counts[counts > 1] - 1).sum()),
        "leaks": len(leaking),
        "groups": _groups(version, [int(value) for value in repeated[:SHOWN_GROUPS]]),
        "leak_groups": _groups(version, [int(value) for value in leaking[:SHOWN_GROUPS]]),
    }


def _questions(version: DatasetVersion) -> Questions:
    hashes, sides = array("q"), array("b")
    rows = Item.objects.filter(version=version).order_by().values_list("question_hash", "split")
    for value, split in rows.iterator(chunk_size=5000):
        hashes.append(value)
        sides.append(_SIDES.index(split))
    return hashes, sides


def _groups(version: DatasetVersion, hashes: list[int]) -> list[list[dict[str, Any]]]:
    if not hashes:
        return []
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    items = Item.objects.filter(version=version, question_hash__in=hashes).order_by("position")
    for item in items.values("question_hash", "key", "line", "split", "position", "title")[: SHOWN_GROUPS * 10]:
        found[item.pop("question_hash")].append(item)
    return sorted(found.values(), key=lambda group: group[0]["position"])


def repeated_lines(found: dict[str, Any], first_position: int) -> dict[str, Any]:
    """The lines of a file whose conversation stands earlier in the version."""
    lines = [item["line"] for group in found["groups"] for item in group[1:] if item["position"] >= first_position]
    return {"lines": sorted(lines), "count": max(found["count"], len(lines)) if lines else 0}
