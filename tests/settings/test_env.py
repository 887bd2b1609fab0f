"""Settings refuse bad values by name."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from rftstudio.settings import env

ROOT = Path(__file__).parents[2]
GOOD = {
    "DJANGO_SETTINGS_MODULE": "rftstudio.settings.production",
    "SECRET_KEY": "k" * 60,
    "DATABASE_URL": "postgres://a:b@localhost/x",
    "CELERY_BROKER_URL": "redis://localhost/0",
}


@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_variable_counts_as_absent(monkeypatch, value):
    monkeypatch.setenv("X", value)
    assert env.text("X", "d") == "d"
    assert env.number("X", 3) == 3
    assert env.flag("X", True) is True
    assert env.names("X", ["a"]) == ["a"]
    assert env.database("X", "sqlite:///x.db")["ENGINE"].endswith("sqlite3")
    with pytest.raises(ImproperlyConfigured, match="X is not set"):
        env.text("X")


@pytest.mark.parametrize(
    ("reader", "value"),
    [
        (lambda: env.number("X", 1), "many"),
        (lambda: env.flag("X", True), "perhaps"),
        (lambda: env.database("X", ""), "host/name"),
        (lambda: env.database("X", ""), "nonsense://a"),
    ],
)
def test_a_bad_value_is_refused_with_the_variables_name(monkeypatch, reader, value):
    monkeypatch.setenv("X", value)
    with pytest.raises(ImproperlyConfigured, match="^X "):
        reader()


def test_values_are_read(monkeypatch):
    monkeypatch.setenv("X", " No ")
    assert env.flag("X", True) is False
    monkeypatch.setenv("X", "a, b,,")
    assert env.names("X", []) == ["a", "b"]


def test_kept_secret_is_one_secret_for_all_and_for_its_owner_only(tmp_path):
    path, seen = tmp_path / "secret", []
    threads = [threading.Thread(target=lambda: seen.append(env.kept_secret(path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 1
    assert len(seen[0]) > 60
    assert path.stat().st_mode & 0o777 == 0o600
    assert [found.name for found in tmp_path.iterdir()] == ["secret"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"SECRET_KEY": ""}, "SECRET_KEY is not set"),
        ({"DATABASE_URL": ""}, "DATABASE_URL must name a PostgreSQL database"),
        ({"DATABASE_URL": "sqlite:///x"}, "DATABASE_URL must name a PostgreSQL database"),
        ({"CELERY_BROKER_URL": ""}, "CELERY_BROKER_URL must name a Redis"),
        ({"SECURE_SSL_REDIRECT": "perhaps"}, "SECURE_SSL_REDIRECT must be true or false"),
    ],
)
def test_production_refuses_to_start_without(tmp_path, change, words):
    surroundings = {**os.environ, **GOOD, "STUDIO_VAR_DIR": str(tmp_path), **change}
    script = "from django.conf import settings; settings.DEBUG"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert words in done.stderr
