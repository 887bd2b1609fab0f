"""The import as a process of its own: memory that does not grow with the file, and a kill in the middle.

Small here; `rftstudio/bench/datasets.py` does the same with 100,000 rows.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import databases
from tests.datasets.helpers import row

pytestmark = pytest.mark.services
ROOT = Path(__file__).parents[2]
ROWS = 12_000
SCRIPT = """
import resource, sys
import django
django.setup()
from django.core.management import call_command
from datasets.services import source_file_upload
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    call_command("dataset_import", sys.argv[1], "--team", "demo", "--dataset", sys.argv[2], "--json")
except SystemExit as exc:
    code = exc.code
print("grown", (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, file=sys.stderr)
"""
SET_UP = """
import django
django.setup()
from rftstudio.teams.models import Team
Team.objects.create(name="Demo", slug="demo")
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A database and a file of their own; the environment that names them."""
    folder = tmp_path_factory.mktemp("import")
    source = folder / "rows.jsonl"
    with source.open("w") as out:
        for number in range(ROWS):
            out.write(
                json.dumps(row(f"Case {number}: " + "words and more words " * 35, reference_answer=number)) + "\n"
            )
    environment = {
        **os.environ, "STUDIO_VAR_DIR": str(folder / "var"), "DJANGO_SETTINGS_MODULE": "rftstudio.settings.local",
        "PYTHONPATH": str(ROOT), "DATABASE_URL": f"sqlite:///{folder / 'studio.sqlite3'}",
    }  # fmt: skip
    databases.migrated_copy(folder / "studio.sqlite3")
    subprocess.run([sys.executable, "-c", SET_UP], cwd=ROOT, env=environment, check=True)
    return folder, source, environment


def start(place, dataset: str) -> subprocess.Popen:
    folder, source, environment = place
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(source), dataset], cwd=folder, env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def rows_stored(place) -> int:
    import sqlite3

    with sqlite3.connect(place[0] / "studio.sqlite3") as database:
        return database.execute("SELECT count(*) FROM datasets_item WHERE version_id = 2").fetchone()[0]


def test_memory_stays_and_a_killed_import_ends_with_the_same_hash(place):
    whole = start(place, "whole")
    out, err = whole.communicate(timeout=120)
    report = json.loads(out)
    assert report["rows"] == ROWS
    assert int(err.split("grown")[1].split()[0]) < 200

    killed = start(place, "killed")
    deadline = time.monotonic() + 60
    while rows_stored(place) < ROWS // 3:
        assert killed.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    stored = rows_stored(place)
    assert 0 < stored < ROWS

    out, _ = start(place, "killed").communicate(timeout=120)
    again = json.loads(out)
    assert (again["rows"], again["content_hash"]) == (ROWS, report["content_hash"])
    assert again["errors"] == []
    assert again["fields"] == report["fields"]
    assert rows_stored(place) == ROWS
