"""Grade pairs from a file: `manage.py grader_run G.json PAIRS.jsonl --json` prints one object a line."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.management.base import BaseCommand, CommandError

from graders.clients import GraderClients, JudgeEndpoint
from graders.failures import GraderInvalid
from graders.grading import CompiledGrader, compile_grader
from graders.network import GuardedHttp, clients_for
from graders.recipe_files import read_recipe
from graders.samples import sample_from
from graders.types import Grade
from rftstudio.core.outbound import allowed_hosts
from rftstudio.teams.models import Team


class Command(BaseCommand):
    help = 'Grade rows of {"item": {…}, "sample": {…}} with a grader in the wire format.'

    def add_arguments(self, parser) -> None:
        parser.add_argument("grader", help="A JSON file.")
        parser.add_argument("pairs", help='A JSONL file of {"item": …, "sample": …}.')
        parser.add_argument("--json", action="store_true", help="One JSON object a line.")
        parser.add_argument("--team", help="The team whose models judge.")
        parser.add_argument("--judge-url", help="An OpenAI-compatible base URL for judges; key in OPENAI_API_KEY.")

    def handle(self, *args: Any, **options: Any) -> None:
        grader = self._compiled(options)
        graded = ungraded = 0
        total = 0.0
        with grader:
            for line, pair in _pairs(Path(options["pairs"])):
                grade = grader.grade(
                    pair.get("item") or {}, sample_from(pair.get("sample")), str(pair.get("trace_id", ""))
                )
                self.stdout.write(_as_json(grade) if options["json"] else _as_line(line, grade))
                graded += grade.is_graded
                ungraded += not grade.is_graded
                total += grade.reward or 0.0
        if not options["json"]:
            mean = f"mean {total / graded:.4f}" if graded else "no mean"
            self.stdout.write(f"{graded} graded, {mean}; {ungraded} ungraded")

    def _compiled(self, options: dict[str, Any]) -> CompiledGrader:
        try:
            text = Path(options["grader"]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            raise CommandError(f"{options['grader']} cannot be read: {exc}") from exc
        config, problems = read_recipe(text)
        if problems:
            raise CommandError(f"{problems[0].message} {problems[0].fix}")
        try:
            return compile_grader(config, _clients(options))
        except GraderInvalid as exc:
            lines = [f"{problem.path}: {problem.message} {problem.fix}" for problem in exc.problems]
            raise CommandError("The grader is not valid.\n" + "\n".join(lines)) from exc


def _clients(options: dict[str, Any]) -> GraderClients:
    if options["team"]:
        team = Team.objects.filter(slug=options["team"]).first()
        if team is None:
            raise CommandError(f"There is no team {options['team']}.")
        return clients_for(team)
    clients = GraderClients(owner="command", http=GuardedHttp(allowed_hosts()))
    if url := options["judge_url"]:  # the operator typed it, so the host is allowed
        key = os.environ.get("OPENAI_API_KEY", "")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        http = GuardedHttp(frozenset({urlsplit(url).hostname or ""}))
        clients.judge = lambda model: JudgeEndpoint(url, model, headers, http)
    return clients


def _pairs(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, _pair(line, number)
    except (OSError, UnicodeDecodeError) as exc:
        raise CommandError(f"{path} cannot be read: {exc}") from exc


def _pair(line: str, number: int) -> dict[str, Any]:
    try:
        pair = json.loads(line)
    except ValueError as exc:
        raise CommandError(f"Line {number} is not JSON: {exc}") from exc
    if not isinstance(pair, dict) or not isinstance(pair.get("item", {}), dict):
        raise CommandError(f'Line {number} is no pair: write {{"item": {{…}}, "sample": {{…}}}}.')
    return pair


def _as_json(grade: Grade) -> str:
    """The five keys of every row; marks of steps and a judge's tokens only where there are any."""
    whole = grade.as_dict()
    keys = ["reward", "sub_rewards", "errors", "details", "milliseconds"]
    keys += [key for key in ("step_rewards", "usage") if whole[key]]
    text = json.dumps({key: whole[key] for key in keys}, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace").decode()  # a lone surrogate is shown as a question mark


def _as_line(line: int, grade: Grade) -> str:
    reward = "ungraded" if grade.reward is None else f"{grade.reward:.4f}"
    flags = ", ".join(flag for flag, value in grade.errors.items() if value is True)
    parts = " ".join(f"{name}={'–' if part is None else f'{part:.3f}'}" for name, part in grade.sub_rewards.items())
    return (
        "  ".join(filter(None, [f"line {line}", reward, parts, flags, grade.details]))
        .encode("utf-8", "replace")
        .decode()
    )
