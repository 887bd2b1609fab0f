"""Inspect logs in JSON: one sample and epoch is one rollout."""

from typing import Any

from jobs.rollouts.imports.messages import add_messages, title_of
from jobs.rollouts.imports.reading import Document, moment, number, text_of, whole
from jobs.rollouts.imports.types import Flag, Imported, ImportedRollout

#: How Inspect's letters read as numbers.
LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": None}


def is_mine(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("eval"), dict) and "status" in value and "plan" in value


def read(documents: list[Document]) -> Imported:
    found = Imported("inspect")
    for document in documents:
        log = document.value
        samples = [s for s in log.get("samples") or [] if isinstance(s, dict)]
        declared = (log.get("results") or {}).get("total_samples")
        if declared is not None and declared != len(samples):
            words = f"The log declares {declared} samples and holds {len(samples)}."
            found.flags.append(Flag("samples_missing", "log", words))
        if log.get("status") != "success":
            found.flags.append(Flag("run_not_finished", "log", f"The run ended as {log.get('status')}."))
        found.rollouts += [_rollout(sample, log["eval"]) for sample in samples]
    return found


def _rollout(sample: dict[str, Any], run: dict[str, Any]) -> ImportedRollout:
    rollout = ImportedRollout(
        key=str(sample.get("uuid") or f"{sample.get('id')}-{sample.get('epoch', 1)}"),
        group=f"{run.get('task', 'sample')} {sample.get('id')}",
        policy=str(run.get("model") or ""),
        seconds=number(sample.get("total_time")),
        extra={"task": run.get("task"), "target": sample.get("target"), "epoch": sample.get("epoch")},
    )
    attachments = sample.get("attachments") if isinstance(sample.get("attachments"), dict) else {}
    add_messages(rollout, [_message(m, attachments) for m in sample.get("messages") or []])
    rollout.title = title_of(rollout.prompt)
    usage = [u for u in (sample.get("model_usage") or {}).values() if isinstance(u, dict)]
    if usage:
        rollout.input_tokens = sum(whole(u.get("input_tokens")) for u in usage)
        rollout.output_tokens = sum(whole(u.get("output_tokens")) for u in usage)
    _scores(rollout, sample.get("scores") or {})
    events = [e for e in sample.get("events") or [] if isinstance(e, dict)]
    rollout.extra["events"] = len(events)
    first = moment(events[0].get("timestamp")) if events else None
    rollout.started_at = first.seconds if first else None
    if sample.get("error"):
        error = sample["error"]
        rollout.error = text_of(error.get("message") if isinstance(error, dict) else error)
        rollout.stop_reason = "model_failed"
    return rollout


def _message(message: Any, attachments: dict[str, str]) -> Any:
    """Texts that the log keeps apart are put back."""
    if isinstance(message, dict) and isinstance(message.get("content"), str):
        content = message["content"]
        if content.startswith("attachment://"):
            return {**message, "content": attachments.get(content.removeprefix("attachment://"), content)}
    return message


def _scores(rollout: ImportedRollout, scores: dict[str, Any]) -> None:
    for name, score in scores.items():
        value = score.get("value") if isinstance(score, dict) else score
        if isinstance(value, dict):
            rollout.sub_rewards.update({f"{name}/{key}": _score(part) for key, part in value.items()})
        else:
            rollout.sub_rewards[name] = _score(value)
    rollout.extra["scores"] = {name: s.get("value") if isinstance(s, dict) else s for name, s in scores.items()}
    if len(rollout.sub_rewards) == 1:
        rollout.reward = next(iter(rollout.sub_rewards.values()))


def _score(value: Any) -> float | None:
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and value in LETTERS:
        return LETTERS[value]
    return number(value)
