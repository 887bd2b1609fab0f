"""What things cost, what was used, what is held, and how much may be spent. Money is Decimal USD.

Prices and ledger lines are never edited: triggers in the database refuse it (see `guards`). A mistake is put right by
another line. The sums beside them are kept in the same transaction and can be counted again at any time.
"""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Coalesce

from rftstudio.core.models import PublicIdField
from rftstudio.teams.models import ApiKey, Team, Timestamped


class Unit(models.TextChoices):
    INPUT_TOKEN = "input_token"
    OUTPUT_TOKEN = "output_token"
    TRAINING_SECOND = "training_second"
    GPU_SECOND = "gpu_second"
    STORAGE_GB_DAY = "storage_gb_day", "Storage GB day"


class Category(models.TextChoices):
    """What money goes to, as the page of costs tells it."""

    TRAINING = "training"
    JUDGE = "judge", "Judges"
    TOOL = "tool", "Tools"
    EVALUATION = "evaluation", "Evaluations"
    STORAGE = "storage"
    OTHER = "other"


class Price(Timestamped):
    """What one unit of a subject costs from a day on. Newer rows end older ones; none is edited."""

    unit = models.CharField(max_length=24, choices=Unit.choices)
    subject = models.CharField(max_length=200, help_text="Model name, backend name, or * for all.")
    usd = models.DecimalField(max_digits=20, decimal_places=12, help_text="Dollars for one unit.")
    valid_from = models.DateTimeField()
    note = models.CharField(max_length=200, blank=True, help_text="Where the figure comes from.")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["unit", "subject", "valid_from"], name="price_once_per_start"),
            models.CheckConstraint(condition=Q(usd__gte=0), name="price_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.subject}, {self.get_unit_display().lower()}"


class Reservation(Timestamped):
    """Money held for one job or evaluation until its bill is known."""

    class Status(models.TextChoices):
        HELD = "held"
        SETTLED = "settled"

    class Kind(models.TextChoices):
        JOB = "job"
        EVALUATION = "evaluation"

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="+")
    source = models.CharField(max_length=80, unique=True, help_text="Public id of what it is held for.")
    kind = models.CharField(max_length=12, choices=Kind.choices)
    label = models.CharField(max_length=160, help_text="What it is held for, for a person: Job 12.")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    api_key = models.ForeignKey(ApiKey, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.HELD)
    held_usd = models.DecimalField(
        max_digits=20, decimal_places=8, null=True, blank=True,
        help_text="What it may cost in all, spent part included. Empty: no price was known, so nothing is held.",
    )  # fmt: skip
    spent_usd = models.DecimalField(max_digits=20, decimal_places=8, default=0)
    holds = models.PositiveIntegerField(default=0, help_text="How many times money was held; numbers ledger lines.")
    rollouts = models.PositiveIntegerField(default=0, help_text="How many rollouts were ordered with it.")
    settled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["team", "status"]), models.Index(fields=["team", "created_at"])]
        constraints = [
            models.CheckConstraint(condition=Q(held_usd__isnull=True) | Q(held_usd__gte=0), name="hold_not_negative")
        ]

    def __str__(self) -> str:
        return self.label

    @property
    def left_usd(self):
        """What of the hold is not spent yet; this is what counts against a quota besides spend."""
        if self.status != self.Status.HELD or self.held_usd is None:
            return 0
        return max(self.held_usd - self.spent_usd, 0)


class LedgerLine(models.Model):
    """One amount and what it was for. Only ever added."""

    class Kind(models.TextChoices):
        SPENT = "spent", "Counted"
        CORRECTED = "corrected"
        HELD = "held"
        RETURNED = "returned"

    #: Kinds that are money gone; holds and returns only set it aside.
    SPEND = (Kind.SPENT, Kind.CORRECTED)
    #: Of a correction that is being written: the first of its line, the second, and so on.
    number_of_corrections = 0

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="+")
    kind = models.CharField(max_length=10, choices=Kind.choices, default=Kind.SPENT)
    source = models.CharField(max_length=160, unique=True, help_text="Natural key, so a replay changes no sum.")
    batch_source = models.CharField(
        max_length=80, blank=True, db_index=True, help_text="Public id of what asked for it."
    )
    category = models.CharField(max_length=12, choices=Category.choices, default=Category.OTHER)
    note = models.CharField(max_length=200, blank=True, help_text="What it was for, or why it was corrected.")
    unit = models.CharField(max_length=24, choices=Unit.choices, blank=True)
    subject = models.CharField(max_length=200, blank=True)
    quantity = models.DecimalField(max_digits=24, decimal_places=6, null=True, blank=True)
    unit_usd = models.DecimalField(max_digits=20, decimal_places=12, null=True, blank=True)
    usd = models.DecimalField(
        max_digits=20, decimal_places=8, null=True, blank=True, help_text="Empty: counted, not priced. Never 0 instead."
    )
    corrects = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="corrections")
    reservation = models.ForeignKey(Reservation, null=True, blank=True, on_delete=models.PROTECT, related_name="lines")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    api_key = models.ForeignKey(ApiKey, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField(help_text="When it was used, not when it was written down.")

    class Meta:
        indexes = [models.Index(fields=["team", "at"]), models.Index(fields=["team", "-id"])]
        constraints = [
            models.CheckConstraint(
                condition=Q(kind="corrected", corrects__isnull=False)
                | (~Q(kind="corrected") & Q(corrects__isnull=True)),
                name="correction_names_its_line",
            ),
            models.CheckConstraint(
                condition=Q(kind="corrected") | Q(usd__isnull=True) | Q(usd__gte=0), name="line_not_negative"
            ),
        ]

    @property
    def is_unpriced(self) -> bool:
        return self.kind == self.Kind.SPENT and self.usd is None


class _Spend(models.Manager):
    def get_queryset(self):
        return super().get_queryset().filter(kind__in=LedgerLine.SPEND)


class UsageRecord(LedgerLine):
    """The lines of the ledger that are money gone: what was spent, on which source."""

    objects = _Spend()

    class Meta:
        proxy = True


class MonthSum(models.Model):
    """What a scope has spent in a month of its team's calendar; kept with each line, so that a quota is one look."""

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="+")
    scope = models.CharField(max_length=100, help_text="team, member:<id> or key:<id>.")
    month = models.DateField(help_text="The month's first day, in the team's time zone.")
    usd = models.DecimalField(max_digits=20, decimal_places=8, default=0)
    unpriced = models.PositiveIntegerField(default=0, help_text="Lines that were counted, not priced.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "scope", "month"], name="month_sum_once")]


class Quota(Timestamped):
    """How much a team, a member, a key or one job may spend. An empty limit does not limit."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="quotas")
    scope = models.CharField(
        max_length=100, default="team", help_text="team, member:<id>, key:<id> or job:<public id>."
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    api_key = models.ForeignKey(ApiKey, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    usd_month = models.DecimalField(
        "money per month", max_digits=12, decimal_places=2, null=True, blank=True, help_text="Dollars, spent and held."
    )
    usd_job = models.DecimalField(
        "money per job", max_digits=12, decimal_places=2, null=True, blank=True, help_text="Dollars for one job in all."
    )
    approval_above_usd = models.DecimalField(
        "ask above", max_digits=12, decimal_places=2, null=True, blank=True,
        help_text="A job that may cost more waits for an owner.",
    )  # fmt: skip
    jobs_at_once = models.PositiveIntegerField("jobs at once", null=True, blank=True)
    rollouts_day = models.PositiveIntegerField(
        "rollouts per day", null=True, blank=True, help_text="Ordered on one day of the team's calendar."
    )
    storage_gb = models.DecimalField("storage", max_digits=12, decimal_places=2, null=True, blank=True, help_text="GB.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "scope"], name="quota_once_per_scope")]

    def __str__(self) -> str:
        return f"{self.team}: {self.words}"

    @property
    def words(self) -> str:
        """Whose limit it is, for a person."""
        if self.user:
            return str(self.user)
        if self.api_key:
            return f"key {self.api_key.name}"
        return "the whole team" if self.scope == "team" else self.scope.removeprefix("job:")


class StopSwitch(Timestamped):
    """Nothing new starts and running jobs pause while it is on. Without team: everywhere."""

    team = models.OneToOneField(Team, null=True, blank=True, on_delete=models.CASCADE, related_name="stop_switch")
    is_on = models.BooleanField(default=False)
    reason = models.CharField(max_length=200, blank=True)
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(Coalesce("team", 0), name="one_switch_for_all", condition=Q(team__isnull=True))
        ]

    def __str__(self) -> str:
        return f"{self.team or 'All teams'}: {'stopped' if self.is_on else 'open'}"


class Approval(Timestamped):
    """A request to spend above the limit at which an owner wants to be asked."""

    class Status(models.TextChoices):
        WAITING = "waiting"
        APPROVED = "approved"
        DECLINED = "declined"
        WITHDRAWN = "withdrawn"

    public_id = PublicIdField("appr_")
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="+")
    source = models.CharField(max_length=80, db_index=True, help_text="Public id of the job that waits.")
    label = models.CharField(max_length=160)
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    api_key = models.ForeignKey(ApiKey, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    amount_usd = models.DecimalField(max_digits=20, decimal_places=8, help_text="What is held when it is approved.")
    likely_usd = models.DecimalField(max_digits=20, decimal_places=8, null=True, blank=True)
    rollouts = models.PositiveIntegerField(default=0)
    words = models.CharField(max_length=300, blank=True, help_text="The plan in one line.")
    concern = models.CharField(
        max_length=300, blank=True, help_text="Why an approval needs a reason; empty: it does not."
    )
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.WAITING)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    reason = models.CharField(max_length=300, blank=True, help_text="Why it was decided so.")
    decided_at = models.DateTimeField(null=True, blank=True)
    is_done = models.BooleanField(default=False, help_text="What waited has seen the decision.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["source"], condition=Q(status="waiting"), name="one_open_request_per_source"
            )
        ]
        indexes = [models.Index(fields=["status", "is_done"])]

    def __str__(self) -> str:
        return self.label


class MonthClosing(models.Model):
    """The books of a month are closed: what turns up later is booked in the first open month. Closes earlier ones too."""

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="+")
    month = models.DateField(help_text="The month's first day, in the team's time zone.")
    usd = models.DecimalField(max_digits=20, decimal_places=8, help_text="What it came to.")
    unpriced = models.PositiveIntegerField(default=0, help_text="Lines that had no price.")
    closed_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    closed_at = models.DateTimeField(auto_now_add=True)
    reopened_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["team", "month"], condition=Q(reopened_at__isnull=True), name="month_closed_once"
            )
        ]


class Notice(models.Model):
    """Something about money that somebody was told once. Without team: for the administrators."""

    team = models.ForeignKey(Team, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=300, unique=True, help_text="What it is about; said once for each.")
    title = models.CharField(max_length=200)
    text = models.TextField()
    url = models.CharField(max_length=300, blank=True)
    recipients = models.PositiveIntegerField(default=0, help_text="To how many people it was mailed.")
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.title
