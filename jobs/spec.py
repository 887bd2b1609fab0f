"""What a backend is handed for a job: the wire spec and the rows."""

from collections.abc import Iterator
from typing import Any

from datasets.models import Item, Split
from graders.selectors import grader_judges, grader_wire_config
from jobs import demonstrations
from jobs.agents import selectors as agent_selectors
from jobs.backends.base import RunSpec
from jobs.models import Job
from jobs.plan import WIRE_NAMES, trainer_plan

SPEC_VERSION = 1


def job_spec(job: Job) -> dict[str, Any]:
    """The spec of one run. Holds unsealed headers of tools, graders and judges: for the trainer's eyes only."""
    baseline = job.baseline
    agent, grader = baseline.agent_version, baseline.grader_version
    return {
        "spec_version": SPEC_VERSION,
        "job_id": job.public_id,
        "method": job.method,
        "base_model": job.base_model.model,
        "seed": job.seed,
        "agent": {
            "system_prompt": agent.system_prompt,
            "tools": [tool.as_dict() for tool in agent_selectors.toolspecs(agent)],
            "limits": agent.limits,
            "sampling": agent.sampling,
            "response_format": agent.response_format,
        },
        "grader": grader_wire_config(grader),
        "judges": grader_judges(grader),
        "pass_threshold": grader.pass_threshold,
        "plan": trainer_plan(job.plan),
        "hyperparameters": {name: job.plan[name] for name in WIRE_NAMES if job.plan.get(name) is not None},
    }


def split_rows(job: Job, split: str) -> Iterator[dict[str, Any]]:
    """`{"key", "item"}` for each row of a split, in order."""
    items = Item.objects.filter(version=job.baseline.dataset_version, split=split).order_by("position")
    for item in items.iterator(chunk_size=1000):
        yield {"key": item.key, "item": item.data}


def run_spec(job: Job) -> RunSpec:
    train = demonstrations.rows(job) if job.is_supervised else split_rows(job, Split.TRAIN)
    return RunSpec(job_spec(job), train, split_rows(job, Split.VALIDATION))
