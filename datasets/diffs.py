"""What differs between two versions: items added, removed, changed, moved between splits. Matched by key."""

from dataclasses import dataclass, field
from typing import Any

from datasets.formats.strict_json import dumps
from datasets.models import DatasetVersion, Item

SHOWN = 200


@dataclass(frozen=True)
class FieldChange:
    name: str
    before: str
    after: str


@dataclass
class VersionDiff:
    """Counts of everything; the first SHOWN of each kind as rows."""

    same: int = 0
    added: int = 0
    removed: int = 0
    changed: int = 0
    moved: int = 0
    added_items: list[dict[str, Any]] = field(default_factory=list)
    removed_items: list[dict[str, Any]] = field(default_factory=list)
    changed_items: list[dict[str, Any]] = field(default_factory=list)
    moved_items: list[dict[str, Any]] = field(default_factory=list)


def versions_diff(before: DatasetVersion, after: DatasetVersion) -> VersionDiff:
    """Walk both versions in key order side by side, so that neither has to fit in memory."""
    diff = VersionDiff()
    left, right = _keys(before), _keys(after)
    old, new = next(left, None), next(right, None)
    while old or new:
        if new is None or (old and old["key"] < new["key"]):
            diff.removed += 1
            _keep(diff.removed_items, old)
            old = next(left, None)
        elif old is None or new["key"] < old["key"]:
            diff.added += 1
            _keep(diff.added_items, new)
            new = next(right, None)
        else:
            _compare(diff, old, new)
            old, new = next(left, None), next(right, None)
    _fill_changes(diff, before, after)
    return diff


def _keys(version: DatasetVersion):
    rows = Item.objects.filter(version=version).values("key", "digest", "split", "title")
    return iter(sorted(rows.iterator(chunk_size=5000), key=lambda row: row["key"]))


def _keep(kept: list[dict[str, Any]], row: dict[str, Any]) -> None:
    if len(kept) < SHOWN:
        kept.append(row)


def _compare(diff: VersionDiff, old: dict[str, Any], new: dict[str, Any]) -> None:
    if old["digest"] != new["digest"]:
        diff.changed += 1
        _keep(diff.changed_items, new)
    elif old["split"] == new["split"]:
        diff.same += 1
    if old["split"] != new["split"]:
        diff.moved += 1
        _keep(diff.moved_items, new | {"split_before": old["split"]})


def _fill_changes(diff: VersionDiff, before: DatasetVersion, after: DatasetVersion) -> None:
    keys = [row["key"] for row in diff.changed_items]
    sides = [
        {item.key: item.data for item in Item.objects.filter(version=side, key__in=keys)} for side in (before, after)
    ]
    for row in diff.changed_items:
        row["fields"] = field_changes(sides[0][row["key"]], sides[1][row["key"]])


def field_changes(before: dict[str, Any], after: dict[str, Any]) -> list[FieldChange]:
    """The fields that differ, as text; a field that one side lacks reads as a dash."""
    names = [*before, *(name for name in after if name not in before)]
    return [
        FieldChange(name, _text(before, name), _text(after, name))
        for name in names
        if name not in before or name not in after or before[name] != after[name]
    ]


def _text(value: dict[str, Any], name: str) -> str:
    if name not in value:
        return "–"
    return value[name] if isinstance(value[name], str) else dumps(value[name])
