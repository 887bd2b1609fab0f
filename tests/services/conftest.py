"""Real servers, started once for the lane. Nothing here touches the test process's own database."""

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import databases, servers

ROOT = Path(__file__).parents[2]


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/services/" in str(item.path):
            item.add_marker(pytest.mark.services)


def wait_for(condition: Callable[[], object], seconds: float = 60.0, what: str = "it"):
    """The condition's first true answer; fails after `seconds`."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if answer := condition():
            return answer
        time.sleep(0.1)
    raise AssertionError(f"waited {seconds:.0f} s for {what}")


def ask(url: str, **headers: str) -> tuple[int, dict, str]:
    """Status, headers and body; redirects are not followed, no answer is status 0."""
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=10) as answer:
            return answer.status, dict(answer.headers), answer.read().decode()
    except urllib.error.HTTPError as exc:
        return exc.code, dict(exc.headers), exc.read().decode()
    except OSError:
        return 0, {}, ""


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args, **kwargs):
        return None


def clean_env(**changes: str) -> dict[str, str]:
    """This environment without what a developer may have set, and with these changes."""
    ours = ("STUDIO_", "DJANGO_", "DATABASE_URL", "CELERY_", "SECRET_KEY", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, **changes}


def manage(*argv: str, env: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", *argv], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def json_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]


@pytest.fixture(scope="session")
def postgres_url():
    with servers.postgres() as url:
        yield url


@pytest.fixture(scope="session")
def broker_url():
    with servers.valkey() as url:
        yield url


@pytest.fixture
def data_folder(tmp_path) -> Path:
    return data_folder_in(tmp_path)


def data_folder_in(folder: Path) -> Path:
    """A data folder of its own, its database up to date."""
    (folder / "var").mkdir()
    databases.migrated_copy(folder / "var/studio.sqlite3")
    return folder / "var"


@contextlib.contextmanager
def serving(data_folder: Path):
    """All of Studio, served as by a person; gone afterwards."""
    from rftstudio.ops import processes
    from tests.services.served import Served

    one = Served(data_folder)
    try:
        yield one
    finally:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()
        wait_for(lambda: not any(map(processes.is_alive, one.everyone())), 60, "the group to be gone")


@pytest.fixture
def served(data_folder):
    with serving(data_folder) as one:
        yield one
