"""Writes of graders: drafts change, versions never do."""

import json
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Max
from django.utils.text import slugify

from graders.grading import CompiledGrader, compile_grader
from graders.models import Grader, GraderVersion
from graders.network import clients_for
from graders.recipe_files import is_same_recipe
from graders.secrets import open_config, seal_config
from graders.selectors import grader_version_newest
from graders.types import Problem
from graders.validation import grader_problems, has_errors, is_costly, normalised
from rftstudio.core.errors import Conflict, UserError
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit
from rftstudio.usage.services import check_may_spend

MAX_RECIPE = 1_000_000
DEFAULT_THRESHOLD = 0.5


class GraderRefused(UserError):
    """The recipe has problems; `problems` lists them."""

    code = "invalid_grader"

    def __init__(self, problems: list[Problem]) -> None:
        errors = [problem for problem in problems if problem.level == "error"]
        self.problems = errors
        first = errors[0]
        count = f"{len(errors)} things to settle. First: " if len(errors) > 1 else ""
        super().__init__(f"{count}{first.path}: {first.message}", where=first.path, fix=first.fix)


@transaction.atomic
def grader_create(*, actor: Actor, name: str, config: dict[str, Any], started_from: str = "") -> Grader:
    """Start a grader with a draft, which may still have problems. `started_from` names its starting point."""
    check_can(actor, Permission.GRADER_EDIT, team=actor.team)
    name = _checked_name(name)
    grader = Grader(team=actor.team, name=name, slug=slugify(name)[:120] or "grader", created_by=actor.user)
    grader.started_from = started_from
    grader.draft = seal_config(_checked_recipe({"name": name, **config}))
    try:
        with transaction.atomic():
            grader.save()
    except IntegrityError as exc:
        raise Conflict(f"A grader named {name} exists already.", where="name", fix="Choose another name.") from exc
    audit(actor, "grader.created", grader, name=name)
    return grader


@transaction.atomic
def grader_draft_save(*, actor: Actor, grader: Grader, config: dict[str, Any], name: str = "") -> Grader:
    """Keep the recipe being edited. A header value shown as asterisks keeps what was stored."""
    check_can(actor, Permission.GRADER_EDIT, team=grader.team)
    row = Grader.objects.select_for_update().get(pk=grader.pk)
    draft = seal_config(_checked_recipe(config), row.draft)
    if is_same_recipe(draft, row.draft) and name in ("", row.name):
        return row
    row.draft = draft
    row.name = _checked_name(name) if name else row.name
    row.save(update_fields=["draft", "name", "updated_at"])
    audit(actor, "grader.draft_saved", row)
    return row


@transaction.atomic
def grader_draft_discard(*, actor: Actor, grader: Grader) -> Grader:
    """Go back to the newest published version."""
    check_can(actor, Permission.GRADER_EDIT, team=grader.team)
    newest = grader_version_newest(grader=grader)
    if newest is None:
        raise Conflict("This grader has no published version to go back to.", fix="Edit the draft instead.")
    grader.draft = newest.config
    grader.save(update_fields=["draft", "updated_at"])
    audit(actor, "grader.draft_discarded", grader, number=newest.number)
    return grader


@transaction.atomic
def grader_version_publish(
    *, actor: Actor, grader: Grader, pass_threshold: float | None = None, note: str = ""
) -> GraderVersion:
    """Freeze the draft as the next version. Without `pass_threshold` the recipe's own counts, else 0.5."""
    check_can(actor, Permission.GRADER_EDIT, team=grader.team)
    row = Grader.objects.select_for_update().get(pk=grader.pk)
    problems = grader_problems(row.draft)
    if has_errors(problems):
        raise GraderRefused(problems)
    if pass_threshold is None:
        pass_threshold = row.draft.get("pass_threshold")
    number = (row.versions.aggregate(last=Max("number"))["last"] or 0) + 1
    version = GraderVersion.objects.create(
        team=row.team,
        grader=row,
        number=number,
        config=normalised(row.draft, row.name),
        pass_threshold=DEFAULT_THRESHOLD if pass_threshold is None else float(pass_threshold),
        note=note[:200],
        created_by=actor.user,
    )
    audit(actor, "grader.version_published", version, grader=row.public_id, number=number)
    return version


def grader_compiled(version: GraderVersion) -> CompiledGrader:
    """The version ready to grade, with its team's models, guarded network and its own warm sandbox."""
    return compile_grader(open_config(version.config), clients_for(version.team))


def draft_compiled(*, team: Team, config: dict[str, Any]) -> CompiledGrader:
    """A recipe that is not published yet, for tests in the page; GraderRefused lists its problems."""
    problems = grader_problems(config)
    if has_errors(problems):
        raise GraderRefused(problems)
    if is_costly(config):
        check_may_spend(team=team)
    return compile_grader(open_config(config), clients_for(team))


def _checked_name(name: str) -> str:
    name = " ".join(name.split())
    if not name:
        raise UserError("The grader needs a name.", where="name", fix="Say what it rewards.")
    if len(name) > 120:
        raise UserError("The name is longer than 120 characters.", where="name", fix="Shorten it.")
    return name


def _checked_recipe(config: Any) -> dict[str, Any]:
    """A JSON object that the database can hold and a page can show."""
    if not isinstance(config, dict):
        raise UserError("A grader is a JSON object.", where="config", fix='For instance {"type": "string_check", …}.')
    try:
        text = json.dumps(config, allow_nan=False, ensure_ascii=False)
        size = len(text.encode())
    except (ValueError, TypeError, RecursionError, UnicodeEncodeError) as exc:
        raise UserError(
            "The grader cannot be stored: it holds NaN, a lone surrogate, or is nested too deeply.", where="config"
        ) from exc
    if size > MAX_RECIPE or "\\u0000" in text or "\x00" in text:
        raise UserError("The grader is larger than 1 MB, or holds a NUL character.", where="config", fix="Shorten it.")
    return config
