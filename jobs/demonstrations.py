"""What a supervised job learns from: good rollouts of the train split, or the answers that its items hold.

A choice is plain data, kept on the job: `{"from": "rollouts", "of": "evalrun_…", "least_reward": 0.8, "most_per_item": 2}` or
`{"from": "references", "field": "reference_answer"}`. Only train items are ever used: to learn from what is measured
later would flatter the measure.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.db.models import Count, QuerySet

from datasets.models import Item, Split
from jobs.evaluations.models import Evaluation
from jobs.models import Job
from jobs.rollouts.engine.messages import told_messages
from jobs.rollouts.models import Rollout
from jobs.rollouts.selectors import stored_trajectory
from rftstudio.core.errors import UserError

ROLLOUTS, REFERENCES = "rollouts", "references"
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
    if kind == REFERENCES:
        field = str(wanted.get("field") or "")
        if not field or field in _NOT_ANSWERS:
            raise UserError(
                "A supervised job needs the field that holds the answer.", where="demonstrations.field",
                fix="Name one of the items' own fields.",
            )  # fmt: skip
        return {"from": REFERENCES, "field": field}
    if kind != ROLLOUTS:
        raise UserError(
            "A supervised job learns from demonstrations, and none are chosen.", where="demonstrations",
            fix='Choose good rollouts on the train split ("rollouts"), or a field with answers ("references").',
        )  # fmt: skip
    least, most = wanted.get("least_reward"), wanted.get("most_per_item", 2)
    least = baseline.grader_version.pass_threshold if least is None else least
    if isinstance(least, bool) or not isinstance(least, int | float):
        raise UserError("The least reward must be a number.", where="demonstrations.least_reward")
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_PER_ITEM:
        raise UserError(
            f"{most!r} demonstrations of one item are not possible.", where="demonstrations.most_per_item",
            fix=f"Choose 1 to {MOST_PER_ITEM}.",
        )  # fmt: skip
    return {"from": ROLLOUTS, "of": str(wanted.get("of") or ""), "least_reward": float(least), "most_per_item": most}


def good_rollouts(baseline: Evaluation) -> QuerySet[Rollout]:
    """Finished rollouts on the train items of the baseline's dataset version."""
    return Rollout.objects.filter(
        team=baseline.team, status=Rollout.Status.DONE, reward__isnull=False,
        item__version=baseline.dataset_version, item__split=Split.TRAIN,
    )  # fmt: skip


def count(baseline: Evaluation, choice: dict[str, Any]) -> int:
    """How many demonstrations the choice comes to. Rollouts are counted by item, so nothing is read whole."""
    if choice["from"] == REFERENCES:
        items = Item.objects.filter(version=baseline.dataset_version, split=Split.TRAIN)
        return sum(_answer(item.data.get(choice["field"])) is not None for item in items.iterator(chunk_size=1000))
    found = good_rollouts(baseline).filter(batch__source=choice["of"], reward__gte=choice["least_reward"])
    each = found.values("group_key").annotate(n=Count("id")).values_list("n", flat=True)
    return sum(min(n, choice["most_per_item"]) for n in each.order_by())


def check_enough(baseline: Evaluation, choice: dict[str, Any]) -> int:
    """The count, or UserError in the words of whoever has to mend it."""
    found = count(baseline, choice)
    if found:
        return found
    if choice["from"] == REFERENCES:
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
    if choice["from"] == REFERENCES:
        items = Item.objects.filter(version=baseline.dataset_version, split=Split.TRAIN).order_by("position")
        for item in items.iterator(chunk_size=1000):
            answer = _answer(item.data.get(choice["field"]))
            if answer is not None:
                yield {"key": item.key, "item": item.data, "turns": [{"role": "assistant", "content": answer}]}
        return
    found = good_rollouts(baseline).filter(batch__source=choice["of"], reward__gte=choice["least_reward"])
    ranked = found.select_related("item").order_by("item__position", "-reward", "n_tool_calls", "id")
    for _, group in groupby(ranked.iterator(chunk_size=500), key=lambda rollout: rollout.item_id):
        for place, rollout in enumerate(group):
            if place < choice["most_per_item"]:
                turns = told_messages(stored_trajectory(rollout).steps)
                yield {"key": rollout.item.key, "item": rollout.item.data, "turns": turns}


def _answer(value: Any) -> str | None:
    """A field as the model should write it; None where there is nothing to say."""
    if value is None or value == "" or value == [] or value == {}:
        return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def sources(baseline: Evaluation) -> list[Source]:
    """What this baseline's team could choose: rollouts that pass, then fields of the train items."""
    passing = good_rollouts(baseline).filter(reward__gte=baseline.grader_version.pass_threshold)
    counts = dict(passing.values_list("batch__source").annotate(n=Count("id")).order_by("-n")[:20])
    names = {
        one.public_id: f"Evaluation {one.number}, {one.policy_label}"
        for one in Evaluation.objects.filter(team=baseline.team, public_id__in=counts)
    } | {one.public_id: f"Job {one.number}" for one in Job.objects.filter(team=baseline.team, public_id__in=counts)}
    found = [
        Source(f"{ROLLOUTS}:{key}", f"Good rollouts of {names[key]}", n) for key, n in counts.items() if key in names
    ]
    return found + [Source(f"{REFERENCES}:{name}", f"Answers in {name}") for name in _fields(baseline)]


def _fields(baseline: Evaluation) -> list[str]:
    """Fields of the first train items that could hold an answer, likely names first."""
    items = Item.objects.filter(version=baseline.dataset_version, split=Split.TRAIN).order_by("position")
    seen: set[str] = set()
    for item in items[:_LOOKED_AT]:
        for name, value in item.data.items():
            if name not in _NOT_ANSWERS and not isinstance(value, dict) and _answer(value) is not None:
                seen.add(name)
    order = {name: place for place, name in enumerate(_LIKELY)}
    return sorted(seen, key=lambda name: (order.get(name, len(order)), name))
