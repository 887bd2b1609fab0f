"""People and doors for every test. `member` is an engineer of `team`; a `stranger` belongs to another team."""

import os
from pathlib import Path

import pytest

from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Role
from tests import databases, servers
from tests.factories.teams import MembershipFactory, TeamFactory

os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")


#: Files that take longest, in seconds; with several processes the longest begin first. Others count as short.
LONG = (
    "test_supervision.py", "test_schema_holds.py", "test_race.py", "test_rights.py", "test_gateway.py", "test_api_rights.py",
    "test_kill_matrix.py", "test_openai.py", "test_evaluation_run.py", "test_holds.py",
)  # fmt: skip


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first; browser tests last: Playwright keeps an event loop running in this thread, and no test after it
    could start one."""
    items.sort(key=lambda item: ("browser" in item.path.parts, item.path.name not in LONG))
    if os.environ.get("STUDIO_TEST_ONLY") == "database":
        # The PostgreSQL lane: what asks no database cannot differ there, nor what is about roles or processes.
        items[:] = [item for item in items if _asks_database(item)]


def _asks_database(item: pytest.Item) -> bool:
    if item.get_closest_marker("any_database"):
        return False
    names = set(getattr(item, "fixturenames", ()))
    return item.get_closest_marker("django_db") is not None or bool(
        names & {"db", "transactional_db", "django_db_setup"}
    )


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix):
    """The test database starts as a copy of one that is migrated already; on a PostgreSQL that has none, from nothing."""
    from django.db import connection

    settings = connection.settings_dict
    if connection.vendor == "sqlite":
        databases.migrated_copy(Path(settings["TEST"]["NAME"]))
    elif settings["NAME"] == servers.MIGRATED:
        settings["TEST"]["TEMPLATE"] = servers.MIGRATED


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """That copy is taken as it is; it goes with the scratch folder."""
    from django.db import connection

    return connection.vendor == "sqlite"


@pytest.fixture(scope="session", autouse=True)
def _emptied_after_tests_that_commit():
    """Where a test commits, its rows are deleted, and nothing else is touched.

    Django's own way empties every table, full or not, and then makes permissions and content types again: half a
    second of computing a test on PostgreSQL.
    """
    from django.test import TransactionTestCase

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda case: databases.emptied())
        yield


@pytest.fixture
def team(db):
    return TeamFactory(name="Duty desk", slug="duty-desk")


def actor_in(team, role: str) -> Actor:
    membership = MembershipFactory(team=team, role=role)
    return Actor(team=team, role=role, user=membership.user)


@pytest.fixture
def owner(team) -> Actor:
    return actor_in(team, Role.OWNER)


@pytest.fixture
def member(team) -> Actor:
    return actor_in(team, Role.ENGINEER)


@pytest.fixture
def expert(team) -> Actor:
    return actor_in(team, Role.EXPERT)


@pytest.fixture
def viewer(team) -> Actor:
    return actor_in(team, Role.VIEWER)


@pytest.fixture
def stranger(db) -> Actor:
    return actor_in(TeamFactory(), Role.OWNER)


@pytest.fixture
def client_of(client):
    """`client_of(actor)`: a browser's door, signed in as that person."""

    def signed_in(actor: Actor):
        client.force_login(actor.user, backend="django.contrib.auth.backends.ModelBackend")
        return client

    return signed_in


@pytest.fixture
def broker_away(monkeypatch):
    """`broker_away(task)`: the task cannot be sent."""
    from kombu.exceptions import OperationalError

    def down(*args, **kwargs):
        raise OperationalError("no connection to the broker")

    return lambda task: monkeypatch.setattr(task, "apply_async", down)
