"""Check a grader file: `manage.py grader_validate G.json [--dataset NAME]` prints one JSON object."""

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from datasets.models import DatasetVersion
from graders.recipe_files import fields_of, read_recipe
from graders.secrets import shown_config
from graders.types import Problem
from graders.validation import grader_problems, has_errors, normalised


class Command(BaseCommand):
    help = "Check a grader in the wire format, optionally against the fields of a dataset."

    def add_arguments(self, parser) -> None:
        parser.add_argument("grader", help="A JSON file.")
        parser.add_argument("--dataset", help="Name, slug or id of a dataset or version; or a JSONL file.")
        parser.add_argument("--team", help="The team whose dataset is meant, when several have the name.")
        parser.add_argument("--check", action="store_true", help="Exit with 1 when the grader is not valid.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            text = Path(options["grader"]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            raise CommandError(f"{options['grader']} cannot be read: {exc}") from exc
        config, problems = read_recipe(text)
        if not problems:
            fields = dataset_fields(options["dataset"], options["team"]) if options["dataset"] else None
            problems = grader_problems(config, fields=fields)
        valid = not has_errors(problems)
        listed = [_shown(problem) for problem in problems]
        answer = {"valid": valid, "problems": listed, "normalised": shown_config(normalised(config))}
        self.stdout.write(json.dumps(answer, ensure_ascii=False, indent=2))
        if options["check"] and not valid:
            sys.exit(1)


def _shown(problem: Problem) -> dict[str, str]:
    code = problem.code if problem.level == "error" else f"{problem.level}.{problem.code}"
    return {"path": problem.path, "code": code, "message": problem.message, "fix": problem.fix}


def dataset_fields(name: str, team: str | None = None) -> dict[str, Any]:
    """Field names with their coverage, from a file of rows or from the newest version of a dataset."""
    path = Path(name)
    if path.is_file():
        lines = path.read_text(encoding="utf-8-sig").split("\n")
        return fields_of(
            row.get("item", row) for line in lines if line.strip() and isinstance(row := json.loads(line), dict)
        )
    versions = DatasetVersion.objects.filter(team__slug=team) if team else DatasetVersion.objects.all()
    version = (
        versions.filter(public_id=name).first()
        or versions.filter(dataset__public_id=name).order_by("-number").first()
        or versions.filter(dataset__slug=name).order_by("-pk").first()
        or versions.filter(dataset__name=name).order_by("-pk").first()
    )
    if version is None:
        raise CommandError(f"There is no dataset or file named {name}.")
    return fields_of(item.data for item in version.items.order_by("position").iterator(500))
