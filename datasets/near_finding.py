"""Looks for questions of a version that are almost the same, and keeps what it finds with the version's statistics."""

from array import array
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

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
_LEASE = timedelta(minutes=10)  # a worker tells every few seconds how far it is; without a word for so long it has died


class NearState(NamedTuple):
    """The last result, how far a look at work is, and whether one began and never came to its end."""

    found: dict[str, Any] | None
    looking: dict[str, Any] | None
    is_stopped: bool


def near_state(version: DatasetVersion) -> NearState:
    kept = version.stats.get("near") or {}
    looking = kept.get("looking")
    is_live = looking is not None and datetime.fromisoformat(looking["until"]) > timezone.now()
    return NearState(kept if "at" in kept else None, looking if is_live else None, bool(looking) and not is_live)


def near_repeats_start(*, actor: Actor, version: DatasetVersion) -> None:
    """Look at once in a small version; in a large one a worker does, and tells how far it is."""
    check_can(actor, Permission.DATASET_EDIT, team=version.team)
    if version.item_count <= FOUND_AT_ONCE:
        near_repeats_find(version_id=version.pk)
        return
    if near_state(version).looking:
        return
    _tell(version, 0, _LEASE)
    # Too long for a request: without a broker the look counts as stopped, and a person may begin it again.
    queue(tasks.near_repeats_find, version.pk, instead=lambda: _tell(version, 0, timedelta(0)))


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
            _tell(version, signatures.count, _LEASE)
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


def _tell(version: DatasetVersion, looked_at: int, lease: timedelta) -> None:
    """How far the look is, beside the result of the one before."""
    until = (timezone.now() + lease).isoformat()
    _keep(version.pk, {"looking": {"looked_at": looked_at, "of": version.item_count, "until": until}}, is_beside=True)


def _keep(version_id: int, near: dict[str, Any], *, is_beside: bool = False) -> None:
    with transaction.atomic():
        version = DatasetVersion.objects.select_for_update().get(pk=version_id)
        before = (version.stats.get("near") or {}) if is_beside else {}
        version.stats = version.stats | {"near": before | near}
        version.save(update_fields=["stats", "updated_at"])
