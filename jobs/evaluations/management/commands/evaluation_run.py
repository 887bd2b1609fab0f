"""`manage.py evaluation_run`: order an evaluation, see it through, print its metrics.

Run again after a cut it finds the same order and only does what is left. With `--workers` it waits for running workers;
otherwise it runs the rollouts itself.
"""

import json
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from kombu.exceptions import OperationalError

from datasets.models import DatasetVersion
from graders.models import GraderVersion
from jobs.agents.models import AgentVersion
from jobs.evaluations import selectors, services
from jobs.evaluations.metrics import METRICS
from jobs.evaluations.models import Evaluation
from jobs.rollouts.models import Rollout
from jobs.rollouts.services import rollouts_run, rollouts_sweep
from rftstudio.core.errors import StudioError
from rftstudio.teams.actor import system_actor
from rftstudio.teams.naming import newest_version, team_named

ENDED = {Evaluation.Status.SUCCEEDED, Evaluation.Status.FAILED, Evaluation.Status.CANCELLED}


class Command(BaseCommand):
    help = "Evaluate an agent on a dataset with a grader and print the metrics."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--team", required=True, help="The team's slug.")
        parser.add_argument("--agent", required=True, help="Slug or public id of an agent, or of a version.")
        parser.add_argument("--dataset", required=True, help="Slug or public id of a dataset, or of a version.")
        parser.add_argument("--grader", required=True, help="Slug or public id of a grader, or of a version.")
        parser.add_argument("--split", default="test")
        parser.add_argument("--samples", type=int, default=4, help="Rollouts for each item.")
        parser.add_argument("--max-items", type=int, default=None)
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--new", action="store_true", help="Start anew although this order was run before.")
        parser.add_argument("--workers", action="store_true", help="Wait for running workers instead of working here.")
        parser.add_argument("--json", action="store_true", dest="as_json")

    def handle(self, **options: Any) -> None:
        try:
            evaluation = self.order(options)
            self.see_through(evaluation, works_here=not options["workers"])
        except StudioError as exc:
            raise CommandError(str(exc)) from exc
        evaluation.refresh_from_db()
        self.report(evaluation, as_json=options["as_json"])
        if evaluation.status != Evaluation.Status.SUCCEEDED:
            raise CommandError(f"The evaluation {evaluation.status}. {evaluation.error}".strip())

    def order(self, options: dict[str, Any]) -> Evaluation:
        """The evaluation of this order: found if it was begun before, else started."""
        team = team_named(options["team"])
        agent = newest_version(AgentVersion, team, "agent", options["agent"])
        parts = {
            "dataset_version": newest_version(DatasetVersion, team, "dataset", options["dataset"], status="frozen"),
            "agent_version": agent,
            "grader_version": newest_version(GraderVersion, team, "grader", options["grader"]),
            "split": options["split"],
            "samples_per_item": options["samples"],
            "max_items": options["max_items"],
            "seed": options["seed"],
        }
        found = None if options["new"] else selectors.evaluation_find(team=team, model=agent.model, **parts)
        if found is not None:
            return found
        try:
            return services.evaluation_start(actor=system_actor(team), **parts)
        except OperationalError:
            # It is stored; only its wake-up call found no broker, and nobody needs that here.
            return selectors.evaluation_list(team=team).filter(agent_version=agent).latest("pk")

    def see_through(self, evaluation: Evaluation, *, works_here: bool) -> None:
        """Until it has ended: run what is queued (or wait), then settle."""
        said = 0.0
        while evaluation.status not in ENDED:
            ran = rollouts_run(batch_id=evaluation.batch_id) if works_here else 0
            services.evaluation_settle(evaluation=evaluation)
            evaluation.refresh_from_db()
            if time.monotonic() - said > 2 and evaluation.status not in ENDED:
                progress = selectors.evaluation_progress(evaluation)
                self.stderr.write(f"{progress.ended} of {progress.total} rollouts")
                said = time.monotonic()
            if not ran and evaluation.status not in ENDED:
                if works_here and Rollout.objects.filter(batch=evaluation.batch, status="running").exists():
                    self.free()
                time.sleep(0.5)

    def free(self) -> None:
        """An earlier run was cut: its rows come free when their lease ends."""
        try:
            rollouts_sweep()
        except OperationalError:
            self.stderr.write("No broker answers; going on without it.")

    def report(self, evaluation: Evaluation, *, as_json: bool) -> None:
        metrics = selectors.evaluation_metrics(evaluation)
        if as_json:
            told = {"evaluation": evaluation.public_id, "number": evaluation.number, "status": evaluation.status}
            self.stdout.write(json.dumps(told | metrics, indent=2, allow_nan=False))
            return
        self.stdout.write(f"Evaluation {evaluation.number} ({evaluation.public_id}): {evaluation.status}")
        for key, metric in METRICS.items():
            value = metrics.get(key)
            shown = "–" if value is None else f"{value:.4g}"
            self.stdout.write(f"  {metric.name:<18} {shown:>8}   {metric.formula}")
