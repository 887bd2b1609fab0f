"""Looks for questions of a version that are almost the same, and keeps what it finds with the version's statistics."""

from array import array
from itertools import islice
from typing import Any

from django.db import transaction
from django.utils import timezone

from datasets import near_repeats, tasks
from datasets.models import DatasetVersion, Item, Split
from datasets.row_checks import question_of
from rftstudio.core.queueing import queue
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission, check_can

FOUND_AT_ONCE = 2000
_READ_AT_ONCE, _TOLD_EVERY = 500, 10_000
_SIDES = list(Split.values)


def near_repeats_start(*, actor: Actor, version: DatasetVersion) -> None:
    """Look at once in a small version; in a large one a worker does, and tells how far it is."""
    check_can(actor, Permission.DATASET_EDIT, team=version.team)
    if version.item_count <= FOUND_AT_ONCE:
        near_repeats_find(version_id=version.pk)
        return
    _keep(version.pk, {"pairs": [], "looked_at": 0, "of": version.item_count, "is_looking": True})
    queue(tasks.near_repeats_find, version.pk, is_swept=False)


def near_repeats_find(*, version_id: int) -> None:
    """Safe to run twice. Needs some 300 bytes for each item and about four seconds for ten thousand of them."""
    version = DatasetVersion.objects.get(pk=version_id)
    total = min(version.item_count, near_repeats.MAX_ITEMS)
    signatures, ids, sides = near_repeats.Signatures(total), array("q"), array("b")
    items = Item.objects.filter(version=version).order_by("position").only("pk", "raw", "split")[:total]
    rows = items.iterator(chunk_size=1000)
    while batch := list(islice(rows, _READ_AT_ONCE)):
        signatures.add(question_of(item.data) for item in batch)
        ids.extend(item.pk for item in batch)
        sides.extend(_SIDES.index(item.split) for item in batch)
        if signatures.count < total and signatures.count % _TOLD_EVERY == 0:
            _keep(
                version_id, {"pairs": [], "looked_at": signatures.count, "of": version.item_count, "is_looking": True}
            )
    pairs = near_repeats.near_pairs(signatures, sides)
    leaks = [pair for pair in pairs if sides[pair.first] != sides[pair.second]]
    shown = sorted(leaks, key=_likest) + sorted(
        (pair for pair in pairs if sides[pair.first] == sides[pair.second]), key=_likest
    )
    _keep(
        version_id,
        {
            "pairs": _described(shown[: near_repeats.MAX_PAIRS], ids),
            "count": len(pairs),
            "leaks": len(leaks),
            "looked_at": signatures.count,
            "of": version.item_count,
            "at": timezone.now().isoformat(),
        },
    )


def _likest(pair: near_repeats.Pair) -> tuple[float, int]:
    return -pair.likeness, pair.first


def _described(pairs: list[near_repeats.Pair], ids: array) -> list[dict[str, Any]]:
    items = Item.objects.only("key", "title", "split", "position").in_bulk(
        list({ids[place] for pair in pairs for place in pair[:2]})
    )
    return [
        {
            "first": one.key, "second": two.key, "positions": [one.position, two.position], "title": one.title,
            "other_title": two.title, "likeness": pair.likeness, "leak": one.split != two.split,
        }
        for pair in pairs
        if (one := items.get(ids[pair.first])) and (two := items.get(ids[pair.second]))
    ]  # fmt: skip


def _keep(version_id: int, found: dict[str, Any]) -> None:
    with transaction.atomic():
        version = DatasetVersion.objects.select_for_update().get(pk=version_id)
        version.stats = version.stats | {"near": found}
        version.save(update_fields=["stats", "updated_at"])
