"""`manage.py gateway_open NAME --team T --agent A --grader G [--dataset D]`: a recording gateway for a trainer elsewhere.

Prints the two addresses to give to the trainer, for tools and grader. Asked again under the same name, the same ones;
`--close` shuts the door and makes rollouts of traces whose grade nobody asked for.
"""

import json
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from datasets.models import DatasetVersion
from graders.models import GraderVersion
from jobs.agents.models import AgentVersion
from jobs.rollouts.gateway import gateway_addresses, gateway_close, gateway_open
from jobs.rollouts.models import RolloutBatch
from jobs.rollouts.services import batch_create
from rftstudio.core.errors import StudioError
from rftstudio.teams.actor import Actor, system_actor
from rftstudio.teams.naming import newest_version, team_named

Kind = RolloutBatch.Kind


class Command(BaseCommand):
    help = "Open a recording gateway for a trainer elsewhere and print its addresses."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="What the trainer's run is called; its rollouts are found under it.")
        parser.add_argument("--team", required=True, help="The team's slug.")
        parser.add_argument("--agent", help="Slug or public id of an agent, or of a version: whose tools are called.")
        parser.add_argument("--grader", help="Slug or public id of a grader, or of a version.")
        parser.add_argument("--dataset", help="Whose items the trainer sends back, to know them again.")
        parser.add_argument("--base", default=settings.STUDIO_PUBLIC_URL, help="Our address as the trainer sees it.")
        parser.add_argument("--close", action="store_true")

    def handle(self, **options: Any) -> None:
        try:
            self.stdout.write(json.dumps(self.answer(options), indent=2))
        except StudioError as exc:
            raise CommandError(str(exc)) from exc

    def answer(self, options: dict[str, Any]) -> dict[str, Any]:
        actor = system_actor(team_named(options["team"]))
        source = f"gateway-{options['name']}"[:64]
        batch = RolloutBatch.objects.filter(team=actor.team, kind=Kind.IMPORT, source=source).first()
        if options["close"]:
            return self.close(actor, batch, source)
        if not options["base"]:
            raise CommandError("Say with --base (or STUDIO_PUBLIC_URL) under which address the trainer reaches us.")
        gateway = gateway_open(actor=actor, batch=batch or self.batch(actor, source, options))
        if gateway.closed_at:
            raise CommandError(f"{options['name']} was closed. Choose another name.")
        found = gateway_addresses(gateway, base=options["base"])
        return {"source": source, "tool": found.tool, "grader": found.grader}

    def batch(self, actor: Actor, source: str, options: dict[str, Any]) -> RolloutBatch:
        if not options["agent"] or not options["grader"]:
            raise CommandError("A new gateway needs --agent and --grader.")
        team, dataset = actor.team, options["dataset"]
        agent = newest_version(AgentVersion, team, "agent", options["agent"])
        grader = newest_version(GraderVersion, team, "grader", options["grader"])
        return batch_create(
            actor=actor,
            kind=Kind.IMPORT,
            source=source,
            agent_version=agent,
            grader_version=grader,
            model=agent.model,
            policy_label=options["name"][:200],
            pass_threshold=grader.pass_threshold,
            queue=False,
            dataset_version=newest_version(DatasetVersion, team, "dataset", dataset, status="frozen")
            if dataset
            else None,
        )

    def close(self, actor: Actor, batch: RolloutBatch | None, source: str) -> dict[str, Any]:
        gateway = getattr(batch, "gateway", None) if batch else None
        if gateway is None:
            raise CommandError(f"There is no gateway {source.removeprefix('gateway-')} in this team.")
        gateway_close(actor=actor, gateway=gateway)
        return {"source": source, "rollouts": gateway.batch.rollouts.count()}
