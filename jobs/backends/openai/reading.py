"""What a provider answers, read with care: a page of something in between is no answer, and an odd value spoils nothing else.

Whatever cannot be read as a whole is as good as no answer: it is asked again, and no job ends for it.
"""

from collections.abc import Callable, Iterator
from typing import Any

from jobs.backends.openai.refusals import unavailable
from jobs.rollouts.cleaning import finite

#: Own numbers for events that the provider does not number: they stay the same when asked again.
CHECKPOINT_SEQUENCE, FINISH_SEQUENCE = 500_000_000, 600_000_000
#: Train steps stay below this, so that a checkpoint's number never meets another's.
MOST_STEPS = 90_000_000
#: A list longer than this does not end.
MOST_ROWS = 50_000
#: The name of a checkpoint at the provider.
MOST_NAME = 500
#: No train step lasts longer, in seconds: a third of a year.
MOST_SECONDS = 1e7


def told(answer: Any, *names: str, acts: bool = False) -> Any:
    """The answer, when it is an object with a text under each of these names. `acts`: it may have been heard all the same."""
    if all(isinstance(getattr(answer, name, None), str) and getattr(answer, name) for name in names):
        return answer
    raise unavailable(
        "The provider's answer cannot be read: something in between may have answered.", may_have_acted=acts
    )


def rows(ask: Callable[[], Any]) -> Iterator[Any]:
    """The rows of a list, page after page. One that is no list, or that comes to no end, is not answered."""
    import openai

    page, count, before = _page(ask), 0, set()
    while True:
        found = getattr(page, "data", None)
        if not isinstance(found, list) or not all(isinstance(row, openai.BaseModel) for row in found):
            raise unavailable("The provider's answer cannot be read: it should be a list.")
        yield from found
        count += len(found)
        if not page.has_next_page():
            return
        last = getattr(found[-1], "id", None)
        if last in before or count >= MOST_ROWS:
            raise unavailable("The provider's list does not come to an end.")
        before.add(last)
        page = _page(page.get_next_page)


def _page(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except AttributeError as exc:  # the SDK stumbles itself where a list should be and is none
        raise unavailable("The provider's answer cannot be read: it should be a list.") from exc


def whole(value: Any) -> int | None:
    """A train step, or a count of them; None for what is none."""
    number = finite(value)
    return int(number) if number is not None and 0 <= number < MOST_STEPS and number == int(number) else None


def inner(value: Any, *names: str) -> Any:
    """What lies at the end of a path of names; None where the path breaks."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def seconds(value: Any) -> float:
    """How long a train step took; 0 where that is not told."""
    number = finite(value)
    return number if number is not None and 0 <= number <= MOST_SECONDS else 0.0


def event(one: Any, sequence: int) -> dict[str, Any]:
    data = one.data if isinstance(one.data, dict) else None
    base = {"seq": sequence, "at": finite(one.created_at)}
    step = whole(inner(data, "step"))
    if one.type == "metrics" and step is not None:
        return base | {
            "type": "step", "step": step, "total_steps": whole(inner(data, "total_steps")) or 0,
            "metrics": data, "seconds": seconds(inner(data, "timing", "step", "full_iteration")), "rollouts": None,
        }  # fmt: skip
    # Whatever else an event bears, such as the verdict of a safety screening, is kept as it came.
    return base | {"type": "log", "level": one.level, "message": one.message, "kind": one.type, "data": one.data}


def checkpoint(one: Any) -> dict[str, Any]:
    """A checkpoint; one that could never be served, or that belongs to no train step, is told of instead."""
    step, name = whole(one.step_number), one.fine_tuned_model_checkpoint
    at = finite(one.created_at)
    if step is None or not isinstance(name, str) or not 0 < len(name) <= MOST_NAME:
        words = f"The provider lists a checkpoint of train step {one.step_number!r} named {name!r}, which is left out."
        return {"seq": CHECKPOINT_SEQUENCE - 1, "at": at, "type": "log", "level": "warn", "message": words[:600]}
    metrics = one.metrics.model_dump(exclude_none=True) if hasattr(one.metrics, "model_dump") else {}
    return {
        "seq": CHECKPOINT_SEQUENCE + step, "at": at, "type": "checkpoint", "step": step, "path": name, "digest": "",
        "validation_reward": metrics.get("full_valid_mean_reward"), "metrics": metrics,
    }  # fmt: skip


def finished(remote: Any, listed: list[Any], events: list[dict[str, Any]]) -> dict[str, Any]:
    fault = remote.error  # {} as well as null mean none
    error = None
    if fault is not None and getattr(fault, "message", None):
        error = {"code": fault.code, "message": fault.message, "param": fault.param}
    elif remote.status == "failed":
        last = f" Its last event: {listed[-1].message}" if listed else ""
        error = {"code": "provider_error", "message": f"The provider ended the job and gave no reason.{last}"}
    began, at = finite(remote.created_at), finite(remote.finished_at)
    if at is None:
        at = finite(listed[-1].created_at) if listed else began
    took = finite(inner(getattr(remote, "usage_metrics", None), "training_time_seconds"))
    if not took and at is not None and began is not None:
        took = max(at - began, 0.0)
    steps = [event["step"] for event in events if event["type"] in {"step", "checkpoint"}]
    return {
        "seq": FINISH_SEQUENCE + len(listed), "at": at, "type": "finished", "status": remote.status,
        "error": error, "train_steps": max(steps, default=None), "rollouts": None, "reason": "provider",
        "seconds": took, "best_step": None,
    }  # fmt: skip
