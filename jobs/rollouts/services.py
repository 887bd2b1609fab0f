"""Writes of rollouts: order them, run them, bring finished ones home, cancel, repair."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from django.db import transaction

from datasets.models import DatasetVersion, Item
from graders.models import GraderVersion
from jobs.agents.models import AgentVersion, ModelEndpoint
from jobs.rollouts import claims, selectors, tasks
from jobs.rollouts.bulk import insert
from jobs.rollouts.cleaning import clean, clean_json, finite
from jobs.rollouts.engine.record import RolloutRecord
from jobs.rollouts.gateway import (  # noqa: F401 - the doors above use them
    gateway_addresses,
    gateway_close,
    gateway_open,
    traces_give_up,
)
from jobs.rollouts.judge_costs import judge_usages  # noqa: F401 - jobs books its judges alike
from jobs.rollouts.masking import Mask
from jobs.rollouts.models import Rollout, RolloutBatch
from jobs.rollouts.storing import body_digest
from jobs.rollouts.writing import finished_values, masked, steps_insert, team_mask
from rftstudio.core import queueing
from rftstudio.core.errors import Conflict, UserError
from rftstudio.core.ids import new_id
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission, check_can

WAKE_EXPIRES = 30  # seconds: a sweep's message that waited longer has been overtaken by the next sweep's
CHUNK = 500


@transaction.atomic
def batch_create(
    *,
    actor: Actor,
    kind: str,
    source: str,
    items: Iterable[Item] = (),
    samples_per_item: int = 1,
    agent_version: AgentVersion | None,
    grader_version: GraderVersion | None,
    model: ModelEndpoint | None,
    policy_label: str = "",
    pass_threshold: float = 0.5,
    train_step: int | None = None,
    queue: bool = True,
    dataset_version: DatasetVersion | None = None,
    seed: int = 0,
) -> RolloutBatch:
    """Order items × samples rollouts and wake a worker.

    With `queue` False nothing is run here: the batch waits for records from a trainer (`batch_record`), which name
    items of `dataset_version`. A train step's batch is made once; asked for again it is found.
    """
    check_can(actor, Permission.EVALUATION_RUN, team=actor.team)
    for row in (agent_version, grader_version, model, dataset_version):
        if row is not None:
            check_can(actor, Permission.EVALUATION_RUN, team=row.team)
    if queue and (agent_version is None or model is None):
        raise UserError("Rollouts to be run here need an agent version and a model.")
    items = list(items)
    if dataset_version is None and items:
        dataset_version = items[0].version
    natural = {"source": source, "kind": kind, "train_step": train_step}
    if source and train_step is not None and (found := RolloutBatch.objects.filter(**natural).first()):
        return found
    batch = RolloutBatch.objects.create(
        team=actor.team,
        created_by=actor.user,
        **natural,
        dataset_version=dataset_version,
        agent_version=agent_version,
        grader_version=grader_version,
        model=model,
        policy_label=policy_label,
        pass_threshold=pass_threshold,
        seed=seed,
    )
    if queue:
        Rollout.objects.bulk_create(
            (_queued(batch, item, index) for item in items for index in range(samples_per_item)), batch_size=CHUNK
        )
        queueing.queue(tasks.rollouts_run, batch.pk)
    return batch


def _queued(batch: RolloutBatch, item: Item, sample_index: int) -> Rollout:
    return Rollout(
        team_id=batch.team_id,
        batch=batch,
        item=item,
        group_key=item.key,
        sample_index=sample_index,
        trace_id=new_id("trace_"),
        title=item.title,
    )


def rollouts_run(*, batch_id: int, limit: int = 64) -> int:
    """Run queued rollouts of a batch, at most `limit` at once; returns how many were stored.

    Safe to call twice and at the same time: a lease decides who runs which row, and what was stored stays.
    """
    from jobs.rollouts.running import run_turn

    batch = (
        RolloutBatch.objects.select_related("team", "agent_version", "grader_version", "model")
        .filter(pk=batch_id)
        .first()
    )
    if batch is None or batch.agent_version is None or batch.model is None:
        return 0
    if batch.is_cancelled:
        claims.cancel_queued([batch])
        return 0
    if not Rollout.objects.filter(batch=batch, status=Rollout.Status.QUEUED).exists():
        return 0
    return run_turn(
        batch, limit=min(limit, batch.concurrency), go_on=lambda: queueing.queue(tasks.rollouts_run, batch.pk)
    )


@transaction.atomic
def batch_cancel(*, batch: RolloutBatch) -> int:
    """Cancel what is queued and have running rollouts stopped; returns how many were queued. What ended stays."""
    RolloutBatch.objects.filter(pk=batch.pk).update(is_cancelled=True)
    batch.is_cancelled = True
    return claims.cancel_queued([batch])


def rollouts_sweep() -> int:
    """Free rollouts of dead workers and wake workers for batches that wait; returns how many were freed."""
    freed = claims.free_expired()
    claims.cancel_queued(RolloutBatch.objects.filter(is_cancelled=True))
    traces_give_up()
    for batch in selectors.batches_waiting():
        tasks.rollouts_run.apply_async((batch.pk,), expires=WAKE_EXPIRES)
    return freed


def batch_record(
    *,
    batch: RolloutBatch,
    records: Iterable[RolloutRecord],
    replace: bool = False,
    items: Mapping[str, Item] | None = None,
) -> int:
    """Bring finished rollouts home; returns how many were new or replaced.

    Natural key: item key and sample index. The same body again changes nothing; another body is a Conflict, unless
    `replace`, as after a trainer's restart that ran a train step again. All or nothing within each 500.
    """
    stored = 0
    arriving = iter(records)
    while chunk := list(islice(arriving, CHUNK)):
        stored += _record_chunk(batch, chunk, replace, items)
    return stored


@transaction.atomic
def _record_chunk(
    batch: RolloutBatch, records: list[RolloutRecord], replace: bool, items: Mapping[str, Item] | None
) -> int:
    fresh = _fresh(batch, records, replace)
    found = items if items is not None else _items_of(batch, fresh)
    mask = team_mask(batch.team_id)
    rows, kept = [], []
    for record, digest in fresh:
        item = found.get(record.item_key)
        record = record if mask is None else _masked(record, mask)
        rows.append(_recorded(batch, record, digest, item, mask))
        kept.append(record)
    traces = [row["trace_id"] for row in rows]
    _refuse_taken_traces(traces)
    insert(Rollout, rows)
    ids = dict(Rollout.objects.filter(trace_id__in=traces).values_list("trace_id", "pk"))
    steps_insert([(ids[trace], record.trajectory, record.grade) for trace, record in zip(traces, kept, strict=True)])
    return len(rows)


def _fresh(batch: RolloutBatch, records: list[RolloutRecord], replace: bool) -> list[tuple[RolloutRecord, str]]:
    """Records that are to be written, with their digests; rows they replace are gone afterwards."""
    arriving: dict[tuple[str, int], tuple[RolloutRecord, str]] = {}
    for record in records:
        key = (clean(record.item_key)[:200], record.sample_index)
        digest = body_digest(record)
        if key in arriving and arriving[key][1] != digest and not replace:
            raise _other_body(key)
        arriving[key] = (record, digest)
    rows = Rollout.objects.filter(batch=batch, group_key__in={key for key, _ in arriving})
    replaced = []
    for pk, key, index, digest in rows.values_list("pk", "group_key", "sample_index", "body_digest"):
        if (key, index) not in arriving:
            continue
        if arriving[key, index][1] == digest:
            del arriving[key, index]
        elif replace:
            replaced.append(pk)
        else:
            raise _other_body((key, index))
    if replaced:
        Rollout.objects.filter(pk__in=replaced).delete()
    return list(arriving.values())


def _other_body(key: tuple[str, int]) -> Conflict:
    return Conflict(
        f"Rollout {key[1]} of item {key[0]} is stored already, with other content.",
        where="records",
        fix="Send it with replace if the earlier one is void.",
    )


def _items_of(batch: RolloutBatch, fresh: list[tuple[RolloutRecord, str]]) -> dict[str, Item]:
    if batch.dataset_version_id is None:
        return {}
    keys = {record.item_key for record, _ in fresh}
    rows = Item.objects.filter(version_id=batch.dataset_version_id, key__in=keys).defer("raw")
    return {item.key: item for item in rows}


def _masked(record: RolloutRecord, mask: Mask) -> RolloutRecord:
    trajectory, grade = masked(record.trajectory, record.grade, mask)
    return replace(record, trajectory=trajectory, grade=grade, extra=mask.value(record.extra))


def _recorded(
    batch: RolloutBatch, record: RolloutRecord, digest: str, item: Item | None, mask: Mask | None
) -> dict[str, Any]:
    return {
        "team_id": batch.team_id,
        "batch_id": batch.pk,
        "item_id": item.pk if item else None,
        "group_key": clean(record.item_key)[:200],
        "sample_index": record.sample_index,
        "trace_id": record.trace_id or new_id("trace_"),
        "title": item.title if item else "",
        "advantage": finite(record.advantage),
        "extra": clean_json(record.extra),
        "body_digest": digest,
        **finished_values(record.trajectory, record.grade, pass_threshold=batch.pass_threshold, mask=mask),
    }


def _refuse_taken_traces(traces: list[str]) -> None:
    counted = Counter(traces)
    doubled = [trace for trace, count in counted.items() if count > 1]
    doubled += Rollout.objects.filter(trace_id__in=counted).values_list("trace_id", flat=True)[:1]
    if doubled:
        raise Conflict(f"The trace id {doubled[0]} belongs to another rollout.", where="records")
