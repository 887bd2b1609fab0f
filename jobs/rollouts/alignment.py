"""Two rollouts of one item side by side: where they part, and which step of one stands beside which of the other."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher


@dataclass
class Beside:
    """What stands beside one step: a step of the sibling, or nothing and why."""

    kind: str  # "same", "different" or "none"
    step: int | None = None  # 0-based index in the sibling
    parts_here: bool = False
    extra: list[int] = field(default_factory=list)  # steps that only the sibling took, after this one


#: Above this many steps only the common start is matched; the rest is paired by index.
_MATCH_LIMIT = 400


def align(mine: Sequence[str], theirs: Sequence[str]) -> list[Beside]:
    """One entry for each of my steps. Keys are equal when the steps are the same action."""
    common = 0
    while common < min(len(mine), len(theirs)) and mine[common] == theirs[common]:
        common += 1
    sides = [Beside("same", index) for index in range(common)]
    rest, only_theirs = _after(mine[common:], theirs[common:], common)
    if sides and only_theirs:
        sides[-1].extra = only_theirs
    elif rest:
        rest[0].extra = only_theirs + rest[0].extra
    sides += rest
    if common < len(mine):
        sides[common].parts_here = True
    elif common < len(theirs) and sides:
        sides[-1].extra = sorted({*sides[-1].extra, *range(common, len(theirs))})
    return sides


def _after(mine: Sequence[str], theirs: Sequence[str], start: int) -> tuple[list[Beside], list[int]]:
    """Pairs behind the common start, and what the sibling did before the first of them."""
    if len(mine) > _MATCH_LIMIT or len(theirs) > _MATCH_LIMIT:
        return [_pair(mine, theirs, index, start) for index in range(len(mine))], []
    sides: list[Beside] = []
    waiting: list[int] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes():
        if tag == "equal":
            sides += [Beside("same", start + j) for j in range(j1, j2)]
            continue
        paired = min(i2 - i1, j2 - j1)
        sides += [Beside("different", start + j1 + k) for k in range(paired)]
        sides += [Beside("none") for _ in range(i2 - i1 - paired)]
        left = [start + j for j in range(j1 + paired, j2)]
        if sides and left:
            sides[-1].extra += left
        else:
            waiting += left
    return sides, waiting


def _pair(mine: Sequence[str], theirs: Sequence[str], index: int, start: int) -> Beside:
    if index >= len(theirs):
        return Beside("none")
    return Beside("same" if mine[index] == theirs[index] else "different", start + index)


def common_start(mine: Sequence[str], theirs: Sequence[str]) -> int:
    """How many first steps are the same."""
    count = 0
    for one, other in zip(mine, theirs, strict=False):
        if one != other:
            break
        count += 1
    return count
