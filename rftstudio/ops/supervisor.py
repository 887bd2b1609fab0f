"""Studio as one group of processes on one machine: broker, migration, web, workers, beat.

`Group` is a context manager, used by `manage.py serve`, by the demo and by tests. Leaving it ends all of the group, and
with it every detached process (trainer, local model server) that was started in its name. Production runs the same
programs as containers instead; see docs/operations.md.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

from rftstudio.core.errors import UserError
from rftstudio.ops import broker, processes
from rftstudio.ops.keeper import Keeper, Program
from rftstudio.ops.pending import has_pending_migrations

ROOT = Path(__file__).resolve().parents[2]
FIRST_PORT = 8000
PORTS_TRIED = 50
READY_SECONDS = 90.0
DETACHED_GRACE_SECONDS = 20.0
END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Rollouts grade with what users wrote, so their tasks run in a child that may die. The looks at running jobs are light but
# must not wait behind a long import: threads, and 70 MB less.
WORKERS = {
    "worker-rollouts": ("--queues", "rollouts,default", "--pool", "prefork", "--concurrency", "1"),
    "worker-training": ("--queues", "training,default", "--pool", "threads", "--concurrency", "3"),
}
# No talk among workers: beat's sweeps repair what a silent worker leaves, and start-up is a second quicker.
WORKER_OPTIONS = ("--without-gossip", "--without-mingle", "--without-heartbeat")


class Group:
    """All of Studio, started on entering and ended on leaving; entered once. `address` is where it answers."""

    def __init__(
        self,
        *,
        port: int | None = None,
        web: bool = True,
        workers: bool = True,
        beat: bool = True,
        migrate: bool = True,
        echo: Callable[[str], None] = lambda line: None,
    ) -> None:
        from django.conf import settings

        self.var_dir = Path(settings.VAR_DIR).resolve()
        self._settings_module = settings.SETTINGS_MODULE
        self._embedded = settings.STUDIO_EMBEDDED_BROKER
        self._port, self._parts, self._migrate = port, {"web": web, "workers": workers, "beat": beat}, migrate
        self._own = self.var_dir / "run" / "supervisor.pid"
        self._saved_env: dict[str, str | None] = {}
        self._listener: socket.socket | None = None
        self._keeper = Keeper(var_dir=self.var_dir, cwd=ROOT, echo=echo)
        self.echo = echo
        self.address = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything; returns when the first page can be asked for. On failure nothing is left running."""
        self._claim()
        try:
            self._name_supervisor()
            self._keeper.env = self._env()
            self._end_strays()
            self._start_broker()
            if self._migrate:
                self._run_migrations()
            if self._parts["web"]:
                self._start_web()
                self._wait(lambda: _web_answers(self.address), "web", "the web server to answer")
            # After the first page, so that they do not take its processor time.
            if self._parts["workers"]:
                self._start_workers()
            if self._parts["beat"]:
                self._start_beat()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all of it. Harmless when called twice."""
        self._keeper.stop(between=self._end_detached)
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self._forget_supervisor()
        if processes.pid_file_read(self._own) == processes.process_identity(os.getpid()):
            self._own.unlink(missing_ok=True)

    def wait(self) -> None:
        """Return when this process is told to end, by Ctrl-C, SIGTERM or SIGHUP."""
        with _told_to_end() as told:
            os.read(told, 1)

    def pid(self, name: str) -> int | None:
        """The pid of `broker`, `web`, `beat`, `worker-rollouts` or `worker-training`; None while it is down."""
        return self._keeper.pid(name)

    def _claim(self) -> None:
        """One group per data folder: two brokers on one journal would destroy it."""
        other = processes.pid_file_read(self._own)
        if other is not None and processes.is_alive(other) and other["pid"] != os.getpid():
            raise UserError(
                f"Studio already runs on {self.var_dir} (process {other['pid']}).",
                fix="Use it, or end that process first; STUDIO_VAR_DIR chooses another folder.",
            )
        processes.pid_file_write(self._own, processes.process_identity(os.getpid()))

    def _name_supervisor(self) -> None:
        for name, value in processes.supervisor_env().items():
            self._saved_env[name] = os.environ.get(name)
            os.environ[name] = value

    def _forget_supervisor(self) -> None:
        for name, value in self._saved_env.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._saved_env = {}

    def _env(self) -> dict[str, str]:
        return {**os.environ, "DJANGO_SETTINGS_MODULE": self._settings_module, "PYTHONUNBUFFERED": "1"}

    def _end_strays(self) -> None:
        """Programs of a supervisor that was killed end by their leash; make sure before taking their place."""
        for path in sorted(self._keeper.run_dir.glob("*.pid")):
            if path == self._own:
                continue
            identity = processes.pid_file_read(path)
            if identity is not None and processes.is_alive(identity):
                self.echo(f"ending {path.stem} (process {identity['pid']}), left by an earlier run")
                processes.end(identity, grace=DETACHED_GRACE_SECONDS)
            path.unlink(missing_ok=True)

    def _end_detached(self) -> None:
        """End trainers and model servers: those with a pid file, then any other that bears our name."""
        programs = set(self._keeper.names())
        notes = [path for path in self._keeper.run_dir.glob("*.pid") if path != self._own and path.stem not in programs]
        found = [identity for path in notes if (identity := processes.pid_file_read(path))]
        keep = {os.getpid(), *(pid for name in programs if (pid := self._keeper.pid(name)))}
        found += [one for one in processes.bearing_our_name() if one["pid"] not in keep and one not in found]
        processes.end_all(found, grace=DETACHED_GRACE_SECONDS)
        for path in notes:
            path.unlink(missing_ok=True)

    def _start_broker(self) -> None:
        binary = broker.server_binary()
        if not self._embedded or binary is None:
            return
        broker.socket_path(self.var_dir).unlink(missing_ok=True)
        argv = tuple(broker.server_argv(binary, self.var_dir))
        self._keeper.start(Program("broker", argv, is_ground=True))
        self._wait(lambda: broker.answers(self.var_dir), "broker", "the broker to answer")

    def _run_migrations(self) -> None:
        from django.conf import settings

        database = settings.DATABASES["default"]
        is_embedded = database["ENGINE"].endswith("sqlite3")
        if is_embedded and not has_pending_migrations(Path(database["NAME"]), settings.INSTALLED_APPS):
            return
        done = subprocess.run(
            [sys.executable, "manage.py", "migrate", "--noinput", "--verbosity", "1"],
            cwd=ROOT,
            env=self._env(),
            capture_output=True,
            text=True,
            check=False,
        )
        (self._keeper.log_dir / "migrate.log").write_text(done.stdout + done.stderr)
        if done.returncode != 0:
            raise UserError(
                f"The database could not be brought up to date: {(done.stderr.strip().splitlines() or ['?'])[-1]}",
                fix=f"The whole output is in {self._keeper.log_dir / 'migrate.log'}.",
            )

    def _start_web(self) -> None:
        self._listener = _listen(self._port)
        port = self._listener.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}/"
        argv = _python("gunicorn", "rftstudio.wsgi:application", "--worker-class", "gthread", "--workers", "1")
        argv += ("--threads", "8", "--bind", f"fd://{self._listener.fileno()}", "--no-control-socket")
        argv += ("--graceful-timeout", "5", "--timeout", "120")
        self._keeper.start(Program("web", argv, pass_fds=(self._listener.fileno(),)))

    def _start_workers(self) -> None:
        for name, work in WORKERS.items():
            argv = _python("celery", "--app", "rftstudio", "worker", *work, "--hostname", f"{name}@%h")
            argv += ("--loglevel", "INFO", *WORKER_OPTIONS)
            # SIGTERM lets the running task end; SIGQUIT does not, and its lease is taken over later.
            self._keeper.start(Program(name, argv, stop_signals=(signal.SIGTERM, signal.SIGQUIT), grace=5.0))

    def _start_beat(self) -> None:
        schedule = self._keeper.run_dir / "beat-schedule"
        argv = _python("celery", "--app", "rftstudio", "beat", "--schedule", str(schedule), "--loglevel", "INFO")
        self._keeper.start(Program("beat", (*argv, "--pidfile", "")))

    def _wait(self, condition: Callable[[], bool], name: str, what: str) -> None:
        limit = time.monotonic() + READY_SECONDS
        while not condition():
            if time.monotonic() > limit:
                raise UserError(
                    f"Waited {READY_SECONDS:.0f} s for {what}.", fix=f"See {self._keeper.log_dir / name}.log."
                )
            time.sleep(0.05)


def _python(module: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", module, *arguments)


def _listen(port: int | None) -> socket.socket:
    """An open door on this machine only: the given port, or the first free one from 8000 on."""
    wanted = [port] if port is not None else range(FIRST_PORT, FIRST_PORT + PORTS_TRIED)
    for number in wanted:
        door = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind(("127.0.0.1", number))
            door.listen(128)
            return door
        except OSError:
            door.close()
    raise UserError(f"Port {wanted[0]} is taken.", fix="Set STUDIO_PORT to a free one.")


def _web_answers(url: str) -> bool:
    """Any HTTP answer will do: production settings redirect to TLS."""
    try:
        with urllib.request.urlopen(f"{url}healthz", timeout=5):  # noqa: S310  our own address
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def serve(*, port: int | None) -> None:
    """Keep the group up until Ctrl-C, SIGTERM or SIGHUP."""
    with _told_to_end() as told, Group(port=port, echo=_say) as group:
        _say(f"Studio is at {group.address}   (logs: {group.var_dir / 'log'}; Ctrl-C ends it)")
        os.read(told, 1)
        _say("ending…")
    _say("ended; nothing is left running")


@contextlib.contextmanager
def _told_to_end() -> Iterator[int]:
    """A file descriptor that becomes readable when a signal asks this process to end. Only for the main thread.

    Unlike KeyboardInterrupt this cannot break into the middle of starting or ending; a second signal changes nothing.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    previous_fd = signal.set_wakeup_fd(writer)
    previous = {number: signal.signal(number, lambda *_: None) for number in END_SIGNALS}
    try:
        yield reader
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(previous_fd)
        os.close(reader)
        os.close(writer)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone; the group is not
        print(line, flush=True)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftstudio.settings.local")
    try:
        serve(port=int(sys.argv[1]) if len(sys.argv) > 1 else None)
    except UserError as refused:
        sys.exit(f"studio: {refused}")
