"""Drafts of the launch form: put aside as they are, opened again, ended by a launch.

A draft is only what stood in the form. What it would cost, whether its baseline is ready and whether its values make
sense is asked when it is opened and when it is launched, never when it is saved.
"""

import uuid
from collections.abc import Mapping

from django.db import transaction
from django.db.models import QuerySet

from jobs.evaluations.models import Evaluation
from jobs.evaluations.selectors import title_of
from jobs.models import Job, LaunchDraft
from jobs.rollouts.cleaning import clean
from rftstudio.core.errors import Conflict, NotFound, UserError
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission, check_can
from rftstudio.teams.services import audit

#: More than these are not drafts any more but a place to lose things.
MOST = 50
MOST_CHARACTERS = 20_000


def draft_list(*, team: Team) -> QuerySet[LaunchDraft]:
    """The one touched last comes first."""
    return (
        LaunchDraft.objects.filter(team=team)
        .select_related("created_by", "baseline__agent_version__agent")
        .order_by("-updated_at", "-id")
    )


def draft_get(*, team: Team, public_id: str) -> LaunchDraft:
    found = draft_list(team=team).filter(public_id=public_id).first()
    if found is None:
        raise NotFound("There is no such draft.")
    return found


def draft_find(*, team: Team, launch_key: str) -> LaunchDraft | None:
    """The draft that a form belongs to."""
    return draft_list(team=team).filter(launch_key=clean(launch_key)).first() if launch_key else None


@transaction.atomic
def draft_save(*, actor: Actor, baseline: Evaluation, values: Mapping[str, str], launch_key: str = "") -> LaunchDraft:
    """Keep the form as it is. The same form, or the same draft opened again, changes its draft and makes no second."""
    check_can(actor, Permission.JOB_LAUNCH, team=baseline.team)
    _check_size(values)
    # A launch takes the same lock, so a form is either a draft or a job and never both.
    Team.objects.select_for_update().get(pk=actor.team.pk)
    key = clean(launch_key[:64])
    if not key or Job.objects.filter(team=actor.team, launch_key=key).exists():
        key = uuid.uuid4().hex  # its form was launched before: this is the draft of another job
    drafts = LaunchDraft.objects.filter(team=actor.team)
    draft = drafts.filter(launch_key=key).first()
    if draft is None:
        if drafts.count() >= MOST:
            raise Conflict(
                f"This team keeps {MOST} drafts already, which is as many as there may be.",
                fix="Launch or delete one of them, then save this one.",
            )
        draft = LaunchDraft(team=actor.team, created_by=actor.user, launch_key=key)
    draft.name = str(values.get("name", "")).strip()[:120]
    draft.baseline, draft.baseline_was = baseline, title_of(baseline)[:200]
    draft.values = dict(values)
    draft.save()
    audit(actor, "draft.saved", draft, baseline=baseline.public_id)
    return draft


def _check_size(values: Mapping[str, str]) -> None:
    if sum(len(name) + len(value) for name, value in values.items()) > MOST_CHARACTERS:
        raise UserError(
            f"The form holds more than {MOST_CHARACTERS:,} characters, which is more than a draft keeps.",
            fix="Shorten what was pasted into it.",
        )
    for name, value in values.items():
        if "\x00" in name + value:
            raise UserError("A NUL character cannot be kept.", where=name, fix="Take it out of the text.")


@transaction.atomic
def draft_delete(*, actor: Actor, draft: LaunchDraft) -> None:
    check_can(actor, Permission.JOB_LAUNCH, team=draft.team)
    audit(actor, "draft.deleted", draft, name=draft.name)
    draft.delete()


def draft_end(*, actor: Actor, job: Job) -> None:
    """The draft that became this job is gone with the launch, in its transaction."""
    if draft := draft_find(team=job.team, launch_key=job.launch_key):
        audit(actor, "draft.launched", draft, job=job.public_id)
        draft.delete()
