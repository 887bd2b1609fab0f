"""Import of JSONL beside plain SQLite inserts of the same lines, in one run, on the database of the settings."""

import io
import json
import resource
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROWS = 100_000
TARGET_SHARE = 0.60
TARGET_GROWTH_MB = 200


def make_file(path: Path, rows: int) -> None:
    """Rows of about 1 kB: messages, reference, difficulty, tags."""
    filler = "The buyer asks where the service is taxed and who accounts for it. " * 11
    with path.open("w") as out:
        for number in range(rows):
            row = {
                "messages": [
                    {"role": "developer", "content": "Answer with the country alone."},
                    {"role": "user", "content": f"Case {number}: {filler}"},
                ],
                "reference_answer": ("Poland", "Spain", "Italy", "Malta")[number % 4],
                "difficulty": number % 5,
                "tags": ["vat", f"group-{number % 50}"],
            }
            out.write(json.dumps(row) + "\n")


def plain_sqlite(source: Path, target: Path) -> float:
    """Seconds to put the lines into a table with the columns and indexes of ours, with nothing checked."""
    database = sqlite3.connect(target)
    database.executescript(
        """
        PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;
        CREATE TABLE item (id INTEGER PRIMARY KEY AUTOINCREMENT, version_id INT, position INT, line INT, key TEXT,
            title TEXT, split TEXT, raw TEXT, digest TEXT, question_hash INT, problem TEXT);
        CREATE UNIQUE INDEX a ON item (version_id, position);
        CREATE UNIQUE INDEX b ON item (version_id, key);
        CREATE INDEX c ON item (version_id, split, position);
        CREATE INDEX d ON item (version_id);
        """
    )
    started = time.perf_counter()
    insert = (
        "INSERT INTO item (version_id, position, line, key, title, split, raw, digest, question_hash, problem)"
        " VALUES (1, ?, ?, ?, ?, 'train', ?, ?, 0, '')"
    )
    digest, batch = "0" * 64, []
    with source.open() as lines:
        for number, line in enumerate(lines):
            batch.append((number, number + 1, f"{number + 1:04d}", line[80:200], line[:-1], digest))
            if len(batch) == 2000:
                database.executemany(insert, batch)
                database.commit()
                batch = []
    database.executemany(insert, batch)
    database.commit()
    seconds = time.perf_counter() - started
    database.close()
    return seconds


def measures(rows: int = ROWS) -> list[dict[str, Any]]:
    """Import rate against plain SQLite, and growth of memory. Needs Django set up and a migrated database."""
    from datasets.models import DatasetVersion, SourceFile
    from datasets.services import dataset_create, dataset_version_import, source_file_upload
    from rftstudio.teams.actor import system_actor
    from rftstudio.teams.models import Team

    team, _ = Team.objects.get_or_create(slug="bench-datasets", defaults={"name": "Bench of datasets"})
    actor = system_actor(team)
    try:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "rows.jsonl"
            make_file(source, rows)
            plain = min(plain_sqlite(source, Path(folder) / f"plain-{each}.sqlite3") for each in range(2))
            before = _peak_mb()
            with source.open("rb") as stream:
                source_file = source_file_upload(actor=actor, filename=source.name, content=io.BufferedReader(stream))
            dataset = dataset_create(actor=actor, name=f"bench {time.time_ns()}")
            started = time.perf_counter()
            version = dataset_version_import(actor=actor, dataset=dataset, source_file=source_file)
            ours = time.perf_counter() - started
            growth = _peak_mb() - before
            if version.item_count != rows:
                raise RuntimeError(f"{version.item_count} of {rows} rows came in: {version.report}")
            source_file.content.delete(save=False)
    finally:
        DatasetVersion.objects.filter(team=team).delete()
        SourceFile.objects.filter(team=team).delete()
        team.delete()
    return [
        _measure("import rows/s", rows / ours, None),
        _measure("plain SQLite rows/s", rows / plain, None),
        _measure("import share of plain SQLite", plain / ours, TARGET_SHARE, at_least=True),
        _measure("import memory growth MB", growth, TARGET_GROWTH_MB, at_least=False),
    ]


def _measure(name: str, value: float, target: float | None, *, at_least: bool = True) -> dict[str, Any]:
    met = None if target is None else value >= target if at_least else value <= target
    return {"room": "datasets", "name": name, "value": round(value, 3), "target": target, "met": met}


def _peak_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024**2 if sys.platform == "darwin" else peak / 1024
