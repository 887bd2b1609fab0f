"""Checkpoints: read, publish as a model, measure, promote, try, download, let expire, delete."""

from django.http.response import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import playground, selectors, services
from jobs.models import Checkpoint
from rftstudio.api.rest.agents import AgentVersionWire, ModelWire
from rftstudio.api.rest.describe import describe
from rftstudio.api.rest.endpoint import Endpoint, nothing, stream
from rftstudio.api.rest.evaluations import EvaluationWire
from rftstudio.api.rest.wire import Empty, Row, Wanted, Wire, example_id
from rftstudio.teams.permissions import Permission

LAUNCH = Permission.JOB_LAUNCH


class CheckpointWire(Row):
    job = serializers.CharField(source="job.public_id")
    step_number = serializers.IntegerField()
    validation_reward = serializers.FloatField(allow_null=True)
    metrics = serializers.JSONField()
    model = serializers.CharField(source="model.public_id", allow_null=True, default=None)
    expires_at = serializers.DateTimeField(allow_null=True)

    example = {
        "id": example_id("ftckpt_"), "created_at": "2026-11-30T10:20:00Z", "job": example_id("ftjob-"),
        "step_number": 20, "validation_reward": 0.62, "metrics": {}, "model": None, "expires_at": None,
    }  # fmt: skip


class ExpiryWanted(Wanted):
    days = serializers.IntegerField(min_value=1, max_value=3650, allow_null=True, help_text="null keeps the weights.")

    example = {"days": 30}


class TryWanted(Wanted):
    item = serializers.CharField(max_length=200, allow_blank=True, default="", help_text="A held-out item's key.")

    example = {"item": "test-001"}


class TriedWire(Wire):
    source = serializers.CharField(help_text="Names the pair: `/api/rollouts?source=…` has both rollouts.")

    example = {"source": example_id("try_")}


class OfCheckpoint(Endpoint):
    """An address below a checkpoint."""

    def checkpoint(self) -> Checkpoint:
        return selectors.checkpoint_get(team=self.team, public_id=self.kwargs["public_id"])


class CheckpointDetail(OfCheckpoint):
    @describe("checkpoint_get", "Read a checkpoint", answers=CheckpointWire)
    def get(self, request: Request, public_id: str) -> Response:
        return self.shown(self.checkpoint(), CheckpointWire)

    @describe("checkpoint_delete", "Delete a checkpoint's weights", right=LAUNCH, status=204)
    def delete(self, request: Request, public_id: str) -> Response:
        services.checkpoint_delete(actor=self.actor, checkpoint=self.checkpoint())
        return nothing()


class CheckpointPublish(OfCheckpoint):
    @describe(
        "checkpoint_publish", "Make a checkpoint a model", right=LAUNCH, takes=Empty, answers=ModelWire, status=201
    )
    def post(self, request: Request, public_id: str) -> Response:
        checkpoint = self.checkpoint()
        self.values(Empty)
        made = services.checkpoint_publish(actor=self.actor, checkpoint=checkpoint)
        return self.shown(made, ModelWire, status=201)


class CheckpointEvaluate(OfCheckpoint):
    @describe(
        "checkpoint_evaluate", "Measure a checkpoint as its baseline was", right=LAUNCH, takes=Empty,
        answers=EvaluationWire, status=201, text="Needs the right to run evaluations too.",
    )  # fmt: skip
    def post(self, request: Request, public_id: str) -> Response:
        checkpoint = self.checkpoint()
        self.values(Empty)
        made = services.checkpoint_evaluate(actor=self.actor, checkpoint=checkpoint)
        return self.shown(made, EvaluationWire, status=201)


class CheckpointPromote(OfCheckpoint):
    @describe(
        "checkpoint_promote", "Let the agent answer with a checkpoint", right=LAUNCH, takes=Empty,
        answers=AgentVersionWire, status=201, text="Asked again, the same version. Needs the right to edit agents too.",
    )  # fmt: skip
    def post(self, request: Request, public_id: str) -> Response:
        checkpoint = self.checkpoint()
        self.values(Empty)
        made = services.checkpoint_promote(actor=self.actor, checkpoint=checkpoint)
        return self.shown(made, AgentVersionWire, status=201)


class CheckpointExpiry(OfCheckpoint):
    @describe(
        "checkpoint_expiry_set", "Delete the weights later, or keep them", right=LAUNCH, takes=ExpiryWanted,
        answers=CheckpointWire,
    )  # fmt: skip
    def put(self, request: Request, public_id: str) -> Response:
        checkpoint, wanted = self.checkpoint(), self.values(ExpiryWanted)
        return self.shown(
            services.checkpoint_expiry_set(actor=self.actor, checkpoint=checkpoint, **wanted), CheckpointWire
        )


class CheckpointArchive(OfCheckpoint):
    is_kept = False

    @describe(
        "checkpoint_download", "Download the weights", right=LAUNCH, takes=Empty, bytes_of=("application/x-tar",),
        is_kept=False, text="A tar archive. By POST, because it is noted in the audit log.",
    )  # fmt: skip
    def post(self, request: Request, public_id: str) -> HttpResponseBase:
        checkpoint = self.checkpoint()
        self.values(Empty)
        name, parts = services.checkpoint_download(actor=self.actor, checkpoint=checkpoint)
        return stream(parts, "application/x-tar", name)


class CheckpointTry(OfCheckpoint):
    @describe(
        "checkpoint_try", "Let base and checkpoint try one held-out item", right=Permission.EVALUATION_RUN,
        takes=TryWanted, answers=TriedWire, status=202, text="Needs the right to launch jobs too.",
    )  # fmt: skip
    def post(self, request: Request, public_id: str) -> Response:
        checkpoint, wanted = self.checkpoint(), self.values(TryWanted)
        source = playground.try_start(actor=self.actor, checkpoint=checkpoint, item_key=wanted["item"])
        return Response({"source": source}, status=202)
