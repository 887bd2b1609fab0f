"""The bench's results as Markdown tables, for the terminal and for docs/attribution.md."""

from typing import Any


def tables(results: dict[str, Any]) -> str:
    """Claims at group size 8, the curve over group sizes, and the null tests."""
    return "\n\n".join([claims(results), curve(results), nulls(results)])


def _line(*cells: Any) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def claims(results: dict[str, Any]) -> str:
    """Every method at the claim size, family by family, with the best cheap rival."""
    size = results["claim_size"]
    lines = [
        _line(
            "family", "held out", "method", "top-1", "best rival", "Spearman", "best rival", "90 % covers", "supported"
        ),
        _line(*["---"] * 9),
    ]
    for row in results["rows"]:
        if row["group_size"] != size or row["kind"] != "method":
            continue
        rivals = [
            r for r in results["rows"]
            if r["kind"] == "rival" and r["family"] == row["family"] and r["group_size"] == size
        ]  # fmt: skip
        top, rank = max(rivals, key=lambda r: r["top1"]), max(rivals, key=lambda r: r["spearman"])
        lines.append(
            _line(
                row["family"], "yes" if row["held_out"] else "", row["method"], _share(row["top1"]),
                f"{_share(top['top1'])} ({top['method']})", _share(row["spearman"]),
                f"{_share(rank['spearman'])} ({rank['method']})", _share(row["coverage"]), _share(row["supported"]),
            )
        )  # fmt: skip
    return "\n".join(lines)


def curve(results: dict[str, Any]) -> str:
    """Means over all families against the group size."""
    lines = [
        _line("method", "group size", "top-1", "best rival", "Spearman", "90 % covers", "CPU s"),
        _line(*["---"] * 7),
    ]
    for method, found in results["methods"].items():
        for size, row in found["by_group_size"].items():
            lines.append(
                _line(
                    method, size, _share(row["top1"]), _share(row["best_rival_top1"]),
                    _share(row["spearman"]), _share(row["coverage"]), _share(row["seconds"]),
                )
            )  # fmt: skip
    return "\n".join(lines)


def nulls(results: dict[str, Any]) -> str:
    """Shares of rollouts with a confident step when there is nothing to find, and what a no-op gets."""
    lines = [
        _line(
            "family", "method", "confident", "shuffled", "shuffled in groups", "no-op against a step", "renamed tools"
        ),
        _line(*["---"] * 7),
    ]
    lines += [
        _line(
            row["family"], row["method"], _share(row["confident"]), _share(row["confident_when_shuffled"]),
            _share(row["confident_when_shuffled_in_groups"]), _share(row["no_op_share"]), row["rename_change"],
        )
        for row in results["nulls"]
    ]  # fmt: skip
    return "\n".join(lines)
