"""What the dataset pages show, gathered for the templates: keyset pages, groups of problems, figures."""

import re
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Min, OuterRef, Subquery

from datasets.item_search import items_found
from datasets.models import Dataset, DatasetVersion, Item, LineProblem, Split
from datasets.repairs import ITEM_FIXES, LINE_FIXES, fix_title
from datasets.row_checks import FAULTS
from datasets.row_stats import LENGTH_EDGES
from rftstudio.teams.models import Team

PAGE = 50
SHOWN_LINES = 12
COVERAGE_ROWS = 5_000
HINT_ROWS = 50
_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)*(e[+-]?[0-9]+)?", re.IGNORECASE)


@dataclass
class ItemPage:
    """One keyset page of items. Cursors are positions, or ids in a search, whose index is ordered by them."""

    items: list[Item]
    after: int | None = None
    before: int | None = None


def item_page(
    version: DatasetVersion, *, split: str = "", problem: str = "", search: str = "",
    after: int | None = None, before: int | None = None,
) -> ItemPage:  # fmt: skip
    """The items behind `after` or ahead of `before`, without counting them."""
    filters = {name: value for name, value in (("split", split), ("problem", problem)) if value}
    if search:
        ids = items_found(version, search, after=after, before=before, limit=PAGE + 1, **filters)
        rows = Item.objects.in_bulk(ids)
        found = [rows[pk] for pk in ids if pk in rows]
    else:
        items = Item.objects.filter(version=version, **filters)
        if before is not None:
            items = items.filter(position__lt=before).order_by("-position")
        else:
            items = items.filter(position__gt=-1 if after is None else after).order_by("position")
        found = list(items[: PAGE + 1])
    more, shown = len(found) > PAGE, found[:PAGE]
    place = "pk" if search else "position"
    if before is not None:
        shown.reverse()
        return ItemPage(shown, *(_ends(shown, place, True, more)))
    return ItemPage(shown, *_ends(shown, place, more, after is not None))


def _ends(items: list[Item], place: str, has_after: bool, has_before: bool) -> tuple[int | None, int | None]:
    """The cursors behind the last and ahead of the first item."""
    after = getattr(items[-1], place) if items and has_after else None
    return after, getattr(items[0], place) if items and has_before else None


@dataclass(frozen=True)
class ProblemKind:
    """All lines or items with one fault, with the words of its fix."""

    code: str
    message: str
    fix: str
    count: int
    lines: list[Any]
    fix_label: str
    is_line: bool
    state: str = "bad"
    sample: str = ""


def problem_kinds(version: DatasetVersion) -> list[ProblemKind]:
    """Lines that are not in, then items that cannot be trained on, grouped."""
    kinds = []
    open_lines = version.problems.filter(state=LineProblem.State.OPEN)
    for group in open_lines.order_by().values("code").annotate(count=Count("pk"), first=Min("line")).order_by("first"):
        lines = list(open_lines.filter(code=group["code"]).order_by("line")[:SHOWN_LINES])
        first, code = lines[0], group["code"]
        kinds.append(
            ProblemKind(
                code, first.message, first.fix, group["count"], lines,
                fix_title(code, group["count"]) if code in LINE_FIXES else "", True, sample=_around(first),
            )
        )  # fmt: skip
    items = Item.objects.filter(version=version).exclude(problem="")
    for group in (
        items.order_by().values("problem").annotate(count=Count("pk"), first=Min("position")).order_by("first")
    ):
        code = group["problem"]
        fault = FAULTS[code]
        shown = list(items.filter(problem=code).order_by("position")[:SHOWN_LINES])
        label = fix_title(code, group["count"]) if code in ITEM_FIXES else ""
        kinds.append(ProblemKind(code, fault.message, fault.fix, group["count"], shown, label, False))
    return kinds


def _around(problem: LineProblem) -> str:
    """The text around the fault."""
    start = max(0, problem.column - 60)
    piece = problem.text[start : problem.column + 60]
    return f"{'… ' if start else ''}{piece}{' …' if len(problem.text) > problem.column + 60 else ''}"


def dataset_rows(team: Team, *, before: int | None = None) -> tuple[list[Dataset], int | None]:
    """One page of datasets, each with its newest version; the cursor of the next page."""
    newest = DatasetVersion.objects.filter(dataset=OuterRef("pk")).order_by("-number").values("pk")[:1]
    rows = Dataset.objects.filter(team=team).annotate(newest_id=Subquery(newest)).order_by("-pk")
    if before is not None:
        rows = rows.filter(pk__lt=before)
    found = list(rows[: PAGE + 1])
    shown = found[:PAGE]
    versions = DatasetVersion.objects.in_bulk([dataset.newest_id for dataset in shown if dataset.newest_id])
    for dataset in shown:
        dataset.newest = versions.get(dataset.newest_id)
    return shown, (shown[-1].pk if len(found) > PAGE else None)


def length_bars(stats: dict[str, Any]) -> list[dict[str, float]]:
    """Bars of the length histogram, in the units of a 200 by 34 drawing."""
    counts = stats.get("lengths", {}).get("counts", [])
    top = max(counts, default=0)
    if not top:
        return []
    width = 200 / len(counts)
    return [
        {"x": round(number * width, 1), "y": round(33 - 31 * count / top, 1), "height": round(31 * count / top, 1),
         "width": round(width - 1.5, 1), "count": count, "edge": _edge(number)}
        for number, count in enumerate(counts)
    ]  # fmt: skip


def _edge(number: int) -> str:
    if number == len(LENGTH_EDGES):
        return f"over {LENGTH_EDGES[-1]:,}"
    return f"up to {LENGTH_EDGES[number]:,}"


def class_rows(stats: dict[str, Any], shown: int = 3) -> dict[str, Any]:
    """The most frequent references, when they repeat enough to be classes."""
    classes = stats.get("classes") or []
    if not classes or classes[0][1] < 2:
        return {}
    return {"rows": classes[:shown], "top": classes[0][1], "more": max(0, (stats.get("class_count") or 0) - shown)}


def split_coverage(version: DatasetVersion) -> dict[str, str]:
    """For fields that some rows lack: in how many rows of each split they are. Read from the rows, so small versions only."""
    rows = version.stats.get("rows", 0)
    partial = [name for name, kinds in version.stats.get("fields", {}).items() if sum(kinds.values()) < rows]
    if not partial or rows > COVERAGE_ROWS:
        return {}
    counts: dict[tuple[str, str], int] = {}
    sides: dict[str, int] = {}
    for item in Item.objects.filter(version=version).only("raw", "split").iterator(chunk_size=1000):
        sides[item.split] = sides.get(item.split, 0) + 1
        value = item.data
        for name in partial:
            if name in value:
                counts[name, item.split] = counts.get((name, item.split), 0) + 1
    shown = [side for side in Split.values if side in sides]
    return {
        name: ", ".join(f"{side} {counts.get((name, side), 0):,} of {sides[side]:,}" for side in shown)
        for name in partial
    }


def text_hints(version: DatasetVersion) -> dict[str, str]:
    """For texts that hold something else: a grader that compares numbers gets the text "7" and not the number. Judged by
    the first rows."""
    seen: dict[str, list[str]] = {}
    for item in Item.objects.filter(version=version).order_by("position").only("raw")[:HINT_ROWS]:
        for name, inner in item.data.items():
            if isinstance(inner, str) and inner.strip():
                seen.setdefault(name, []).append(inner.strip())
    hints = {}
    for name, texts in seen.items():
        if all(_NUMBER.fullmatch(text) for text in texts):
            hints[name] = "numbers written as text"
        elif all(text[0] in "[{" and text[-1] in "]}" for text in texts):
            hints[name] = "lists or objects written as text"
    return hints


def field_rows(
    stats: dict[str, Any], by_split: dict[str, str] | None = None, hints: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """Fields with their types in plain words and their coverage."""
    words = {"string": "text", "number": "number", "boolean": "yes or no", "null": "nothing", "array": "list",
             "object": "group of fields"}  # fmt: skip
    total = stats.get("rows", 0)
    return [
        {"name": name, "types": ", ".join(f"{words[kind]} {count:,}" for kind, count in sorted(kinds.items())),
         "present": sum(kinds.values()), "share": sum(kinds.values()) / total if total else 0,
         "by_split": (by_split or {}).get(name, ""), "hint": (hints or {}).get(name, ""), "is_mixed": len(kinds.keys() - {"null"}) > 1}
        for name, kinds in stats.get("fields", {}).items()
    ]  # fmt: skip
