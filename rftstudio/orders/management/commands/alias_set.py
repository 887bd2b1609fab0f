"""`manage.py alias_set o4-mini-2025-04-16 --target /models/open-7b`: say what a model name means, or change it."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from rftstudio.orders.admin import AliasForm
from rftstudio.orders.models import ModelAlias
from rftstudio.teams.models import Team

FIELDS = ("backend", "target", "reply_tokens", "baseline_items", "baseline_samples", "note")


class Command(BaseCommand):
    help = "Say which weights, or which hosted model, a name means for programs written for another service."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="What programs send as model.")
        parser.add_argument("--target", help="Folder or hub name of weights; hosted: the name of the team's model.")
        parser.add_argument("--backend", choices=ModelAlias.Backend.values)
        parser.add_argument("--team", help="Slug of the team it holds for; left out: all teams.")
        parser.add_argument("--reply-tokens", type=int, help="The most tokens of one reply.")
        parser.add_argument("--baseline-items", type=int, help="Items on which the untrained model is measured.")
        parser.add_argument("--baseline-samples", type=int, help="Rollouts for each of these items.")
        parser.add_argument("--readiness", choices=["binding", "noted"], help="Whether a job needs a ready baseline.")
        parser.add_argument("--defaults", help="Hyperparameters that a request leaves out: '{\"lora_r\": 16}'.")
        parser.add_argument("--note")

    def handle(self, *args: Any, name: str, team: str | None, **options: Any) -> None:
        found = Team.objects.filter(slug=team).first() if team else None
        if team and found is None:
            raise CommandError(f"There is no team '{team}'.")
        alias = ModelAlias.objects.filter(name=name, team=found).first() or ModelAlias(name=name, team=found)
        form = AliasForm(
            self._values(alias, options) | {"name": name, "team": found.pk if found else None}, instance=alias
        )
        if not form.is_valid():
            said = "; ".join(f"{field}: {' '.join(errors)}" for field, errors in form.errors.items())
            raise CommandError(said)
        self.stdout.write(str(form.save()))

    def _values(self, alias: ModelAlias, options: dict[str, Any]) -> dict[str, Any]:
        given = {field: options[field] for field in FIELDS if options[field] is not None}
        values = {field: getattr(alias, field) for field in FIELDS} | given
        binding = {"binding": True, "noted": False}.get(options["readiness"] or "", alias.is_readiness_binding)
        defaults = options["defaults"] if options["defaults"] is not None else json.dumps(alias.defaults)
        return values | {"is_readiness_binding": binding, "defaults": defaults}
