"""Rollouts ordered together (batches), single rollouts and their steps.

A foreign key that begins another index of its table has none of its own (`db_index=False`): the tables of a million
rollouts would hold each entry twice.
"""

from django.db import models
from django.db.models import Q

from datasets.models import DatasetVersion, Item
from graders.models import GraderVersion
from jobs.agents.models import AgentVersion, ModelEndpoint
from rftstudio.core.models import PublicIdField
from rftstudio.teams.models import TeamOwned


class RolloutBatch(TeamOwned):
    """Rollouts ordered together. An evaluation owns one, a train step owns one; a rollout never knows who asked."""

    class Kind(models.TextChoices):
        EVALUATION = "evaluation"
        TRAIN_STEP = "train_step"
        VALIDATION = "validation"
        IMPORT = "import"
        RERUN = "rerun"

    public_id = PublicIdField("batch-")
    kind = models.CharField(max_length=12, choices=Kind.choices)
    source = models.CharField(
        max_length=64, blank=True, db_index=True, help_text="Public id of what asked: ftjob-…, evalrun_…."
    )
    train_step = models.PositiveIntegerField(null=True, blank=True)
    dataset_version = models.ForeignKey(
        DatasetVersion,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="Whose items the rollouts try; a record that comes home names its item by key.",
    )
    agent_version = models.ForeignKey(AgentVersion, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    grader_version = models.ForeignKey(GraderVersion, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    model = models.ForeignKey(ModelEndpoint, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    policy_label = models.CharField(
        max_length=200, blank=True, help_text="Which weights acted, in words: base, train step 20."
    )
    pass_threshold = models.FloatField(default=0.5)
    concurrency = models.PositiveIntegerField(default=64)
    seed = models.BigIntegerField(
        default=0, help_text="Seeds the sampling of a local model: the same order of work gives the same rollouts."
    )
    is_cancelled = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["source", "kind", "train_step"], condition=~Q(source=""), name="batch_once_per_source_step"
            )
        ]


class Rollout(models.Model):
    """One try of one policy on one item. Natural key: batch, item, sample_index."""

    class Status(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"

    class StopReason(models.TextChoices):
        ANSWERED = "answered", "answered"
        MAX_STEPS = "max_steps", "step limit reached"
        MAX_TOOL_CALLS = "max_tool_calls", "tool-call limit reached"
        MAX_TOKENS = "max_tokens", "token limit reached"
        MAX_SECONDS = "max_seconds", "time limit reached"
        TOOL_FAILED = "tool_failed", "a tool failed"
        MODEL_FAILED = "model_failed", "the model failed"
        GRADER_FAILED = "grader_failed", "the grader failed"
        STUDIO_FAILED = "studio_failed", "Studio failed"
        CANCELLED = "cancelled", "cancelled"

    public_id = PublicIdField("roll-")
    team = models.ForeignKey("teams.Team", on_delete=models.CASCADE, related_name="+", db_index=False)
    batch = models.ForeignKey(RolloutBatch, on_delete=models.CASCADE, related_name="rollouts", db_index=False)
    item = models.ForeignKey(Item, null=True, blank=True, on_delete=models.PROTECT, related_name="rollouts")
    group_key = models.CharField(max_length=200, help_text="The item's key; the rollouts of one group share it.")
    sample_index = models.PositiveIntegerField()
    trace_id = models.CharField(max_length=64, unique=True, help_text="What tool and grader calls carry outside.")
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.QUEUED)
    lease_until = models.DateTimeField(null=True, blank=True)
    attempt = models.PositiveSmallIntegerField(default=0)
    stop_reason = models.CharField(max_length=16, choices=StopReason.choices, blank=True)
    error = models.TextField(blank=True, help_text="Why it failed, for a person; no secrets.")
    reward = models.FloatField(null=True, blank=True, help_text="None is ungraded, which is not 0.")
    passed = models.BooleanField(null=True, blank=True)
    sub_rewards = models.JSONField(default=dict, blank=True)
    grade = models.JSONField(default=dict, blank=True, help_text="The whole grade as graders.types.Grade.as_dict().")
    advantage = models.FloatField(null=True, blank=True, help_text="As the trainer used it; None outside training.")
    answer = models.TextField(blank=True, help_text="The final text.")
    title = models.CharField(max_length=200, blank=True)
    n_steps = models.PositiveIntegerField(default=0)
    n_tool_calls = models.PositiveIntegerField(default=0)
    n_tool_errors = models.PositiveIntegerField(default=0)
    tool_path = models.CharField(
        max_length=400, blank=True, help_text="Tool names in order, for ribbons and filters: a>b>answer."
    )
    input_tokens = models.PositiveIntegerField(default=0)
    output_tokens = models.PositiveIntegerField(default=0)
    cost_usd = models.DecimalField(max_digits=14, decimal_places=8, null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    milliseconds = models.FloatField(null=True, blank=True)
    flags = models.JSONField(
        default=list, blank=True, help_text="Oddities met on import or while running: {code, where, message}."
    )
    extra = models.JSONField(default=dict, blank=True, help_text="Fields of an imported file that have no column.")
    body_digest = models.CharField(
        max_length=32, blank=True, help_text="Of a record that came home: tells a replay from another body."
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["batch", "group_key", "sample_index"], name="rollout_once_per_try"),
            models.CheckConstraint(condition=~Q(status="done") | ~Q(stop_reason=""), name="rollout_done_has_reason"),
        ]
        indexes = [
            # All that the list's numeric filters ask: a rare one is searched in the index alone.
            models.Index(
                fields=["team", "-id", "status", "stop_reason", "reward", "passed", "n_steps", "n_tool_calls", "batch"],
                name="rollout_list",
            ),
            models.Index(fields=["batch", "status"]),
            models.Index(fields=["team", "reward", "id"]),
            models.Index(fields=["team", "stop_reason", "-id"], name="rollout_stop"),
            # Errors are rare and asked for often; filters.py asks in the same words.
            models.Index(
                fields=["team", "-id"], condition=Q(n_tool_errors__gt=0) | ~Q(error=""), name="rollout_with_error"
            ),
        ]


class Step(models.Model):
    """One turn: a policy message and the tool results it caused."""

    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="steps", db_index=False)
    index = models.PositiveIntegerField()
    text = models.TextField(blank=True)
    reasoning = models.TextField(blank=True)
    tool_calls = models.JSONField(
        default=list, blank=True, help_text="Calls with their results; see jobs/rollouts/engine/types.py."
    )
    finish_reason = models.CharField(max_length=24, blank=True)
    input_tokens = models.PositiveIntegerField(default=0)
    output_tokens = models.PositiveIntegerField(default=0)
    logprob_sum = models.FloatField(null=True, blank=True, help_text="Sum over the policy's tokens, nats.")
    entropy_mean = models.FloatField(null=True, blank=True, help_text="Mean over the policy's tokens, nats.")
    step_reward = models.FloatField(null=True, blank=True)
    reference_logprob = models.FloatField(
        null=True,
        blank=True,
        help_text="Mean log-probability per token of the item's reference answer, given all up to this step; nats.",
    )
    started_at = models.DateTimeField(null=True, blank=True)
    milliseconds = models.FloatField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["rollout", "index"], name="step_once")]


class LargeResult(models.Model):
    """A tool result too long to be read with its step. The step's call keeps its start, its size and its digest."""

    step = models.ForeignKey(Step, on_delete=models.CASCADE, related_name="large_results", db_index=False)
    call = models.PositiveIntegerField(help_text="0-based place of the call in its step.")
    text = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["step", "call"], name="large_result_once_per_call")]


class TraceSpan(models.Model):
    """A span that an OpenTelemetry exporter sent, kept until its trace is whole. Natural key: team, trace and span id."""

    team = models.ForeignKey("teams.Team", on_delete=models.CASCADE, related_name="+")
    trace_id = models.CharField(max_length=64)
    span_id = models.CharField(max_length=32)
    body = models.JSONField(help_text="The span and its resource's attributes, masked.")
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "trace_id", "span_id"], name="span_once_per_trace")]


class SavedView(TeamOwned):
    """A search of the rollout list that a team keeps under a name."""

    name = models.CharField(max_length=60)
    query = models.CharField(max_length=1000, help_text="The list's query string, without places in it.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="view_once_per_name")]


class MaskRule(TeamOwned):
    """What is taken out of a team's rollouts before they are stored; see masking.py."""

    kind = models.CharField(max_length=8)
    words = models.CharField(
        max_length=200, blank=True, help_text="For kind words: a phrase, * for letters and digits."
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "kind", "words"], name="mask_rule_once")]


class Gateway(TeamOwned):
    """A door for a hosted or external trainer: it calls our tools and grader, and its rollouts appear as our own."""

    public_id = PublicIdField("gate-")
    batch = models.OneToOneField(RolloutBatch, on_delete=models.CASCADE, related_name="gateway")
    digest = models.CharField(max_length=64, unique=True, help_text="SHA-256 of the secret in its addresses.")
    secret_sealed = models.TextField(help_text="Encrypted; a backend needs it to tell the trainer the addresses.")
    closed_at = models.DateTimeField(null=True, blank=True, help_text="From then on every call is refused.")


class GatewayCall(models.Model):
    """One call that came through a gateway. Natural key: the trace, the call's id and what was asked."""

    class Kind(models.TextChoices):
        TOOL = "tool"
        GRADE = "grade"

    class State(models.TextChoices):
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed", "failed; a retry runs it again"

    gateway = models.ForeignKey(Gateway, on_delete=models.CASCADE, related_name="calls")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    trace_id = models.CharField(max_length=64)
    call_id = models.CharField(max_length=120, blank=True)
    digest = models.CharField(
        max_length=64, help_text="Of what was asked: the same id with other words is another call."
    )
    state = models.CharField(max_length=8, choices=State.choices, default=State.RUNNING)
    lease_until = models.DateTimeField(null=True, blank=True)
    attempt = models.PositiveSmallIntegerField(default=1)
    name = models.CharField(max_length=120, blank=True)
    request = models.JSONField(default=dict, help_text="What was asked; the item only with a grade.")
    result = models.TextField(blank=True, help_text="What was answered, as text.")
    is_error = models.BooleanField(default=False)
    milliseconds = models.FloatField(null=True, blank=True)
    started_at = models.DateTimeField()
    rollout = models.ForeignKey(Rollout, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["gateway", "kind", "trace_id", "call_id", "digest"], name="gateway_call_once"
            )
        ]
        indexes = [models.Index(fields=["gateway", "trace_id"])]


class RegradeRun(TeamOwned):
    """Stored rollouts graded again with another grader version, within a budget. What it finds stays in a table of its
    own: no reward of a rollout changes unless an evaluation's are adopted."""

    class Status(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        PAUSED = "paused", "stopped at its budget; can go on"
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        CANCELLED = "cancelled"

    public_id = PublicIdField("regrade-")
    grader_version = models.ForeignKey(GraderVersion, on_delete=models.PROTECT, related_name="+")
    batches = models.ManyToManyField(RolloutBatch, related_name="+")
    graded_before = models.CharField(
        max_length=200, blank=True, help_text="Which grader versions gave the old rewards, in words."
    )
    max_rollouts = models.PositiveIntegerField(null=True, blank=True, help_text="At most so many, newest first.")
    cap_usd = models.DecimalField(
        max_digits=12, decimal_places=2, null=True, blank=True, help_text="What its judges may cost."
    )
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.QUEUED)
    note = models.TextField(blank=True, help_text="Why it stopped, for a person.")
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    adopted_at = models.DateTimeField(null=True, blank=True)


class RegradeResult(models.Model):
    """What one rollout got in a re-grading run, beside what it had. Natural key: run and rollout."""

    class Status(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"

    run = models.ForeignKey(RegradeRun, on_delete=models.CASCADE, related_name="results")
    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="regrades")
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.QUEUED)
    lease_until = models.DateTimeField(null=True, blank=True)
    attempt = models.PositiveSmallIntegerField(default=0)
    old_reward = models.FloatField(null=True, blank=True, help_text="The rollout's reward when it was graded again.")
    reward = models.FloatField(null=True, blank=True, help_text="None is ungraded, which is not 0.")
    grade = models.JSONField(default=dict, blank=True, help_text="The whole grade as graders.types.Grade.as_dict().")
    is_changed = models.BooleanField(default=False, help_text="Another reward, or graded now and not before, or back.")
    cost_usd = models.DecimalField(max_digits=14, decimal_places=8, null=True, blank=True)
    replaced = models.JSONField(
        null=True, blank=True, help_text="What the rollout held before this result was adopted in its place."
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "rollout"], name="regrade_once_per_rollout")]
        indexes = [models.Index(fields=["run", "status"]), models.Index(fields=["run", "is_changed"])]

    @property
    def change(self) -> float | None:
        """Now minus before; None where either is ungraded."""
        return None if self.reward is None or self.old_reward is None else self.reward - self.old_reward
