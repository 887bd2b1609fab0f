"""Statistics gathered while rows pass, in constant memory, and kept as JSON between batches. Portable."""

from bisect import bisect_left
from collections import Counter
from typing import Any

from datasets.formats.strict_json import showable
from datasets.row_checks import question_of, reference_of

TYPE_NAMES = {
    str: "string", int: "number", float: "number", bool: "boolean", type(None): "null", list: "array", dict: "object",
}  # fmt: skip
MAX_FIELDS = 500
OTHER_FIELDS = "(other fields)"
KEPT_LINES = 100
MAX_CLASSES = 200
LENGTH_EDGES = (50, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600)


class Stats:
    """Counts per field, lengths of questions, classes of the reference, warnings with their first lines."""

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        state = state or {}
        self.rows: int = state.get("rows", 0)
        self.blank: int = state.get("blank", 0)
        self.fields: dict[str, dict[str, int]] = state.get("fields", {})
        self.first_lines: dict[str, dict[str, int]] = state.get("first_lines", {})
        self.lengths: list[int] = state.get("lengths", [0] * (len(LENGTH_EDGES) + 1))
        self.length_sum: int = state.get("length_sum", 0)
        self.length_min: int | None = state.get("length_min")
        self.length_max: int = state.get("length_max", 0)
        self.classes: Counter[str] = Counter(state.get("classes", {}))
        self.classes_open: bool = state.get("classes_open", True)
        self.warnings: dict[str, dict[str, Any]] = state.get("warnings", {})
        self.faults: dict[str, dict[str, Any]] = state.get("faults", {})
        self.splits: Counter[str] = Counter(state.get("splits", {}))
        self._shapes: dict[tuple, list[int]] = {}

    def as_json(self) -> dict[str, Any]:
        self.unfold()
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def unfold(self) -> None:
        """Move what was counted by shape to the fields."""
        for shape, (count, line) in self._shapes.items():
            middle = len(shape) // 2
            for name, kind in zip(shape[:middle], shape[middle:], strict=True) if count else ():
                self._count_kind(name, TYPE_NAMES[kind], count, line)
        self._shapes.clear()

    def add(self, value: dict[str, Any], question: str, line: int = 0) -> None:
        """Count one row. Rows of one shape (same keys, same types) are counted together and unfolded in `as_json`."""
        self.rows += 1
        shape = (*value, *map(type, value.values()))
        seen = self._shapes.get(shape)
        if seen is None:
            self._shapes[shape] = [1, line]
        else:
            seen[0] += 1
        length = len(question)
        self.length_sum += length
        if length > self.length_max:
            self.length_max = length
        if self.length_min is None or length < self.length_min:
            self.length_min = length
        self.lengths[bisect_left(LENGTH_EDGES, length)] += 1
        if self.classes_open:
            self._count_class(reference_of(value))

    def take_back(self, value: dict[str, Any], question: str, problem: str, split: str = "") -> None:
        """Uncount a row that was refused after all; the extremes of length stay as they are."""
        self.rows -= 1
        shape = (*value, *map(type, value.values()))
        if shape in self._shapes:
            self._shapes[shape][0] -= 1
        self.length_sum -= len(question)
        self.lengths[bisect_left(LENGTH_EDGES, len(question))] -= 1
        name = str(showable(reference_of(value)))
        if self.classes.get(name):
            self.classes[name] -= 1
        if split in self.splits:
            self.splits[split] -= 1
        if problem in self.faults:
            self.faults[problem]["count"] -= 1

    def _count_kind(self, name: str, kind: str, count: int, line: int) -> None:
        name = showable(name)[:200]
        if name not in self.fields and len(self.fields) >= MAX_FIELDS:
            name = OTHER_FIELDS
        counts = self.fields.setdefault(name, {})
        counts[kind] = counts.get(kind, 0) + count
        self.first_lines.setdefault(name, {}).setdefault(kind, line)

    def _count_class(self, reference: Any) -> None:
        if reference is None or type(reference) in (list, dict):
            return
        name = showable(reference) if type(reference) is str else str(reference)
        if len(name) > 80:
            self.classes_open = False
        self.classes[name] += 1
        if len(self.classes) > MAX_CLASSES:
            self.classes_open = False
        if not self.classes_open:
            self.classes.clear()

    def note(self, code: str, line: int) -> None:
        _count_line(self.warnings, code, line)

    def fault(self, code: str, line: int) -> None:
        _count_line(self.faults, code, line)

    def field_summary(self) -> dict[str, dict[str, Any]]:
        """`{name: {"types": [...], "present": n}}`, as the report shows it."""
        self.unfold()
        return {
            name: {"types": sorted(counts), "present": sum(counts.values())} for name, counts in self.fields.items()
        }

    def mixed_fields(self) -> dict[str, list[int]]:
        """Fields whose values that are not null have more than one type, with the line where each type begins."""
        self.unfold()
        return {
            name: sorted(line for kind, line in self.first_lines.get(name, {}).items() if kind != "null")
            for name, counts in self.fields.items()
            if len(counts.keys() - {"null"}) > 1 and name != OTHER_FIELDS
        }

    def summary(self) -> dict[str, Any]:
        """What a version keeps of it for its page."""
        self.unfold()
        return {
            "rows": self.rows,
            "fields": {name: dict(counts) for name, counts in self.fields.items()},
            "lengths": {
                "edges": list(LENGTH_EDGES), "counts": self.lengths, "min": self.length_min or 0,
                "max": self.length_max, "mean": round(self.length_sum / self.rows, 1) if self.rows else 0,
            },
            "classes": self.classes.most_common(50) if self.classes_open and len(self.classes) < self.rows else [],
            "class_count": len(self.classes) if self.classes_open else None,
        }  # fmt: skip

    def merge(self, other: "Stats") -> "Stats":
        """Add another file's counts to these."""
        self.unfold()
        other.unfold()
        for name in ("rows", "blank", "length_sum"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name, counts in other.fields.items():
            mine = self.fields.setdefault(name, {})
            for kind, count in counts.items():
                mine[kind] = mine.get(kind, 0) + count
                self.first_lines.setdefault(name, {}).setdefault(kind, other.first_lines.get(name, {}).get(kind, 0))
        self.lengths = [mine + theirs for mine, theirs in zip(self.lengths, other.lengths, strict=True)]
        known = [length for length in (self.length_min, other.length_min) if length is not None]
        self.length_min = min(known) if known else None
        self.length_max = max(self.length_max, other.length_max)
        self.classes.update(other.classes)
        self.splits.update(other.splits)
        self.classes_open = self.classes_open and other.classes_open and len(self.classes) <= MAX_CLASSES
        return self


def _count_line(kept: dict[str, dict[str, Any]], code: str, line: int) -> None:
    entry = kept.setdefault(code, {"count": 0, "lines": []})
    entry["count"] += 1
    if len(entry["lines"]) < KEPT_LINES:
        entry["lines"].append(line)


def stats_of(values: Any) -> Stats:
    """Statistics of rows already at hand: after an edit, for instance."""
    stats = Stats()
    for value in values:
        stats.add(value, question_of(value))
    return stats
