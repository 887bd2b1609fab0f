"""The support desk for money: history is for looking, prices are added, quotas and decisions go through services."""

from decimal import Decimal

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.utils import timezone

from rftstudio.core.errors import StudioError
from rftstudio.core.show import show_money
from rftstudio.teams.look_only import LookOnly
from rftstudio.teams.models import Team
from rftstudio.usage import services
from rftstudio.usage.models import (
    Approval,
    LedgerLine,
    MonthClosing,
    MonthSum,
    Notice,
    Price,
    Quota,
    Reservation,
    StopSwitch,
)
from rftstudio.usage.prices import MEASURES, exact_usd, how_counted, sold_price
from rftstudio.usage.quotas import lines_of


class PriceForm(forms.ModelForm):
    """A price as it is sold: a million tokens, an hour."""

    sold = forms.DecimalField(min_value=0, max_digits=16, decimal_places=6, label="Dollars")
    unit = forms.ChoiceField(choices=[(unit, f"for a {measure.sold_by}") for unit, measure in MEASURES.items()])
    # One plain control: the admin's own calendar writes inline styles, which the content policy blocks.
    valid_from = forms.DateTimeField(
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}), initial=timezone.now, help_text="UTC."
    )

    class Meta:
        model = Price
        fields = ("unit", "subject", "valid_from", "note")


@admin.register(Price)
class PriceAdmin(admin.ModelAdmin):
    """Prices are added, never changed: a newer one ends the older."""

    form = PriceForm
    fields = ("unit", "subject", "sold", "valid_from", "note")
    list_display = ("subject", "unit", "dollars", "valid_from", "note", "created_by")
    list_filter = ("unit",)
    list_select_related = ("created_by",)
    search_fields = ("subject",)
    ordering = ("unit", "subject", "-valid_from")

    @admin.display(description="price")
    def dollars(self, price: Price) -> str:
        return f"{exact_usd(sold_price(price.unit, price.usd))} a {MEASURES[price.unit].sold_by}"

    def has_change_permission(self, request, obj=None) -> bool:
        return False

    def has_delete_permission(self, request, obj=None) -> bool:
        return False

    def has_add_permission(self, request) -> bool:
        return request.user.is_superuser

    def save_model(self, request, obj, form, change) -> None:
        data = form.cleaned_data
        made = services.price_set(
            user=request.user, unit=data["unit"], subject=data["subject"], usd=data["sold"],
            valid_from=data["valid_from"], note=data["note"],
        )  # fmt: skip
        obj.pk, obj.usd = made.pk, made.usd


class QuotaForm(forms.ModelForm):
    class Meta:
        model = Quota
        fields = ("team", "user", "api_key", *services.MONEY_LIMITS, *services.COUNT_LIMITS)

    def clean(self) -> dict:
        """A wrong limit stands at its field, before anything is written."""
        data = super().clean()
        if data.get("user") and data.get("api_key"):
            raise forms.ValidationError("Choose a member or a key, not both; neither is the whole team.")
        for name in (*services.MONEY_LIMITS, *services.COUNT_LIMITS):
            try:
                services.check_limit(name, data.get(name))
            except StudioError as exc:
                self.add_error(name, str(exc))
        return data


def _job_of(quota: Quota) -> str:
    return quota.scope.removeprefix("job:") if quota.scope.startswith("job:") else ""


@admin.register(Quota)
class QuotaAdmin(admin.ModelAdmin):
    form = QuotaForm
    list_display = (
        "team",
        "whose",
        "usd_month",
        "left",
        "usd_job",
        "approval_above_usd",
        "jobs_at_once",
        "rollouts_day",
        "storage_gb",
    )
    list_filter = ("team",)
    list_select_related = ("team", "user", "api_key")
    raw_id_fields = ("user", "api_key")
    search_fields = ("team__slug", "user__email", "api_key__name", "scope")
    actions = ("raise_by_a_fifth",)

    def get_changelist_instance(self, request):
        """What is gone of all rows at once."""
        changelist = super().get_changelist_instance(request)
        for line in lines_of(changelist.result_list):
            line.quota.budget = line.budget
        return changelist

    @admin.display(description="for", ordering="scope")
    def whose(self, quota: Quota) -> str:
        return quota.words

    @admin.display(description="left this month")
    def left(self, quota: Quota) -> str:
        budget = quota.budget
        return f"over by {show_money(budget.over)}" if budget.over else show_money(budget.left)

    def get_readonly_fields(self, request, obj=None) -> tuple[str, ...]:
        return ("team", "user", "api_key") if obj else ()

    def has_delete_permission(self, request, obj=None) -> bool:
        return False

    def has_add_permission(self, request) -> bool:
        return request.user.is_superuser

    def has_change_permission(self, request, obj=None) -> bool:
        return request.user.is_superuser

    def save_model(self, request, obj, form, change) -> None:
        names = (*services.MONEY_LIMITS, *services.COUNT_LIMITS)
        made = services.quota_set(
            actor=services.staff_actor(obj.team, request.user), user=obj.user, api_key=obj.api_key,
            job=_job_of(obj),
            **{name: form.cleaned_data[name] for name in names},
        )  # fmt: skip
        obj.pk = made.pk

    @admin.action(description="Raise money per month by a fifth", permissions=["change"])
    def raise_by_a_fifth(self, request, queryset: QuerySet[Quota]) -> None:
        for quota in queryset.filter(usd_month__isnull=False).select_related("team", "user", "api_key"):
            actor = services.staff_actor(quota.team, request.user)
            usd = (quota.usd_month * Decimal("1.2")).quantize(Decimal("0.01"))
            services.quota_set(actor=actor, user=quota.user, api_key=quota.api_key, job=_job_of(quota), usd_month=usd)
            messages.success(request, f"{quota}: {show_money(usd)} a month.")


@admin.register(Approval)
class ApprovalAdmin(LookOnly):
    """Single requests with a doubt are decided on the front page, where a reason can be given."""

    list_display = ("label", "team", "asked_by", "amount", "status", "decided_by", "reason", "created_at")
    list_filter = ("status", "team")
    list_select_related = ("team", "asked_by", "decided_by")
    search_fields = ("public_id", "source", "label", "team__slug")
    actions = ("approve",)

    @admin.display(description="amount")
    def amount(self, approval: Approval) -> str:
        return show_money(approval.amount_usd)

    @admin.action(description="Approve the chosen ones that fit the quota and raise no doubt", permissions=["view"])
    def approve(self, request, queryset: QuerySet[Approval]) -> None:
        for approval in queryset.select_related("team"):
            try:
                actor = services.staff_actor(approval.team, request.user)
                services.approval_approve(actor=actor, approval=approval)
                messages.success(
                    request, f"{approval.label} of {approval.team}: {show_money(approval.amount_usd)} approved."
                )
            except StudioError as exc:
                messages.error(request, f"{approval.label} of {approval.team}: {exc}")


@admin.register(LedgerLine)
class LedgerLineAdmin(LookOnly):
    list_display = ("id", "at", "team", "kind", "category", "batch_source", "note", "how", "amount", "user", "api_key")
    list_filter = ("kind", "category", "unit", "team")
    list_select_related = ("team", "user", "api_key")
    search_fields = ("source", "batch_source", "subject", "note", "team__slug")
    ordering = ("-id",)
    list_per_page = 50
    actions = ("price_again",)

    @admin.display(description="how counted")
    def how(self, line: LedgerLine) -> str:
        return how_counted(line.unit, line.quantity, line.unit_usd)

    @admin.display(description="amount")
    def amount(self, line: LedgerLine) -> str:
        return "counted, not priced" if line.is_unpriced else exact_usd(line.usd)

    @admin.action(description="Price what has a price by now, for the teams of the chosen lines", permissions=["view"])
    def price_again(self, request, queryset: QuerySet[LedgerLine]) -> None:
        if not request.user.is_superuser:
            messages.error(request, "Only an administrator of this installation may do this.")
            return
        for team in Team.objects.filter(pk__in=queryset.values("team")):
            messages.success(request, f"{team}: {services.lines_price(team=team)} lines were priced by new lines.")


@admin.register(Reservation)
class ReservationAdmin(LookOnly):
    list_display = (
        "label",
        "team",
        "kind",
        "status",
        "held_usd",
        "spent_usd",
        "left_usd",
        "user",
        "api_key",
        "created_at",
    )
    list_filter = ("status", "kind", "team")
    list_select_related = ("team", "user", "api_key")
    search_fields = ("source", "label", "team__slug")
    ordering = ("-id",)


@admin.register(MonthSum)
class MonthSumAdmin(LookOnly):
    list_display = ("team", "scope", "month", "usd", "unpriced")
    list_filter = ("month", "team")
    list_select_related = ("team",)
    ordering = ("-month", "team", "scope")


@admin.register(MonthClosing)
class MonthClosingAdmin(LookOnly):
    list_display = ("team", "month", "usd", "unpriced", "closed_by", "closed_at", "reopened_at")
    list_filter = ("team",)
    list_select_related = ("team", "closed_by")
    ordering = ("-month", "team")


@admin.register(Notice)
class NoticeAdmin(LookOnly):
    """What people were told, and to how many it was mailed."""

    list_display = ("created_at", "whom", "title", "recipients")
    list_filter = ("team",)
    list_select_related = ("team",)
    search_fields = ("title", "text", "team__slug")
    ordering = ("-id",)

    @admin.display(description="to")
    def whom(self, notice: Notice) -> str:
        return f"owners of {notice.team}" if notice.team else "administrators"


@admin.register(StopSwitch)
class StopSwitchAdmin(LookOnly):
    """Set on the front page."""

    list_display = ("whose", "is_on", "reason", "changed_by", "updated_at")
    list_select_related = ("team", "changed_by")

    @admin.display(description="for")
    def whose(self, switch: StopSwitch) -> str:
        return str(switch.team or "all teams")
