"""`manage.py apikey_create --team demo --name x`: make an API key and print it, and nothing else."""

from django.core.management.base import BaseCommand, CommandError, CommandParser

from rftstudio.teams import services
from rftstudio.teams.actor import system_actor
from rftstudio.teams.models import Role, Team


class Command(BaseCommand):
    help = "Make an API key for a team and print it. It is not stored and cannot be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--team", required=True, help="The team's slug, as in its address.")
        parser.add_argument("--name", required=True, help="What the key is for.")
        parser.add_argument("--role", default=Role.ENGINEER, choices=Role.values)

    def handle(self, *args, team: str, name: str, role: str, **options) -> None:
        if not name.strip():
            raise CommandError("A key needs a name that says what it is for.")
        found = Team.objects.filter(slug=team).first()
        if found is None:
            known = ", ".join(Team.objects.order_by("slug").values_list("slug", flat=True)) or "none yet"
            raise CommandError(f"There is no team '{team}'. Teams: {known}. `manage.py user_create --team` makes one.")
        _, secret = services.api_key_create(actor=system_actor(found), name=name.strip()[:80], role=role)
        self.stdout.write(secret)
