"""Reads off a local policy how likely it finds the reference answer after each step of a stored rollout, and stores it with
the steps; `information_gain` makes credit of it. One forward pass a step, nothing is generated."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from jobs.agents.models import ModelEndpoint
from jobs.agents.selectors import model_subject
from jobs.attribution.methods.information_gain import KEY
from jobs.attribution.models import RolloutCredit
from jobs.attribution.policies import why_gone
from jobs.rollouts.engine.messages import opening_messages, told_messages
from jobs.rollouts.models import Rollout, Step
from jobs.rollouts.selectors import stored_trajectory
from rftstudio.core.errors import UpstreamUnavailable, UserError
from rftstudio.core.queueing import queue
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit
from rftstudio.usage.models import Reservation, Unit
from rftstudio.usage.services import Usage, reservation_hold, reservation_settle, usage_record_many

#: Fields of an item that hold a reference answer, the usual name first.
REFERENCES = ("reference_answer", "answer", "reference", "target", "ground_truth")
MOST_STEPS, MOST_LETTERS = 200, 4_000
SECONDS = 300.0
#: In a rollout's `extra`: since when a worker is asked, when the first one was whose answer never came, and why the last
#: one had no answer.
ASKED, FIRST, ERROR = "knowledge_asked", "knowledge_first_asked", "knowledge_error"
FORGOTTEN = timedelta(minutes=15)


def reference_of(rollout: Rollout) -> str:
    """The reference answer as text, or nothing."""
    data = rollout.item.data if rollout.item else {}
    for name in REFERENCES:
        value = data.get(name)
        if isinstance(value, str | int | float) and not isinstance(value, bool) and str(value).strip():
            return str(value).strip()[:MOST_LETTERS]
    return ""


def why_not(rollout: Rollout, graded_siblings: int) -> str:
    batch = rollout.batch
    if batch.model is None or batch.agent_version is None or batch.model.kind != ModelEndpoint.Kind.LOCAL:
        return "Its policy is not served by Studio, so its log-probabilities are unknown. An import can bring them."
    if gone := why_gone(batch):
        return gone
    if not reference_of(rollout):
        return f"Its item has no reference answer as text ({', '.join(REFERENCES)})."
    if rollout.reward is None or not graded_siblings:
        return "It needs a reward and a graded sibling."
    return (
        "" if 1 <= rollout.n_steps <= MOST_STEPS else f"It has {rollout.n_steps} steps; 1 to {MOST_STEPS} can be read."
    )


def source_of(rollout: Rollout) -> str:
    return f"knowledge-{rollout.public_id}"


def is_running(rollout: Rollout) -> bool:
    """Whether a worker was asked and may still answer. One that died is forgotten after a while, and can be asked again."""
    asked = rollout.extra.get(ASKED)
    return bool(asked) and timezone.now() - datetime.fromisoformat(asked) < FORGOTTEN


@transaction.atomic
def knowledge_ask(*, actor: Actor, rollout: Rollout) -> None:
    """Have a worker read the policy: loading weights takes longer than a page may. Asked twice, it is read once."""
    from jobs.attribution import tasks

    check_can(actor, Permission.EVALUATION_RUN, team=rollout.team)
    graded = Rollout.objects.filter(batch=rollout.batch_id, group_key=rollout.group_key, reward__isnull=False)
    if reason := why_not(rollout, graded.exclude(pk=rollout.pk).count()):
        raise UserError(reason, where="rollout")
    # Under a lock: the second click of two waits here, and then finds that a worker was asked.
    fresh = Rollout.objects.select_for_update().only("public_id", "extra").get(pk=rollout.pk)
    if is_running(fresh):
        return
    reservation_hold(
        actor=actor, source=source_of(rollout), kind=Reservation.Kind.EVALUATION, label="Gain in knowledge", amount=None
    )
    _note(fresh, {ASKED: timezone.now().isoformat()})
    audit(actor, "rollout.knowledge_asked", rollout)
    queue(tasks.knowledge_read, rollout.pk)


def _note(rollout: Rollout, found: dict[str, Any]) -> None:
    extra = {key: value for key, value in rollout.extra.items() if key not in (ASKED, FIRST, ERROR)} | found
    Rollout.objects.filter(pk=rollout.pk).update(extra=extra)


def knowledge_read(*, rollout_id: int) -> int:
    """Ask the policy, and store its log-probabilities with the steps or why there are none; returns after how many."""
    whole = Rollout.objects.select_related("team", "item", "batch__model", "batch__agent_version")
    rollout = whole.filter(pk=rollout_id).first()
    if rollout is None:  # gone since it was asked; the sweep ends its reservation
        return 0
    try:
        return _read(rollout) if ASKED in rollout.extra else 0
    except (UserError, UpstreamUnavailable) as exc:
        _note(rollout, {ERROR: str(exc)[:500]})
        return 0
    finally:
        reservation_settle(team=rollout.team, source=source_of(rollout))


def knowledge_sweep() -> None:
    """Ask a second time, and no third, where the message was lost or the worker died; end what nobody waits for."""
    old = timezone.now() - FORGOTTEN
    held = Reservation.objects.filter(status=Reservation.Status.HELD, source__startswith="knowledge-")
    for row in held.filter(updated_at__lt=old).select_related("team")[:50]:
        _look_after(row)


@transaction.atomic
def _look_after(row: Reservation) -> None:
    name = row.source.removeprefix("knowledge-")
    rollout = Rollout.objects.select_for_update().filter(team_id=row.team_id, public_id=name).first()
    if rollout is not None and ASKED in rollout.extra:
        if is_running(rollout):
            return
        if FIRST not in rollout.extra:
            _ask_again(rollout)
            return
        _note(rollout, {ERROR: "Two workers were asked and neither answered. The workers' log may say why."})
    reservation_settle(team=row.team, source=row.source)


def _ask_again(rollout: Rollout) -> None:
    from jobs.attribution import tasks

    _note(rollout, {ASKED: timezone.now().isoformat(), FIRST: rollout.extra[ASKED]})
    queue(tasks.knowledge_read, rollout.pk)


def _read(rollout: Rollout) -> int:
    version, item = rollout.batch.agent_version, rollout.item
    trajectory = stored_trajectory(rollout)
    opening = opening_messages(item.data, version.system_prompt)
    # After the last step no turn follows in which the reference could be said.
    prompts = [opening + told_messages(trajectory.steps[:count]) for count in range(len(trajectory.steps))]
    tools = [
        {"type": "function", "function": {k: tool.get(k) for k in ("name", "description", "parameters")}}
        for tool in version.tools
    ]
    answer = _ask(rollout, {"conversations": prompts, "tools": tools, "text": reference_of(rollout)})
    values = answer["logprobs"]
    with transaction.atomic():
        for index, value in enumerate(values[1:]):
            Step.objects.filter(rollout=rollout, index=index).update(reference_logprob=value)
        _note(rollout, {"reference_logprob": values[0]})
        RolloutCredit.objects.filter(rollout=rollout, method=KEY).delete()
        # Keyed by the order, so that a task that comes twice is paid once.
        usage = Usage(
            f"{source_of(rollout)}:{rollout.extra.get(FIRST, rollout.extra[ASKED])[:26]}", Unit.INPUT_TOKEN, model_subject(rollout.batch.model),
            answer["tokens"], timezone.now(), source_of(rollout),
        )  # fmt: skip
        usage_record_many(team=rollout.team, usages=[usage] if answer["tokens"] else [])
    return sum(value is not None for value in values)


def _ask(rollout: Rollout, body: dict[str, Any]) -> dict[str, Any]:
    """The local server's own address for it, beside the OpenAI ones."""
    import httpx2

    from jobs.rollouts.policies.local import ensure_server
    from jobs.rollouts.policies.openai_chat import PolicyError
    from rftstudio.core.outbound import sync_client

    try:
        url = ensure_server(rollout.batch.model.model, run_dir=Path(settings.VAR_DIR) / "run")
    except PolicyError as exc:
        raise UpstreamUnavailable(str(exc)) from exc
    try:
        with sync_client(allowed=frozenset({"127.0.0.1"})) as client:
            reply = client.post(f"{url}/score", content=json.dumps(body).encode(), timeout=SECONDS)
        answer = reply.json()
        if not isinstance(answer, dict):
            raise ValueError("no JSON object")
    except (httpx2.HTTPError, OSError, ValueError) as exc:
        raise UpstreamUnavailable(
            f"The model server gave no answer that can be read ({type(exc).__name__}: {exc}). Ask again in a while."
        ) from exc
    if reply.status_code != 200:
        fault = answer.get("error")
        said = fault.get("message") if isinstance(fault, dict) else fault
        raise UserError(f"The policy cannot be read: {said or reply.status_code}")
    return answer
