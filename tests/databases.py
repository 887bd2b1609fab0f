"""A migrated database, made once for each state of the migrations and copied wherever one is needed.

Migrating takes more than ten seconds of computing, and every test process needs a database: a dozen in a whole run.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".pytest_cache"


def migrated_copy(to: Path) -> None:
    """Lay an SQLite database with every migration applied there."""
    copy_kept(to, "sqlite3", _make)


def copy_kept(to: Path, kind: str, make: Callable[[Path], None], *, version: str = "") -> None:
    """Copy there what `make(path)` makes, file or folder; it is made only when nothing of this state is kept yet."""
    KEPT.mkdir(exist_ok=True)
    with (KEPT / "migrated.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = KEPT / f"migrated-{_state(version)}.{kind}"
        if not made.exists():
            for old in KEPT.glob(f"migrated-*.{kind}"):
                shutil.rmtree(old) if old.is_dir() else old.unlink()
            with tempfile.TemporaryDirectory(dir=KEPT) as folder:
                make(Path(folder) / "new")
                (Path(folder) / "new").rename(made)
        (shutil.copytree if made.is_dir() else shutil.copy)(made, to)


def _state(version: str) -> str:
    """What the migrated database follows from: our source (migrations import from it), and the packages that bring theirs."""
    total = hashlib.sha256((sys.version + version).encode())
    rooms = (file for room in ("datasets", "graders", "jobs", "rftstudio") for file in (ROOT / room).rglob("*.py"))
    for file in sorted([*rooms, *ROOT.glob("requirements/*.txt")]):
        total.update(file.read_bytes())
    return total.hexdigest()[:16]


def _make(path: Path) -> None:
    migrate(f"sqlite:///{path}")


def migrate(url: str) -> None:
    env = {**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "rftstudio.settings.test"}
    subprocess.run([sys.executable, "manage.py", "migrate", "-v", "0"], cwd=ROOT, env=env, check=True)


#: What `migrate` lays down at its end; tests read it and add nothing to it.
LAID_DOWN = {"django_content_type", "auth_permission"}


def emptied() -> None:
    """Delete the rows of every table that has any. Foreign keys are checked at the end of the transaction, so in any order.

    Ledger and audit log refuse to lose a line: their guards rest meanwhile.
    """
    from django.db import connection, transaction

    from rftstudio.core.guards import guards_drop, guards_set

    names = set(connection.introspection.django_table_names(only_existing=True, include_views=False)) - LAID_DOWN
    quoted = {name: connection.ops.quote_name(name) for name in sorted(names)}
    guards_drop(connection)
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            for table in quoted.values():
                cursor.execute(f"SELECT 1 FROM {table} LIMIT 1")
                if cursor.fetchone():
                    cursor.execute(f"DELETE FROM {table}")
    finally:
        guards_set(connection)
