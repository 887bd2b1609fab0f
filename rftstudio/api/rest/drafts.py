"""Drafts of the launch form: kept as they are, ended by the launch that names them (`draft` of `POST /api/jobs`)."""

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import drafts, services
from jobs.evaluations.selectors import evaluation_get
from jobs.models import LaunchDraft
from rftstudio.api.rest.describe import describe
from rftstudio.api.rest.endpoint import Endpoint, nothing
from rftstudio.api.rest.wire import Row, Wanted, example_id
from rftstudio.teams.permissions import Permission

LAUNCH = Permission.JOB_LAUNCH
_VALUES = {"name": "For Monday", "n_epochs": "2", "batch_size": "many"}


class LaunchDraftWire(Row):
    updated_at = serializers.DateTimeField()
    name = serializers.CharField(allow_blank=True)
    baseline = serializers.CharField(
        source="baseline.public_id", allow_null=True, default=None, help_text="Null when it was deleted."
    )
    values = serializers.JSONField(help_text="What stands in each field of the launch form, checked or not.")

    example = {
        "id": example_id("draft_"), "created_at": "2026-11-30T10:00:00Z", "updated_at": "2026-11-30T10:05:00Z",
        "name": "For Monday", "baseline": example_id("evalrun_"), "values": _VALUES,
    }  # fmt: skip


class LaunchDraftWanted(Wanted):
    baseline = serializers.CharField(max_length=64, help_text="A finished evaluation.")
    values = serializers.DictField(
        child=serializers.CharField(allow_blank=True, trim_whitespace=False),
        help_text="Field of the launch form → what stands there, as text. Nothing is checked but the size.",
    )

    example = {"baseline": example_id("evalrun_"), "values": _VALUES}


class LaunchDraftEndpoint(Endpoint):
    def draft(self) -> LaunchDraft:
        return drafts.draft_get(team=self.team, public_id=self.kwargs["public_id"])

    def save(self, launch_key: str = "") -> LaunchDraft:
        wanted = self.values(LaunchDraftWanted)
        baseline = evaluation_get(team=self.team, public_id=wanted["baseline"])
        return services.draft_save(actor=self.actor, baseline=baseline, values=wanted["values"], launch_key=launch_key)


class LaunchDrafts(LaunchDraftEndpoint):
    @describe("draft_list", "List drafts of the launch form", right=LAUNCH, answers=LaunchDraftWire, is_list=True)
    def get(self, request: Request) -> Response:
        return self.listed(drafts.draft_list(team=self.team), LaunchDraftWire)

    @describe(
        "draft_create", "Put a launch form aside", right=LAUNCH, takes=LaunchDraftWanted, answers=LaunchDraftWire,
        status=201,
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        return self.shown(self.save(), LaunchDraftWire, status=201)


class LaunchDraftDetail(LaunchDraftEndpoint):
    @describe("draft_get", "Read a draft", right=LAUNCH, answers=LaunchDraftWire)
    def get(self, request: Request, public_id: str) -> Response:
        return self.shown(self.draft(), LaunchDraftWire)

    @describe(
        "draft_save", "Fill a draft anew", right=LAUNCH, takes=LaunchDraftWanted, answers=LaunchDraftWire,
        has_condition=True,
    )  # fmt: skip
    def put(self, request: Request, public_id: str) -> Response:
        return self.shown(self.save(self.draft().launch_key), LaunchDraftWire)

    @describe("draft_delete", "Delete a draft", right=LAUNCH, status=204)
    def delete(self, request: Request, public_id: str) -> Response:
        services.draft_delete(actor=self.actor, draft=self.draft())
        return nothing()
