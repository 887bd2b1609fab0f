"""Fifty launches at once against a quota that fits seven, with real processes, on SQLite and PostgreSQL."""

import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from tests import databases, servers

ROOT = Path(__file__).parents[2]
SET_UP = """
from decimal import Decimal
from rftstudio.teams.models import Team, User, Membership
from rftstudio.usage.models import Quota, Price
from datetime import datetime, UTC
team = Team.objects.create(name="Crowd", slug="crowd")
Membership.objects.create(team=team, user=User.objects.create(email="a@example.com"), role="engineer")
Quota.objects.create(team=team, usd_month=Decimal("5.00"))
Price.objects.create(unit="training_second", subject="*", usd=1, valid_from=datetime(2020, 1, 1, tzinfo=UTC))
"""


def run(url: str, *argv: str) -> str:
    env = {
        **os.environ,
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "rftstudio.settings.test",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run([sys.executable, *argv], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def set_up(url: str) -> str:
    run(url, "manage.py", "shell", "-v", "0", "-c", SET_UP)
    return url


@pytest.fixture
def sqlite(tmp_path) -> str:
    databases.migrated_copy(tmp_path / "race.sqlite3")
    return set_up(f"sqlite:///{tmp_path}/race.sqlite3")


def crowd(url: str, *, spends: bool) -> dict:
    answer = json.loads(run(url, "tests/usage/crowd.py", *(["spend"] if spends else [])))
    assert answer["failed"] == 0
    assert Decimal(answer["highest"]) <= Decimal("5.00")
    return answer


def check_seven(url: str) -> None:
    answer = crowd(url, spends=False)
    assert answer["admitted"] == 7
    assert answer["refused"] == [
        "This job may cost $0.70; Crowd has $0.10 left this month. "
        "Plan fewer rollouts, or ask a team owner to raise the quota."
    ]


def test_fifty_launches_hold_exactly_seven_on_sqlite(sqlite):
    check_seven(sqlite)


def test_fifty_launches_that_spend_and_settle_never_pass_the_quota(sqlite):
    """Each that settles gives half back, so more than seven get in; 13 would be the last at 0.35 each and 0.70 for one."""
    answer = crowd(sqlite, spends=True)
    assert 7 <= answer["admitted"] <= 13


@pytest.mark.services
def test_fifty_launches_hold_exactly_seven_on_postgresql():
    with servers.postgres(migrated=True) as url:
        check_seven(set_up(url))
