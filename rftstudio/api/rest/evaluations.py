"""Evaluations: start, figures, items, readiness, comparison."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from datasets.models import Split
from datasets.selectors import version_get
from graders.selectors import grader_version_get
from jobs.agents.selectors import agent_version_get, model_get
from jobs.backends.registry import BACKENDS
from jobs.evaluations import compare, selectors, services
from jobs.evaluations.models import Evaluation
from jobs.selectors import launch_verdict
from rftstudio.api.rest.describe import describe
from rftstudio.api.rest.endpoint import Endpoint
from rftstudio.api.rest.wire import Empty, Row, Wanted, Wire, example_id
from rftstudio.core.errors import UserError
from rftstudio.teams.permissions import Permission

RUN = Permission.EVALUATION_RUN


class EvaluationWire(Row):
    number = serializers.IntegerField()
    dataset_version = serializers.CharField(source="dataset_version.public_id")
    split = serializers.ChoiceField(Split.values)
    agent_version = serializers.CharField(source="agent_version.public_id")
    grader_version = serializers.CharField(source="grader_version.public_id")
    model = serializers.CharField(source="model.public_id")
    policy_label = serializers.CharField(allow_blank=True)
    samples_per_item = serializers.IntegerField()
    max_items = serializers.IntegerField(allow_null=True)
    pass_threshold = serializers.FloatField()
    seed = serializers.IntegerField()
    status = serializers.ChoiceField(Evaluation.Status.values)
    error = serializers.CharField(allow_blank=True)
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)

    example = {
        "id": example_id("evalrun_"), "created_at": "2026-11-30T09:00:00Z", "number": 1,
        "dataset_version": example_id("dver-"), "split": "test", "agent_version": example_id("aver-"),
        "grader_version": example_id("gver-"), "model": example_id("model-"), "policy_label": "Qwen 4B",
        "samples_per_item": 4, "max_items": None, "pass_threshold": 0.5, "seed": 0, "status": "queued", "error": "",
        "started_at": None, "finished_at": None,
    }  # fmt: skip


class EvaluationWhole(EvaluationWire):
    progress = serializers.SerializerMethodField()
    metrics = serializers.SerializerMethodField(help_text="null inside is not measured, never 0 in its place.")

    example = {
        **EvaluationWire.example,
        "progress": {"ended": 0, "total": 24, "failed": 0, "running": 0, "seconds_left": None}, "metrics": {},
    }  # fmt: skip

    def get_progress(self, evaluation: Evaluation) -> dict[str, Any]:
        found = selectors.evaluation_progress(evaluation)
        return {name: getattr(found, name) for name in ("ended", "total", "failed", "running", "seconds_left")}

    def get_metrics(self, evaluation: Evaluation) -> dict[str, Any]:
        return selectors.evaluation_metrics(evaluation)


class EvaluationNew(Wanted):
    dataset_version = serializers.CharField(max_length=64)
    agent_version = serializers.CharField(max_length=64)
    grader_version = serializers.CharField(max_length=64)
    split = serializers.ChoiceField(Split.values, default="test")
    model = serializers.CharField(max_length=64, required=False, help_text="In place of the agent's own.")
    samples_per_item = serializers.IntegerField(min_value=1, max_value=services.MOST_SAMPLES, default=4)
    max_items = serializers.IntegerField(min_value=1, max_value=10_000_000, required=False, allow_null=True)
    seed = serializers.IntegerField(min_value=0, max_value=2**31 - 1, default=0)

    example = {
        "dataset_version": example_id("dver-"), "agent_version": example_id("aver-"),
        "grader_version": example_id("gver-"), "split": "test", "samples_per_item": 4,
    }  # fmt: skip


class ItemFiguresWire(Wire):
    key = serializers.CharField()
    title = serializers.CharField(allow_blank=True)
    rollouts = serializers.IntegerField()
    graded = serializers.IntegerField()
    passed = serializers.IntegerField()
    mean = serializers.FloatField(allow_null=True)
    spread = serializers.FloatField(allow_null=True)
    best = serializers.FloatField(allow_null=True)
    kind = serializers.CharField(help_text="signal, or all alike: why it does or does not teach.")

    example = {
        "key": "q-17", "title": "What duty is due?", "rollouts": 4, "graded": 4, "passed": 1, "mean": 0.4,
        "spread": 0.3, "best": 1.0, "kind": "signal",
    }  # fmt: skip


class ReadinessWire(Wire):
    level = serializers.ChoiceField(["ok", "warn", "block"])
    title = serializers.CharField()
    text = serializers.CharField()
    blocks = serializers.IntegerField()
    warnings = serializers.IntegerField()
    lines = serializers.ListField(child=serializers.JSONField())

    example = {
        "level": "warn", "title": "Ready, with 1 warning", "text": "You may launch.", "blocks": 0, "warnings": 1,
        "lines": [],
    }  # fmt: skip


class ReadinessQuery(serializers.Serializer):
    backend = serializers.ChoiceField([*BACKENDS], required=False, help_text="A hosted one trains its own weights.")


class CompareQuery(serializers.Serializer):
    before = serializers.CharField(max_length=64)
    after = serializers.CharField(max_length=64)


class ChangeOfItem(Wire):
    key = serializers.CharField()
    title = serializers.CharField(allow_blank=True)
    before = serializers.FloatField()
    after = serializers.FloatField()


class ComparisonWire(Wire):
    mean_change = serializers.FloatField(allow_null=True)
    low = serializers.FloatField(allow_null=True, help_text="90 % paired bootstrap over items.")
    high = serializers.FloatField(allow_null=True)
    better = serializers.IntegerField()
    worse = serializers.IntegerField()
    same = serializers.IntegerField()
    only_before = serializers.IntegerField()
    only_after = serializers.IntegerField()
    pairs = ChangeOfItem(many=True)

    example = {
        "mean_change": 0.21, "low": 0.08, "high": 0.34, "better": 4, "worse": 1, "same": 1, "only_before": 0,
        "only_after": 0, "pairs": [{"key": "q-17", "title": "What duty is due?", "before": 0.2, "after": 0.9}],
    }  # fmt: skip


class PivotQuery(serializers.Serializer):
    tag = serializers.CharField(max_length=200, required=False, help_text="A field of the items.")


class PivotWire(Wire):
    tags = serializers.ListField(child=serializers.CharField(), help_text="Fields that sort the items into few kinds.")
    rows = serializers.ListField(child=serializers.JSONField())

    example = {"tags": ["topic"], "rows": [{"tag": "fruit", "mean_reward": 0.4}]}


class EvaluationList(Endpoint):
    @describe("evaluation_list", "List evaluations", answers=EvaluationWire, is_paged=True)
    def get(self, request: Request) -> Response:
        return self.page(selectors.evaluation_list(team=self.team), EvaluationWire)

    @describe(
        "evaluation_start", "Start an evaluation", right=RUN, takes=EvaluationNew, answers=EvaluationWire, status=201
    )
    def post(self, request: Request) -> Response:
        wanted = self.values(EvaluationNew)
        parts: dict[str, Any] = {
            "dataset_version": version_get(team=self.team, public_id=wanted.pop("dataset_version")),
            "agent_version": agent_version_get(team=self.team, public_id=wanted.pop("agent_version")),
            "grader_version": grader_version_get(team=self.team, public_id=wanted.pop("grader_version")),
        }
        if model := wanted.pop("model", None):
            parts["model"] = model_get(team=self.team, public_id=model)
        made = services.evaluation_start(actor=self.actor, **parts, **wanted)
        return self.shown(made, EvaluationWire, status=201)


class EvaluationCompare(Endpoint):
    @describe(
        "evaluation_compare", "Compare two evaluations item by item", answers=ComparisonWire, query=(CompareQuery,)
    )
    def get(self, request: Request) -> Response:
        asked = self.asked(CompareQuery)
        sides = [selectors.evaluation_get(team=self.team, public_id=asked[name]) for name in ("before", "after")]
        rows = [selectors.batch_rows(one.batch, with_tools=False) for one in sides]
        return self.shown(compare.compare(*rows), ComparisonWire)


class OfEvaluation(Endpoint):
    """An address below an evaluation."""

    def evaluation(self) -> Evaluation:
        return selectors.evaluation_get(team=self.team, public_id=self.kwargs["public_id"])


class EvaluationDetail(OfEvaluation):
    @describe("evaluation_get", "Read an evaluation with its figures", answers=EvaluationWhole)
    def get(self, request: Request, public_id: str) -> Response:
        return self.shown(self.evaluation(), EvaluationWhole)


class EvaluationItems(OfEvaluation):
    @describe("evaluation_item_list", "See every item's figures", answers=ItemFiguresWire, is_list=True)
    def get(self, request: Request, public_id: str) -> Response:
        return self.listed(selectors.evaluation_items(self.evaluation()), ItemFiguresWire)


class EvaluationReadiness(OfEvaluation):
    @describe(
        "readiness_get", "See whether there is something to learn", answers=ReadinessWire, query=(ReadinessQuery,)
    )
    def get(self, request: Request, public_id: str) -> Response:
        evaluation, backend = self.evaluation(), self.asked(ReadinessQuery).get("backend")
        found = launch_verdict(baseline=evaluation, backend=backend) if backend else selectors.readiness_of(evaluation)
        return self.shown(found, ReadinessWire)


class EvaluationPivot(OfEvaluation):
    @describe("evaluation_pivot", "See figures by a tag of the items", answers=PivotWire, query=(PivotQuery,))
    def get(self, request: Request, public_id: str) -> Response:
        evaluation, tag = self.evaluation(), self.asked(PivotQuery).get("tag")
        tags = selectors.item_tags(evaluation)
        if tag and tag not in tags:
            raise UserError(
                f"No field {tag!r} sorts these items.", where="tag", fix=f"Use: {', '.join(tags) or 'none'}."
            )
        chosen = tag or next(iter(tags), None)
        rows = selectors.batch_rows(evaluation.batch, with_tools=False)
        found = compare.pivot(rows, tags[chosen], pass_threshold=evaluation.pass_threshold) if chosen else []
        return Response({"tags": list(tags), "rows": found})


class EvaluationCancel(OfEvaluation):
    @describe("evaluation_cancel", "Stop an evaluation", right=RUN, takes=Empty, answers=EvaluationWire)
    def post(self, request: Request, public_id: str) -> Response:
        evaluation = self.evaluation()
        self.values(Empty)
        return self.shown(services.evaluation_cancel(actor=self.actor, evaluation=evaluation), EvaluationWire)
