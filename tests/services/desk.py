"""The example on a data folder of its own, driven from outside: reads `VERB [JOB]` lines, answers each with JSON.

`launch` makes team, dataset, grader, agent and a small baseline, waits for it, and launches a short job with that many
train steps. `look` says what is stored about a job.
"""

import json
import sys

import django

django.setup()

from django.db.models import Count  # noqa: E402

from jobs import services as job_services  # noqa: E402
from jobs.evaluations import services as evaluation_services  # noqa: E402
from jobs.models import Job  # noqa: E402
from jobs.rollouts.models import Rollout, RolloutBatch, Step  # noqa: E402
from rftstudio.demo import walk  # noqa: E402

PLAN = {"max_steps": 24, "batch_size": 8, "group_size": 4, "eval_interval": 4, "eval_samples": 1, "max_eval_items": 4}


def launch() -> dict:
    actor = walk.team_ready("demo@example.com", "correct horse battery")
    data, grader = walk.dataset_ready(actor), walk.grader_ready(actor)
    agent = walk.agent_ready(actor, walk.model_ready(actor))
    baseline = evaluation_services.evaluation_start(
        actor=actor, dataset_version=data, agent_version=agent, grader_version=grader, samples_per_item=4, max_items=12
    )
    for _ in walk.evaluation_progress(baseline):
        pass
    job = job_services.job_launch(
        actor=actor, baseline=baseline, plan=PLAN, seed=1, override="A short run of the test suite."
    )
    return {"job": job.public_id, "baseline": baseline.status}


def look(public_id: str) -> dict:
    job = Job.objects.get(public_id=public_id)
    rows = Rollout.objects.filter(batch__source=public_id, batch__kind=RolloutBatch.Kind.TRAIN_STEP)
    twice = rows.values("batch__train_step", "group_key", "sample_index").annotate(n=Count("id")).filter(n__gt=1)
    return {
        "status": job.status,
        "note": job.status_note,
        "error": job.error,
        "trainer": job.process.get("pid"),
        "done_steps": job.done_steps,
        "result": job.result,
        "stored": rows.count(),
        "doubled": twice.count(),
        "per_step": sorted(set(rows.values("batch").annotate(n=Count("id")).values_list("n", flat=True))),
        "without_steps": rows.filter(steps__isnull=True).count(),
        "without_reason": rows.filter(stop_reason="").count(),
        "without_rewards": rows.filter(sub_rewards={}).count(),
        "calls_without_result": sum(
            "result" not in call
            for calls in Step.objects.filter(rollout__in=rows).values_list("tool_calls", flat=True)
            for call in calls
        ),
        "events": list(job.events.order_by("sequence").values_list("message", flat=True)),
    }


if __name__ == "__main__":
    for line in sys.stdin:
        verb, *rest = line.split()
        print(json.dumps({"launch": launch, "look": look}[verb](*rest)), flush=True)
