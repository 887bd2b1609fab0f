"""Traces sent by OpenTelemetry exporters: spans are kept as they come, and their trace's rollout is built from all of them.

An exporter sends the spans of one trace in several posts, in any order, and sends a post again when it got no answer. So
a span's natural key is its trace and its id, and the rollout is written anew from all spans at each post: sending twice
changes nothing. A trace becomes a rollout with its first model or tool span. Spans are kept for a day after the trace
began; what comes later is refused in words, because building from a part would lose steps.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from jobs.rollouts.cleaning import clean, clean_json
from jobs.rollouts.imports import otlp
from jobs.rollouts.imports.chat import prompt_key
from jobs.rollouts.imports.service import imported_values
from jobs.rollouts.imports.types import ImportedRollout
from jobs.rollouts.masking import Mask
from jobs.rollouts.models import Rollout, RolloutBatch, TraceSpan
from jobs.rollouts.writing import steps_insert, team_mask
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission, check_can

KEEP = timedelta(days=1)
MOST_SPANS = 20_000  # of one trace
SOURCE = "otlp-"


@dataclass
class Received:
    """What became of a post: spans stored, spans refused and why, and the rollouts that were written."""

    spans: int = 0
    refused: int = 0
    reason: str = ""
    rollouts: int = 0


@transaction.atomic
def traces_receive(*, actor: Actor, document: dict[str, Any]) -> Received:
    """Store the spans of one export and write their rollouts; when it returns they can be seen."""
    check_can(actor, Permission.EVALUATION_RUN, team=actor.team)
    team, mask = actor.team, team_mask(actor.team)
    Team.objects.select_for_update(no_key=True).get(pk=team.pk)  # posts of one trace may come at the same time
    arrived: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    answer = Received()
    for trace_id, span, shared in otlp.spans_of(document):
        span_id = otlp.id_of(span.get("spanId"))
        if not trace_id or not span_id:
            answer.refused, answer.reason = answer.refused + 1, "A span has no trace id or no span id."
            continue
        body = {"span": span, "resource": shared}
        arrived[trace_id[:64]][span_id[:32]] = clean_json(body if mask is None else mask.value(body))
    closed = _closed(team, arrived)
    for trace_id, spans in arrived.items():
        stored = TraceSpan.objects.filter(team=team, trace_id=trace_id)
        too_many = stored.count() + len(spans) > MOST_SPANS
        if trace_id in closed or too_many:
            answer.refused += len(spans)
            answer.reason = (
                f"Trace {trace_id} has more than {MOST_SPANS} spans." if too_many
                else f"Trace {trace_id} began more than a day ago and is closed."
            )  # fmt: skip
            continue
        TraceSpan.objects.bulk_create(
            (TraceSpan(team=team, trace_id=trace_id, span_id=key, body=body) for key, body in spans.items()),
            batch_size=500, update_conflicts=True, unique_fields=["team", "trace_id", "span_id"], update_fields=["body"],
        )  # fmt: skip
        answer.spans += len(spans)
        bodies = list(stored.order_by("pk").values_list("body", flat=True))
        answer.rollouts += _write(actor, trace_id, bodies, mask)
    return answer


def _closed(team: Team, traces: Iterable[str]) -> set[str]:
    """Traces whose spans may have been swept."""
    ids = {_own_trace(team, trace): trace for trace in traces}
    rows = Rollout.objects.filter(trace_id__in=ids, created_at__lt=timezone.now() - KEEP)
    return {ids[own] for own in rows.values_list("trace_id", flat=True)}


def _own_trace(team: Team, trace_id: str) -> str:
    """Two teams may send the same trace."""
    return "otlp_" + hashlib.blake2b(f"{team.pk}:{trace_id}".encode(), digest_size=16).hexdigest()


def _write(actor: Actor, trace_id: str, bodies: list[dict[str, Any]], mask: Mask | None) -> bool:
    """The trace's rollout as its spans now stand; nothing while none of them is a model's or a tool's."""
    members = [(body["span"], body["resource"]) for body in bodies]
    if not any(otlp.is_telling(span) for span, _ in members):
        return False
    found = otlp.rollout_of(trace_id, members)
    group = clean(found.group or (prompt_key(found.prompt) if found.prompt else found.key))[:200]
    batch = _batch(actor, found)
    values, trajectory = imported_values(found, pass_threshold=batch.pass_threshold, mask=mask)
    own = _own_trace(actor.team, trace_id)
    rollout = Rollout.objects.filter(team=actor.team, trace_id=own).first()
    if rollout is None or (rollout.batch_id, rollout.group_key) != (batch.pk, group):
        last = Rollout.objects.filter(batch=batch, group_key=group).aggregate(last=Max("sample_index"))["last"]
        place = {"batch": batch, "group_key": group, "sample_index": 0 if last is None else last + 1}
        rollout = rollout or Rollout(team=actor.team, trace_id=own)
        for name, value in place.items():
            setattr(rollout, name, value)
    for name, value in values.items():
        setattr(rollout, name, value)
    if rollout.pk:
        rollout.steps.all().delete()
    rollout.save()
    steps_insert([(rollout.pk, trajectory, {})])
    return True


def _batch(actor: Actor, found: ImportedRollout) -> RolloutBatch:
    """One batch a service: that is whose policy acts."""
    service = str((found.extra.get("resource") or {}).get("service.name") or "traces")
    key = f"{SOURCE}{hashlib.blake2b(service.encode('utf-8', 'replace'), digest_size=10).hexdigest()}"
    batch, _ = RolloutBatch.objects.get_or_create(
        team=actor.team, kind=RolloutBatch.Kind.IMPORT, source=key,
        defaults={"policy_label": clean(service)[:200], "created_by": actor.user},
    )  # fmt: skip
    return batch


def spans_sweep() -> int:
    """Let go of spans that no post can add to any more."""
    return TraceSpan.objects.filter(created_at__lt=timezone.now() - 2 * KEEP).delete()[0]
