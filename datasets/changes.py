"""Changes of a draft's items, each kept so that it can be undone. Helpers for this room's services; no rights here."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Max

from datasets import hashing, repeats
from datasets.bulk import items_insert
from datasets.formats.eval_items import unwrap
from datasets.formats.strict_json import canonical_bytes, dumps, loads_showable, parse
from datasets.importing import made_key, own_key, taken_keys, title_of
from datasets.item_search import Entry, words_drop, words_insert
from datasets.models import ChangeSet, DatasetVersion, Item, ItemChange, Split
from datasets.row_checks import question_of, row_fault
from datasets.row_stats import Stats
from datasets.words import item_words
from rftstudio.teams.actor import Actor

CHUNK = 500


@dataclass(frozen=True)
class Content:
    """What is derived from an item's row."""

    raw: str
    digest: str
    question_hash: int
    title: str
    problem: str

    @classmethod
    def of(cls, value: dict[str, Any], raw: str = "") -> "Content":
        """Of a row's value, with its exact text when there is one."""
        digest = hashlib.sha256(canonical_bytes(value)).hexdigest()
        title = title_of(question_of(value))
        return cls(raw or dumps(value), digest, hashing.question_hash(value), title, row_fault(value))


def content_of_raw(raw: str) -> Content:
    value, text, _, _ = parse(raw.encode())
    return Content.of(unwrap(value), text)


def change_start(actor: Actor, version: DatasetVersion, verb: str, title: str) -> ChangeSet:
    return ChangeSet.objects.create(version=version, verb=verb, title=title[:200], made_by=actor.name[:200])


def items_rewrite(change: ChangeSet, pairs: Iterable[tuple[Item, dict[str, Any]]]) -> int:
    """Give items new rows, keeping the old text of each."""
    count, batch = 0, []
    for item, value in pairs:
        batch.append((item, item.raw, Content.of(value)))
        if len(batch) == CHUNK:
            count += _rewrite_batch(change, batch)
            batch = []
    return count + _rewrite_batch(change, batch)


def _rewrite_batch(change: ChangeSet, batch: list[tuple[Item, str, Content]]) -> int:
    ItemChange.objects.bulk_create(
        ItemChange(change=change, item=item, key=item.key, position=item.position, line=item.line, split=item.split,
                   raw_before=before, raw_after=content.raw)
        for item, before, content in batch
    )  # fmt: skip
    words_drop([_entry(item) for item, _, _ in batch])
    for item, _, content in batch:
        _put(item, content)
    Item.objects.bulk_update([item for item, _, _ in batch], CONTENT_FIELDS)
    words_insert([_entry(item) for item, _, _ in batch])
    return len(batch)


def _entry(item: Item) -> Entry:
    return item.pk, item.version_id, item_words(item.key, item.data)


CONTENT_FIELDS = ["raw", "digest", "question_hash", "title", "problem"]


def _put(item: Item, content: Content) -> None:
    for name in CONTENT_FIELDS:
        setattr(item, name, getattr(content, name))


def items_append(change: ChangeSet, rows: Iterable[tuple[dict[str, Any], int]], split: str = Split.TRAIN) -> list[Item]:
    """Add `(value, line)` rows at the end. An id that is taken gets a number behind it."""
    version = change.version
    last = Item.objects.filter(version=version).aggregate(last=Max("position"))["last"]
    position = 0 if last is None else last + 1
    made: list[str] = []
    tuples, changes, words = [], [], []
    for value, line in rows:
        content = Content.of(value)
        key = free_key(version.pk, own_key(value.get("id")) or made_key(position), made)
        made.append(key)
        side = value["split"] if value.get("split") in Split.values else split
        tuples.append((version.pk, position, line, key, content.title, side, content.raw, content.digest,
                       content.question_hash, content.problem))  # fmt: skip
        words.append(item_words(key, value))
        changes.append(
            ItemChange(change=change, key=key, position=position, line=line, split=side, raw_after=content.raw)
        )
        position += 1
    items_insert(tuples, words)
    found = {item.key: item for item in Item.objects.filter(version=version, position__gte=position - len(tuples))}
    for each in changes:
        each.item = found[each.key]
    ItemChange.objects.bulk_create(changes, batch_size=CHUNK)
    return [found[key] for key in made]


def free_key(version_id: int, key: str, made: list[str]) -> str:
    wanted, step = key, 1
    while wanted in made or taken_keys(version_id, [wanted]):
        step += 1
        wanted = f"{key[:190]}-{step}"
    return wanted


def items_remove(change: ChangeSet, items: list[Item]) -> int:
    """Take items out, keeping all that is needed to put them back."""
    ItemChange.objects.bulk_create(
        (ItemChange(change=change, key=item.key, position=item.position, line=item.line, split=item.split,
                    raw_before=item.raw) for item in items),
        batch_size=CHUNK,
    )  # fmt: skip
    items_delete(items)
    return len(items)


def items_delete(items: list[Item]) -> None:
    """Take items and their words away for good."""
    words_drop([_entry(item) for item in items])
    ids = [item.pk for item in items]
    for start in range(0, len(ids), 900):
        Item.objects.filter(pk__in=ids[start : start + 900]).delete()


def items_restore(change: ChangeSet) -> None:
    """Put every item of the change back as it was."""
    version = change.version
    for each in change.items.select_related("item").order_by("-pk").iterator(chunk_size=CHUNK):
        if not each.raw_before:
            items = list(Item.objects.filter(version=version, key=each.key))
            words_drop([_entry(item) for item in items])
            Item.objects.filter(pk__in=[item.pk for item in items]).delete()
        elif not each.raw_after:
            content = content_of_raw(each.raw_before)
            items_insert([(version.pk, each.position, each.line, each.key, content.title, each.split, content.raw,
                           content.digest, content.question_hash, content.problem)],
                         [item_words(each.key, unwrap(loads_showable(content.raw)))])  # fmt: skip
        else:
            item = Item.objects.get(version=version, key=each.key)
            words_drop([_entry(item)])
            _put(item, content_of_raw(each.raw_before))
            item.save(update_fields=CONTENT_FIELDS)
            words_insert([_entry(item)])


def recount(version: DatasetVersion) -> None:
    """Statistics, repeats and hash from the items as they are now. One pass in constant memory."""
    stats, digests = Stats(), hashing.EMPTY
    for item in Item.objects.filter(version=version).order_by("position").iterator(chunk_size=1000):
        value = item.data
        stats.add(value, question_of(value), item.line)
        digests = hashing.chain(digests, (item.digest,))
    version.item_count = stats.rows
    version.content_hash = digests
    version.stats = stats.summary() | {"repeats": repeats.repeats_find(version)}
    version.save(update_fields=["item_count", "content_hash", "stats", "updated_at"])
