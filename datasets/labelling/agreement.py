"""Agreement between people: Krippendorff's alpha (nltk) and Cohen's kappa (scikit-learn), with 90 % intervals by bootstrap.
Portable. A number that the labels cannot carry is None, never 0 or 1. Both libraries are imported where they are used: every
process of Studio would else load scipy and pandas at its start, seconds and a hundred megabytes each."""

import random
import warnings
from collections import defaultdict
from collections.abc import Callable, Hashable
from itertools import combinations
from typing import Any

from datasets.labelling.schema import COMPARED, comparable

RESAMPLES = 200
MAX_ITEMS = 1000
Triples = list[tuple[str, Hashable, Hashable]]


def agreement(fields: list[dict[str, Any]], labels: list[tuple[str, Hashable, dict[str, Any]]]) -> list[dict[str, Any]]:
    """`(annotator, entry, values)` → per field: alpha with interval, kappa per pair, entries with two or more labels."""
    return [_field_agreement(field, labels) for field in fields if field["kind"] in COMPARED]


def _field_agreement(field: dict[str, Any], labels: list[tuple[str, Hashable, dict[str, Any]]]) -> dict[str, Any]:
    triples = [
        (who, entry, comparable(field, values[field["name"]]))
        for who, entry, values in labels
        if field["name"] in values
    ]
    alpha, low, high, entries = alpha_with_interval(triples, _distance(field["kind"]))
    pairs = _kappas(triples) if field["kind"] in ("choice", "text", "reference") else []
    return {
        "name": field["name"], "label": field["label"], "alpha": alpha, "low": low, "high": high, "entries": entries,
        "pairs": pairs,
    }  # fmt: skip


def _distance(kind: str) -> Callable[[Any, Any], float]:
    from nltk.metrics.distance import binary_distance, interval_distance, masi_distance

    return {"score": interval_distance, "tags": masi_distance}.get(kind, binary_distance)


def by_entry(triples: Triples) -> dict[Hashable, Triples]:
    """Only entries that two or more people labelled say anything about agreement."""
    groups: dict[Hashable, Triples] = defaultdict(list)
    for triple in triples:
        groups[triple[1]].append(triple)
    return {entry: group for entry, group in groups.items() if len(group) > 1}


def alpha_of(triples: Triples, distance: Callable[[Any, Any], float]) -> float | None:
    """Krippendorff's alpha; None when nothing varies, because then chance agreement is undefined."""
    if len({value for _, _, value in triples}) < 2:
        return None
    from nltk.metrics.agreement import AnnotationTask

    return float(AnnotationTask(triples, distance=distance).alpha())


def alpha_with_interval(
    triples: Triples, distance: Callable[[Any, Any], float] | None = None, seed: int = 0
) -> tuple[float | None, float | None, float | None, int]:
    """Alpha, the ends of its 90 % interval, and on how many entries it rests. Entries are resampled whole."""
    distance = distance or _distance("choice")
    groups = by_entry(triples)
    entries = list(groups)[:MAX_ITEMS]
    kept = [triple for entry in entries for triple in groups[entry]]
    alpha = alpha_of(kept, distance) if kept else None
    if alpha is None:
        return None, None, None, len(entries)
    draw = random.Random(seed)  # noqa: S311 a resample, not a secret
    estimates = []
    for _ in range(RESAMPLES if len(kept) < 1000 else RESAMPLES // 4):
        chosen = draw.choices(entries, k=len(entries))
        sample = [(who, number, value) for number, entry in enumerate(chosen) for who, _, value in groups[entry]]
        estimate = alpha_of(sample, distance)
        if estimate is not None:
            estimates.append(estimate)
    low, high = _interval(estimates)
    return round(alpha, 4), low, high, len(entries)


def _interval(estimates: list[float]) -> tuple[float | None, float | None]:
    if len(estimates) < 20:
        return None, None
    ordered = sorted(estimates)
    return round(ordered[int(0.05 * len(ordered))], 4), round(ordered[int(0.95 * len(ordered)) - 1], 4)


def _kappas(triples: Triples) -> list[dict[str, Any]]:
    answers: dict[str, dict[Hashable, Hashable]] = defaultdict(dict)
    for who, entry, value in triples:
        answers[who][entry] = value
    pairs = []
    for first, second in combinations(sorted(answers), 2):
        both = [entry for entry in answers[first] if entry in answers[second]]
        if len(both) < 2:
            continue
        one = [answers[first][entry] for entry in both]
        two = [answers[second][entry] for entry in both]
        low, high = _kappa_interval(one, two)
        same = sum(a == b for a, b in zip(one, two, strict=True)) / len(both)
        pairs.append(
            {"first": first, "second": second, "kappa": kappa_of(one, two), "low": low, "high": high,
             "entries": len(both), "same": round(same, 4)}
        )  # fmt: skip
    return pairs


def kappa_of(one: list[Any], two: list[Any]) -> float | None:
    """Cohen's kappa; None when both gave one and the same answer throughout."""
    if len({*one, *two}) < 2:
        return None
    from sklearn.metrics import cohen_kappa_score

    codes = {value: code for code, value in enumerate(dict.fromkeys([*one, *two]))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = cohen_kappa_score([codes[each] for each in one], [codes[each] for each in two])
    return None if value != value else round(float(value), 4)


def _kappa_interval(one: list[Any], two: list[Any], seed: int = 0) -> tuple[float | None, float | None]:
    draw, places, estimates = random.Random(seed), range(len(one)), []  # noqa: S311 a resample, not a secret
    for _ in range(RESAMPLES):
        chosen = draw.choices(places, k=len(one))
        estimate = kappa_of([one[place] for place in chosen], [two[place] for place in chosen])
        if estimate is not None:
            estimates.append(estimate)
    return _interval(estimates)
