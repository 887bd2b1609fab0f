"""`manage.py serve`: Studio as one supervised group of processes, until Ctrl-C."""

import os
import sys
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError, CommandParser

from rftstudio.settings import env


class Command(BaseCommand):
    help = "Run web, workers, beat and broker as one group. Ctrl-C ends all of it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, help="Default: STUDIO_PORT, else the first free one from 8000 on.")

    def handle(self, *args, port: int | None, **options) -> None:
        port = port or env.number("STUDIO_PORT", 0) or None
        if port is not None and not 0 < port < 65536:
            raise CommandError(f"{port} is not a port number.")
        # This process has loaded all of Studio only to parse one option; the supervisor needs 20 MB less.
        argv = [sys.executable, "-m", "rftstudio.ops.supervisor", *([str(port)] if port else [])]
        sys.stdout.flush()
        os.chdir(Path(__file__).resolve().parents[4])
        os.execv(sys.executable, argv)  # noqa: S606
