"""What can be ordered for a rollout beyond stored credit: at what price, why not, or how far it is. For the page."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from jobs.attribution import judge, knowledge, rerun
from jobs.attribution.models import RolloutCredit
from jobs.rollouts.models import Rollout
from jobs.rollouts.reading import Reading
from rftstudio.core.money import show_usd
from rftstudio.teams.permissions import Permission, can
from rftstudio.teams.views_helpers import TeamRequest

#: Methods whose credit is ordered, and takes a while.
ORDERED = (rerun.METHOD, judge.METHOD, knowledge.KEY)
_ASK = "an engineer can start it"


def credit_orders(
    request: TeamRequest, reading: Reading, credits: Mapping[str, RolloutCredit]
) -> dict[str, dict[str, Any]]:
    """By method: a note for its tab, and what the button needs where there is one."""
    may = can(request.actor, Permission.EVALUATION_RUN)
    graded = len(reading.siblings.graded)
    return {
        rerun.METHOD: _rerun(reading, graded, may),
        judge.METHOD: _judge(request, reading, graded, may, credits.get(judge.METHOD)),
        knowledge.KEY: _knowledge(reading, graded, may, knowledge.KEY in credits),
    }


def is_running(method: str, rollout: Rollout, row: RolloutCredit | None) -> bool:
    """Whether a worker is at what was ordered for this method, so that the page looks again."""
    if method == knowledge.KEY:
        return knowledge.is_running(rollout)
    if method == judge.METHOD:
        return row is not None and not {"marks", "error"} & row.detail.keys()
    return method == rerun.METHOD and rerun.rerun_state(rollout).is_running


def _rerun(reading: Reading, graded: int, may: bool) -> dict[str, Any]:
    rollout = reading.rollout
    state = rerun.rerun_state(rollout)
    if state.batch is not None:
        note = f"{state.ended} of {state.total} continuations" if state.is_running else state.note
        return {"note": note, "batch": state.batch, "is_running": state.is_running}
    if reason := rerun.why_not(rollout, graded):
        return {"note": reason}
    if not may:
        return {"note": _ASK}
    cost = rerun.estimate(rollout)
    price = "on this machine" if cost.is_local and not cost.usd else _price(cost.usd)
    return {
        "note": f"{cost.rollouts} rollouts, {price}",
        "cost": cost,
        "button": f"Re-run {cost.rollouts} rollouts, {price}",
    }


def _judge(request: TeamRequest, reading: Reading, graded: int, may: bool, row: RolloutCredit | None) -> dict[str, Any]:
    if reason := judge.why_not(reading.rollout, graded):
        return {"note": reason}
    if row is not None and is_running(judge.METHOD, reading.rollout, row):
        return {"note": f"{row.detail['model']} is reading", "is_running": True}
    note = row.detail.get("error", f"by {row.detail['model']}") if row is not None else "needs a judge: ask one above"
    if not may:
        return {"note": note if row is not None else _ASK}
    models = judge.judges(request.actor.team)
    if not models:
        return {"note": "The team has no model to ask. Add one under Models."}
    options = [(model.public_id, f"{model.name}, {_price(judge.estimate(reading.rollout, model))}") for model in models]
    return {"note": note, "options": options}


def _knowledge(reading: Reading, graded: int, may: bool, is_there: bool) -> dict[str, Any]:
    if is_there:
        return {"note": ""}
    if reason := knowledge.why_not(reading.rollout, graded):
        return {"note": reason}
    if is_running(knowledge.KEY, reading.rollout, None):
        return {"note": "the policy is being read", "is_running": True}
    note = reading.rollout.extra.get(knowledge.ERROR, "")
    return {"note": note or "ask the policy above", "can_read": True} if may else {"note": note or _ASK}


def _price(usd: Decimal | None) -> str:
    return "no price set" if usd is None else f"about {show_usd(usd)}"
