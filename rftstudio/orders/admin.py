"""The console's page of model names, and the support desk's look at orders."""

import json

from django import forms
from django.contrib import admin

from jobs.plan import FIELDS, Ground, plan_fill
from rftstudio.core.errors import UserError
from rftstudio.orders.models import JobOrder, ModelAlias
from rftstudio.teams.look_only import LookOnly


class AliasForm(forms.ModelForm):
    """The defaults are checked as a request's hyperparameters are."""

    class Meta:
        model = ModelAlias
        fields = (
            "name", "team", "backend", "target", "reply_tokens", "baseline_items", "baseline_samples",
            "is_readiness_binding", "defaults", "note",
        )  # fmt: skip

    def clean_name(self) -> str:
        return " ".join(self.cleaned_data["name"].split())

    def clean_defaults(self) -> dict:
        found = self.cleaned_data["defaults"] or {}
        if not isinstance(found, dict):
            raise forms.ValidationError('Write an object, such as {"lora_r": 16}.')
        try:
            plan_fill(json.loads(json.dumps(found)), ground=Ground(train_items=FIELDS["batch_size"].high or 256))
        except UserError as exc:
            raise forms.ValidationError(str(exc)) from exc
        return found


@admin.register(ModelAlias)
class AliasAdmin(admin.ModelAdmin):
    """Which open-weight model or hosted one a name means, for all teams or for one."""

    form = AliasForm
    list_display = ("name", "team", "backend", "target", "is_readiness_binding", "note")
    list_filter = ("backend",)
    list_select_related = ("team",)
    raw_id_fields = ("team",)
    search_fields = ("name", "target")


@admin.register(JobOrder)
class OrderAdmin(LookOnly):
    list_display = ("public_id", "team", "stage", "model_name", "backend", "suffix", "created_at", "finished_at")
    list_filter = ("stage", "backend")
    list_select_related = ("team",)
    search_fields = ("public_id", "team__slug", "suffix")
    exclude = ("tools_sealed",)
