"""`manage.py attribution_compute FILE --method M [--json]`: credits for a file of groups. Needs no database."""

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from jobs.attribution.files import BadLine, credit_row, read_rollouts
from jobs.attribution.methods.registry import METHODS, compute_each


class Command(BaseCommand):
    help = "Share each rollout's reward among its steps. FILE holds one rollout a line; - reads standard input."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file")
        parser.add_argument("--method", default="prefix_value", choices=list(METHODS))
        parser.add_argument("--json", action="store_true", help="One JSON object a rollout.")

    def handle(self, *args: Any, **options: Any) -> None:
        method = options["method"]
        try:
            if options["file"] == "-":
                rollouts = read_rollouts(sys.stdin)
            else:
                with open(options["file"], encoding="utf-8-sig", errors="surrogateescape", newline="\n") as lines:
                    rollouts = read_rollouts(lines)
        except OSError as exc:
            raise CommandError(f"{options['file']} cannot be read: {exc.strerror}.") from exc
        except BadLine as exc:
            raise CommandError(str(exc)) from exc
        for rollout, credit in zip(rollouts, compute_each(method, rollouts), strict=True):
            row = credit_row(rollout, credit, method)
            self.stdout.write(json.dumps(row) if options["json"] else _line(row))


def _line(row: dict[str, Any]) -> str:
    if row["baseline"] is None:
        return f"{row['group']} {row['rollout']}: no credit, {row['reason']}"
    return f"{row['group']} {row['rollout']}: {row['baseline']:.2f} " + " ".join(
        f"{credit:+.2f}" for credit in row["credits"]
    )
