"""`/v1/evals/{eval_id}`: what a job's attached eval shows. One eval for each job, one run for its baseline and for each
check on validation, one output item for each rollout. For reading only: evaluations are started elsewhere.
"""

import re
from collections.abc import Iterable
from typing import Any

from django.db.models import Count, Prefetch, Q, QuerySet, Sum
from rest_framework.request import Request

from graders.secrets import shown_config
from jobs.models import Job
from jobs.rollouts.models import Rollout, RolloutBatch, Step
from rftstudio.api.doors import AFTER, LIMIT, actor_of, door, limit_of, newer_than, older_than, page_of
from rftstudio.api.fine_tuning_jobs import jobs_of
from rftstudio.api.job_wire import eval_id
from rftstudio.core.errors import NotFound, UserError
from rftstudio.orders.named import tail

Kind = RolloutBatch.Kind
NO_ERROR = {"code": "", "message": ""}
_ID = re.compile(r"[A-Za-z]+_(?P<tail>[A-Za-z0-9]{20})")


def _tail(text: str) -> str:
    found = _ID.fullmatch(text)
    return found["tail"] if found else "none"


def _job(request: Request, wanted: str) -> Job:
    job = jobs_of(actor_of(request).team).filter(public_id=f"ftjob-{_tail(wanted)}").first()
    if job is None:
        raise NotFound(f"There is no eval {wanted[:80]!r}, or its job is not launched yet.", where="eval_id")
    return job


def _runs(job: Job) -> QuerySet[RolloutBatch]:
    """The baseline first, then the checks in order of their train step."""
    own = Q(source=job.public_id, kind=Kind.VALIDATION) | Q(pk=job.baseline.batch_id)
    return RolloutBatch.objects.filter(own, team=job.team).select_related("team", "dataset_version")


def _run(job: Job, wanted: str) -> RolloutBatch:
    found = _runs(job).filter(public_id=f"batch-{_tail(wanted)}").first()
    if found is None:
        raise NotFound(f"There is no run {wanted[:80]!r}.", where="run_id")
    return found


def run_id(batch: RolloutBatch) -> str:
    return f"evalrun_{tail(batch.public_id)}"


@door("GET", "getEval", summary="A job's eval")
def eval_get(request: Request, wanted: str) -> dict[str, Any]:
    """Its only criterion is the job's grader."""
    job = _job(request, wanted)
    return {
        "id": eval_id(job.public_id),
        "object": "eval",
        "created_at": int(job.created_at.timestamp()),
        "name": job.name or f"Job {job.number}",
        "metadata": {},
        "data_source_config": {"type": "custom", "schema": {"type": "object"}},
        "testing_criteria": [shown_config(job.baseline.grader_version.config)],
    }


@door("GET", "getEvalRuns", summary="Runs of a job's eval", parameters=[AFTER, LIMIT])
def run_list(request: Request, wanted: str) -> dict[str, Any]:
    """Oldest first: the baseline, then one for each check on validation."""
    job, limit = _job(request, wanted), limit_of(request, 20)
    rows = _runs(job)
    after = _after(request, rows, "batch-")
    page = list(rows.filter(newer_than(after, "id")).order_by("id")[: limit + 1])
    counts = counts_of(page)
    return page_of([wire_run(job, row, counts.get(row.pk, NOTHING)) for row in page], limit, with_ends=True)


def _after(request: Request, rows: QuerySet, prefix: str) -> Any:
    wanted = request.query_params.get("after")
    if not wanted:
        return None
    found = rows.filter(public_id=f"{prefix}{_tail(wanted)}").first()
    if found is None:
        raise UserError(
            f"There is no row {wanted[:80]!r} to go on after.", where="after", fix="Pass the last id you got."
        )
    return found


@door("GET", "getEvalRun", summary="One run")
def run_get(request: Request, wanted: str, run: str) -> dict[str, Any]:
    """Counts of its rollouts; `errored` are those without a reward."""
    job = _job(request, wanted)
    batch = _run(job, run)
    return wire_run(job, batch, counts_of([batch]).get(batch.pk, NOTHING))


def counts_of(batches: Iterable[RolloutBatch]) -> dict[int, dict[str, Any]]:
    """Batch key → how its rollouts ended and what they read and wrote, in one query."""
    rows = Rollout.objects.filter(batch__in=[batch.pk for batch in batches]).values("batch").order_by()
    graded = Q(reward__isnull=False)
    found = rows.annotate(
        n=Count("id"),
        n_passed=Count("id", filter=graded & Q(passed=True)),
        n_failed=Count("id", filter=graded & ~Q(passed=True)),
        n_open=Count("id", filter=Q(status__in=["queued", "running"])),
        prompt=Sum("input_tokens"),
        completion=Sum("output_tokens"),
    )
    return {row["batch"]: dict(row) for row in found}


NOTHING = {"n": 0, "n_passed": 0, "n_failed": 0, "n_open": 0, "prompt": 0, "completion": 0}


def wire_run(job: Job, batch: RolloutBatch, counts: dict[str, Any]) -> dict[str, Any]:
    prompt, completion = counts["prompt"] or 0, counts["completion"] or 0
    total, passed, failed, is_open = counts["n"], counts["n_passed"], counts["n_failed"], counts["n_open"]
    grader = job.baseline.grader_version.config
    return {
        "id": run_id(batch),
        "object": "eval.run",
        "eval_id": eval_id(job.public_id),
        "created_at": int(batch.created_at.timestamp()),
        "name": f"Step {batch.train_step}" if batch.kind == Kind.VALIDATION else f"Baseline {job.baseline.number}",
        "status": "in_progress" if is_open else "completed",
        "model": batch.policy_label or job.base_model.name,
        "metadata": {},
        "error": NO_ERROR,
        "report_url": f"/{job.team.slug}/jobs/{job.public_id}/",
        "data_source": {"type": "jsonl", "source": {"type": "file_id", "id": _data_file(job)}},
        "result_counts": {
            "total": total, "passed": passed, "failed": failed, "errored": total - passed - failed - is_open,
        },
        "per_model_usage": [
            {"model_name": batch.policy_label or job.base_model.name, "invocation_count": total,
             "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
             "cached_tokens": 0}
        ],
        "per_testing_criteria_results": [
            {"testing_criteria": str(grader.get("name")), "passed": passed, "failed": failed}
        ],
    }  # fmt: skip


def _data_file(job: Job) -> str:
    order = getattr(job, "order", None)
    file = (order.validation_file or order.training_file) if order else None
    return file.public_id if file else job.baseline.dataset_version.public_id


@door("GET", "getEvalRunOutputItems", summary="Rollouts of a run", parameters=[AFTER, LIMIT])
def item_list(request: Request, wanted: str, run: str) -> dict[str, Any]:
    """In the order in which they were made; `order` desc turns it round, `status` (pass, fail) filters."""
    job, limit = _job(request, wanted), limit_of(request, 20)
    batch = _run(job, run)
    rows = Rollout.objects.filter(batch=batch)
    after, order = _after(request, rows, "roll-"), request.query_params.get("order") or "asc"
    if order not in ("asc", "desc"):
        raise UserError("order must be asc or desc.", where="order")
    status = request.query_params.get("status")
    if status not in (None, "pass", "fail"):
        raise UserError("status must be pass or fail.", where="status")
    if status:
        rows = rows.filter(passed=status == "pass", reward__isnull=False)
    rows = rows.filter((newer_than if order == "asc" else older_than)(after, "id"))
    rows = _whole(rows).order_by("id" if order == "asc" else "-id")[: limit + 1]
    return page_of([wire_item(job, batch, row) for row in rows], limit, with_ends=True)


@door("GET", "getEvalRunOutputItem", summary="One rollout")
def item_get(request: Request, wanted: str, run: str, item: str) -> dict[str, Any]:
    """What went in, what came out, and what each grader said."""
    job = _job(request, wanted)
    batch = _run(job, run)
    row = _whole(Rollout.objects.filter(batch=batch, public_id=f"roll-{_tail(item)}")).first()
    if row is None:
        raise NotFound(f"There is no output item {item[:80]!r}.", where="output_item_id")
    return wire_item(job, batch, row)


def _whole(rows: QuerySet[Rollout]) -> QuerySet[Rollout]:
    return rows.select_related("item").prefetch_related(Prefetch("steps", Step.objects.order_by("index")))


def wire_item(job: Job, batch: RolloutBatch, row: Rollout) -> dict[str, Any]:
    item = row.item.data if row.item else {}
    passed = bool(row.passed) and row.reward is not None
    return {
        "id": f"outputitem_{tail(row.public_id)}",
        "object": "eval.run.output_item",
        "run_id": run_id(batch),
        "eval_id": eval_id(job.public_id),
        "created_at": int((row.started_at or row.created_at).timestamp()),
        "status": "error" if row.reward is None else "pass" if passed else "fail",
        "datasource_item_id": row.item.position if row.item else 0,
        "datasource_item": item,
        "results": _results(job, row, passed),
        "sample": _sample(job, batch, row, item),
        "studio": {"rollout": row.public_id, "trace_id": row.trace_id, "stop_reason": row.stop_reason},
    }


def _results(job: Job, row: Rollout, passed: bool) -> list[dict[str, Any]]:
    """The reward, and each named part of it. An ungraded rollout has no result: it is an error, not a 0."""
    grader = job.baseline.grader_version.config
    if row.reward is None:
        return []
    found = [{"name": str(grader.get("name")), "type": str(grader.get("type")), "score": row.reward, "passed": passed}]
    parts = grader.get("graders") if isinstance(grader.get("graders"), dict) else {}
    for name, score in (row.sub_rewards or {}).items():
        if score is not None:
            kind = (parts.get(name) or {}).get("type")
            mark = (parts.get(name) or {}).get("pass_threshold", 0.5)
            found.append({"name": name, "type": str(kind or "part"), "score": score, "passed": score >= (mark or 0.5)})
    return found


def _sample(job: Job, batch: RolloutBatch, row: Rollout, item: dict[str, Any]) -> dict[str, Any]:
    sampling = job.baseline.agent_version.sampling or {}
    output: list[dict[str, Any]] = []
    for step in row.steps.all():
        output.append({"role": "assistant", "content": step.text, "tool_calls": [
            {"id": call.get("id") or "", "type": "function",
             "function": {"name": call.get("name") or "", "arguments": call.get("arguments") or ""}}
            for call in step.tool_calls
        ]})  # fmt: skip
        output += [
            {"role": "tool", "tool_call_id": call.get("id") or "", "content": str(call.get("result") or "")}
            for call in step.tool_calls
        ]
    return {
        "input": [
            {"role": str(message.get("role")), "content": _text(message.get("content"))}
            for message in item.get("messages") or []
            if isinstance(message, dict)
        ],
        "output": output or [{"role": "assistant", "content": row.answer}],
        "finish_reason": {"answered": "stop", "max_tokens": "length"}.get(row.stop_reason, row.stop_reason or "stop"),
        "model": batch.policy_label or job.base_model.name,
        "usage": {
            "prompt_tokens": row.input_tokens, "completion_tokens": row.output_tokens,
            "total_tokens": row.input_tokens + row.output_tokens, "cached_tokens": 0,
        },
        "error": {"code": row.stop_reason, "message": row.error} if row.error else NO_ERROR,
        "temperature": float(sampling.get("temperature") or 1.0),
        "top_p": float(sampling.get("top_p") or 1.0),
        "max_completion_tokens": int(sampling.get("max_tokens") or job.plan.get("max_completion_tokens") or 0),
        "seed": int(batch.seed),
    }  # fmt: skip


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")
