"""Stored rollouts graded again with another grader version, within a budget."""

from dataclasses import asdict
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.rollouts import regrade, regrade_adopting, regrade_selectors
from jobs.rollouts.models import RegradeRun
from rftstudio.api.rest import pages
from rftstudio.api.rest.describe import describe
from rftstudio.api.rest.endpoint import Endpoint
from rftstudio.api.rest.wire import Empty, Row, Wanted, Wire, example_id
from rftstudio.core.errors import UserError
from rftstudio.teams.permissions import Permission

RUN = Permission.EVALUATION_RUN


class RegradeWire(Row):
    grader_version = serializers.CharField(source="grader_version.public_id")
    graded_before = serializers.CharField(allow_blank=True)
    max_rollouts = serializers.IntegerField(allow_null=True)
    cap_usd = serializers.DecimalField(max_digits=12, decimal_places=2, allow_null=True)
    status = serializers.ChoiceField(RegradeRun.Status.values)
    note = serializers.CharField(allow_blank=True)
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)
    adopted_at = serializers.DateTimeField(allow_null=True)

    example = {
        "id": example_id("regrade-"), "created_at": "2026-11-30T10:00:00Z", "grader_version": example_id("gver-"),
        "graded_before": "Exact, version 1", "max_rollouts": None, "cap_usd": "5.00", "status": "queued", "note": "",
        "started_at": None, "finished_at": None, "adopted_at": None,
    }  # fmt: skip


class RegradeWhole(RegradeWire):
    counts = serializers.SerializerMethodField(help_text="Rollouts done, changed, up, down; means before and now.")

    example = {**RegradeWire.example, "counts": {"total": 18, "done": 0}}

    def get_counts(self, run: RegradeRun) -> dict[str, Any]:
        return asdict(regrade_selectors.regrade_counts(run))


class RegradeNew(Wanted):
    grader_version = serializers.CharField(max_length=64)
    sources = serializers.ListField(
        child=serializers.CharField(max_length=120), min_length=1, max_length=200,
        help_text="Keys of `/api/regrade-sources`.",
    )  # fmt: skip
    max_rollouts = serializers.IntegerField(min_value=1, max_value=10_000_000, required=False, allow_null=True)
    cap_usd = serializers.DecimalField(
        max_digits=12, decimal_places=2, min_value=0, required=False, allow_null=True, help_text="For its judges."
    )

    example = {"grader_version": example_id("gver-"), "sources": [f"evaluation/{example_id('evalrun_')}"]}


class RegradeResume(Wanted):
    cap_usd = serializers.DecimalField(max_digits=12, decimal_places=2, min_value=0, allow_null=True)

    example = {"cap_usd": "10.00"}


class SourceWire(Wire):
    key = serializers.CharField()
    kind = serializers.CharField()
    title = serializers.CharField()
    created_at = serializers.DateTimeField()
    rollouts = serializers.IntegerField(help_text="How many can be graded again.")
    left_out = serializers.IntegerField()

    example = {
        "key": f"evaluation/{example_id('evalrun_')}", "kind": "evaluation", "title": "Baseline 1",
        "created_at": "2026-11-30T09:00:00Z", "rollouts": 18, "left_out": 0,
    }  # fmt: skip


class ResultWire(Wire):
    rollout = serializers.CharField(source="rollout.public_id")
    old_reward = serializers.FloatField(allow_null=True)
    reward = serializers.FloatField(allow_null=True)
    change = serializers.FloatField(allow_null=True)
    grade = serializers.JSONField()

    example = {"rollout": example_id("roll-"), "old_reward": 0.2, "reward": 1.0, "change": 0.8, "grade": {}}


class ResultQuery(serializers.Serializer):
    changed = serializers.BooleanField(required=False)


class AdoptedWire(Wire):
    count = serializers.IntegerField(help_text="Rollouts that have another reward now.")

    example = {"count": 4}


class RegradeSources(Endpoint):
    @describe("regrade_source_list", "List what can be graded again", answers=SourceWire, is_list=True)
    def get(self, request: Request) -> Response:
        return self.listed(regrade_selectors.sources_of(team=self.team), SourceWire)


class RegradeList(Endpoint):
    @describe("regrade_list", "List re-grading runs", answers=RegradeWire, is_paged=True)
    def get(self, request: Request) -> Response:
        return self.page(RegradeRun.objects.filter(team=self.team).select_related("grader_version"), RegradeWire)

    @describe(
        "regrade_start", "Grade stored rollouts again", right=RUN, takes=RegradeNew, answers=RegradeWire, status=201
    )
    def post(self, request: Request) -> Response:
        wanted = self.values(RegradeNew)
        version = regrade_selectors.version_get(team=self.team, public_id=wanted.pop("grader_version"))
        keys = wanted.pop("sources")
        known = {source.key for source in regrade_selectors.sources_of(team=self.team)}
        if unknown := [key for key in keys if key not in known]:
            raise UserError(f"There is no source {unknown[0]!r}.", where="sources", fix="Ask /api/regrade-sources.")
        batches = regrade_selectors.batches_of(team=self.team, keys=keys)
        made = regrade.regrade_start(actor=self.actor, grader_version=version, batches=batches, **wanted)
        return self.shown(made, RegradeWire, status=201)


class OfRegrade(Endpoint):
    """An address below a re-grading run."""

    def run(self) -> RegradeRun:
        return regrade_selectors.regrade_get(team=self.team, public_id=self.kwargs["public_id"])


class RegradeDetail(OfRegrade):
    @describe("regrade_get", "Read a re-grading run", answers=RegradeWhole)
    def get(self, request: Request, public_id: str) -> Response:
        return self.shown(self.run(), RegradeWhole)


class RegradeResults(OfRegrade):
    @describe("regrade_result_list", "List what rollouts got", answers=ResultWire, is_paged=True, query=(ResultQuery,))
    def get(self, request: Request, public_id: str) -> Response:
        run, asked = self.run(), self.asked(pages.PageQuery, ResultQuery)
        rows = run.results.filter(status="done").select_related("rollout")
        rows = rows.filter(is_changed=asked["changed"]) if "changed" in asked else rows
        return self.page(rows, ResultWire, query=asked)


class RegradeCancel(OfRegrade):
    @describe("regrade_cancel", "Stop a run for good", right=RUN, takes=Empty, answers=RegradeWire)
    def post(self, request: Request, public_id: str) -> Response:
        run = self.run()
        self.values(Empty)
        return self.shown(regrade.regrade_cancel(actor=self.actor, run=run), RegradeWire)


class RegradeGoOn(OfRegrade):
    @describe("regrade_resume", "Go on under another budget", right=RUN, takes=RegradeResume, answers=RegradeWire)
    def post(self, request: Request, public_id: str) -> Response:
        run, wanted = self.run(), self.values(RegradeResume)
        return self.shown(regrade.regrade_resume(actor=self.actor, run=run, **wanted), RegradeWire)


class RegradeAdopt(OfRegrade):
    @describe("regrade_adopt", "Let the new rewards count", right=RUN, takes=Empty, answers=AdoptedWire)
    def post(self, request: Request, public_id: str) -> Response:
        run = self.run()
        self.values(Empty)
        return Response({"count": regrade_adopting.regrade_adopt(actor=self.actor, run=run)})
