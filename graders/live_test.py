"""The live test of a draft: which item and answer it takes, and what comes out."""

import json
from collections.abc import Mapping
from typing import Any

from graders.pages import Editor
from graders.sample_sources import StoredSample, example_samples, item_at, stored_samples
from graders.samples import sample_from
from graders.trials import trial_run
from graders.validation import is_costly
from rftstudio.core.errors import NotAllowed, UserError
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.views_helpers import TeamRequest

RECENT = 12


def live_test_context(
    request: TeamRequest, editor: Editor, data: Mapping[str, str], *, is_asked: bool = False
) -> dict[str, Any]:
    """The item and answer to try, and what the draft makes of them. Judges and servers are called only when asked."""
    team = editor.grader.team
    position = _position(data)
    found: dict[str, Any] = {"position": position, "answer": data.get("answer", ""), "calls": data.get("calls", "")}
    found["recent"] = (
        example_samples(editor.grader.started_from)
        if editor.choice.is_examples
        else stored_samples(team=team, version=editor.choice.version, limit=RECENT)
    )
    stored = _stored(team, data, found["recent"])
    if stored:
        item, sample, found["rollout"] = stored.item, stored.sample, stored.id
        found["answer"] = stored.sample.output_text
        found["item_key"] = stored.item_key
    else:
        row = item_at(team=team, version=editor.choice.version, position=position)
        item = row.data if row else {}
        found["item_key"] = row.key if row else ""
        sample = sample_from({"output_text": found["answer"], "output_tools": _calls(found)})
    found["item"] = item
    if editor.is_valid and (is_asked or not is_costly(editor.config)):
        if is_costly(editor.config):
            check_can(request.actor, Permission.GRADER_EDIT, team=team)  # it spends the team's money
        try:
            found["trial"] = trial_run(
                actor=request.actor, team=team, config=editor.config, item=item, sample=sample, published=editor.newest
            )
        except NotAllowed:
            raise
        except UserError as exc:
            found["trial_error"] = str(exc)
    return found


def _position(data: Any) -> int:
    text = data.get("position", "0")
    place = int(text) if text.isdecimal() and len(text) < 9 else 0
    step = {"next": 1, "previous": -1}.get(data.get("go", ""), 0)
    return max(0, place + step)


def _calls(found: dict[str, Any]) -> list[Any]:
    """Tool calls typed as JSON; a mistake is said, and the test goes on without them."""
    if not found["calls"].strip():
        return []
    try:
        calls = json.loads(found["calls"])
    except (ValueError, RecursionError) as error:
        found["calls_error"] = f"The tool calls are not JSON: {error}."
        return []
    if not isinstance(calls, list):
        found["calls_error"] = "The tool calls must be a list."
        return []
    return calls


def _stored(team: Team, data: Mapping[str, str], recent: list[StoredSample]) -> StoredSample | None:
    """The rollout that was picked; at first sight the newest one; none once an answer was typed."""
    asked = data.get("rollout")
    if asked is None and "answer" not in data:
        return recent[0] if recent else None
    examples = {each.id: each for each in recent if each.is_example}
    if not asked or asked in examples:
        return examples.get(asked or "")
    return next(iter(stored_samples(team=team, rollout=asked)), None)
