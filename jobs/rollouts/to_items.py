"""Rollouts become items of a dataset: each question once, with an answer as its reference when one is wanted."""

from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from datasets.models import ChangeSet, Dataset
from datasets.repairs import items_add, trace_row
from datasets.row_checks import REFERENCE_NAMES, question_of
from datasets.services import dataset_create, dataset_draft
from jobs.rollouts.models import Rollout
from rftstudio.core.errors import NotFound, UserError
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission, check_can

MOST = 2_000
ANSWERS = {
    "": "Keep what the items have",
    "passed": "The best answer that passed",
    "best": "The best answer, passed or not",
}


@transaction.atomic
def rollouts_to_items(
    *, actor: Actor, rollouts: QuerySet[Rollout], dataset: Dataset | None = None, name: str = "", answers: str = ""
) -> ChangeSet:
    """Add an item for each question that the rollouts tried, to the dataset's draft or to a new dataset.

    `answers` says whose answer becomes the reference where the item has none: nobody's, that of the best rollout which
    passed, or that of the best. One change, which can be undone.
    """
    check_can(actor, Permission.DATASET_EDIT, team=actor.team)
    if answers not in ANSWERS:
        raise UserError("There is no such choice.", where="answers", fix=f"Use {', '.join(filter(None, ANSWERS))}.")
    if dataset is not None and dataset.team_id != actor.team.pk:
        raise NotFound("There is nothing at this address.")
    rows = items_of(rollouts.filter(team=actor.team), answers)
    if not rows:
        raise UserError("None of these rollouts begins with a question.", fix="Choose other rollouts.")
    dataset = dataset or dataset_create(actor=actor, name=name)
    version = dataset_draft(actor=actor, dataset=dataset)
    return items_add(actor=actor, version=version, rows=rows, title=f"Add {len(rows):,} items made from rollouts")


def items_of(rollouts: QuerySet[Rollout], answers: str = "") -> list[dict[str, Any]]:
    """The rows, in the order in which the questions were first tried; of the newest MOST rollouts."""
    newest = rollouts.select_related("item").order_by("-id")[:MOST]
    groups: dict[Any, list[Rollout]] = {}
    for rollout in reversed(newest):
        row = row_of(rollout)
        if row is not None:
            groups.setdefault(str(row["messages"]), []).append(rollout)
    return [_item(group, answers) for group in groups.values()]


def row_of(rollout: Rollout) -> dict[str, Any] | None:
    """The task as it was given: the item's row, or what precedes the first answer of a trace; None without a question."""
    if rollout.item is not None:
        value = rollout.item.data
        return value if value.get("messages") and question_of(value) else None
    try:
        return trace_row([message for message in rollout.extra.get("prompt") or [] if isinstance(message, dict)])
    except UserError:
        return None


def _item(group: list[Rollout], answers: str) -> dict[str, Any]:
    best = _best(group, answers)
    row = dict(row_of(best or group[0]) or {})
    if best and best.answer and not any(name in row for name in REFERENCE_NAMES):
        row["reference_answer"] = best.answer
    return row | {"from_rollout": (best or group[0]).public_id}


def _best(group: Iterable[Rollout], answers: str) -> Rollout | None:
    wanted = [r for r in group if r.answer and answers and (r.passed or answers == "best")]
    return max(wanted, key=lambda r: (r.reward is not None, r.reward or 0.0, -r.pk), default=None)
