"""Agreement against published values."""

import pytest

from datasets.labelling.agreement import agreement, alpha_of, alpha_with_interval, by_entry, kappa_of
from datasets.labelling.schema import disagreements, majority, options_of, schema_faults

# Krippendorff, "Computing Krippendorff's Alpha-Reliability": three observers, fifteen units with gaps.
OBSERVERS = (
    (None, None, None, None, None, 3, 4, 1, 2, 1, 1, 3, 3, None, 3),
    (1, None, 2, 1, 3, 3, 4, 3, None, None, None, None, None, None, None),
    (None, None, 2, 1, 3, 4, 4, None, 2, 1, 1, 3, 3, None, 4),
)
TRIPLES = [
    (f"o{who}", unit, value) for who, row in enumerate(OBSERVERS) for unit, value in enumerate(row) if value is not None
]


@pytest.mark.parametrize(("distance", "expected"), [("binary_distance", 0.691), ("interval_distance", 0.811)])
def test_alpha_equals_the_published_value(distance, expected):
    from nltk.metrics import distance as distances  # takes two seconds, which no collection should

    kept = [triple for group in by_entry(TRIPLES).values() for triple in group]
    assert alpha_of(kept, getattr(distances, distance)) == pytest.approx(expected, abs=5e-4)


def test_interval_holds_the_estimate_and_is_the_same_twice():
    alpha, low, high, entries = alpha_with_interval(TRIPLES)
    assert low <= alpha <= high
    assert entries == 12
    assert alpha_with_interval(TRIPLES) == (alpha, low, high, entries)


def test_alpha_without_variation_is_unknown():
    assert alpha_with_interval([("a", 1, "x"), ("b", 1, "x"), ("a", 2, "x"), ("b", 2, "x")])[0] is None
    assert alpha_with_interval([("a", 1, "x")])[0] is None


def test_kappa_equals_a_hand_computed_value():
    one = ["y"] * 25 + ["n"] * 25
    two = ["y"] * 20 + ["n"] * 5 + ["y"] * 10 + ["n"] * 15
    assert kappa_of(one, two) == pytest.approx(0.4)  # 0.7 observed, 0.5 by chance
    assert kappa_of(["y"], ["y"]) is None


def test_agreement_ignores_notes_and_orders_of_tags():
    fields = [{"name": "tags", "label": "Tags", "kind": "tags"}, {"name": "note", "label": "Note", "kind": "note"}]
    labels = [("a", 1, {"tags": ["x", "y"], "note": "1"}), ("b", 1, {"tags": ["y", "x"], "note": "2"}),
              ("a", 2, {"tags": ["z"]}), ("b", 2, {"tags": ["z"]})]  # fmt: skip
    assert [(row["name"], row["alpha"]) for row in agreement(fields, labels)] == [("tags", 1.0)]
    assert disagreements(fields, [labels[0][2], labels[1][2]]) == []


def test_majority_needs_more_than_half_and_means_scores():
    fields = [{"name": "c", "label": "c", "kind": "choice"}, {"name": "s", "label": "s", "kind": "score"}]
    assert majority(fields, [{"c": "x", "s": 1}, {"c": "x", "s": 2}, {"c": "y", "s": 3}]) == {"c": "x", "s": 2}
    assert majority(fields, [{"c": "x"}, {"c": "y"}]) == {}


def test_options_get_free_keys():
    assert [option["key"] for option in options_of("Yes\nPartly\nNo\nSkip it\nyes, but")] == ["y", "p", "n", "i", "e"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([], "no field"),
        ([{"name": "A b", "label": "x", "kind": "text"}], "no field name"),
        ([{"name": "a", "label": "x", "kind": "film"}], "no kind"),
        ([{"name": "a", "label": "x", "kind": "choice", "options": []}], "two choices"),
        ([{"name": "a", "label": "x", "kind": "score", "low": 3, "high": 3}], "no length"),
        ([{"name": "a", "label": "x", "kind": "text"}, {"name": "a", "label": "y", "kind": "text"}], "named a"),
    ],
)
def test_faulty_forms_are_named(fields, message):
    assert message in schema_faults(fields)[0].message
