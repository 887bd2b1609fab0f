"""Money: spend, ledger, limits, prices, approvals."""

from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from rftstudio.api.rest import pages
from rftstudio.api.rest.describe import describe
from rftstudio.api.rest.endpoint import Endpoint
from rftstudio.api.rest.wire import Row, Wanted, Wire, example_id, money
from rftstudio.core.errors import NotFound
from rftstudio.teams.models import ApiKey, Membership
from rftstudio.teams.permissions import Permission
from rftstudio.teams.selectors import api_key_get, membership_get
from rftstudio.usage import periods, reports, selectors, services
from rftstudio.usage.models import Approval, LedgerLine, Price, Quota

SEE, APPROVE = Permission.COST_VIEW, Permission.BUDGET_APPROVE


class PeriodQuery(serializers.Serializer):
    month = serializers.CharField(max_length=7, required=False, help_text="2026-11; left out: this month.")
    year = serializers.CharField(max_length=4, required=False)
    day = serializers.CharField(max_length=10, required=False, help_text="2026-11-30")


class SpendQuery(PeriodQuery):
    by = serializers.ChoiceField([*reports.BY], default="category")


class SpendRowWire(Wire):
    label = serializers.CharField()
    usd = money()
    by_day = serializers.DictField(child=money(), help_text="Day of the team's calendar → dollars.")
    by_category = serializers.DictField(child=money())


class SpendWire(Wire):
    first = serializers.DateField(source="period.first")
    last = serializers.DateField(source="period.last")
    zone = serializers.CharField()
    usd = money()
    rows = SpendRowWire(many=True)

    example = {
        "first": "2026-11-01", "last": "2026-11-30", "zone": "UTC", "usd": "12.50000000",
        "rows": [{"label": "Training", "usd": "12.50000000", "by_day": {"2026-11-30": "12.50000000"},
                  "by_category": {"training": "12.50000000"}}],
    }  # fmt: skip


class BudgetWire(Wire):
    scope = serializers.CharField()
    month = serializers.DateField()
    spent = money()
    held = money()
    quota = serializers.DecimalField(max_digits=20, decimal_places=8, allow_null=True)
    left = serializers.DecimalField(max_digits=20, decimal_places=8, allow_null=True)
    unpriced = serializers.IntegerField(help_text="Lines that were counted without a price.")

    example = {
        "scope": "team", "month": "2026-11-01", "spent": "12.50000000", "held": "3.00000000", "quota": "100.00000000",
        "left": "84.50000000", "unpriced": 0,
    }  # fmt: skip


class LedgerLineWire(Wire):
    id = serializers.IntegerField(source="pk")
    kind = serializers.ChoiceField(LedgerLine.Kind.values)
    source = serializers.CharField()
    for_ = serializers.CharField(source="batch_source", allow_blank=True)
    category = serializers.CharField()
    note = serializers.CharField(allow_blank=True)
    unit = serializers.CharField(allow_blank=True)
    subject = serializers.CharField(allow_blank=True)
    quantity = serializers.DecimalField(max_digits=24, decimal_places=6, allow_null=True)
    unit_usd = serializers.DecimalField(max_digits=20, decimal_places=12, allow_null=True)
    usd = serializers.DecimalField(max_digits=20, decimal_places=8, allow_null=True, help_text="null: no price.")
    at = serializers.DateTimeField()

    example = {
        "id": 71, "kind": "spent", "source": "ftjob-1/1", "for": example_id("ftjob-"), "category": "training",
        "note": "Train step 1", "unit": "training_second", "subject": "trl", "quantity": "41.000000",
        "unit_usd": "0.004000000000", "usd": "0.16400000", "at": "2026-11-30T10:05:00Z",
    }  # fmt: skip

    def get_fields(self) -> dict[str, serializers.Field]:
        return {name.rstrip("_"): field for name, field in super().get_fields().items()}


class LedgerQuery(PeriodQuery):
    for_ = serializers.CharField(max_length=80, required=False, help_text="Id of a job or an evaluation.")
    kind = serializers.ChoiceField(LedgerLine.Kind.values, required=False)
    category = serializers.CharField(max_length=12, required=False)
    subject = serializers.CharField(max_length=200, required=False)
    unpriced = serializers.BooleanField(required=False)

    def get_fields(self) -> dict[str, serializers.Field]:
        return {name.rstrip("_"): field for name, field in super().get_fields().items()}


class CorrectionNew(Wanted):
    usd = serializers.DecimalField(max_digits=14, decimal_places=8, min_value=0, help_text="What it should have been.")
    note = serializers.CharField(max_length=200)

    example = {"usd": "0.10", "note": "Counted twice."}


def _limit() -> serializers.DecimalField:
    return serializers.DecimalField(max_digits=12, decimal_places=2, min_value=0, required=False, allow_null=True)


class QuotaWire(Wire):
    scope = serializers.CharField()
    whose = serializers.CharField(source="words")
    usd_month = serializers.DecimalField(max_digits=12, decimal_places=2, allow_null=True)
    usd_job = serializers.DecimalField(max_digits=12, decimal_places=2, allow_null=True)
    approval_above_usd = serializers.DecimalField(max_digits=12, decimal_places=2, allow_null=True)
    jobs_at_once = serializers.IntegerField(allow_null=True)
    rollouts_day = serializers.IntegerField(allow_null=True)
    storage_gb = serializers.DecimalField(max_digits=12, decimal_places=2, allow_null=True)

    example = {
        "scope": "team", "whose": "the whole team", "usd_month": "100.00", "usd_job": None, "approval_above_usd": "20.00",
        "jobs_at_once": 2, "rollouts_day": None, "storage_gb": None,
    }  # fmt: skip


class QuotaSet(Wanted):
    member = serializers.IntegerField(required=False, min_value=1, max_value=2**62, help_text="A membership's id.")
    key = serializers.CharField(max_length=64, required=False, help_text="A key's id.")
    job = serializers.CharField(max_length=64, required=False)
    usd_month, usd_job, approval_above_usd, storage_gb = _limit(), _limit(), _limit(), _limit()
    jobs_at_once = serializers.IntegerField(min_value=0, max_value=10_000, required=False, allow_null=True)
    rollouts_day = serializers.IntegerField(min_value=0, max_value=2_000_000_000, required=False, allow_null=True)

    example = {"usd_month": "100.00", "approval_above_usd": "20.00"}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if sum(bool(attrs.get(name)) for name in ("member", "key", "job")) > 1:
            raise serializers.ValidationError("Name one of member, key and job, or none for the whole team.")
        return attrs


class PriceWire(Wire):
    unit = serializers.CharField()
    subject = serializers.CharField()
    usd = serializers.DecimalField(max_digits=20, decimal_places=12, help_text="Dollars for one unit.")
    valid_from = serializers.DateTimeField()
    note = serializers.CharField(allow_blank=True)

    example = {
        "unit": "training_second", "subject": "trl", "usd": "0.004000000000", "valid_from": "2026-11-01T00:00:00Z",
        "note": "One GPU",
    }  # fmt: skip


class ApprovalWire(Row):
    source = serializers.CharField()
    label = serializers.CharField()
    amount_usd = money()
    likely_usd = serializers.DecimalField(max_digits=20, decimal_places=8, allow_null=True)
    words = serializers.CharField(allow_blank=True)
    concern = serializers.CharField(allow_blank=True)
    status = serializers.ChoiceField(Approval.Status.values)
    reason = serializers.CharField(allow_blank=True)
    decided_at = serializers.DateTimeField(allow_null=True)

    example = {
        "id": example_id("appr_"), "created_at": "2026-11-30T10:00:00Z", "source": example_id("ftjob-"),
        "label": "Job 12", "amount_usd": "42.00000000", "likely_usd": None, "words": "", "concern": "",
        "status": "waiting", "reason": "", "decided_at": None,
    }  # fmt: skip


class ReasonWanted(Wanted):
    reason = serializers.CharField(max_length=300, allow_blank=True, default="")

    example = {"reason": "Agreed with finance."}


class MonthWire(Wire):
    month = serializers.DateField()
    usd = money()
    unpriced = serializers.IntegerField()
    is_closed = serializers.BooleanField()
    is_over = serializers.BooleanField()

    example = {"month": "2026-10-01", "usd": "84.20000000", "unpriced": 0, "is_closed": True, "is_over": True}


class ClosingWire(Wire):
    month = serializers.DateField()
    usd = money(help_text="As it was reported when the month was closed.")
    unpriced = serializers.IntegerField()
    reopened_at = serializers.DateTimeField(allow_null=True)

    example = {"month": "2026-10-01", "usd": "84.20000000", "unpriced": 0, "reopened_at": None}


class MonthClose(Wanted):
    month = serializers.DateField(help_text="Any day of it.")

    example = {"month": "2026-10-01"}


class MonthReopen(MonthClose):
    reason = serializers.CharField(max_length=300)

    example = {"month": "2026-10-01", "reason": "A bill came late."}


class Months(Endpoint):
    @describe("month_list", "See what each month came to", right=SEE, answers=MonthWire, is_list=True)
    def get(self, request: Request) -> Response:
        return self.listed(reports.month_lines(team=self.team), MonthWire)


class MonthClosed(Endpoint):
    @describe("month_close", "Close the books of a month", right=APPROVE, takes=MonthClose, answers=ClosingWire)
    def post(self, request: Request) -> Response:
        made = services.month_close(actor=self.actor, **self.values(MonthClose))
        return self.shown(made, ClosingWire)


class MonthOpened(Endpoint):
    @describe("month_reopen", "Open the last closed month again", right=APPROVE, takes=MonthReopen, answers=ClosingWire)
    def post(self, request: Request) -> Response:
        made = services.month_reopen(actor=self.actor, **self.values(MonthReopen))
        return self.shown(made, ClosingWire)


class Spend(Endpoint):
    @describe("spend_get", "See where the money goes", right=SEE, answers=SpendWire, query=(SpendQuery,))
    def get(self, request: Request) -> Response:
        asked = self.asked(SpendQuery)
        today = periods.day_of(timezone.now(), periods.zone_of(self.team))
        found = reports.spend_of(team=self.team, period=periods.period_of(asked, today), by=asked["by"])
        wire = self.shown(found, SpendWire)
        for row, shown in zip(found.rows, wire.data["rows"], strict=True):
            shown["by_day"] = {day.isoformat(): f"{usd:.8f}" for day, usd in row.by_day.items()}
        return wire


class Budget(Endpoint):
    @describe("budget_get", "See what is spent, held and left this month", right=SEE, answers=BudgetWire)
    def get(self, request: Request) -> Response:
        return self.shown(selectors.budget_get(team=self.team), BudgetWire)


class Ledger(Endpoint):
    @describe(
        "ledger_list", "List ledger lines", right=SEE, answers=LedgerLineWire, is_paged=True, query=(LedgerQuery,)
    )
    def get(self, request: Request) -> Response:
        asked = self.asked(pages.PageQuery, LedgerQuery)
        query = {name: str(value) for name, value in asked.items() if name in reports.FILTERS and value}
        return self.page(reports.ledger_list(team=self.team, query=query), LedgerLineWire, query=asked)


class LineCorrect(Endpoint):
    @describe(
        "usage_correct",
        "Put a line right by another",
        right=APPROVE,
        takes=CorrectionNew,
        answers=LedgerLineWire,
        status=201,
    )
    def post(self, request: Request, line_id: int) -> Response:
        line = reports.ledger_list(team=self.team, query={}).filter(pk=line_id, kind=LedgerLine.Kind.SPENT).first()
        if line is None:
            raise NotFound("There is nothing at this address.")
        made = services.usage_correct(actor=self.actor, line=line, **self.values(CorrectionNew))
        return self.shown(made, LedgerLineWire, status=201)


class Quotas(Endpoint):
    @describe("quota_list", "List limits", right=SEE, answers=QuotaWire, is_list=True)
    def get(self, request: Request) -> Response:
        rows = Quota.objects.filter(team=self.team).select_related("user", "api_key").order_by("scope")
        return self.listed(rows, QuotaWire)

    @describe(
        "quota_set", "Set limits of the team, a member, a key or a job", right=APPROVE, takes=QuotaSet,
        answers=QuotaWire, has_condition=True, text="Limits that are not named stay; null lifts one.",
    )  # fmt: skip
    def put(self, request: Request) -> Response:
        wanted = self.values(QuotaSet)
        whose: dict[str, Any] = {"job": wanted.pop("job", "")}
        if member := wanted.pop("member", None):
            found: Membership = membership_get(team=self.team, member_id=member)
            whose["user"] = found.user
        if key := wanted.pop("key", None):
            held: ApiKey = api_key_get(team=self.team, public_id=key)
            whose["api_key"] = held
        return self.shown(services.quota_set(actor=self.actor, **whose, **wanted), QuotaWire)


class Prices(Endpoint):
    @describe("price_list", "List prices", right=SEE, answers=PriceWire, is_paged=True)
    def get(self, request: Request) -> Response:
        return self.page(Price.objects.all(), PriceWire)


class Approvals(Endpoint):
    @describe("approval_list", "List requests to spend more", right=APPROVE, answers=ApprovalWire, is_paged=True)
    def get(self, request: Request) -> Response:
        return self.page(Approval.objects.filter(team=self.team), ApprovalWire)


class ApprovalApprove(Endpoint):
    @describe("approval_approve", "Approve a request", right=APPROVE, takes=ReasonWanted, answers=ApprovalWire)
    def post(self, request: Request, public_id: str) -> Response:
        approval = selectors.approval_get(team=self.team, public_id=public_id)
        made = services.approval_approve(actor=self.actor, approval=approval, **self.values(ReasonWanted))
        return self.shown(made, ApprovalWire)


class ApprovalDecline(Endpoint):
    @describe("approval_decline", "Decline a request", right=APPROVE, takes=ReasonWanted, answers=ApprovalWire)
    def post(self, request: Request, public_id: str) -> Response:
        approval = selectors.approval_get(team=self.team, public_id=public_id)
        made = services.approval_decline(actor=self.actor, approval=approval, **self.values(ReasonWanted))
        return self.shown(made, ApprovalWire)
