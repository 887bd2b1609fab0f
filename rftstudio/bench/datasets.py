"""Import of JSONL beside a plain SQLite script on the same lines in the same run, growth of memory, and text search, on the
database of the settings.

The plain script is what one writes without a product: parse each line (orjson), take the columns out of it, insert them in
batches under the same indexes, full text included. It checks nothing, counts nothing and hashes nothing.
"""

import io
import json
import random
import resource
import sqlite3
import sys
import tempfile
import time
from itertools import accumulate
from pathlib import Path
from typing import Any

import orjson

ROWS = 100_000
TARGET_SHARE = 0.60
TARGET_GROWTH_MB = 200
TARGET_SEARCH_MS = 100
SEARCHES = 300
WORDS = 20_000
ITEM_COLUMNS = "version_id, position, line, key, title, split, raw, digest, question_hash, problem"


def vocabulary() -> list[str]:
    """Made words; the n-th is used 1/n as often as the first, as words of a language are."""
    return [
        f"{first}{vowel}{second}{number}"
        for number in range(WORDS // 200)
        for first in "bdfgklmnpr"
        for vowel in "aeiu"
        for second in "lnrst"
    ]


def make_file(path: Path, rows: int) -> None:
    """Rows of about 1 kB: messages, reference, difficulty, tags."""
    draw, words = random.Random(1), vocabulary()  # noqa: S311 texts, no secrets
    weights = list(accumulate(1 / (rank + 1) for rank in range(len(words))))
    with path.open("w") as out:
        for number in range(rows):
            said = " ".join(draw.choices(words, cum_weights=weights, k=150))
            row = {
                "messages": [
                    {"role": "developer", "content": "Answer with the country alone."},
                    {"role": "user", "content": f"Case {number}: {said}"},
                ],
                "reference_answer": ("Poland", "Spain", "Italy", "Malta")[number % 4],
                "difficulty": number % 5,
                "tags": ["vat", f"group-{number % 50}"],
            }
            out.write(json.dumps(row) + "\n")


def plain_sqlite(source: Path, target: Path) -> float:
    """Seconds to put the lines into tables with the columns and indexes of ours, with nothing checked."""
    database = sqlite3.connect(target)
    database.executescript(
        """
        PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-20000; PRAGMA mmap_size=134217728;
        CREATE TABLE item (id INTEGER PRIMARY KEY AUTOINCREMENT, version_id INT, position INT, line INT, key TEXT,
            title TEXT, split TEXT, raw TEXT, digest TEXT, question_hash INT, problem TEXT);
        CREATE UNIQUE INDEX a ON item (version_id, position);
        CREATE UNIQUE INDEX b ON item (version_id, key);
        CREATE INDEX c ON item (version_id, split, position);
        CREATE INDEX d ON item (version_id);
        CREATE VIRTUAL TABLE item_words USING fts5 (words, content='');
        """
    )
    started = time.perf_counter()
    insert = f"INSERT INTO item (id, {ITEM_COLUMNS}) VALUES (?, 1, ?, ?, ?, ?, 'train', ?, ?, 0, '')"  # noqa: S608
    digest = "0" * 64
    batch: list[tuple[Any, ...]] = []
    words: list[tuple[int, str]] = []

    def store() -> None:
        database.executemany(insert, batch)
        database.executemany("INSERT INTO item_words (rowid, words) VALUES (?, ?)", words)
        database.commit()
        batch.clear()
        words.clear()

    with source.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            row = orjson.loads(line)
            said = [message["content"] for message in row["messages"]]
            batch.append((number, number, number, f"{number:04d}", said[-1][:200], line[:-1].decode(), digest))
            words.append((number, " ".join([*said, row["reference_answer"], str(row["difficulty"]), *row["tags"]])))
            if len(batch) == 4000:
                store()
    store()
    seconds = time.perf_counter() - started
    database.close()
    return seconds


def search_p95(version: Any) -> float:
    """Milliseconds of the slow end of searches for common words, rare words, two words and phrases, pages included."""
    from datasets.pages import item_page

    draw, words = random.Random(2), vocabulary()  # noqa: S311 texts, no secrets
    weights = list(accumulate(1 / (rank + 1) for rank in range(len(words))))
    took = []
    for number in range(SEARCHES):
        chosen = draw.choices(words, cum_weights=weights, k=2) if number % 2 else draw.sample(words, 2)
        search = (chosen[0], f"{chosen[0]} {chosen[1]}", f'"{chosen[0]} {chosen[1]}"', f"Case {number}")[number % 4]
        started = time.perf_counter()
        item_page(version, search=search)
        took.append(time.perf_counter() - started)
    return sorted(took)[int(0.95 * len(took))] * 1000


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
            searched = search_p95(version)
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
        _measure(f"text search p95 ms in {rows:,} items", searched, TARGET_SEARCH_MS, at_least=False),
    ]


def _measure(name: str, value: float, target: float | None, *, at_least: bool = True) -> dict[str, Any]:
    met = None if target is None else value >= target if at_least else value <= target
    return {"room": "datasets", "name": name, "value": round(value, 3), "target": target, "met": met}


def _peak_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024**2 if sys.platform == "darwin" else peak / 1024
