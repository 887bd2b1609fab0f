"""Jobs: estimate, launch, pause, resume, cancel; their train steps, events and alarms."""

from dataclasses import asdict
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import plan as plans
from jobs import selectors, services
from jobs.backends.registry import BACKENDS
from jobs.drafts import draft_get
from jobs.evaluations.selectors import evaluation_get
from jobs.models import Job, TrainStep
from jobs.words import next_of, words_of
from rftstudio.api.rest import pages
from rftstudio.api.rest.checkpoints import CheckpointWire
from rftstudio.api.rest.describe import describe
from rftstudio.api.rest.endpoint import Endpoint
from rftstudio.api.rest.wire import AnyObject, Empty, Row, Wanted, Wire, example_id
from rftstudio.teams.permissions import Permission

LAUNCH = Permission.JOB_LAUNCH
_LEVELS = ["info", "warn", "error"]


class JobWire(Row):
    number = serializers.IntegerField()
    name = serializers.CharField(allow_blank=True)
    baseline = serializers.CharField(source="baseline.public_id")
    backend = serializers.CharField()
    method = serializers.ChoiceField(Job.Method.values)
    demonstrations = serializers.JSONField(help_text="What a supervised job learns from.")
    base_model = serializers.CharField(source="base_model.public_id")
    plan = serializers.JSONField(help_text="Every hyperparameter, filled in.")
    seed = serializers.IntegerField()
    status = serializers.ChoiceField(Job.Status.values)
    status_note = serializers.CharField(allow_blank=True)
    error = serializers.JSONField()
    total_steps = serializers.IntegerField()
    done_steps = serializers.IntegerField()
    best_checkpoint = serializers.CharField(source="best_checkpoint.public_id", allow_null=True, default=None)
    trained_tokens = serializers.IntegerField(allow_null=True)
    queued_at = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)

    example = {
        "id": example_id("ftjob-"), "created_at": "2026-11-30T10:00:00Z", "number": 12, "name": "First",
        "baseline": example_id("evalrun_"), "backend": "trl", "method": "reinforcement",
        "demonstrations": {}, "base_model": example_id("model-"),
        "plan": {"n_epochs": 1}, "seed": 0, "status": "queued", "status_note": "", "error": None, "total_steps": 20,
        "done_steps": 0, "best_checkpoint": None, "trained_tokens": None, "queued_at": "2026-11-30T10:00:01Z",
        "started_at": None, "finished_at": None,
    }  # fmt: skip


class JobWhole(JobWire):
    words = serializers.SerializerMethodField(help_text="The status for a person, and what is next.")
    state = serializers.SerializerMethodField(help_text="Silence, time left, percent, cost in dollars, rollouts.")

    example = {
        **JobWire.example, "words": {"title": "Waiting for a free machine", "text": "", "next": ""},
        "state": {"percent": 0, "cost": None},
    }  # fmt: skip

    def get_words(self, job: Job) -> dict[str, str]:
        words = words_of(job)
        return asdict(words) | {"next": next_of(job, words).text}

    def get_state(self, job: Job) -> dict[str, Any]:
        found = asdict(selectors.job_state(job))
        return {**found, "cost": None if found["cost"] is None else str(found["cost"])}


class _Order(Wanted):
    baseline = serializers.CharField(max_length=64, help_text="A finished evaluation.")
    plan = AnyObject(
        required=False, help_text=f"Hyperparameters; left out ones are automatic: {', '.join(plans.FIELDS)}."
    )
    backend = serializers.ChoiceField([*BACKENDS], default="trl")
    method = serializers.ChoiceField(Job.Method.values, default=Job.Method.REINFORCEMENT)
    demonstrations = AnyObject(
        required=False,
        help_text="What a supervised job learns from: {from: rollouts, of: an evaluation's or job's id, least_reward, "
        "most_per_item}, {from: references, field} or {from: turns, field}.",
    )


class EstimateWanted(_Order):
    example = {"baseline": example_id("evalrun_"), "plan": {"n_epochs": 1}}


class JobNew(_Order):
    name = serializers.CharField(max_length=120, allow_blank=True, default="")
    seed = serializers.IntegerField(min_value=0, max_value=2**31 - 1, default=0)
    override = serializers.CharField(
        max_length=400, allow_blank=True, default="", help_text="Why it is launched although readiness blocks it."
    )
    draft = serializers.CharField(
        max_length=64,
        allow_blank=True,
        default="",
        help_text="A draft that ends with this launch. Its values are not read.",
    )

    example = {"baseline": example_id("evalrun_"), "plan": {"n_epochs": 1}, "name": "First", "seed": 0}


class EstimateWire(Wire):
    plan = serializers.JSONField()
    derived = serializers.JSONField(help_text="Train steps and rollouts that follow from the plan.")
    estimate = serializers.JSONField(help_text="Seconds and dollars with their range and formula.")

    example = {"plan": {"n_epochs": 1}, "derived": {"train_steps": 20}, "estimate": {"seconds": 640.0, "usd": None}}


class JobQuery(serializers.Serializer):
    status = serializers.ChoiceField(Job.Status.values, required=False)


class NoteWanted(Wanted):
    note = serializers.CharField(max_length=400, allow_blank=True, default="", help_text="Why.")

    example = {"note": "The grader has to change."}


class TrainStepWire(Wire):
    number = serializers.IntegerField()
    attempt = serializers.IntegerField()
    mean_reward = serializers.FloatField(allow_null=True)
    validation_reward = serializers.FloatField(allow_null=True)
    is_credited = serializers.BooleanField()
    at = serializers.DateTimeField(allow_null=True)
    metrics = serializers.JSONField()

    example = {
        "number": 1, "attempt": 1, "mean_reward": 0.31, "validation_reward": None, "is_credited": False,
        "at": "2026-11-30T10:05:00Z", "metrics": {"seconds": 4.1},
    }  # fmt: skip


class FiguresWire(Wire):
    steps = serializers.ListField(child=serializers.JSONField(), help_text="What the job page draws, by train step.")
    alarms = serializers.ListField(child=serializers.JSONField(), help_text="`muted_by` names who set one aside.")

    example = {"steps": [{"number": 1, "mean_reward": 0.31}], "alarms": []}


class MuteWanted(Wanted):
    is_muted = serializers.BooleanField(help_text="True: it no longer counts as open, and pauses nothing.")

    example = {"is_muted": True}


class EventWire(Wire):
    id = serializers.CharField(source="public_id")
    created_at = serializers.DateTimeField()
    level = serializers.CharField()
    type = serializers.CharField()
    message = serializers.CharField(allow_blank=True)
    data = serializers.JSONField()

    example = {
        "id": example_id("ftevent-"), "created_at": "2026-11-30T10:00:00Z", "level": "info", "type": "message",
        "message": "Launched by Ana from baseline 1.", "data": None,
    }  # fmt: skip


class EventQuery(serializers.Serializer):
    level = serializers.ChoiceField(_LEVELS, required=False)


class JobEstimate(Endpoint):
    is_kept = False

    @describe(
        "job_estimate", "See what a plan takes", right=LAUNCH, takes=EstimateWanted, answers=EstimateWire, is_kept=False
    )
    def post(self, request: Request) -> Response:
        wanted = self.values(EstimateWanted)
        baseline = evaluation_get(team=self.team, public_id=wanted["baseline"])
        choice = services.choice_of(wanted["method"], wanted.get("demonstrations"), baseline)
        filled = plans.plan_fill(wanted.get("plan"), ground=selectors.plan_ground(baseline, choice))
        derived, guess = selectors.job_estimate(
            baseline=baseline, plan=filled, backend=wanted["backend"], choice=choice
        )
        return Response({"plan": filled, "derived": asdict(derived), "estimate": guess.as_dict()})


class JobList(Endpoint):
    @describe("job_list", "List jobs", answers=JobWire, is_paged=True, query=(JobQuery,))
    def get(self, request: Request) -> Response:
        asked = self.asked(pages.PageQuery, JobQuery)
        rows = selectors.job_list(team=self.team).select_related("baseline", "base_model", "best_checkpoint")
        rows = rows.filter(status=asked["status"]) if asked.get("status") else rows
        return self.page(rows, JobWire, query=asked)

    @describe("job_launch", "Launch a job", right=LAUNCH, takes=JobNew, answers=JobWire, status=201)
    def post(self, request: Request) -> Response:
        wanted = self.values(JobNew)
        baseline = evaluation_get(team=self.team, public_id=wanted.pop("baseline"))
        draft = wanted.pop("draft")
        key = draft_get(team=self.team, public_id=draft).launch_key if draft else ""
        job = services.job_launch(actor=self.actor, baseline=baseline, launch_key=key, **wanted)
        return self.shown(job, JobWire, status=201)


class OfJob(Endpoint):
    """An address below a job."""

    def job(self) -> Job:
        return selectors.job_get(team=self.team, public_id=self.kwargs["public_id"])


class JobDetail(OfJob):
    @describe("job_get", "Read a job", answers=JobWhole)
    def get(self, request: Request, public_id: str) -> Response:
        return self.shown(self.job(), JobWhole)


class JobPause(OfJob):
    @describe("job_pause", "Stop at the next train step", right=LAUNCH, takes=NoteWanted, answers=JobWire)
    def post(self, request: Request, public_id: str) -> Response:
        job, wanted = self.job(), self.values(NoteWanted)
        return self.shown(services.job_pause(actor=self.actor, job=job, **wanted), JobWire)


class JobResume(OfJob):
    @describe("job_resume", "Go on from the newest checkpoint", right=LAUNCH, takes=Empty, answers=JobWire)
    def post(self, request: Request, public_id: str) -> Response:
        job = self.job()
        self.values(Empty)
        return self.shown(services.job_resume(actor=self.actor, job=job), JobWire)


class JobCancel(OfJob):
    @describe("job_cancel", "End a job for good", right=LAUNCH, takes=NoteWanted, answers=JobWire)
    def post(self, request: Request, public_id: str) -> Response:
        job, wanted = self.job(), self.values(NoteWanted)
        return self.shown(services.job_cancel(actor=self.actor, job=job, **wanted), JobWire)


class JobTrainSteps(OfJob):
    @describe("train_step_list", "List train steps", answers=TrainStepWire, is_paged=True)
    def get(self, request: Request, public_id: str) -> Response:
        return self.page(TrainStep.objects.filter(job=self.job()), TrainStepWire, by="number", order="asc")


class JobFigures(OfJob):
    @describe("job_figures", "Read curves and alarms", answers=FiguresWire)
    def get(self, request: Request, public_id: str) -> Response:
        return Response(_figures(self.job()))


def _figures(job: Job) -> dict[str, Any]:
    steps = selectors.step_figures(job, with_intervals=True)
    alarms = [asdict(alarm) for alarm in selectors.job_alarms(job, steps)]
    return {"steps": [asdict(step) for step in steps], "alarms": alarms}


class AlarmMute(OfJob):
    @describe(
        "alarm_mute", "Mute an open alarm, or take that back", right=LAUNCH, takes=MuteWanted, answers=FiguresWire
    )
    def put(self, request: Request, public_id: str, key: str) -> Response:
        job = services.alarm_mute(actor=self.actor, job=self.job(), key=key, **self.values(MuteWanted))
        return Response(_figures(job))


class JobEvents(OfJob):
    @describe("event_list", "List events", answers=EventWire, is_paged=True, query=(EventQuery,))
    def get(self, request: Request, public_id: str) -> Response:
        job, asked = self.job(), self.asked(pages.PageQuery, EventQuery)
        rows = selectors.event_list(job)
        rows = rows.filter(level=asked["level"]) if asked.get("level") else rows
        return self.page(rows, EventWire, query=asked)


class JobCheckpoints(OfJob):
    @describe("checkpoint_list", "List checkpoints", answers=CheckpointWire, is_paged=True)
    def get(self, request: Request, public_id: str) -> Response:
        return self.page(selectors.checkpoint_list(self.job()).select_related("job", "model"), CheckpointWire)
