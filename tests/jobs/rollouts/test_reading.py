"""Sentences, alignment, weights, and exports: plain values in and out."""

import json

import pytest

from jobs.rollouts import exports
from jobs.rollouts.alignment import align
from jobs.rollouts.models import Rollout
from jobs.rollouts.reading import reward_range
from jobs.rollouts.sentences import ToolWords, call_sentence, step_sentence
from jobs.rollouts.weights import weights_of
from tests.factories.rollouts import RolloutBatchFactory, customs_group

WORDS = ToolWords.of(
    [{"name": "read_ruling", "sentence": "Read a ruling · {id}", "icon": "book"}, {"name": "x"}, "odd"]
)


@pytest.mark.parametrize(
    "name, arguments, title, thing",
    [
        ("read_ruling", '{"id": "C-155/12"}', "Read a ruling", "C-155/12"),
        ("functions.read_ruling", "{}", "Read a ruling", "…"),
        ("read_ruling", "{broken", "Read ruling", "{broken"),
        ("look_up", '{"good": "pears", "n": 2}', "Look up", "pears, 2"),
        ("calc", '{"a": 1970670598291982290}', "Calc", "1970670598291982290"),
        ("calc", "[1, 2]", "Calc", "[1, 2]"),
        ("", "", "Called a tool without a name", ""),
    ],
)
def test_call_sentence(name, arguments, title, thing):
    found = call_sentence(name, arguments, WORDS)
    assert (found.title, found.object) == (title, thing)


def test_step_sentence_joins_parallel_calls():
    calls = [{"name": "look", "arguments": '{"q": "a"}'}, {"name": "look", "arguments": '{"q": "b"}'}]
    assert step_sentence("", calls, WORDS, is_last=False).title == "Look, 2 times at once"
    assert (
        step_sentence("", [calls[0], {"name": "add", "arguments": ""}], WORDS, is_last=False).title == "2 calls at once"
    )
    assert step_sentence("so it is", [], WORDS, is_last=True).title == "Answered"
    assert step_sentence("hm", [], WORDS, is_last=False).title == "Wrote"


def kinds(mine, theirs):
    return [(side.kind, side.step) for side in align(mine, theirs)]


def test_align_marks_the_first_parting_and_meets_again():
    sides = align(list("abxcd"), list("abcd"))
    assert [(s.kind, s.step) for s in sides] == [("same", 0), ("same", 1), ("none", None), ("same", 2), ("same", 3)]
    assert [s.parts_here for s in sides] == [False, False, True, False, False]


def test_align_pairs_what_differs_and_keeps_what_only_the_other_did():
    assert kinds(list("abz"), list("ab")) == [("same", 0), ("same", 1), ("none", None)]
    assert kinds(list("ax"), list("ay")) == [("same", 0), ("different", 1)]
    sides = align(list("ab"), list("acdb"))
    assert [step for side in sides for step in [side.step, *side.extra] if step is not None] == [0, 1, 2, 3]
    assert [s.extra for s in align(list("a"), list("abc"))] == [[1, 2]]
    assert align([], list("a")) == []


def test_align_of_very_long_rollouts_pairs_by_place():
    mine = [str(n) for n in range(900)]
    theirs = mine[:500] + ["x"] + mine[501:]
    sides = align(mine, theirs)
    assert sides[500].parts_here
    assert sides[501].kind == "same"


@pytest.mark.parametrize(
    "formula, weights",
    [
        ("0.6 * a + 0.3*b + b * 0.1", {"a": 0.6, "b": 0.4}),
        ("(a + b) / 2", {"a": 0.5, "b": 0.5}),
        ("a - 0.5 * b", {"a": 1.0, "b": -0.5}),
        ("a * b", {}),
        ("max(a, b)", {}),
        ("a + 0.1", {}),
        ("a + c", {}),
        ("a +", {}),
        ("a / 0", {}),
    ],
)
def test_weights_of_a_formula(formula, weights):
    config = {"type": "multi", "graders": {"a": {}, "b": {}}, "calculate_output": formula}
    assert weights_of(config) == pytest.approx(weights)


def test_reward_range_is_the_graders_own_and_holds_all_rewards():
    assert reward_range({}, [0.2, None]) == (0, 1)
    assert reward_range({"range": [0, 5]}, [2.0]) == (0, 5)
    assert reward_range({}, [-1.0, 3.0]) == (-1, 3)
    assert reward_range({"range": "x"}, []) == (0, 1)


@pytest.mark.django_db
def test_exports_keep_numbers_and_disarm_formulas(team):
    batch = RolloutBatchFactory(team=team)
    rollout = customs_group(batch)[0]
    Rollout.objects.filter(pk=rollout.pk).update(answer='=HYPERLINK("x")', reward=-1, title="+1")
    text = b"".join(exports.write_csv(Rollout.objects.all())).decode()
    assert ",-1.0," in text
    assert '"\'=HYPERLINK(""x"")"' in text
    assert ",'+1," in text
    lines = b"".join(exports.write_jsonl(Rollout.objects.all())).splitlines()
    assert json.loads(lines[-1])["answer"] == '=HYPERLINK("x")'
    assert len(lines) == 8
