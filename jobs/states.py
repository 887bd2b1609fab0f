"""Which status may follow which, and what each one says. The table is the truth; docs/jobs.md is drawn from it."""

from dataclasses import dataclass

from jobs.models import Job

Status = Job.Status

#: status → those that may follow it.
FOLLOWS: dict[str, frozenset[str]] = {
    Status.VALIDATING: frozenset({Status.QUEUED, Status.CANCELLED, Status.FAILED}),
    Status.QUEUED: frozenset({Status.RUNNING, Status.PAUSED, Status.CANCELLED, Status.FAILED}),
    # Back to queued: the machine went down in an orderly way, and the job goes on when there is room again.
    Status.RUNNING: frozenset(
        {Status.QUEUED, Status.PAUSING, Status.PAUSED, Status.CANCELLING, Status.SUCCEEDED, Status.FAILED}
        | {Status.CANCELLED}
    ),
    # Back to running: the provider will not pause it.
    Status.PAUSING: frozenset(
        {Status.RUNNING, Status.PAUSED, Status.CANCELLING, Status.SUCCEEDED, Status.FAILED, Status.CANCELLED}
    ),
    Status.PAUSED: frozenset({Status.QUEUED, Status.CANCELLED}),
    # The trainer may have finished before it saw the wish; then the job did succeed.
    Status.CANCELLING: frozenset({Status.CANCELLED, Status.SUCCEEDED, Status.FAILED}),
    Status.SUCCEEDED: frozenset(),
    Status.FAILED: frozenset(),
    Status.CANCELLED: frozenset(),
}

ENDED = frozenset(status for status, after in FOLLOWS.items() if not after)
#: A trainer process may exist.
AT_WORK = frozenset({Status.RUNNING, Status.PAUSING, Status.CANCELLING})
#: The sweep looks at these.
ACTIVE = frozenset(FOLLOWS) - ENDED - {Status.PAUSED}


def may_precede(to: str) -> list[str]:
    """The statuses from which `to` may be reached."""
    return sorted(status for status, after in FOLLOWS.items() if to in after)


def can_follow(before: str, after: str) -> bool:
    return after in FOLLOWS[before]


@dataclass(frozen=True)
class Words:
    """What a status says to a person, and what is next for them."""

    title: str
    text: str
    next: str


WORDS: dict[str, Words] = {
    Status.VALIDATING: Words(
        "Checking files and grader",
        "The rows, the grader and the model are looked at before anything is spent.",
        "Nothing; a bad line would be shown here with its number.",
    ),
    Status.QUEUED: Words(
        "Waiting for a free machine",
        "One job trains at a time on this machine.",
        "Nothing; it starts by itself. You may cancel it.",
    ),
    Status.RUNNING: Words(
        "The model is practising",
        "At each train step it tries some items several times, and is moved towards what scored better in each group.",
        "Look at the alarms, if there are any; else nothing until the next check on validation.",
    ),
    Status.PAUSING: Words(
        "Stopping at the next train step",
        "The train step at work is finished and saved.",
        "Nothing; it pauses by itself.",
    ),
    Status.PAUSED: Words(
        "Paused",
        "A checkpoint is kept, nothing runs and nothing is spent.",
        "Read why, then resume it or end it.",
    ),
    Status.CANCELLING: Words(
        "Stopping now",
        "The trainer is asked to stop, and is stopped if it does not answer.",
        "Nothing; it ends within seconds.",
    ),
    Status.SUCCEEDED: Words(
        "Finished",
        "All train steps are done.",
        "Evaluate the best checkpoint on the test split and compare it with the baseline.",
    ),
    Status.FAILED: Words(
        "Stopped by an error",
        "What was trained until then is kept.",
        "Read the error and its fix, then launch it again.",
    ),
    Status.CANCELLED: Words(
        "Ended by a person", "What was trained until then is kept.", "Evaluate its best checkpoint, or launch it again."
    ),
}


def diagram() -> str:
    """The table as a Mermaid state diagram, for the docs."""
    lines = ["stateDiagram-v2", f"    [*] --> {Status.VALIDATING.value}"]
    for before in FOLLOWS:
        lines += [f"    {Status(before).value} --> {after.value}" for after in Status if after in FOLLOWS[before]]
    lines += [f"    {Status(status).value} --> [*]" for status in FOLLOWS if status in ENDED]
    return "\n".join(lines)
