"""Storage: counted, booked once a day, refused beyond the quota."""

import io
from decimal import Decimal
from pathlib import Path

import pytest
import time_machine
from django.utils import timezone

from datasets.models import SourceFile
from datasets.services import source_file_upload
from jobs.models import Checkpoint, Job
from jobs.storage import storage_bytes, storage_charge
from rftstudio.core.errors import QuotaExceeded
from rftstudio.usage import selectors
from rftstudio.usage.models import LedgerLine
from rftstudio.usage.services import quota_set
from tests.factories.studio import ready_baseline_of
from tests.factories.usage import PriceFactory


def upload(actor, size: int) -> SourceFile:
    return source_file_upload(actor=actor, filename="a.jsonl", content=io.BytesIO(b"x" * size))


def test_storage_counts_files_runs_and_models(member, settings, tmp_path):
    settings.VAR_DIR = tmp_path
    baseline = ready_baseline_of(member)
    job = Job.objects.create(
        team=member.team, number=1, baseline=baseline, base_model=baseline.model, run_dir=str(tmp_path / "run")
    )
    checkpoint = Checkpoint.objects.create(team=member.team, job=job, step_number=1, path="x", model=baseline.model)
    for path, size in ((tmp_path / "run/checkpoints", 300), (tmp_path / "models" / checkpoint.public_id, 50)):
        path.mkdir(parents=True)
        (path / "weights").write_bytes(b"x" * size)
    (tmp_path / "run" / "elsewhere").symlink_to("/")
    upload(member, 1000)
    link = (tmp_path / "run" / "elsewhere").lstat().st_size
    assert storage_bytes(member.team) - link in (1350, 1350 - link)


def test_storage_is_booked_once_a_day(member, stranger):
    PriceFactory(unit="storage_gb_day", subject="storage", usd=1000)
    upload(member, 1_000_000)
    for _ in range(2):
        assert storage_charge() == 1
    line = LedgerLine.objects.get()
    assert (line.usd, line.category, line.quantity) == (1, "storage", Decimal("0.001"))
    with time_machine.travel(timezone.now() + timezone.timedelta(days=1)):
        storage_charge()
    assert LedgerLine.objects.count() == 2


def test_upload_beyond_the_storage_is_refused_and_leaves_no_bytes(owner, member, settings, tmp_path):
    settings.MEDIA_ROOT = tmp_path
    quota_set(actor=owner, storage_gb=Decimal("0.01"))
    upload(member, 6_000_000)
    storage_charge()
    upload(member, 3_000_000)
    with pytest.raises(QuotaExceeded, match=r"may keep 0\.01 GB and has 0\.01 GB"):
        upload(member, 2_000_000)
    assert SourceFile.objects.count() == 2
    assert sum(path.stat().st_size for path in Path(tmp_path).rglob("*") if path.is_file()) == 9_000_000
    assert selectors.storage_measured(team=member.team)[0] == 6_000_000
