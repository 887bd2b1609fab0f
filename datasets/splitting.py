"""Deals groups of items to the sides of a split, by share and seed. Portable."""

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Iterable


def assign_splits(
    items: Iterable[tuple[Hashable, str]], shares: dict[str, float], seed: int
) -> dict[str, list[Hashable]]:
    """`(id, group)` pairs → ids per side. A group is never cut; the order of the items does not matter."""
    groups: dict[str, list[Hashable]] = defaultdict(list)
    for item, group in items:
        groups[group].append(item)
    total = sum(map(len, groups.values()))
    wanted = {side: share * total for side, share in shares.items() if share > 0}
    sides: dict[str, list[Hashable]] = {side: [] for side in shares}
    # Large groups first: a small one can still even out what a large one left.
    ordered = sorted(groups, key=lambda group: (-len(groups[group]), _rank(group, seed)))
    for group in ordered:
        side = max(wanted, key=lambda name: wanted[name] - len(sides[name]))
        sides[side] += groups[group]
    return sides


def _rank(group: str, seed: int) -> bytes:
    return hashlib.blake2b(f"{seed}:{group}".encode(), digest_size=8).digest()
