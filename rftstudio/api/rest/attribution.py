"""Credit: what each step of a rollout earned, by which method, how sure; sums over a job; marks; re-runs."""

from dataclasses import asdict
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.attribution import judge, knowledge, rerun, selectors, services, summary
from jobs.attribution.catalogue import ALL
from jobs.attribution.methods.registry import METHODS
from jobs.attribution.models import StepMark
from jobs.attribution.reliability import claim_rows, reliability_of
from jobs.rollouts.models import RolloutBatch
from jobs.rollouts.reading import Reading, rollout_reading
from rftstudio.api.rest import pages
from rftstudio.api.rest.describe import describe
from rftstudio.api.rest.endpoint import Endpoint
from rftstudio.api.rest.wire import Empty, Wanted, Wire, example_id
from rftstudio.core.errors import Conflict, NotFound
from rftstudio.teams.permissions import Permission


class MethodWire(Wire):
    key = serializers.CharField()
    name = serializers.CharField()
    sentence = serializers.CharField()
    needs = serializers.CharField()
    paper = serializers.CharField(allow_blank=True)
    is_complete = serializers.BooleanField(help_text="Its credits of a rollout sum to reward − baseline.")
    measured = serializers.SerializerMethodField(help_text="What the bench measured, beside the best cheap rival.")

    example = {
        "key": "divergence", "name": "Where siblings part", "sentence": "Shared steps share; credit where they part.",
        "needs": "a stored group", "paper": "SALT", "is_complete": True, "measured": [],
    }  # fmt: skip

    def get_measured(self, method: Any) -> list[dict[str, Any]]:
        return claim_rows(method.key) if method.key in METHODS else []


class CreditWire(Wire):
    method = serializers.CharField()
    baseline = serializers.FloatField(help_text="Leave-one-out mean of the group's graded rewards.")
    credits = serializers.ListField(child=serializers.FloatField(), help_text="One for each step, in order.")
    low = serializers.ListField(child=serializers.FloatField(allow_null=True), help_text="90 % interval.")
    high = serializers.ListField(child=serializers.FloatField(allow_null=True))
    support = serializers.ListField(child=serializers.FloatField(allow_null=True))
    is_complete = serializers.BooleanField()
    is_fresh = serializers.BooleanField(help_text="The group still has the rewards it was computed from.")
    computed_at = serializers.DateTimeField()

    example = {
        "method": "divergence", "baseline": 0.6, "credits": [0.0, 0.3, 0.1], "low": [None, 0.1, -0.1],
        "high": [None, 0.5, 0.3], "support": [0, 5, 3], "is_complete": True, "is_fresh": True,
        "computed_at": "2026-11-30T11:00:00Z",
    }  # fmt: skip


class CreditQuery(serializers.Serializer):
    method = serializers.ChoiceField([*METHODS], required=False, help_text="Left out: all that are stored.")


class MethodQuery(serializers.Serializer):
    method = serializers.ChoiceField([*METHODS], default="prefix_value")


class ComputeWanted(Wanted):
    method = serializers.ChoiceField([*METHODS])

    example = {"method": "divergence"}


class SummaryWire(Wire):
    source = serializers.CharField()
    method = serializers.CharField()
    rollouts = serializers.IntegerField()
    uncredited = serializers.IntegerField()
    is_cut = serializers.BooleanField()
    by_tool = serializers.ListField(child=serializers.JSONField())
    by_place = serializers.ListField(child=serializers.JSONField())
    over_time = serializers.JSONField(help_text="Tool → [train step, mean credit].")
    agreement = serializers.ListField(child=serializers.JSONField())
    marks = serializers.ListField(child=serializers.JSONField())


class QueuedWire(Wire):
    batches = serializers.IntegerField(help_text="How many batches are queued.")

    example = {"batches": 1}


class MarkWire(Wire):
    step = serializers.IntegerField(source="step_index", help_text="0-based.")
    user = serializers.CharField()
    mark = serializers.IntegerField(help_text="1 helps, 0 neither, -1 harms.")
    updated_at = serializers.DateTimeField()

    example = {"step": 1, "user": "Ana", "mark": 1, "updated_at": "2026-11-30T11:10:00Z"}


class MarkSet(Wanted):
    mark = serializers.ChoiceField([-1, 0, 1], allow_null=True, help_text="null takes it back.")

    example = {"mark": 1}


class RerunWire(Wire):
    total = serializers.IntegerField()
    ended = serializers.IntegerField()
    is_running = serializers.BooleanField()
    batch = serializers.CharField(allow_null=True)
    why_not = serializers.CharField(allow_blank=True, help_text="Why it cannot be re-run; empty when it can.")

    example = {"total": 32, "ended": 0, "is_running": True, "batch": example_id("batch-"), "why_not": ""}


class JudgeWanted(Wanted):
    model = serializers.CharField(max_length=64, help_text="A model's id.")

    example = {"model": example_id("model-")}


class AskedWire(Wire):
    is_asked = serializers.BooleanField(help_text="A worker does it; read the credit in a while.")

    example = {"is_asked": True}


class MethodList(Endpoint):
    @describe("credit_method_list", "List methods of attribution", answers=MethodWire, is_list=True)
    def get(self, request: Request) -> Response:
        return self.listed(ALL.values(), MethodWire)


class OfRollout(Endpoint):
    """An address below a rollout."""

    def reading(self) -> Reading:
        return rollout_reading(team=self.team, public_id=self.kwargs["public_id"])


class RolloutCredit(OfRollout):
    @describe("credit_get", "Read a rollout's credit", answers=CreditWire, is_list=True, query=(CreditQuery,))
    def get(self, request: Request, public_id: str) -> Response:
        reading, asked = self.reading(), self.asked(CreditQuery)
        found = selectors.credits_of(reading.rollout)
        rows: list[Any] = [credit for key, credit in found.items() if asked.get("method") in (None, key)]
        for credit in rows:
            credit.is_fresh = services.is_fresh(credit, reading.siblings.everyone)
        return self.paged(pages.whole(rows), CreditWire)

    @describe(
        "credit_compute", "Credit a rollout's steps now", right=Permission.EVALUATION_RUN, takes=ComputeWanted,
        answers=CreditWire,
    )  # fmt: skip
    def post(self, request: Request, public_id: str) -> Response:
        reading, wanted = self.reading(), self.values(ComputeWanted)
        everyone = reading.siblings.everyone
        credit = services.attribution_ensure(rollout=reading.rollout, siblings=everyone, method=wanted["method"])
        if credit is None:
            raise Conflict(
                "This method has no credit for this rollout.", fix="It needs a reward, steps and a graded sibling."
            )
        credit.is_fresh = services.is_fresh(credit, everyone)  # type: ignore[attr-defined]
        return self.shown(credit, CreditWire)


class RolloutMarks(OfRollout):
    @describe("step_mark_list", "List marks on a rollout's steps", answers=MarkWire, is_list=True)
    def get(self, request: Request, public_id: str) -> Response:
        return self.listed(selectors.marks_of(self.reading().rollout), MarkWire)


class StepMarked(OfRollout):
    @describe("step_mark_set", "Mark a step", right=Permission.LABEL, takes=MarkSet, answers=MarkWire, is_list=True)
    def put(self, request: Request, public_id: str, index: int) -> Response:
        reading, wanted = self.reading(), self.values(MarkSet)
        if self.actor.user is None:
            raise Conflict(
                "A mark is a person's judgement, and this key acts for nobody.",
                fix="Use a key of a service account, or mark the step in the browser.",
            )
        services.step_mark_set(actor=self.actor, rollout=reading.rollout, step_index=index, mark=wanted["mark"])
        return self.listed(StepMark.objects.filter(rollout=reading.rollout, step_index=index), MarkWire)


class RolloutRerun(OfRollout):
    def state(self, reading: Reading) -> dict[str, Any]:
        found = rerun.rerun_state(reading.rollout)
        return {
            "total": found.total, "ended": found.ended, "is_running": found.is_running,
            "batch": found.batch.public_id if found.batch else None,
            "why_not": rerun.why_not(reading.rollout, len(reading.siblings.graded)),
        }  # fmt: skip

    @describe("rerun_get", "See how far a re-run is", answers=RerunWire)
    def get(self, request: Request, public_id: str) -> Response:
        return Response(self.state(self.reading()))

    @describe(
        "rerun_start", "Run the rest again from every step", right=Permission.EVALUATION_RUN, takes=Empty,
        answers=RerunWire, status=202,
    )  # fmt: skip
    def post(self, request: Request, public_id: str) -> Response:
        reading = self.reading()
        self.values(Empty)
        rerun.rerun_start(actor=self.actor, rollout=reading.rollout)
        return Response(self.state(reading), status=202)


class RolloutJudge(OfRollout):
    @describe(
        "judge_start", "Have a model mark the steps", right=Permission.EVALUATION_RUN, takes=JudgeWanted, answers=AskedWire,
        status=202, text="Its marks appear among the rollout's credit, under the method judge.",
    )  # fmt: skip
    def post(self, request: Request, public_id: str) -> Response:
        reading, wanted = self.reading(), self.values(JudgeWanted)
        model = next((one for one in judge.judges(self.team) if one.public_id == wanted["model"]), None)
        if model is None:
            raise NotFound("The team has no such model that could judge.", where="model")
        judge.judge_start(actor=self.actor, rollout=reading.rollout, model=model)
        return Response({"is_asked": True}, status=202)


class RolloutKnowledge(OfRollout):
    @describe(
        "knowledge_ask", "Read how likely the policy found the answer", right=Permission.EVALUATION_RUN, takes=Empty,
        answers=AskedWire, status=202, text="For the method information_gain: after each step, once.",
    )  # fmt: skip
    def post(self, request: Request, public_id: str) -> Response:
        reading = self.reading()
        self.values(Empty)
        knowledge.knowledge_ask(actor=self.actor, rollout=reading.rollout)
        return Response({"is_asked": True}, status=202)


class SourceCredit(Endpoint):
    def check(self, source: str) -> None:
        if not RolloutBatch.objects.filter(team=self.team, source=source).exists():
            raise NotFound("There is nothing at this address.")

    @describe("source_credit", "Read credit over a job or an evaluation", answers=SummaryWire, query=(MethodQuery,))
    def get(self, request: Request, source: str) -> Response:
        self.check(source)
        found = summary.credit_summary(team=self.team, source=source, method=self.asked(MethodQuery)["method"])
        return Response(asdict(found))

    @describe(
        "source_credit_compute", "Queue the credit of a job or an evaluation", right=Permission.EVALUATION_RUN,
        takes=Empty, answers=QueuedWire, status=202,
    )  # fmt: skip
    def post(self, request: Request, source: str) -> Response:
        self.check(source)
        self.values(Empty)
        return Response({"batches": services.source_credit(actor=self.actor, source=source)}, status=202)


class ReliabilityQuery(serializers.Serializer):
    group_size = serializers.IntegerField(min_value=2, max_value=1024, default=8)


class ReliabilityWire(Wire):
    method = serializers.CharField()
    blocks = serializers.IntegerField(help_text="0 to 5.")
    word = serializers.CharField(allow_blank=True)
    sentence = serializers.CharField(allow_blank=True)
    is_measured = serializers.BooleanField()

    example = {"method": "divergence", "blocks": 3, "word": "fair", "sentence": "Measured.", "is_measured": True}


class MethodReliability(Endpoint):
    @describe("credit_reliability", "Read how reliable a method is", answers=ReliabilityWire, query=(ReliabilityQuery,))
    def get(self, request: Request, key: str) -> Response:
        if key not in ALL:
            raise NotFound("There is no such method.")
        found = reliability_of(key, self.asked(ReliabilityQuery)["group_size"])
        return Response({"method": key, **asdict(found)})
