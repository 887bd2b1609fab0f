"""Rollouts: search, read with their steps, export, import, ask people about them."""

from dataclasses import asdict, fields
from typing import Any

from django.http.response import HttpResponse, HttpResponseBase
from rest_framework import serializers
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.rollouts import explorer, exports, filters, regrade_selectors, search
from jobs.rollouts.asking import MOST, QUESTIONS, rollouts_ask
from jobs.rollouts.imports.service import rollouts_import
from jobs.rollouts.models import Rollout, RolloutBatch
from jobs.rollouts.reading import prompt_of, result_text, rollout_reading
from rftstudio.api.rest import pages
from rftstudio.api.rest.describe import describe
from rftstudio.api.rest.endpoint import Endpoint, stream
from rftstudio.api.rest.labels import LabelTaskWire
from rftstudio.api.rest.wire import Row, Wanted, Wire, example_id
from rftstudio.core.errors import NotFound, UserError
from rftstudio.teams.permissions import Permission

MOST_IMPORT = 200_000_000


class RolloutWire(Row):
    batch = serializers.CharField(source="batch.public_id")
    source = serializers.CharField(source="batch.source", allow_blank=True, help_text="The job's or evaluation's id.")
    train_step = serializers.IntegerField(source="batch.train_step", allow_null=True)
    item_key = serializers.CharField(source="group_key")
    sample_index = serializers.IntegerField()
    title = serializers.CharField(allow_blank=True)
    status = serializers.ChoiceField(Rollout.Status.values)
    stop_reason = serializers.CharField(allow_blank=True)
    error = serializers.CharField(allow_blank=True)
    reward = serializers.FloatField(allow_null=True, help_text="null is ungraded, which is not 0.")
    passed = serializers.BooleanField(allow_null=True)
    sub_rewards = serializers.JSONField()
    advantage = serializers.FloatField(allow_null=True)
    answer = serializers.CharField(allow_blank=True)
    n_steps = serializers.IntegerField()
    n_tool_calls = serializers.IntegerField()
    n_tool_errors = serializers.IntegerField()
    tool_path = serializers.CharField(allow_blank=True)
    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    cost_usd = serializers.DecimalField(max_digits=14, decimal_places=8, allow_null=True)
    milliseconds = serializers.FloatField(allow_null=True)

    example = {
        "id": example_id("roll-"), "created_at": "2026-11-30T10:10:00Z", "batch": example_id("batch-"),
        "source": example_id("evalrun_"), "train_step": None, "item_key": "q-17", "sample_index": 0,
        "title": "What duty is due on 40 crates of pears?", "status": "done", "stop_reason": "answered", "error": "",
        "reward": 1.0, "passed": True, "sub_rewards": {"duty": 1.0}, "advantage": 0.4, "answer": "The duty is 120.",
        "n_steps": 4, "n_tool_calls": 3, "n_tool_errors": 0, "tool_path": "lookup>lookup>calc>answer",
        "input_tokens": 2360, "output_tokens": 160, "cost_usd": None, "milliseconds": 3200.0,
    }  # fmt: skip


class RolloutWhole(RolloutWire):
    trace_id = serializers.CharField()
    grade = serializers.JSONField(help_text="The whole grade.")
    flags = serializers.JSONField(help_text="Oddities met on import or while running.")
    prompt = serializers.SerializerMethodField(help_text="What the policy was given.")
    siblings = serializers.SerializerMethodField(help_text="Ids of the group's other rollouts.")

    example = {
        **RolloutWire.example, "trace_id": "trace_3f1", "grade": {"reward": 1.0}, "flags": [],
        "prompt": [{"role": "user", "content": "What duty is due on 40 crates of pears?"}], "siblings": [],
    }  # fmt: skip

    def get_prompt(self, rollout: Rollout) -> list[dict[str, str]]:
        return [{"role": role, "content": text} for role, text in prompt_of(rollout)]

    def get_siblings(self, rollout: Rollout) -> list[str]:
        others = Rollout.objects.filter(batch=rollout.batch_id, group_key=rollout.group_key).exclude(pk=rollout.pk)
        return list(others.order_by("sample_index").values_list("public_id", flat=True))


class StepWire(Wire):
    index = serializers.IntegerField()
    text = serializers.CharField(allow_blank=True)
    reasoning = serializers.CharField(allow_blank=True)
    tool_calls = serializers.JSONField(help_text="Calls with results; of a long result its start, size and digest.")
    finish_reason = serializers.CharField(allow_blank=True)
    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    step_reward = serializers.FloatField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    milliseconds = serializers.FloatField(allow_null=True)

    example = {
        "index": 0, "text": "", "reasoning": "", "finish_reason": "tool_calls", "input_tokens": 500,
        "output_tokens": 40, "step_reward": None, "started_at": None, "milliseconds": 700.0,
        "tool_calls": [{"id": "call_1", "name": "lookup", "arguments": '{"good": "pears"}', "result": "see fruit"}],
    }  # fmt: skip


_HELP = {
    "source": "Id of a job or an evaluation.", "train_step": "3, or 3-9.", "item": "Its key.", "reward": "0.5-1",
    "steps": "2-4", "calls": "0, or 1-3.", "tool": "Its name.", "stop": "A stop reason.", "status": "A status.",
    "passed": "1 or 0.", "graded": "1 or 0.", "error": "1 or 0.", "batch": "Its id.", "tokens": "Written: 200, or 200-900.",
    "sub_reward": "Name and range: citations:0.8-1.", "alike": "1: graded like all its siblings; or 0.",
    "kind": "train_step, validation, evaluation, import or rerun.",
    "q": f"Whole words, or conclu* for any ending; the newest {search.MOST:,} matches.",
}  # fmt: skip


class FilterQuery(serializers.Serializer):
    """The filters of the rollouts page, by the same names."""

    def get_fields(self) -> dict[str, serializers.Field]:
        names = [field.name for field in fields(filters.Filters) if field.name != "problems"]
        return {
            name: serializers.CharField(max_length=300, required=False, help_text=_HELP.get(name, "")) for name in names
        }


def filters_of(asked: dict[str, Any]) -> filters.Filters:
    """A filter that cannot be read is refused here, where the page only says so."""
    names = FilterQuery().get_fields()
    found = filters.filters_from({name: asked[name] for name in names if asked.get(name)})
    if found.problems:
        raise UserError(" ".join(found.problems), fix="Correct the filter, or leave it out.")
    return found


class ExportQuery(FilterQuery):
    def get_fields(self) -> dict[str, serializers.Field]:
        return {"format": serializers.ChoiceField([*exports.FORMATS], default="jsonl"), **super().get_fields()}


class HistogramWire(Wire):
    name = serializers.CharField()
    bars = serializers.ListField(child=serializers.JSONField())
    total = serializers.IntegerField()
    is_sample = serializers.BooleanField(help_text="Only the newest rollouts were counted.")

    example = {
        "name": "reward", "bars": [{"low": 0.0, "high": 0.5, "count": 3, "is_selected": True}], "total": 3,
        "is_sample": False,
    }  # fmt: skip


class ImportWanted(Wanted):
    file = serializers.FileField(help_text="Span export, local trace, OTLP, ATIF, Inspect log or chat JSONL.")
    format = serializers.CharField(max_length=40, default="auto")
    pass_threshold = serializers.FloatField(default=0.5)


class ImportedWire(Wire):
    batch = serializers.CharField()
    is_new = serializers.BooleanField(help_text="false: the same bytes were imported before.")
    report = serializers.JSONField()

    example = {"batch": example_id("batch-"), "is_new": True, "report": {"rollouts": 8}}


class AskWanted(Wanted):
    sources = serializers.ListField(child=serializers.CharField(max_length=120), min_length=1, max_length=50)
    count = serializers.IntegerField(min_value=1, max_value=MOST, default=40)
    question = serializers.ChoiceField([*QUESTIONS], default=next(iter(QUESTIONS)))
    overlap = serializers.IntegerField(min_value=1, max_value=20, default=1)
    name = serializers.CharField(max_length=120, allow_blank=True, default="")

    example = {"sources": [f"evaluation/{example_id('evalrun_')}"], "count": 40, "overlap": 2}


class BatchWire(Row):
    kind = serializers.ChoiceField(RolloutBatch.Kind.values)
    source = serializers.CharField(allow_blank=True)
    train_step = serializers.IntegerField(allow_null=True)
    policy_label = serializers.CharField(allow_blank=True)
    pass_threshold = serializers.FloatField()

    example = {
        "id": example_id("batch-"), "created_at": "2026-11-30T10:00:00Z", "kind": "evaluation",
        "source": example_id("evalrun_"), "train_step": None, "policy_label": "Qwen 4B", "pass_threshold": 0.5,
    }  # fmt: skip


class RolloutList(Endpoint):
    @describe("rollout_list", "Search rollouts", answers=RolloutWire, is_paged=True, query=(FilterQuery,))
    def get(self, request: Request) -> Response:
        asked = self.asked(pages.PageQuery, FilterQuery)
        rows = filters.rows(team=self.team, filters=filters_of(asked)).select_related("batch")
        return self.page(rows.defer("grade", "extra", "flags"), RolloutWire, query=asked)


class RolloutHistograms(Endpoint):
    @describe(
        "rollout_histograms",
        "See how rollouts are distributed",
        answers=HistogramWire,
        is_list=True,
        query=(FilterQuery,),
    )
    def get(self, request: Request) -> Response:
        chosen = filters_of(self.asked(FilterQuery))
        finders = {
            "reward": explorer.reward_histogram, "steps": explorer.step_histogram,
            "train_step": explorer.train_step_histogram,
        }  # fmt: skip
        rows = [{"name": name, **asdict(find(team=self.team, filters=chosen))} for name, find in finders.items()]
        return self.paged(pages.whole(rows), HistogramWire)


class RolloutExport(Endpoint):
    @describe(
        "rollout_export", "Download rollouts", query=(ExportQuery,),
        bytes_of=tuple(dict.fromkeys(one.content_type.partition(";")[0] for one in exports.FORMATS.values())),
    )  # fmt: skip
    def get(self, request: Request) -> HttpResponseBase:
        asked = self.asked(ExportQuery)
        kind = exports.FORMATS[asked["format"]]
        rows = filters.rows(team=self.team, filters=filters_of(asked))
        return stream(kind.write(rows), kind.content_type, f"rollouts.{kind.ending}")


class RolloutImport(Endpoint):
    parser_classes = [MultiPartParser]

    @describe(
        "rollout_import", "Import traces", right=Permission.DATASET_EDIT, takes=ImportWanted, answers=ImportedWire,
        status=201, is_upload=True,
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        wanted = self.values(ImportWanted)
        if wanted["file"].size > MOST_IMPORT:
            raise UserError("The file is larger than 200 MB.", where="file", fix="Cut it in parts.")
        done = rollouts_import(
            actor=self.actor, content=wanted["file"].read(), filename=wanted["file"].name, format=wanted["format"],
            pass_threshold=wanted["pass_threshold"],
        )  # fmt: skip
        return Response({"batch": done.batch.public_id, "is_new": done.is_new, "report": done.report}, status=201)


class RolloutAsk(Endpoint):
    @describe(
        "rollout_ask", "Have people judge rollouts", right=Permission.DATASET_EDIT, takes=AskWanted, answers=LabelTaskWire,
        status=201, text="People see them without their rewards. Sources are keys of `/api/regrade-sources`.",
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        wanted = self.values(AskWanted)
        batches = regrade_selectors.batches_of(team=self.team, keys=wanted.pop("sources"))
        return self.shown(rollouts_ask(actor=self.actor, batches=batches, **wanted), LabelTaskWire, status=201)


class RolloutDetail(Endpoint):
    @describe("rollout_get", "Read a rollout", answers=RolloutWhole)
    def get(self, request: Request, public_id: str) -> Response:
        return self.shown(rollout_reading(team=self.team, public_id=public_id).rollout, RolloutWhole)


class RolloutSteps(Endpoint):
    @describe("step_list", "List a rollout's steps", answers=StepWire, is_paged=True)
    def get(self, request: Request, public_id: str) -> Response:
        rollout = Rollout.objects.filter(team=self.team, public_id=public_id).first()
        if rollout is None:
            raise NotFound("There is nothing at this address.")
        return self.page(rollout.steps.all(), StepWire, by="index", order="asc")


class StepResult(Endpoint):
    @describe("step_result", "Read a whole tool result", bytes_of=("text/plain",))
    def get(self, request: Request, public_id: str, index: int, call: int) -> HttpResponseBase:
        text = result_text(team=self.team, public_id=public_id, step=index, call=call)
        return HttpResponse(text.encode("utf-8", "replace"), content_type="text/plain; charset=utf-8")


class BatchDetail(Endpoint):
    @describe("batch_get", "Read a batch", answers=BatchWire)
    def get(self, request: Request, public_id: str) -> Response:
        found = RolloutBatch.objects.filter(team=self.team, public_id=public_id).first()
        if found is None:
            raise NotFound("There is nothing at this address.")
        return self.shown(found, BatchWire)
