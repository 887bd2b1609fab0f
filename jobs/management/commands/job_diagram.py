"""`manage.py job_diagram`: draw the table of statuses into docs/jobs.md. `--check` only says whether it is drawn."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from jobs.states import WORDS, diagram

BEGIN, END = "<!-- drawn by manage.py job_diagram -->", "<!-- end of drawing -->"
PAGE = Path(settings.BASE_DIR) / "docs" / "jobs.md"


def drawn(text: str) -> str:
    """The page with the drawing as the table stands now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not rest or not after:
        raise CommandError(f"{PAGE} has lost its marks {BEGIN} and {END}.")
    rows = "\n".join(f"| `{status.value}` | {words.title} | {words.next} |" for status, words in WORDS.items())
    table = f"| status | says | next for a person |\n|---|---|---|\n{rows}"
    return f"{before}{BEGIN}\n\n```mermaid\n{diagram()}\n```\n\n{table}\n\n{END}{after}"


class Command(BaseCommand):
    help = "Draw the job's statuses into docs/jobs.md."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="Change nothing; fail when the drawing is old.")

    def handle(self, *args: Any, check: bool, **options: Any) -> None:
        text = PAGE.read_text(encoding="utf-8")
        fresh = drawn(text)
        if check and fresh != text:
            raise CommandError("docs/jobs.md is older than jobs/states.py. Run `manage.py job_diagram`.")
        PAGE.write_text(fresh, encoding="utf-8")
