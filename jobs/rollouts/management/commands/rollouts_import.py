"""`manage.py rollouts_import FILE --team demo [--format auto] [--json]`: traces from elsewhere, as rollouts."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from jobs.rollouts.imports.detect import FORMATS
from jobs.rollouts.imports.service import rollouts_import
from rftstudio.core.errors import StudioError
from rftstudio.teams.actor import system_actor
from rftstudio.teams.models import Team


class Command(BaseCommand):
    help = "Import rollouts: span exports, local traces, OTLP, ATIF, Inspect logs, Langfuse, chat JSONL and our own export."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--team", required=True, help="The team's slug.")
        parser.add_argument("--format", default="auto", choices=["auto", *FORMATS])
        parser.add_argument("--pass-threshold", type=float, default=0.5)
        parser.add_argument("--json", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        team = Team.objects.filter(slug=options["team"]).first()
        if team is None:
            raise CommandError(f"There is no team {options['team']}.")
        try:
            outcome = rollouts_import(
                actor=system_actor(team),
                content=options["file"].read_bytes(),
                filename=options["file"].name,
                format=options["format"],
                pass_threshold=options["pass_threshold"],
            )
        except OSError as exc:
            raise CommandError(f"{options['file']} cannot be read: {exc.strerror}.") from exc
        except StudioError as exc:
            raise CommandError(str(exc)) from exc
        report = outcome.report
        if options["json"]:
            self.stdout.write(json.dumps(report, ensure_ascii=False))
            return
        words = "Imported" if outcome.is_new else "Had already"
        self.stdout.write(
            f"{words} {report['rollouts']} rollouts, {report['steps']} steps, {report['tool_calls']} tool calls "
            f"({report['format']}), batch {outcome.batch.public_id}."
        )
        for flag in report["flags"]:
            self.stdout.write(f"  {flag['code']}, {flag['where']}: {flag['message']}")
