"""How far a method can be trusted, from the stored results of the repository's own bench. Never invented."""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jobs.attribution.judging import LEAST_PAIRS, Calibration

RESULTS = Path(__file__).with_name("bench_results.json")


@dataclass(frozen=True)
class Reliability:
    """Blocks out of four, a word, and the sentence that says what was measured."""

    blocks: int
    word: str
    sentence: str
    is_measured: bool = True


UNMEASURED = Reliability(
    0, "not measured yet", "How often it finds the deciding step has not been measured yet.", False
)


@lru_cache(maxsize=1)
def bench_results() -> dict[str, Any]:
    """The stored results; {} until the bench has run."""
    try:
        return json.loads(RESULTS.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


#: Methods whose worth is not a matter of the bench.
_KNOWN = {
    "rerun": Reliability(4, "measured on the spot", "Its intervals come from the continuations themselves."),
    "judge": Reliability(0, "not compared yet", "No judge has been compared with experts' marks here.", False),
    "information_gain": Reliability(
        0,
        "unknown",
        "It is read off the policy exactly; whether knowing more earned the reward is not measured.",
        False,
    ),
}


def judge_reliability(found: Calibration) -> Reliability:
    """From the steps that both the judge and experts have marked."""
    if not found.is_enough:
        words = f"{found.pairs} of its marks can be compared with experts' marks, {LEAST_PAIRS} are needed: mark steps with 1 2 3."
        return Reliability(0, "not compared yet", words, False)
    kappa = found.kappa or 0.0
    words = (
        f"On {found.pairs} steps that people marked it gave the same mark in {found.agreement:.0%} (kappa {kappa:.2f}); "
        f"always giving their most frequent one would in {found.chance:.0%}."
    )
    if found.agreement <= found.chance:
        return Reliability(1, "weak", f"{words} It adds nothing to that.")
    blocks, word = (
        (4, "high") if kappa >= 0.8 else (3, "good") if kappa >= 0.6 else (2, "fair") if kappa >= 0.4 else (1, "weak")
    )
    return Reliability(blocks, word, words)


def reliability_of(method: str, group_size: int) -> Reliability:
    """From the measured group size next to the one at hand."""
    if method in _KNOWN:
        return _KNOWN[method]
    by_size = bench_results().get("methods", {}).get(method, {}).get("by_group_size", {})
    if not by_size:
        return UNMEASURED
    size = min(by_size, key=lambda key: abs(int(key) - group_size))
    found = by_size[size]
    top, rival = found["top1"], found["best_rival_top1"]
    if method == "uniform":
        return Reliability(
            1, "none for single steps", "It gives every step the same, so it cannot find the deciding one."
        )
    words = (
        f"With {size} rollouts a group it finds the deciding step in {top:.0%} of cases with a known answer; "
        f"the best cheap guess (first, last, longest or failed step), in {rival:.0%}."
    )
    if top <= rival:
        return Reliability(1, "weak", f"{words} The guess is the better guide here.")
    gain = (top - rival) / max(1e-9, 1 - rival)
    blocks, word = (4, "high") if gain >= 0.6 else (3, "good") if gain >= 0.35 else (2, "fair")
    return Reliability(blocks, word, words)


def claim_rows(method: str) -> list[dict[str, Any]]:
    """One row a family at the size of the claims, with the best cheap rival beside it."""
    results = bench_results()
    rows = [row for row in results.get("rows", []) if row["group_size"] == results["claim_size"]]
    made = []
    for row in rows:
        if row["kind"] != "method" or row["method"] != method:
            continue
        rivals = [other for other in rows if other["kind"] == "rival" and other["family"] == row["family"]]
        best = max(rivals, key=lambda rival: rival["top1"])
        made.append(
            {
                "family": row["family"],
                "held_out": row["held_out"],
                "top1": row["top1"],
                "rival": best["top1"],
                "rival_name": best["method"].replace("_", " "),
                "beats": row["top1"] > best["top1"],
                "spearman": row["spearman"],
                "coverage": row["coverage"],
            }
        )
    return made
