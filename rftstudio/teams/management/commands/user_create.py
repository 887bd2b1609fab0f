"""`manage.py user_create someone@example.com --team demo`: make a person, and their team when it is new."""

import getpass
import os
import secrets
import sys

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.validators import validate_email
from django.db import transaction

from rftstudio.core.errors import StudioError
from rftstudio.teams import services
from rftstudio.teams.models import Membership, Role, Team, User


class Command(BaseCommand):
    help = "Make a person who can log in. The password is asked for, read from STUDIO_PASSWORD, or made and printed."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email")
        parser.add_argument("--team", help="Slug of a team, or the name of a new one, which then has its first owner.")
        parser.add_argument("--role", default=Role.ENGINEER, choices=Role.values, help="In a team that exists already.")
        parser.add_argument("--admin", action="store_true", help="May also use the admin site.")

    def handle(self, *args, email: str, team: str | None, role: str, admin: bool, **options) -> None:
        email = email.strip().lower()
        password, is_made = self._password()
        user = User(email=email, is_staff=admin, is_superuser=admin)
        try:
            validate_email(email)
            validate_password(password, user)
        except ValidationError as exc:
            raise CommandError(" ".join(exc.messages)) from exc
        if User.objects.filter(email=email).exists():
            raise CommandError(f"{email} has an account already.")
        with transaction.atomic():
            user.set_password(password)
            user.save()
            said = self._join(user, team, role) if team else "no team yet"
        self.stdout.write(f"{email}: {said}")
        if is_made:
            self.stdout.write(f"password: {password}")

    def _password(self) -> tuple[str, bool]:
        if given := os.environ.get("STUDIO_PASSWORD"):
            return given, False
        if sys.stdin.isatty():
            first = getpass.getpass("Password (empty: make one): ")
            if first and first != getpass.getpass("Again: "):
                raise CommandError("The two passwords differ.")
            if first:
                return first, False
        return secrets.token_urlsafe(12), True

    def _join(self, user: User, team: str, role: str) -> str:
        found = Team.objects.filter(slug=team).first()
        if found is not None:
            Membership.objects.create(team=found, user=user, role=role)
            return f"{role} of team {found.slug}"
        try:
            made = services.team_create(name=team, owner=user)
        except StudioError as exc:
            raise CommandError(str(exc)) from exc
        return f"owner of the new team {made.slug}"
