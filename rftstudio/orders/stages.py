"""What one look at an order does: read its files, measure the untrained model, launch the job."""

import json
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from graders.validation import grader_problems
from jobs import plan as plans
from jobs import selectors as job_selectors
from jobs import services as job_services
from jobs.agents.models import AgentVersion
from jobs.demonstrations import TURNS, TURNS_FIELD
from jobs.evaluations import services as evaluation_services
from jobs.evaluations.models import Evaluation
from jobs.evaluations.selectors import evaluation_find
from jobs.events import OWN_SEQUENCE
from jobs.models import Job, JobEvent
from jobs.services import NotReady
from rftstudio.core.errors import NotAllowed, UserError
from rftstudio.core.sealed import unseal
from rftstudio.orders import parts, rows
from rftstudio.orders.models import JobOrder, ModelAlias
from rftstudio.orders.story import STORY, story_add
from rftstudio.teams.actor import Actor

Stage = JobOrder.Stage
METHOD = "method.reinforcement"


class Overtaken(Exception):
    """The order was cancelled while it was looked at."""


def actor_of(order: JobOrder) -> Actor:
    """Whoever asked for the job, as long as they still may act."""
    if order.api_key and not order.api_key.is_usable:
        raise NotAllowed("The key that asked for this job was revoked or has expired.", fix="Send it with another key.")
    role = order.api_key.role if order.api_key else order.role
    return Actor(team=order.team, role=role, user=order.created_by, api_key=order.api_key)


def order_move(order: JobOrder, to: str, **fields: Any) -> None:
    """Bring the order forward from where this look found it; Overtaken when it is no longer there."""
    told = {"stage": to, "story": order.story, "updated_at": timezone.now(), **fields}
    if JobOrder.objects.filter(pk=order.pk, stage=order.stage).update(**told) != 1:
        raise Overtaken(order.public_id)
    order.stage = to
    for name, value in fields.items():
        setattr(order, name, value)


def order_fail(order: JobOrder, code: str, message: str, *, param: str | None = None) -> None:
    """End an order by an error, in the wire's shape. Fails in silence only when it was cancelled meanwhile."""
    story_add(order, message, level="error")
    error = {"code": code, "message": message, "param": param}
    told = {"stage": Stage.FAILED, "error": error, "story": order.story, "finished_at": timezone.now()}
    JobOrder.objects.filter(pk=order.pk, stage__in=(Stage.FILES, Stage.BASELINE)).update(**told)


# -- files ------------------------------------------------------------------------------------------------------------


def read_files(order: JobOrder) -> None:
    """Files → dataset version, tools → agent version; then the baseline is ordered."""
    actor = actor_of(order)
    story_add(order, f"Validating training file: {order.training_file.public_id}")
    if order.validation_file:
        story_add(order, f"Validating validation file: {order.validation_file.public_id}")
    version = rows.version_ready(actor=actor, order=order)
    order.dataset_version = version
    _check_fields(order)
    agent_version = _agent_version(actor, order)
    plan = _check_plan(order, agent_version)
    story_add(order, f"Files validated: {version} has {version.item_count:,} items.")
    baseline, is_own = _baseline(actor, order, agent_version)
    words = f"Measuring the untrained model first: baseline {baseline.number}, {baseline.samples_per_item} rollouts an item."
    story_add(order, words, data={"baseline": baseline.public_id, "plan": plan})
    try:
        order_move(
            order, Stage.BASELINE, dataset_version=version, agent_version=agent_version, baseline=baseline,
            is_own_baseline=is_own, tools_sealed="",  # the agent version has the headers now
        )  # fmt: skip
    except Overtaken:
        if is_own:
            evaluation_services.evaluation_cancel(actor=actor, evaluation=baseline)
        raise


def _check_fields(order: JobOrder) -> None:
    """The grader reads only what the rows of each file have."""
    for param, fields in rows.fields_of(order.dataset_version).items():
        which = param.replace("_", " ").capitalize()
        problems = [one for one in grader_problems(order.grader_version.config, fields=fields)
                    if one.code in ("variable_missing", "variable_sparse")]  # fmt: skip
        errors = [one for one in problems if one.level == "error"]
        if errors:
            raise UserError(
                f"{which}: {parts.reasons(errors)}", where=f"{METHOD}.grader.{errors[0].path}", code="invalid_grader"
            )
        for one in problems:
            story_add(order, f"{which}: {one.message} {one.fix}", level="warn")


def _agent_version(actor: Actor, order: JobOrder) -> AgentVersion:
    asked = unseal(order.tools_sealed) or []
    schemas, differ = rows.tool_schemas(order.dataset_version)
    _check_offered(order, [tool["name"] for tool in asked], schemas)
    for name in differ:
        schemas[name] = {}  # a tool without a schema takes the one in the item's row
        story_add(order, f"Rows describe the tool {name} in several ways; each row's own description is used.")
    method = order.inner
    reply, effort = reply_tokens(order.alias), order.hyperparameters.get("reasoning_effort")
    sampling = {"max_tokens": reply} | ({"reasoning_effort": effort} if effort not in (None, "default") else {})
    steps = method.get("max_episode_steps")
    limits = {"max_tokens": max(8192, 4 * reply)} | ({"max_steps": steps, "max_tool_calls": steps} if steps else {})
    return parts.agent_version_ready(
        actor=actor,
        label=order.suffix or order.model_name,
        model=order.model,
        tools=parts.tools_ready(actor=actor, asked=asked, schemas=schemas),
        headers={tool["name"]: tool.get("headers") or {} for tool in asked},
        sampling=sampling,
        limits=limits,
        response_format=method.get("response_format"),
    )


def reply_tokens(alias: ModelAlias | None) -> int:
    return alias.reply_tokens if alias else ModelAlias._meta.get_field("reply_tokens").default


def _check_offered(order: JobOrder, asked: list[str], schemas: dict[str, Any]) -> None:
    """Tools have their address in the job and their schema in the rows; the names must meet."""
    missing = [name for name in asked if name not in schemas]
    if missing:
        raise UserError(
            f"No row describes the tool {', '.join(missing)}.",
            where=f"{METHOD}.tools",
            fix="Put its function schema into the rows' `tools`, or take it out of the job.",
            code="invalid_tools",
        )
    left_out = [name for name in schemas if name not in asked]
    if left_out and not asked and "output_tools" in json.dumps(order.grader_version.config):
        raise UserError(
            f"The rows offer the tools {', '.join(left_out)}, the grader reads their calls, and the job gives no address.",
            where=f"{METHOD}.tools",
            fix="Name each with its server_url: a tool that the policy may call is really called here.",
            code="invalid_tools",
        )
    if left_out:
        words = f"Rows offer {', '.join(left_out)}, for which the job gives no address; the policy is not offered them."
        story_add(order, words, level="warn")


def shown_of(order: JobOrder) -> dict[str, Any] | None:
    """What a supervised job learns from: the turns that its rows held."""
    return {"from": TURNS, "field": TURNS_FIELD} if order.is_supervised else None


def plan_of(order: JobOrder, ground: plans.Ground) -> dict[str, Any]:
    """The hyperparameters as a plan takes them: what was sent, then the alias's defaults, then the reference's meaning."""
    sent = {name: value for name, value in order.hyperparameters.items() if value not in (None, plans.AUTO)}
    plan = {**(order.alias.defaults if order.alias else {}), **sent}
    plan.setdefault("max_eval_items", min(max(ground.validation_items, 1), 10_000))  # the whole set, as the reference
    if isinstance(plan.get("batch_size"), int) and 0 < ground.train_items < plan["batch_size"]:
        plan["batch_size"] = ground.train_items
    return plan


def _check_plan(order: JobOrder, agent_version: AgentVersion) -> dict[str, Any]:
    """Refuse hyperparameters that do not fit before anything is spent."""
    draft = Evaluation(dataset_version=order.dataset_version, agent_version=agent_version, model=order.model)
    ground = job_selectors.plan_ground(draft, shown_of(order))
    wanted = order.hyperparameters.get("batch_size")
    if isinstance(wanted, int) and wanted > ground.train_items:
        words = f"batch_size is {wanted} and the training file has {ground.train_items} rows; each train step takes all of them."
        story_add(order, words, level="warn")
    try:
        return plans.plan_fill(plan_of(order, ground), ground=ground)
    except UserError as exc:
        raise UserError(
            exc.message,
            where=f"method.{order.method['type']}.hyperparameters.{exc.where}",
            fix=exc.fix,
            code="invalid_hyperparameters",
        ) from exc


def _baseline(actor: Actor, order: JobOrder, agent_version: AgentVersion) -> tuple[Evaluation, bool]:
    """The evaluation of exactly these parts: an earlier one, else one is started and its money held."""
    alias = order.alias or ModelAlias()
    split = "validation" if order.validation_file else "train"
    wanted: dict[str, Any] = {
        "dataset_version": order.dataset_version,
        "agent_version": agent_version,
        "grader_version": order.grader_version,
        "model": order.model,
        "split": split,
        "samples_per_item": max(2, min(alias.baseline_samples, evaluation_services.MOST_SAMPLES)),
        "max_items": max(1, alias.baseline_items),
        "seed": 0,
    }
    if found := evaluation_find(team=order.team, **wanted):
        return found, False
    return evaluation_services.evaluation_start(actor=actor, **wanted), True


# -- baseline and launch ----------------------------------------------------------------------------------------------


def watch_baseline(order: JobOrder) -> None:
    """Wait for the baseline; then launch, or say why not."""
    baseline = order.baseline
    if baseline.status in (Evaluation.Status.QUEUED, Evaluation.Status.RUNNING):
        return
    if baseline.status != Evaluation.Status.SUCCEEDED:
        words = f"The untrained model could not be measured (baseline {baseline.number}, {baseline.status}). {baseline.error}"
        raise UserError(words.strip(), where="model", code="baseline_failed")
    _launch(order, actor_of(order))


def _launch(order: JobOrder, actor: Actor) -> None:
    standing = ""
    if order.alias and not order.alias.is_readiness_binding:
        standing = f"The console's rule for {order.alias.name} launches jobs of the REST door although the baseline is not ready."
    with transaction.atomic():
        try:
            job = job_services.job_launch(
                actor=actor,
                baseline=order.baseline,
                plan=plan_of(order, job_selectors.plan_ground(order.baseline, shown_of(order))),
                method=order.method["type"],
                demonstrations=shown_of(order),
                seed=order.seed,
                backend=order.backend,
                name=order.suffix,
                launch_key=order.public_id,
                public_id=order.public_id,
                standing_rule=standing,
            )
        except NotReady as exc:
            raise NotReady(
                f"{exc.message} {exc.fix}".strip(),
                where="model",
                fix=f"Baseline {order.baseline.number} is kept; a team owner may launch from it with a reason.",
            ) from exc
        Job.objects.filter(pk=job.pk).update(created_at=order.created_at)
        story_hand_over(order, job)
        order_move(order, Stage.LAUNCHED, job=job)
        JobOrder.objects.filter(pk=order.pk).update(story=[])


def story_hand_over(order: JobOrder, job: Job) -> None:
    """The order's lines become the job's, with their ids and moments, so that a reader of events loses nothing."""
    last = JobEvent.objects.filter(job=job, sequence__gte=OWN_SEQUENCE).aggregate(last=Max("sequence"))["last"]
    first = (last or OWN_SEQUENCE) + 1
    JobEvent.objects.bulk_create(
        JobEvent(
            job=job, public_id=line["id"], sequence=first + place, level=line["level"], type=STORY,
            message=line["message"], data=line["data"], created_at=datetime.fromtimestamp(line["at"], UTC),
        )
        for place, line in enumerate(order.story)
    )  # fmt: skip


LOOKS = {Stage.FILES: read_files, Stage.BASELINE: watch_baseline}
