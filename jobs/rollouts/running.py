"""One worker's turn at a batch: claim, run, store, renew, until nothing is queued or the turn is over."""

import hashlib
import logging
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from graders.services import grader_compiled
from jobs.agents.models import ModelEndpoint
from jobs.agents.selectors import model_key, model_subject, toolspecs
from jobs.agents.tools.types import limits_from
from jobs.rollouts import claims
from jobs.rollouts.crew import Crew, Outcome, Recipe, Work
from jobs.rollouts.engine.loop import Policy
from jobs.rollouts.engine.types import StepRecord
from jobs.rollouts.judge_costs import judge_usages
from jobs.rollouts.models import Rollout, RolloutBatch, Step
from jobs.rollouts.policies.openai_chat import OpenAIChatPolicy
from jobs.rollouts.policies.openai_responses import OpenAIResponsesPolicy
from jobs.rollouts.storing import step_record
from jobs.rollouts.writing import finished_values, masked, steps_insert, team_mask
from rftstudio.core.outbound import OutboundClient, allowed_hosts
from rftstudio.usage.models import Unit
from rftstudio.usage.services import Usage, usage_record_many

log = logging.getLogger(__name__)

TURN_SECONDS = 120.0  # then the rest is left to the next task; a task lasts minutes at most
RENEW_SECONDS = 10.0
LOOK_SECONDS = 1.0  # how often a cancel is looked for


def run_turn(batch: RolloutBatch, *, limit: int, go_on: Callable[[], None]) -> int:
    """Run queued rollouts of the batch, at most `limit` at once; returns how many were stored.

    `go_on` is called as soon as this turn stops claiming while rows are left, so that another worker takes them
    although this one still waits for its slow ones.
    """
    grader = grader_compiled(batch.grader_version) if batch.grader_version else None
    try:
        with Crew(recipe_of(batch, grader), concurrency=limit) as crew:
            return _Turn(batch, crew, limit, go_on).run()
    finally:
        if grader is not None:
            grader.close()


def recipe_of(batch: RolloutBatch, grader) -> Recipe:
    version = batch.agent_version
    return Recipe(
        policy=policy_maker(batch),
        grade=grader.grade if grader is not None else None,
        specs=toolspecs(version),
        limits=limits_from(version.limits),
        system_prompt=version.system_prompt,
        response_format=version.response_format,
        allowed_hosts=allowed_hosts(),
        mcp_commands=frozenset(settings.STUDIO_MCP_COMMANDS),
        model_hosts=frozenset({"127.0.0.1"}) if batch.model.kind == ModelEndpoint.Kind.LOCAL else frozenset(),
    )


def policy_maker(batch: RolloutBatch) -> Callable[[OutboundClient], Policy]:
    """What makes the batch's policy once the event loop runs. A local model's server is started first, here."""
    model, version = batch.model, batch.agent_version
    key = model_key(model)

    def make(http: OutboundClient) -> Policy:
        base_url, name = model.base_url, model.model
        if model.kind == ModelEndpoint.Kind.LOCAL:
            from jobs.rollouts.policies.local import ensure_server

            base_url = ensure_server(model.model, run_dir=Path(settings.VAR_DIR) / "run")
        kind = OpenAIResponsesPolicy if version.sampling.get("api") == "responses" else OpenAIChatPolicy
        return kind(
            base_url=base_url,
            api_key=key,
            model=name,
            sampling=version.sampling,
            response_format=version.response_format,
            http=http,
        )

    return make


def prefix_of(row: Rollout) -> tuple[StepRecord, ...]:
    """The steps that a re-run goes on from: `extra` names the rollout and how many of its steps."""
    told = row.extra.get("goes_on_from")
    if not told:
        return ()
    steps = Step.objects.filter(rollout__public_id=told["rollout"], rollout__team=row.team_id).order_by("index")
    return tuple(step_record(step) for step in steps[: told["steps"]])


class _Turn:
    def __init__(self, batch: RolloutBatch, crew: Crew, limit: int, go_on: Callable[[], None]) -> None:
        self.batch, self.crew, self.limit, self.go_on = batch, crew, limit, go_on
        self.in_flight: dict[int, Work] = {}
        self.is_claiming = True
        self.is_cancelled = False
        self.stored = 0
        self.ends_at = time.monotonic() + TURN_SECONDS
        self.renew_at = self.look_at = 0.0

    def run(self) -> int:
        try:
            self._claim()
            while self.in_flight:
                self._store(self.crew.collect(LOOK_SECONDS))
                self._look()
                self._claim()
        except BaseException:
            claims.hand_back(self.in_flight)  # retried at once instead of when the lease runs out
            raise
        return self.stored

    def _claim(self) -> None:
        if not self.is_claiming:
            return
        if time.monotonic() >= self.ends_at:
            self.is_claiming = False
            self.go_on()
            return
        room = self.limit - len(self.in_flight)
        if self.in_flight and room < max(1, self.limit // 8):
            return  # a claim is a transaction: take several at a time
        rows = claims.claim(self.batch, room)
        for row in rows:
            data = row.item.data if row.item else {}
            work = Work(row.pk, row.attempt, row.trace_id, data, self._seed(row), prefix_of(row))
            self.in_flight[row.pk] = work
            self.crew.start(work)

    def _seed(self, row: Rollout) -> int | None:
        """The same item, sample and batch seed sample alike, whichever worker runs them; only local models take it."""
        if self.batch.model.kind != ModelEndpoint.Kind.LOCAL:
            return None
        key = f"{self.batch.seed}:{row.group_key}:{row.sample_index}".encode()
        return int.from_bytes(hashlib.blake2b(key, digest_size=3).digest())

    def _look(self) -> None:
        now = time.monotonic()
        if now >= self.look_at and not self.is_cancelled:
            self.look_at = now + LOOK_SECONDS
            if RolloutBatch.objects.filter(pk=self.batch.pk, is_cancelled=True).exists():
                self.is_cancelled, self.is_claiming = True, False
                self.crew.cancel()
        if now >= self.renew_at and self.in_flight:
            self.renew_at = now + RENEW_SECONDS
            claims.renew(self.in_flight)

    def _store(self, outcomes: list[Outcome]) -> None:
        if outcomes:
            self.stored += outcomes_store(self.batch, outcomes)
            for outcome in outcomes:
                self.in_flight.pop(outcome.work.rollout_id, None)


@transaction.atomic
def outcomes_store(batch: RolloutBatch, outcomes: list[Outcome]) -> int:
    """Store finished rollouts with their steps and what they used; returns how many were still ours to store.

    A row that was claimed by someone else meanwhile has a higher attempt and is left alone.
    """
    by_id = {outcome.work.rollout_id: outcome for outcome in outcomes}
    held = Rollout.objects.select_for_update().filter(pk__in=by_id, status=Rollout.Status.RUNNING)
    ours = [row for row in held.only("pk", "public_id", "attempt") if by_id[row.pk].work.attempt == row.attempt]
    dollars = usage_record_many(
        team=batch.team, usages=[usage for row in ours for usage in _usages(batch, row, by_id[row.pk])]
    )
    mask = team_mask(batch.team_id)
    steps = []
    for row in ours:
        outcome = by_id[row.pk]
        trajectory, grade = masked(outcome.trajectory, outcome.grade, mask)
        values = finished_values(trajectory, grade, pass_threshold=batch.pass_threshold, mask=mask)
        # One UPDATE a row: Django's bulk_update of as many columns is several times slower.
        Rollout.objects.filter(pk=row.pk).update(**values, cost_usd=_cost(row, dollars))
        steps.append((row.pk, trajectory, grade))
    steps_insert(steps)
    return len(ours)


def _usages(batch: RolloutBatch, row: Rollout, outcome: Outcome) -> list[Usage]:
    """Tokens of the policy and of model graders, keyed so that storing twice counts once."""
    trajectory = outcome.trajectory
    subject = model_subject(batch.model)
    now = timezone.now()
    own = (("in", Unit.INPUT_TOKEN, trajectory.input_tokens), ("out", Unit.OUTPUT_TOKEN, trajectory.output_tokens))
    usages = [
        Usage(f"{row.public_id}:{way}", unit, subject, quantity, now, batch.source)
        for way, unit, quantity in own
        if quantity
    ]
    used = outcome.grade.get("usage") or {}
    return usages + judge_usages(row.public_id, used, at=now, batch_source=batch.source)


def _cost(row: Rollout, dollars: dict[str, Decimal | None]) -> Decimal | None:
    """The rollout's dollars; None where any part has no price: a part of a sum is not a sum."""
    mine = [usd for source, usd in dollars.items() if source.startswith(f"{row.public_id}:")]
    return sum(mine) if mine and None not in mine else None
