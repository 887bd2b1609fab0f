"""The example, walked through the same services that the pages and the REST door call.

Each function finds what an earlier walk left or makes it, so a second walk costs seconds. Nothing here computes a
result: it starts work, waits for the workers, and reads what they stored.
"""

import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.db.models import Sum

from datasets import services as dataset_services
from datasets.models import Dataset, DatasetVersion
from graders import services as grader_services
from graders.models import Grader, GraderVersion
from jobs import services as job_services
from jobs.agents import services as agent_services
from jobs.agents.models import Agent, AgentVersion, ModelEndpoint, Tool
from jobs.attribution.models import RolloutCredit
from jobs.evaluations import services as evaluation_services
from jobs.evaluations.models import Evaluation
from jobs.models import Job
from jobs.rollouts.models import Rollout, RolloutBatch
from jobs.selectors import uncredited
from rftstudio.core.errors import Conflict
from rftstudio.demo import world
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Membership, Role, Team, User
from rftstudio.teams.services import team_create

HERE = Path(__file__).parent
BASE_MODEL = HERE / "base_model"
DATA_FILE = HERE / "data" / "duty_desk.jsonl"
DESK = "Duty desk"
CREDIT_METHOD = "prefix_value"
PASS_MARK = 0.75  # only a right answer reaches it: a wrong one earns 0.3 at the most
SAMPLING = {"temperature": 1.0, "max_tokens": 48}
RUNG_ITEMS = 40  # enough to tell two prompts apart, and a few seconds of work
LIMITS = {"max_steps": 6, "max_tool_calls": 6, "max_tokens": 256, "max_seconds": 60}


@dataclass(frozen=True)
class Progress:
    """How far a long part is: `done` of `total`, in `unit`."""

    done: int
    total: int
    unit: str
    outcome: dict | None = None


def team_ready(email: str, password: str) -> Actor:
    """The demo team with its owner, who can sign in with that password."""
    user = User.objects.filter(email=email).first() or User.objects.create_user(email, password)
    user.set_password(password)
    user.save(update_fields=["password"])
    membership = Membership.objects.select_related("team").filter(user=user, team__slug="demo").first()
    if membership is None:
        if Team.objects.filter(slug="demo").exists():
            raise Conflict(
                "A team called demo exists and this person is not in it.", fix="Set STUDIO_VAR_DIR elsewhere."
            )
        return Actor(team=team_create(name="Demo", owner=user), role=Role.OWNER, user=user)
    return Actor(team=membership.team, role=membership.role, user=user)


def dataset_ready(actor: Actor) -> DatasetVersion:
    """The example's items, imported from their file and frozen."""
    dataset = Dataset.objects.filter(team=actor.team, name=DESK).first() or dataset_services.dataset_create(
        actor=actor, name=DESK
    )
    version = dataset.versions.filter(status=DatasetVersion.Status.FROZEN).order_by("number").first()
    if version is None:
        with DATA_FILE.open("rb") as content:
            source_file = dataset_services.source_file_upload(actor=actor, filename=DATA_FILE.name, content=content)
        version = dataset_services.dataset_version_import(actor=actor, dataset=dataset, source_file=source_file)
        version = dataset_services.dataset_version_freeze(actor=actor, version=version)
    return version


def grader_ready(actor: Actor) -> GraderVersion:
    """The example's reward: right answer, evidence for it, a light price per surplus tool call."""
    recipe = json.loads((HERE / "grader.json").read_text())
    grader = Grader.objects.filter(team=actor.team, name=DESK).first() or grader_services.grader_create(
        actor=actor, name=DESK, config=recipe
    )
    return grader.versions.order_by("number").first() or grader_services.grader_version_publish(
        actor=actor, grader=grader, pass_threshold=PASS_MARK, note="Comes with the example"
    )


def model_ready(actor: Actor) -> ModelEndpoint:
    """The small base model that ships with the repository."""
    digest = json.loads((BASE_MODEL / "manifest.json").read_text())["sha256"]["model.safetensors"]
    return ModelEndpoint.objects.filter(team=actor.team, digest=digest).first() or agent_services.model_endpoint_create(
        actor=actor,
        name="Duty desk base (195 k parameters)",
        kind=ModelEndpoint.Kind.LOCAL,
        model=str(BASE_MODEL),
        is_trainable=True,
        digest=digest,
    )


def agent_ready(actor: Actor, model: ModelEndpoint) -> AgentVersion:
    """The desk's agent: two built-in tools, limits, and two prompts, of which the second is the better one."""
    tools = [
        Tool.objects.filter(team=actor.team, name=spec["name"]).first()
        or agent_services.tool_create(actor=actor, **spec)
        for spec in world.TOOLS
    ]
    agent = Agent.objects.filter(team=actor.team, name=DESK).first() or agent_services.agent_create(
        actor=actor, name=DESK
    )
    notes = ("The first try: it names no tool", "Says which tool to use and how to answer")
    published = set(agent.versions.values_list("system_prompt", flat=True))
    for prompt, note in zip(world.PROMPTS, notes, strict=True):
        if published & {prompt, world.SYSTEM_PROMPT}:
            continue
        agent_services.agent_version_publish(
            actor=actor,
            agent=agent,
            system_prompt=prompt,
            model=model,
            tools=tools,
            sampling=SAMPLING,
            limits=LIMITS,
            note=note,
        )
    return agent.versions.filter(system_prompt=world.SYSTEM_PROMPT).order_by("number").first()


def first_version(agent: AgentVersion) -> AgentVersion:
    """The agent with its first prompt: the lowest rung of the ladder."""
    return agent.agent.versions.order_by("number").first()


def evaluation_ready(
    actor: Actor,
    *,
    data: DatasetVersion,
    agent: AgentVersion,
    grader: GraderVersion,
    seed: int,
    model: ModelEndpoint | None = None,
    policy_label: str = "",
    max_items: int | None = None,
) -> Evaluation:
    """An evaluation on the held-out test items, or a draw of them, started unless one like it exists."""
    alike = Evaluation.objects.filter(
        team=actor.team, dataset_version=data, agent_version=agent, grader_version=grader, split="test", seed=seed
    ).exclude(status__in=[Evaluation.Status.FAILED, Evaluation.Status.CANCELLED])
    found = alike.filter(model=model or agent.model).order_by("id").first()
    return found or evaluation_services.evaluation_start(
        actor=actor,
        dataset_version=data,
        agent_version=agent,
        grader_version=grader,
        split="test",
        model=model,
        samples_per_item=4,
        max_items=max_items,
        seed=seed,
        policy_label=policy_label,
    )


def evaluation_progress(evaluation: Evaluation) -> Iterator[Progress]:
    """Looks until the evaluation has settled."""
    total = evaluation.batch.rollouts.count()
    while True:
        evaluation.refresh_from_db()
        open_states = [Rollout.Status.QUEUED, Rollout.Status.RUNNING]
        waiting = Rollout.objects.filter(batch=evaluation.batch, status__in=open_states).count()
        yield Progress(total - waiting, total, "rollout")
        if evaluation.status not in {Evaluation.Status.QUEUED, Evaluation.Status.RUNNING}:
            return
        time.sleep(0.5)


def job_ready(actor: Actor, *, baseline: Evaluation, seed: int) -> Job:
    """The training run for this seed, launched unless it exists and has not failed."""
    found = Job.objects.filter(team=actor.team, baseline=baseline, seed=seed).exclude(
        status__in=[Job.Status.FAILED, Job.Status.CANCELLED]
    )
    return found.order_by("-id").first() or job_services.job_launch(
        actor=actor,
        baseline=baseline,
        plan=json.loads((HERE / "plan.json").read_text()),
        seed=seed,
        name=f"Duty desk, seed {seed}",
    )


def job_progress(job: Job) -> Iterator[Progress]:
    """Looks until the job has ended."""
    while True:
        job.refresh_from_db()
        yield Progress(job.done_steps, job.total_steps or 1, "train step")
        if not job.is_active:
            return
        time.sleep(0.5)


def checkpoint_ready(actor: Actor, job: Job) -> ModelEndpoint:
    """The job's best checkpoint as a model that can be evaluated and served."""
    return job.best_checkpoint.model or job_services.checkpoint_publish(actor=actor, checkpoint=job.best_checkpoint)


def credit_progress(job: Job) -> Iterator[Progress]:
    """Looks until every train step's rollouts are credited; the outcome checks the law on what is stored."""
    total = job.train_steps.count()
    while waiting := uncredited(job).count():
        yield Progress(total - waiting, total, "train step")
        time.sleep(0.5)
    yield Progress(total, total, "train step", outcome=credit_figures(job))


def credit_figures(job: Job) -> dict:
    """How many rollouts are credited and how far a sum is from reward − baseline at the worst."""
    stored = RolloutCredit.objects.filter(
        rollout__batch__source=job.public_id, rollout__batch__kind=RolloutBatch.Kind.TRAIN_STEP, method=CREDIT_METHOD
    ).values_list("credits", "baseline", "rollout__reward")
    errors = [abs(math.fsum(credits) - (reward - baseline)) for credits, baseline, reward in stored.iterator()]
    return {"method": CREDIT_METHOD, "rollouts": len(errors), "max_sum_error": max(errors, default=0.0)}


def evaluation_figures(evaluation: Evaluation) -> dict:
    """The four figures that the result file names."""
    return {key: evaluation.metrics[key] for key in ("items", "samples_per_item", "mean_reward", "pass_rate")}


def job_figures(job: Job) -> dict:
    """What the trainer reported, beside what is stored here: the two counts of rollouts must agree."""
    stored = Rollout.objects.filter(batch__source=job.public_id, batch__kind=RolloutBatch.Kind.TRAIN_STEP).count()
    if stored != job.result["rollouts"]:
        raise Conflict(f"The trainer reports {job.result['rollouts']} rollouts, {stored} are stored.")
    return {
        "id": job.public_id,
        "backend": job.backend,
        "train_steps": job.result["train_steps"],
        "rollouts": stored,
        "seconds": round(job.result["seconds"], 1),
    }


def tool_call_count(actor: Actor) -> int:
    """Calls that really ran, over every stored rollout of the team."""
    return Rollout.objects.filter(team=actor.team).aggregate(calls=Sum("n_tool_calls"))["calls"] or 0
