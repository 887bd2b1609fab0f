"""The whole attribution bench: every method on every family and group size, null tests, cost, and the verdicts."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from multiprocessing import get_context
from statistics import fmean
from typing import Any

from jobs.attribution.bench import measure
from jobs.attribution.bench.families import FAMILIES
from jobs.attribution.bench.held_out import HELD_OUT
from jobs.attribution.bench.worlds import Truth, groups
from jobs.attribution.methods.registry import STORED_GROUP, compute_each

GROUP_SIZES = (2, 4, 8, 16)
#: The size at which the claims are made.
CLAIM_SIZE = 8
ROLLOUTS = 512
SEED = 1
#: Methods that must beat every cheap rival.
CLAIMING = ("divergence", "prefix_value")


def run(
    *, rollouts: int = ROLLOUTS, seed: int = SEED, processes: int = 2, say: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """Everything the bench knows, as JSON values."""
    start = time.perf_counter()
    cells = [(family, is_held_out) for is_held_out, group in ((False, FAMILIES), (True, HELD_OUT)) for family in group]
    rows, nulls = [], []
    with ProcessPoolExecutor(max_workers=processes, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(_family, family, held, rollouts, seed) for family, held in cells]
        for (family, _), future in zip(cells, waiting, strict=True):
            more_rows, more_nulls = future.result()
            rows += more_rows
            nulls += more_nulls
            say(f"{family.__name__} is measured")
    return {
        "rollouts_per_cell": rollouts,
        "seed": seed,
        "group_sizes": list(GROUP_SIZES),
        "claim_size": CLAIM_SIZE,
        "rows": rows,
        "nulls": nulls,
        "methods": _summary(rows),
        "claims": _claims(rows, nulls),
        "seconds": round(time.perf_counter() - start, 1),
    }


def _family(
    family: Callable, is_held_out: bool, rollouts: int, seed: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """All group sizes of one family; runs in a process of its own."""
    rows, nulls = [], []
    for size in GROUP_SIZES:
        truths = groups(family, n_groups=rollouts // size, size=size, seed=seed)
        rows += _rows(family.__name__, is_held_out, size, truths)
        if size == CLAIM_SIZE:
            nulls += _nulls(family.__name__, is_held_out, truths, seed)
    return rows, nulls


def _rows(family: str, is_held_out: bool, size: int, truths: Sequence[Truth]) -> list[dict[str, Any]]:
    place = {"family": family, "held_out": is_held_out, "group_size": size}
    made = [
        {**place, "method": name, "kind": "rival", **_rounded(quality)}
        for name, quality in measure.judge_rivals(truths).items()
    ]
    for method in STORED_GROUP:
        given = _with_step_rewards(truths) if method == "returns_to_go" else truths
        quality, _ = measure.judge_method(method, given)
        made.append({**place, "method": method, "kind": "method", **_rounded(quality)})
    return made


def _with_step_rewards(truths: Sequence[Truth]) -> list[Truth]:
    """A grader that pays a rough part of what was gained on the way: half of each step's true advantage."""
    return [
        Truth(
            replace(
                truth.rollout,
                steps=[
                    replace(step, step_reward=round(0.5 * value, 2))
                    for step, value in zip(truth.rollout.steps, truth.advantage, strict=True)
                ],
            ),
            truth.advantage,
            truth.luck,
        )
        for truth in truths
    ]


def _nulls(family: str, is_held_out: bool, truths: Sequence[Truth], seed: int) -> list[dict[str, Any]]:
    made = []
    for method in STORED_GROUP:
        if method == "returns_to_go":
            continue
        mixed = compute_each(method, measure.shuffled(truths, seed))
        within = compute_each(method, measure.shuffled_in_groups(truths, seed))
        made.append(
            {
                "family": family,
                "held_out": is_held_out,
                "method": method,
                "confident_when_shuffled": round(measure.confident_share(mixed), 4),
                "confident_when_shuffled_in_groups": round(measure.confident_share(within), 4),
                "confident": round(measure.confident_share(compute_each(method, [t.rollout for t in truths])), 4),
                "no_op_share": round(measure.no_op_share(method, truths), 4),
                "rename_change": float(f"{measure.rename_change(method, truths):.2e}"),
            }
        )
    return made


def _rounded(quality: measure.Quality) -> dict[str, Any]:
    return {key: None if value is None else round(value, 4) for key, value in asdict(quality).items()}


def _mean(rows: list[dict[str, Any]], key: str) -> float | None:
    values = [row[key] for row in rows if row[key] is not None]
    return round(fmean(values), 4) if values else None


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Per method and group size, means over all families, beside each family's best rival: what the page shows."""
    methods: dict[str, Any] = {}
    for method in STORED_GROUP:
        by_size = {}
        for size in GROUP_SIZES:
            mine = [
                row for row in rows if row["method"] == method and row["group_size"] == size and row["kind"] == "method"
            ]
            rivals: dict[str, list[dict[str, Any]]] = {}  # by family: the best is another one in each
            for row in rows:
                if row["kind"] == "rival" and row["group_size"] == size:
                    rivals.setdefault(row["family"], []).append(row)
            by_size[str(size)] = {
                "top1": _mean(mine, "top1"),
                "spearman": _mean(mine, "spearman"),
                "coverage": _mean(mine, "coverage"),
                "supported": _mean(mine, "supported"),
                "seconds": _mean(mine, "seconds"),
                "best_rival_top1": round(fmean(max(r["top1"] for r in found) for found in rivals.values()), 4),
                "best_rival_spearman": round(fmean(max(r["spearman"] for r in found) for found in rivals.values()), 4),
            }
        methods[method] = {"by_group_size": by_size}
    return methods


def _claims(rows: list[dict[str, Any]], nulls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each claim at the claim size, family by family, held or not."""
    claims = []
    for row in rows:
        if row["group_size"] != CLAIM_SIZE or row["method"] not in CLAIMING or row["kind"] != "method":
            continue
        rivals = [
            r for r in rows
            if r["kind"] == "rival" and r["family"] == row["family"] and r["group_size"] == CLAIM_SIZE
        ]  # fmt: skip
        null = next(n for n in nulls if n["family"] == row["family"] and n["method"] == row["method"])
        top, rank = max(r["top1"] for r in rivals), max(r["spearman"] for r in rivals)
        confident = max(null["confident_when_shuffled"], null["confident_when_shuffled_in_groups"])
        claims.append(
            {
                "method": row["method"],
                "family": row["family"],
                "held_out": row["held_out"],
                "beats_rivals_top1": row["top1"] > top,
                "beats_rivals_spearman": row["spearman"] > rank,
                "covers": row["coverage"] is None or 0.80 <= row["coverage"] <= 0.97,
                "calm_when_shuffled": confident <= 0.10,
                "top1": row["top1"],
                "best_rival_top1": top,
                "spearman": row["spearman"],
                "best_rival_spearman": rank,
                "coverage": row["coverage"],
                "confident_when_shuffled": confident,
            }
        )
    return claims
