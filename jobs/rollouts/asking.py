"""Asks people about rollouts: a label task whose entries are rollouts, drawn over the whole range of rewards."""

from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from datasets.labelling.services import task_add_subjects, task_create
from datasets.models import LabelTask
from jobs.rollouts.models import Rollout, RolloutBatch
from jobs.rollouts.regrade_selectors import gradable
from jobs.rollouts.sentences import ToolWords, step_sentence
from jobs.rollouts.to_items import row_of
from rftstudio.core.errors import NotFound, UserError
from rftstudio.teams.actor import Actor

MOST = 500
_ENDED = (Rollout.Status.DONE, Rollout.Status.FAILED)
_VERDICT = {
    "name": "verdict", "label": "Is the answer right?", "kind": "choice",
    "options": [{"value": value, "label": value, "key": key}
                for value, key in (("right", "r"), ("partly right", "t"), ("wrong", "w"))],
}  # fmt: skip
_WORTH = {"name": "worth", "label": "How good is the rollout?", "kind": "score", "low": 0, "high": 4}
_STEPS = {"name": "steps", "label": "Did each step bring the agent closer?", "kind": "steps", "required": False}
_BETTER = {
    "name": "better", "label": "Which is better?", "kind": "choice",
    "options": [{"value": value, "label": label, "key": key}
                for value, label, key in (("a", "A", "a"), ("b", "B", "b"), ("equal", "Equally good", "e"))],
}  # fmt: skip
_NOTE = {"name": "note", "label": "Why", "kind": "note", "required": False}
QUESTIONS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "verdict": ("Right, partly right or wrong", [_VERDICT, _NOTE]),
    "worth": ("A mark from 0 to 4", [_WORTH, _NOTE]),
    "steps": ("Right or wrong, and a mark on each step", [_VERDICT, _STEPS, _NOTE]),
    "better": ("Which of two is better (pairs of one item)", [_BETTER, _NOTE]),
}


@transaction.atomic
def rollouts_ask(
    *, actor: Actor, batches: Iterable[RolloutBatch] = (), among: QuerySet[Rollout] | None = None, count: int,
    question: str = "verdict", overlap: int = 1, name: str = "",
) -> LabelTask:  # fmt: skip
    """Queue `count` rollouts of the batches, or of those in `among`, for people, who see question, steps and answer and
    never the reward."""
    batches = list(batches)
    if any(batch.team_id != actor.team.pk for batch in batches):
        raise NotFound("There is nothing at this address.")
    if question not in QUESTIONS:
        raise UserError("There is no such question.", where="question", fix=f"Use {', '.join(QUESTIONS)}.")
    if not 1 <= count <= MOST:
        raise UserError(f"{count} rollouts are not possible.", where="count", fix=f"Choose 1 to {MOST}.")
    candidates = _graded(batches) if among is None else among.filter(team=actor.team)
    find = pairs_drawn if question == "better" else rollouts_drawn
    chosen = find(candidates, count)
    if not chosen:
        kind = "pairs of rollouts of one item with different answers" if question == "better" else "finished rollouts"
        raise UserError(f"There are no {kind} here.", where="source", fix="Choose others.")
    first = chosen[0] if isinstance(chosen[0], Rollout) else chosen[0][0]
    task = task_create(
        actor=actor, name=name or f"Rollouts of {first.batch.policy_label or 'a policy'}",
        fields=QUESTIONS[question][1], overlap=overlap,
    )  # fmt: skip
    task_add_subjects(actor=actor, task=task, subjects=[_subject(each) for each in chosen])
    return task


def _subject(chosen: Rollout | tuple[Rollout, Rollout]) -> dict[str, Any]:
    if isinstance(chosen, Rollout):
        return {"subject": chosen.public_id, "content": content_of(chosen)}
    sides = [content_of(rollout) for rollout in chosen]
    pair = [{"steps": side["steps"], "answer": side["answer"]} for side in sides]
    subject = "pair:" + ":".join(rollout.public_id for rollout in chosen)
    return {"subject": subject, "content": {"messages": sides[0]["messages"], "pair": pair}}


def _graded(batches: Iterable[RolloutBatch]) -> QuerySet[Rollout]:
    return gradable(batches).filter(reward__isnull=False)


def rollouts_drawn(rollouts: QuerySet[Rollout], count: int) -> list[Rollout]:
    """Evenly over the rewards, so that few of all alike are judged; in an order that tells nothing of the reward."""
    keys = list(rollouts.filter(status__in=_ENDED).order_by("reward", "pk").values_list("pk", flat=True))
    if len(keys) > count:
        keys = [keys[round((place + 0.5) * len(keys) / count - 0.5)] for place in range(count)]
    found = Rollout.objects.filter(pk__in=keys).select_related("item", "batch__agent_version")
    return list(found.prefetch_related("steps").order_by("trace_id"))


def pairs_drawn(rollouts: QuerySet[Rollout], count: int) -> list[tuple[Rollout, Rollout]]:
    """Two rollouts of a group that answered differently, the furthest apart in reward; which is A tells nothing of it."""
    ends: dict[tuple[int, str], list[tuple[int, str]]] = {}
    rows = rollouts.filter(status__in=_ENDED).exclude(answer="").order_by("reward", "pk")
    for pk, batch, key, answer in rows.values_list("pk", "batch_id", "group_key", "answer"):
        ends.setdefault((batch, key), []).append((pk, answer))
    keys = [(group[0][0], group[-1][0]) for group in ends.values() if group[0][1] != group[-1][1]][:count]
    found = Rollout.objects.select_related("item", "batch__agent_version").prefetch_related("steps")
    by_key = found.in_bulk([pk for pair in keys for pk in pair])
    pairs = [sorted((by_key[low], by_key[high]), key=lambda each: each.trace_id) for low, high in keys]
    return [(pair[0], pair[1]) for pair in pairs]


def content_of(rollout: Rollout) -> dict[str, Any]:
    """What people see of a rollout: what was asked, what was done, what was answered."""
    agent = rollout.batch.agent_version
    words = ToolWords.of(agent.tools if agent else [])
    task = row_of(rollout) or {}
    steps = sorted(rollout.steps.all(), key=lambda step: step.index)
    return {
        "messages": task.get("messages", []),
        "steps": [_step(step, words, is_last=step is steps[-1]) for step in steps],
        "answer": rollout.answer,
    }


def _step(step: Any, words: ToolWords, *, is_last: bool) -> dict[str, str]:
    said = step_sentence(step.text, step.tool_calls or [], words, is_last=is_last)
    results = "\n\n".join(str(call.get("result", ""))[:20_000] for call in step.tool_calls or [])
    return {"title": " · ".join(filter(None, [said.title, said.object])), "text": results}
