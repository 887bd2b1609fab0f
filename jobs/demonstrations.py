"""What a supervised job learns from: good rollouts of the train split, or what its items hold: answers, or whole turns.

A choice is plain data, kept on the job: `{"from": "rollouts", "of": "evalrun_…", "least_reward": 0.8, "most_per_item": 2}`,
`{"from": "references", "field": "reference_answer"}` or `{"from": "turns", "field": "demonstration"}`. Only train items are ever used: to learn from what is measured
later would flatter the measure.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.db.models import Count, QuerySet

from datasets.models import Item, Split
from graders.types import SLACK
from jobs.evaluations.models import Evaluation
from jobs.models import Job
from jobs.rollouts.cleaning import finite
from jobs.rollouts.engine.messages import told_messages
from jobs.rollouts.models import Rollout
from jobs.rollouts.selectors import stored_trajectory
from rftstudio.core.errors import UserError

ROLLOUTS, REFERENCES, TURNS = "rollouts", "references", "turns"
#: Where the REST door puts the turns that follow an item's own messages.
TURNS_FIELD = "demonstration"
MOST_PER_ITEM = 8
#: Fields that hold no answer, whatever they are filled with.
_NOT_ANSWERS = {"messages", "tools", "parallel_tool_calls", "split", "id", "key"}
#: Names under which an answer is usually found; they are offered first.
_LIKELY = ("reference_answer", "reference", "answer", "label", "expected", "target", "solution", "output")
_LOOKED_AT = 50


@dataclass(frozen=True)
class Source:
    """One choice that a form offers."""

    key: str
    title: str
    count: int | None = None


def choice_read(wanted: Any, *, baseline: Evaluation) -> dict[str, Any]:
    """The choice, checked and filled; UserError naming what is wrong with it."""
    wanted = wanted if isinstance(wanted, dict) else {}
    kind = wanted.get("from")
    if kind in (REFERENCES, TURNS):
        field = str(wanted.get("field") or "")
        if not field or field in _NOT_ANSWERS:
            raise UserError(
                "A supervised job needs the field that holds the answer.", where="demonstrations.field",
                fix="Name one of the items' own fields.",
            )  # fmt: skip
        return {"from": kind, "field": field}
    if kind != ROLLOUTS:
        raise UserError(
            "A supervised job learns from demonstrations, and none are chosen.", where="demonstrations",
            fix='Choose good rollouts on the train split ("rollouts"), or a field with answers ("references").',
        )  # fmt: skip
    least, most = wanted.get("least_reward"), wanted.get("most_per_item", 2)
    least = baseline.grader_version.pass_threshold if least is None else least
    if finite(least) is None:
        raise UserError("The least reward must be a number.", where="demonstrations.least_reward")
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_PER_ITEM:
        raise UserError(
            f"{most!r} demonstrations of one item are not possible.", where="demonstrations.most_per_item",
            fix=f"Choose 1 to {MOST_PER_ITEM}.",
        )  # fmt: skip
    return {"from": ROLLOUTS, "of": str(wanted.get("of") or ""), "least_reward": float(least), "most_per_item": most}


def good_rollouts(baseline: Evaluation, least_reward: float) -> QuerySet[Rollout]:
    """Finished rollouts on the train items of the baseline's dataset version that reach a reward."""
    return Rollout.objects.filter(
        team=baseline.team, status=Rollout.Status.DONE, reward__gte=least_reward - SLACK,
        item__version=baseline.dataset_version, item__split=Split.TRAIN,
    )  # fmt: skip


def count(baseline: Evaluation, choice: dict[str, Any]) -> int:
    """How many demonstrations the choice comes to. Rollouts are counted by item, so nothing is read whole."""
    if choice["from"] != ROLLOUTS:
        items = Item.objects.filter(version=baseline.dataset_version, split=Split.TRAIN)
        return sum(bool(_held(item, choice)) for item in items.iterator(chunk_size=1000))
    found = good_rollouts(baseline, choice["least_reward"]).filter(batch__source=choice["of"])
    each = found.values("group_key").annotate(n=Count("id")).values_list("n", flat=True)
    return sum(min(n, choice["most_per_item"]) for n in each.order_by())


def check_enough(baseline: Evaluation, choice: dict[str, Any]) -> int:
    """The count, or UserError in the words of whoever has to mend it."""
    found = count(baseline, choice)
    if found:
        return found
    if choice["from"] == TURNS:
        raise UserError(
            f"No train item has turns in {choice['field']} that could follow its messages: the first must be the assistant's.",
            where="demonstrations.field", fix="Choose another field, or let its turns begin with an answer.",
        )  # fmt: skip
    if choice["from"] != ROLLOUTS:
        raise UserError(
            f"No train item has an answer in {choice['field']}.", where="demonstrations.field",
            fix="Choose another field, or label the items first.",
        )  # fmt: skip
    raise UserError(
        f"No rollout on a train item reaches {choice['least_reward']:g}; those of the other splits are kept for measuring.",
        where="demonstrations.of",
        fix="Evaluate a better model or prompt on the train split, or lower the least reward.",
    )


def rows(job: Job) -> Iterator[dict[str, Any]]:
    """`{"key", "item", "turns"}` for each demonstration, in the items' order, best rollouts first."""
    baseline, choice = job.baseline, job.demonstrations
    if choice["from"] != ROLLOUTS:
        items = Item.objects.filter(version=baseline.dataset_version, split=Split.TRAIN).order_by("position")
        for item in items.iterator(chunk_size=1000):
            if turns := _held(item, choice):
                yield {"key": item.key, "item": item.data, "turns": turns}
        return
    found = good_rollouts(baseline, choice["least_reward"]).filter(batch__source=choice["of"])
    ranked = found.select_related("item").order_by("item__position", "-reward", "n_tool_calls", "id")
    for _, group in groupby(ranked.iterator(chunk_size=500), key=lambda rollout: rollout.item_id):
        for place, rollout in enumerate(group):
            if place < choice["most_per_item"]:
                turns = told_messages(stored_trajectory(rollout).steps)
                yield {"key": rollout.item.key, "item": rollout.item.data, "turns": turns}


def _held(item: Item, choice: dict[str, Any]) -> list[dict[str, Any]]:
    """The turns that an item holds; none where there is nothing to learn."""
    value = item.data.get(choice["field"])
    if choice["from"] == TURNS:
        return value if _are_turns(value) and _can_follow(value) else []
    answer = _answer(value)
    return [] if answer is None else [{"role": "assistant", "content": answer}]


def _are_turns(value: Any) -> bool:
    """Whether a field holds part of a conversation."""
    return isinstance(value, list) and bool(value) and all(isinstance(turn, dict) and "role" in turn for turn in value)


def _can_follow(turns: list[dict[str, Any]]) -> bool:
    """Whether turns could follow an item's messages: the policy speaks first, and that is what is learnt."""
    return turns[0]["role"] == "assistant"


def _answer(value: Any) -> str | None:
    """A field as the model should write it; None where there is nothing to say."""
    if value is None or value == "" or value == [] or value == {}:
        return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def sources(baseline: Evaluation) -> list[Source]:
    """What this baseline's team could choose: rollouts that pass, then fields of the train items."""
    passing = good_rollouts(baseline, baseline.grader_version.pass_threshold)
    counts = dict(passing.values_list("batch__source").annotate(n=Count("id")).order_by("-n")[:20])
    names = {
        one.public_id: f"Evaluation {one.number}, {one.policy_label}"
        for one in Evaluation.objects.filter(team=baseline.team, public_id__in=counts)
    } | {one.public_id: f"Job {one.number}" for one in Job.objects.filter(team=baseline.team, public_id__in=counts)}
    found = [
        Source(f"{ROLLOUTS}:{key}", f"Good rollouts of {names[key]}", n) for key, n in counts.items() if key in names
    ]
    answers, turns = _fields(baseline)
    found += [Source(f"{TURNS}:{name}", f"Turns in {name}") for name in turns]
    return found + [Source(f"{REFERENCES}:{name}", f"Answers in {name}") for name in answers]


def _fields(baseline: Evaluation) -> tuple[list[str], list[str]]:
    """Fields of the first train items that could hold an answer, likely names first; and those that hold turns."""
    items = Item.objects.filter(version=baseline.dataset_version, split=Split.TRAIN).order_by("position")
    seen: set[str] = set()
    turns: set[str] = set()
    for item in items[:_LOOKED_AT]:
        for name, value in item.data.items():
            if _are_turns(value):
                if name != "messages" and _can_follow(value):
                    turns.add(name)
            elif name not in _NOT_ANSWERS and not isinstance(value, dict) and _answer(value) is not None:
                seen.add(name)
    order = {name: place for place, name in enumerate(_LIKELY)}
    return sorted(seen - turns, key=lambda name: (order.get(name, len(order)), name)), sorted(turns)
