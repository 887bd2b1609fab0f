"""Around the rollout list: searches kept under a name, masking rules, and items made of rollouts."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from datasets.selectors import dataset_get
from jobs.rollouts import filters, keeping
from jobs.rollouts.masking import KINDS
from jobs.rollouts.models import MaskRule, SavedView
from jobs.rollouts.to_items import ANSWERS, MOST, rollouts_to_items
from rftstudio.api.rest.describe import describe
from rftstudio.api.rest.endpoint import Endpoint, nothing
from rftstudio.api.rest.items import ChangeWire
from rftstudio.api.rest.rollouts import FilterQuery, filters_of
from rftstudio.api.rest.wire import Wanted, Wire
from rftstudio.core.errors import UserError
from rftstudio.teams.permissions import Permission, can


class SavedViewWire(Wire):
    id = serializers.IntegerField(source="pk")
    name = serializers.CharField()
    query = serializers.CharField(allow_blank=True, help_text="As the rollouts page and `/api/rollouts` read it.")
    created_at = serializers.DateTimeField()

    example = {"id": 3, "name": "failed look-ups", "query": "tool=lookup&error=1", "created_at": "2026-11-30T11:00:00Z"}


class SavedViewNew(Wanted):
    name = serializers.CharField(max_length=60, help_text="The same name again replaces it.")
    query = serializers.CharField(max_length=1000, allow_blank=True)

    example = {"name": "failed look-ups", "query": "tool=lookup&error=1"}


class MaskRuleWire(Wire):
    id = serializers.IntegerField(source="pk")
    kind = serializers.CharField()
    words = serializers.SerializerMethodField(help_text="Told to those who may change it.")
    created_at = serializers.DateTimeField()

    example = {"id": 2, "kind": "email", "words": "", "created_at": "2026-11-30T11:00:00Z"}

    def get_words(self, rule: MaskRule) -> str | None:
        return rule.words if can(self.context["actor"], Permission.TEAM_MANAGE) else None


class MaskRuleNew(Wanted):
    kind = serializers.ChoiceField([*KINDS])
    words = serializers.CharField(max_length=200, allow_blank=True, default="", help_text="For the kind words.")

    example = {"kind": "email", "words": ""}


class ItemsWanted(Wanted):
    dataset = serializers.CharField(max_length=64, required=False, help_text="Its id; a new one is made without.")
    name = serializers.CharField(max_length=120, allow_blank=True, default="", help_text="Of the new dataset.")
    answers = serializers.ChoiceField([*ANSWERS], default="", help_text="Whose answer becomes the reference.")
    filters = serializers.DictField(
        child=serializers.CharField(max_length=300), default=dict, help_text="As `/api/rollouts` takes them."
    )

    example = {"name": "From traces", "answers": "passed", "filters": {"passed": "1"}}


class SavedViews(Endpoint):
    @describe("saved_view_list", "List saved searches of rollouts", answers=SavedViewWire, is_list=True)
    def get(self, request: Request) -> Response:
        return self.listed(SavedView.objects.filter(team=self.team).order_by("name"), SavedViewWire)

    @describe(
        "saved_view_save", "Keep a search of rollouts", right=Permission.LABEL, takes=SavedViewNew, answers=SavedViewWire,
        status=201,
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        made = keeping.saved_view_save(actor=self.actor, **self.values(SavedViewNew))
        return self.shown(made, SavedViewWire, status=201)


class SavedViewDetail(Endpoint):
    @describe("saved_view_remove", "Remove a saved search", right=Permission.LABEL, status=204)
    def delete(self, request: Request, view_id: int) -> Response:
        keeping.saved_view_remove(actor=self.actor, pk=view_id)
        return nothing()


class MaskRules(Endpoint):
    @describe("mask_rule_list", "List what is taken out of rollouts", answers=MaskRuleWire, is_list=True)
    def get(self, request: Request) -> Response:
        return self.listed(MaskRule.objects.filter(team=self.team).order_by("pk"), MaskRuleWire)

    @describe(
        "mask_rule_add", "Take something out of rollouts from now on", right=Permission.TEAM_MANAGE, takes=MaskRuleNew,
        answers=MaskRuleWire, status=201,
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        made = keeping.mask_rule_add(actor=self.actor, **self.values(MaskRuleNew))
        return self.shown(made, MaskRuleWire, status=201)


class MaskRuleDetail(Endpoint):
    @describe("mask_rule_remove", "Remove a masking rule", right=Permission.TEAM_MANAGE, status=204)
    def delete(self, request: Request, rule_id: int) -> Response:
        keeping.mask_rule_remove(actor=self.actor, pk=rule_id)
        return nothing()


class RolloutItems(Endpoint):
    @describe(
        "rollout_items", "Make items of rollouts", right=Permission.DATASET_EDIT, takes=ItemsWanted, answers=ChangeWire,
        status=201, text=f"Of the newest {MOST:,} that the filters find; each question once. One change, which can be undone.",
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        wanted = self.values(ItemsWanted)
        rows = filters.rows(team=self.team, filters=filters_of(self._filters(wanted.pop("filters"))))
        if dataset := wanted.pop("dataset", None):
            wanted["dataset"] = dataset_get(team=self.team, public_id=dataset)
        elif not wanted["name"].strip():
            raise UserError("Name the new dataset, or choose one that exists.", where="name")
        return self.shown(rollouts_to_items(actor=self.actor, rollouts=rows, **wanted), ChangeWire, status=201)

    def _filters(self, given: dict[str, Any]) -> dict[str, Any]:
        known = FilterQuery().fields
        if unknown := sorted(set(given) - set(known)):
            raise UserError(f"There is no filter {unknown[0]!r}.", where="filters", fix=f"Known: {', '.join(known)}.")
        return given
