"""The audit log as CSV, line by line, so that years of it need no memory."""

import csv
import json
from collections.abc import Iterator
from datetime import UTC, tzinfo

from django.db.models import QuerySet

from rftstudio.core.show import show_cell
from rftstudio.teams.models import AuditEvent

HEAD = ("at", "team", "who", "key", "verb", "object_type", "object_id", "data")


class _Echo:
    def write(self, text: str) -> str:
        return text


def audit_csv(rows: QuerySet[AuditEvent], zone: tzinfo = UTC) -> Iterator[str]:
    """Times with their offset."""
    writer = csv.writer(_Echo())
    yield writer.writerow(HEAD)
    for event in rows.iterator(chunk_size=2000):
        yield writer.writerow([
            event.created_at.astimezone(zone).isoformat(), event.team.slug, event.user.email if event.user else "",
            event.api_key.public_id if event.api_key else "", event.verb, event.object_type, show_cell(event.object_id),
            json.dumps(event.data, ensure_ascii=False),
        ])  # fmt: skip
