"""The job's story: events in the wire's shape, numbered once each."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from jobs.models import Job, JobEvent
from jobs.rollouts.cleaning import clean, finite

#: Journal lines keep their own numbers; Studio's events are counted from here, so the two never meet.
OWN_SEQUENCE = 1_000_000_000


@transaction.atomic
def event_note(job: Job, message: str, *, level: str = "info", type: str = "message", data: Any = None) -> JobEvent:
    """Add one of Studio's own events. The job's row is held while the number is chosen."""
    Job.objects.select_for_update().only("pk").get(pk=job.pk)
    last = JobEvent.objects.filter(job=job, sequence__gte=OWN_SEQUENCE).aggregate(last=Max("sequence"))["last"]
    return JobEvent.objects.create(
        job=job,
        sequence=(last or OWN_SEQUENCE) + 1,
        level=level,
        type=type,
        message=message,
        data=data,
        created_at=timezone.now(),
    )


def event_keep(job: Job, line: dict[str, Any], message: str, *, level: str = "info", type: str = "message", data=None):
    """Keep one journal line as an event; the same line again changes nothing."""
    if not line.get("seq"):
        return event_note(job, message, level=level, type=type, data=data)
    return JobEvent.objects.update_or_create(
        job=job,
        sequence=line["seq"],
        defaults={"level": level, "type": type, "message": message, "data": data, "created_at": moment(line)},
    )[0]


def moment(line: dict[str, Any]) -> datetime:
    """When a journal line was written."""
    at = line.get("at")
    with suppress(ValueError, OverflowError, OSError, TypeError):  # milliseconds, say, lead beyond the calendar
        return datetime.fromtimestamp(at, UTC)
    return timezone.now()


def plain(value: Any, *, path: str = "", bad: list[str] | None = None) -> Any:
    """JSON as every database keeps it and every chart can reckon with. Numbers that are none (NaN, infinities, more than a
    square could hold) become null, and their places are added to `bad`."""
    if isinstance(value, int | float) and not isinstance(value, bool) and finite(value) is None:
        if bad is not None:
            bad.append(path)
        return None
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {
            clean(str(key)): plain(one, path=clean(f"{path}.{key}").lstrip("."), bad=bad) for key, one in value.items()
        }
    if isinstance(value, list):
        return [plain(one, path=f"{path}[{n}]", bad=bad) for n, one in enumerate(value)]
    return value
