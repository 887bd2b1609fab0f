"""Whether SQLite waits for migrations, compared with what Django says."""

import sqlite3

import pytest
from django.conf import settings
from django.db import connection

from rftstudio.ops.pending import has_pending_migrations


@pytest.fixture
def migrated(tmp_path, db):
    """A database whose migration table is the test database's."""
    path = tmp_path / "studio.sqlite3"
    with connection.cursor() as cursor:
        cursor.execute("SELECT app, name FROM django_migrations")
        rows = cursor.fetchall()
    with sqlite3.connect(path) as link:
        link.execute("CREATE TABLE django_migrations (app TEXT, name TEXT)")
        link.executemany("INSERT INTO django_migrations VALUES (?, ?)", rows)
    return path


def test_migrated_database_waits_for_nothing(migrated):
    assert not has_pending_migrations(migrated, settings.INSTALLED_APPS)


def test_database_without_the_last_migration_waits(migrated):
    with sqlite3.connect(migrated) as link:
        link.execute("DELETE FROM django_migrations WHERE app = 'jobs'")
    assert has_pending_migrations(migrated, settings.INSTALLED_APPS)


def test_absent_empty_or_broken_database_waits(tmp_path):
    assert has_pending_migrations(tmp_path / "none", settings.INSTALLED_APPS)
    for content in (b"", b"not a database at all" * 100):
        path = tmp_path / "broken"
        path.write_bytes(content)
        assert has_pending_migrations(path, settings.INSTALLED_APPS)
