"""Writes around the rollout list that change no rollout: searches kept under a name, and masking rules."""

from urllib.parse import parse_qsl, urlencode

from django.db import transaction

from jobs.rollouts.filters import OTHER_PARAMETERS
from jobs.rollouts.masking import Rule
from jobs.rollouts.models import MaskRule, SavedView
from rftstudio.core.errors import NotFound, UserError
from rftstudio.teams.actor import Actor
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit

MOST_VIEWS, MOST_RULES = 30, 50
#: What is a place in the list and no part of a search.
_PLACES = OTHER_PARAMETERS - {"by"}


@transaction.atomic
def saved_view_save(*, actor: Actor, name: str, query: str) -> SavedView:
    """Keep a search under a name for the team; the same name again replaces it."""
    check_can(actor, Permission.LABEL, team=actor.team)
    name = " ".join(name.replace("\x00", "").split())
    kept = urlencode([(key, value) for key, value in parse_qsl(query) if key not in _PLACES])
    if not name:
        raise UserError("The view has no name.", where="name", fix="Type a name, such as: failed look-ups.")
    if len(name) > 60 or len(kept) > 1000:
        raise UserError("Name or search is too long.", where="name", fix="A name has at most 60 letters.")
    if SavedView.objects.filter(team=actor.team).exclude(name=name).count() >= MOST_VIEWS:
        raise UserError(
            f"The team has {MOST_VIEWS} views already.", where="name", fix="Remove one that you no longer need."
        )
    row, _ = SavedView.objects.update_or_create(
        team=actor.team, name=name, defaults={"query": kept, "created_by": actor.user}
    )
    audit(actor, "view.saved", row, name=name)
    return row


@transaction.atomic
def saved_view_remove(*, actor: Actor, pk: int) -> None:
    check_can(actor, Permission.LABEL, team=actor.team)
    row = SavedView.objects.filter(team=actor.team, pk=pk).first()
    if row is None:
        raise NotFound("There is nothing at this address.")
    audit(actor, "view.removed", row, name=row.name)
    row.delete()


@transaction.atomic
def mask_rule_add(*, actor: Actor, kind: str, words: str = "") -> MaskRule:
    """From now on this is taken out of what the team stores; what is stored already stays as it is."""
    check_can(actor, Permission.TEAM_MANAGE, team=actor.team)
    rule = Rule(kind, " ".join(words.replace("\x00", "").split()) if kind == "words" else "")
    if rule.problem:
        raise UserError(rule.problem, where="words" if kind == "words" else "kind")
    if len(rule.words) > 200:
        raise UserError("The phrase is too long.", where="words", fix="At most 200 letters.")
    if MaskRule.objects.filter(team=actor.team).count() >= MOST_RULES:
        raise UserError(f"The team has {MOST_RULES} rules already.", where="kind", fix="Remove one.")
    row, is_new = MaskRule.objects.get_or_create(
        team=actor.team, kind=rule.kind, words=rule.words, defaults={"created_by": actor.user}
    )
    if is_new:
        audit(actor, "mask_rule.added", row, kind=rule.kind)  # the words may be what nobody should read
    return row


@transaction.atomic
def mask_rule_remove(*, actor: Actor, pk: int) -> None:
    check_can(actor, Permission.TEAM_MANAGE, team=actor.team)
    row = MaskRule.objects.filter(team=actor.team, pk=pk).first()
    if row is None:
        raise NotFound("There is nothing at this address.")
    audit(actor, "mask_rule.removed", row, kind=row.kind)
    row.delete()
