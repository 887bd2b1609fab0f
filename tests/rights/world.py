"""One team with one of everything that an address can name."""

from decimal import Decimal

from django.utils import timezone

from datasets.labelling.services import task_create
from jobs.agents.models import Tool
from jobs.models import Checkpoint, Job, LaunchDraft
from jobs.rollouts.models import MaskRule, RegradeRun, SavedView
from rftstudio.notify.models import Delivery, Event, Sink
from rftstudio.notify.services import webhook_create
from rftstudio.orders.named import tuned_name
from rftstudio.teams import services as teams
from rftstudio.teams.models import Membership, UserSession
from rftstudio.usage.models import Approval
from rftstudio.usage.services import usage_record
from tests.conftest import actor_in
from tests.datasets.helpers import import_bytes, jsonl, row
from tests.factories.agents import ToolFactory
from tests.factories.rollouts import LOOK, steps_for
from tests.factories.studio import ready_baseline_of

FIELDS = [{"name": "right", "label": "Is it right?", "kind": "choice", "required": True,
           "options": [{"value": "Yes", "label": "Yes", "key": "y"}, {"value": "No", "label": "No", "key": "n"}]}]  # fmt: skip


def world_of(team) -> dict[str, object]:
    """The ids of the things, by the names that the rules use."""
    owner, engineer, other = actor_in(team, "owner"), actor_in(team, "engineer"), actor_in(team, "viewer")
    draft = import_bytes(
        engineer, jsonl(*(row(f"Question {n}?") for n in range(3))) + b'{broken\n{"q": "\xe9"}\n', name="Draft"
    )
    task = task_create(
        actor=engineer, name="Right?", fields=FIELDS, version=draft,
        annotators=list(team.members.all()), adjudicators=list(team.members.all()),
    )  # fmt: skip
    baseline = ready_baseline_of(engineer)
    rollout = baseline.batch.rollouts.order_by("id").first()
    steps_for(rollout, [[LOOK], "120"])
    file_id = draft.source_file.public_id if draft.source_file else draft.imports.first().source_file.public_id
    job = Job.objects.create(
        team=team, number=1, baseline=baseline, base_model=baseline.model, status="queued", result={"files": [file_id]}
    )
    tool: Tool = ToolFactory(team=team)
    key, _ = teams.api_key_create(actor=owner, name="nightly")
    invitation, _ = teams.member_invite(actor=owner, email=f"new@{team.slug}.example", role="viewer")
    line = usage_record(
        team=team, source=f"{team.slug}/1", unit="training_second", subject="trl", quantity=1, at=timezone.now()
    )
    approval = Approval.objects.create(team=team, source=job.public_id, label="Job 1", amount_usd=Decimal(1))
    webhook, _ = webhook_create(actor=owner, url="https://hooks.example.com/")
    event = Event.objects.create(
        team=team, type="studio.test", key=f"{team.slug}-1", object_id="x", happened_at=timezone.now()
    )
    delivery = Delivery.objects.create(webhook=webhook, event=event, next_at=timezone.now())
    saved = Checkpoint.objects.create(team=team, job=job, step_number=1, path="gone")
    return {
        "member": Membership.objects.get(team=team, user=other.user).pk,
        "key": key.public_id,
        "invitation": invitation.public_id,
        "session": UserSession.objects.create(user=owner.user, session_key=f"{team.slug}-session").pk,
        "line": line.pk,
        "approval": approval.public_id,
        "file": file_id,
        "draft": draft.public_id,
        "version": baseline.dataset_version.public_id,
        "problem": draft.problems.first().pk,
        "task": task.public_id,
        "entry": 0,
        "grader": baseline.grader_version.grader.public_id,
        "grader_version": baseline.grader_version.public_id,
        "regrade": RegradeRun.objects.create(team=team, grader_version=baseline.grader_version).public_id,
        "tool": tool.public_id,
        "model": baseline.model.public_id,
        "model_name": baseline.model.name,
        "agent": baseline.agent_version.agent.public_id,
        "saved_view": SavedView.objects.create(team=team, name="Passed", query="passed=1").pk,
        "mask_rule": MaskRule.objects.create(team=team, kind="email").pk,
        "anchor": rollout.pk,
        "rollout": rollout.public_id,
        "evaluation": baseline.public_id,
        "job": job.public_id,
        "launch_draft": LaunchDraft.objects.create(team=team, baseline=baseline, launch_key="k").public_id,
        "eval": job.public_id.replace("ftjob-", "eval_"),
        "eval_run": baseline.batch.public_id.replace("batch-", "evalrun_"),
        "eval_item": rollout.public_id.replace("roll-", "outputitem_"),
        "checkpoint": saved.public_id,
        "tuned_name": tuned_name(job, None, saved.step_number),
        "dataset": draft.dataset.public_id,
        "agent_version": baseline.agent_version.public_id,
        "batch": baseline.batch.public_id,
        "method": "divergence",
        "webhook": webhook.public_id,
        "delivery": delivery.public_id,
        "sink": Sink.objects.create(team=team, kind="mlflow", url="https://x.example", project="x").public_id,
        "zero": 0,
        "one": 1,
        "jsonl": "jsonl",
        "nonsense": "no-such-thing",
    }
