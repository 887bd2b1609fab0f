"""What an import found, as the page, the command and the REST door say it."""

from typing import Any

from datasets.models import FileImport, Item, LineProblem
from datasets.row_checks import FAULTS, NOTES
from datasets.row_stats import KEPT_LINES, Stats

LISTED_ONE_BY_ONE = 20


def report_make(file_import: FileImport, repeats: dict[str, Any]) -> dict[str, Any]:
    """Counts and the first lines of each kind; the lines themselves are in LineProblem and Item.problem."""
    stats = Stats(file_import.stats)
    kinds: dict[str, dict[str, Any]] = {}
    for code, line in file_import.problems.order_by("line").values_list("code", "line").iterator(chunk_size=2000):
        entry = kinds.setdefault(code, {"count": 0, "lines": []})
        entry["count"] += 1
        if len(entry["lines"]) < KEPT_LINES:
            entry["lines"].append(line)
    return {
        "rows": file_import.item_count,
        "skipped_blank": stats.blank,
        "refused_lines": kinds,
        "faults": {code: entry for code, entry in stats.faults.items() if code in FAULTS and code != "prompt_missing"},
        "warnings": _warnings(file_import, stats, repeats),
        "fields": stats.field_summary(),
        "content_hash": file_import.content_hash,
    }


def _warnings(file_import: FileImport, stats: Stats, repeats: dict[str, Any]) -> list[dict[str, Any]]:
    found = [
        {"code": code, "message": NOTES[code], "lines": entry["lines"], "count": entry["count"]}
        for code, entry in stats.warnings.items()
    ]
    for name, lines in stats.mixed_fields().items():
        kinds = ", ".join(sorted(stats.fields[name]))
        found.append(
            {"code": "mixed_types", "message": f"The field {name} has mixed types ({kinds}); each value keeps its own.",
             "lines": lines, "count": stats.rows}
        )  # fmt: skip
    found += [
        {"code": code, "message": NOTES[code], "lines": [], "count": 1} for code in file_import.facts.get("notes", [])
    ]
    if 0 < sum(stats.splits.values()) < stats.rows:
        found.append({"code": "split_incomplete", "message": NOTES["split_incomplete"], "lines": [], "count": 1})
    if repeats.get("lines"):
        found.append(
            {"code": "duplicate_question", "message": NOTES["duplicate_question"], "lines": repeats["lines"],
             "count": repeats["count"]}
        )  # fmt: skip
    return found


def report_full(file_import: FileImport) -> dict[str, Any]:
    """The report with every refused line, in the shape that `dataset_import --json` prints."""
    report = file_import.report
    return {
        "rows": file_import.item_count,
        "skipped_blank": report.get("skipped_blank", 0),
        "errors": [*map(_line_error, file_import.problems.order_by("line", "pk")), *_fault_errors(file_import)],
        "warnings": report.get("warnings", []),
        "fields": report.get("fields", {}),
        "version": file_import.version.public_id,
        "content_hash": file_import.content_hash,
    }


def _line_error(problem: LineProblem) -> dict[str, Any]:
    return {
        "line": problem.line, "column": problem.column, "code": problem.code, "message": problem.message,
        "fix": problem.fix,
    }  # fmt: skip


def _fault_errors(file_import: FileImport) -> list[dict[str, Any]]:
    """Rows that are in the draft but cannot be trained on: few are listed one by one, many are one summary."""
    errors: list[dict[str, Any]] = []
    for code, entry in file_import.report.get("faults", {}).items():
        fault, lines, count = FAULTS[code], entry["lines"], entry["count"]
        if count <= LISTED_ONE_BY_ONE and count < file_import.item_count:
            items = Item.objects.filter(
                version_id=file_import.version_id,
                position__gte=file_import.first_position,
                line__in=lines,
                problem=code,
            )
            errors += [
                {"line": item.line, "column": _column(item), "code": code, "message": fault.message, "fix": fault.fix}
                for item in items.order_by("position")
            ]
            continue
        errors.append(
            {"line": lines[0], "column": 1, "code": code, "fix": fault.fix, "lines": lines, "count": count,
             "message": f"{fault.message} So in {count:,} of {file_import.item_count:,} rows."}
        )  # fmt: skip
    return errors


def _column(item: Item) -> int:
    mark = '"role"' if item.problem.startswith("last_message") else '"messages"'
    return max(item.raw.rfind(mark), 0) + 1
