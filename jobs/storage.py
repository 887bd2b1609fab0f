"""What a team keeps on disk, booked once a day: source files, run folders with their checkpoints, published models."""

import os
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path

from django.conf import settings
from django.db.models import Sum
from django.utils import timezone

from datasets.models import SourceFile
from jobs.models import Checkpoint, Job
from rftstudio.teams.models import Team
from rftstudio.usage.models import Unit
from rftstudio.usage.services import usage_record

GB = Decimal(10) ** 9


def folder_bytes(path: Path) -> int:
    """Bytes of the files below; what vanishes while it is counted counts as gone. Links are not followed."""
    total = 0
    for place, _, names in os.walk(path):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except OSError:
                continue
    return total


def storage_bytes(team: Team) -> int:
    """All that the team keeps now."""
    files = SourceFile.objects.filter(team=team).aggregate(sum=Sum("bytes"))["sum"] or 0
    return files + sum(folder_bytes(path) for path in _folders(team))


def _folders(team: Team) -> Iterable[Path]:
    for run_dir in Job.objects.filter(team=team).exclude(run_dir="").values_list("run_dir", flat=True):
        yield Path(run_dir)
    models = Path(settings.VAR_DIR) / "models"
    for public_id in Checkpoint.objects.filter(team=team, model__isnull=False).values_list("public_id", flat=True):
        yield models / public_id


def storage_charge() -> int:
    """Book this day's storage of each team that keeps anything. A day is booked once, at the first look of it."""
    now, booked = timezone.now(), 0
    for team in Team.objects.order_by("pk"):
        kept = storage_bytes(team)
        if kept:
            usage_record(
                team=team,
                source=f"storage/{team.public_id}/{now:%Y-%m-%d}",
                unit=Unit.STORAGE_GB_DAY,
                subject="storage",
                quantity=(kept / GB).quantize(Decimal("1e-6")),
                at=now,
                note=f"Storage of {now.day} {now:%B}",
            )
            booked += 1
    return booked
