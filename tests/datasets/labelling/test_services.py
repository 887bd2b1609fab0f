"""The queue: claims, blind answers, disagreements, and labels on items."""

from datetime import timedelta

import pytest
from django.utils import timezone

from datasets.labelling import selectors, services
from datasets.models import Label, LabelEntry, LabelTask
from datasets.services import dataset_version_freeze
from rftstudio.core.errors import Conflict, NotAllowed, NotFound, UserError
from rftstudio.teams.models import AuditEvent
from tests.datasets.labelling.conftest import FIELDS

pytestmark = pytest.mark.django_db
YES, NO = {"right": "Yes"}, {"right": "No"}


def answer(actor, task, values):
    entry, _ = services.entry_claim(actor=actor, task=task)
    return services.label_submit(actor=actor, entry=entry, values=values)


def test_task_has_an_entry_for_each_item(task):
    assert list(task.entries.order_by("position").values_list("subject", flat=True)) == ["0001", "0002", "0003", "0004"]


def test_entry_stays_in_the_second_queue_until_the_overlap_is_met(task, anna, bert):
    assert answer(anna, task, YES).status == LabelEntry.Status.OPEN
    entry, _ = services.entry_claim(actor=bert, task=task)
    assert entry.subject == "0001"
    assert services.label_submit(actor=bert, entry=entry, values=YES).status == LabelEntry.Status.AGREED


def test_claim_twice_gives_the_same_entry(task, anna):
    first, label = services.entry_claim(actor=anna, task=task)
    again, same = services.entry_claim(actor=anna, task=task)
    assert (first, label) == (again, same)
    assert Label.objects.count() == 1


def test_held_entry_is_not_given_to_a_third(member, version, anna, bert, cleo):
    task = services.task_create(actor=member, name="Open to all", fields=FIELDS, version=version, overlap=1)
    assert services.entry_claim(actor=anna, task=task)[0].subject == "0001"
    assert services.entry_claim(actor=bert, task=task)[0].subject == "0002"


def test_lease_that_ran_out_frees_the_entry_and_the_late_answer_is_refused(member, version, anna, bert):
    task = services.task_create(actor=member, name="Open to all", fields=FIELDS, version=version, overlap=1)
    entry, label = services.entry_claim(actor=anna, task=task)
    Label.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    other, _ = services.entry_claim(actor=bert, task=task)
    assert other == entry
    services.label_submit(actor=bert, entry=other, values=YES)
    with pytest.raises(services.Taken):
        services.label_submit(actor=anna, entry=entry, values=NO)
    assert services.entry_claim(actor=anna, task=task)[0].subject == "0002"


def test_autosave_keeps_the_draft_and_renews_the_lease(task, anna):
    entry, _ = services.entry_claim(actor=anna, task=task)
    Label.objects.update(lease_until=timezone.now() + timedelta(seconds=5))
    services.label_save(actor=anna, entry=entry, values={"note": "half"})
    _, label = services.entry_claim(actor=anna, task=task)
    assert label.values == {"note": "half"}
    assert label.lease_until > timezone.now() + timedelta(minutes=9)


def test_required_answer_is_wanted_at_submit_only(task, anna):
    entry, _ = services.entry_claim(actor=anna, task=task)
    with pytest.raises(UserError, match="Is it right"):
        services.label_submit(actor=anna, entry=entry, values={"note": "x"})


def test_unknown_choice_is_refused(task, anna):
    entry, _ = services.entry_claim(actor=anna, task=task)
    with pytest.raises(UserError, match="no choice"):
        services.label_submit(actor=anna, entry=entry, values={"right": "Perhaps"})


def test_undo_opens_the_last_answer_again(task, anna, bert):
    answer(anna, task, YES)
    answer(bert, task, YES)
    entry = services.label_undo(actor=anna, task=task)
    assert (entry.status, entry.submitted, entry.result) == (LabelEntry.Status.OPEN, 1, {})
    again, label = services.entry_claim(actor=anna, task=task)
    assert (again, label.values) == (entry, YES)


def test_skip_wants_a_reason_and_passes_on(task, anna, bert):
    entry, _ = services.entry_claim(actor=anna, task=task)
    with pytest.raises(UserError, match="why"):
        services.label_skip(actor=anna, entry=entry, reason=" ")
    assert services.label_skip(actor=anna, entry=entry, reason="unclear").status == LabelEntry.Status.OPEN
    assert services.entry_claim(actor=anna, task=task)[0].subject == "0002"
    other, _ = services.entry_claim(actor=bert, task=task)
    assert services.label_skip(actor=bert, entry=other, reason="unclear").status == LabelEntry.Status.SKIPPED


def test_one_answer_and_one_skip_settle_what_can_be(task, anna, bert):
    answer(anna, task, NO)
    entry, _ = services.entry_claim(actor=bert, task=task)
    settled = services.label_skip(actor=bert, entry=entry, reason="unclear")
    assert (settled.status, settled.result) == (LabelEntry.Status.AGREED, NO)


def test_blind_labels_are_hidden_until_own_submission(task, anna, bert, member, cleo):
    answer(anna, task, YES)
    assert not selectors.labels_visible(actor=bert, task=task).exists()
    assert selectors.labels_visible(actor=anna, task=task).count() == 1
    assert selectors.labels_visible(actor=member, task=task).count() == 1, "the maker is no annotator here"
    entry, _ = services.entry_claim(actor=bert, task=task)
    services.label_save(actor=bert, entry=entry, values=NO)
    assert selectors.labels_visible(actor=bert, task=task).count() == 1, "a draft of one's own opens nothing"
    services.label_submit(actor=bert, entry=entry, values=NO)
    assert selectors.labels_visible(actor=bert, task=task).count() == 2


def test_open_task_hides_from_every_member_who_may_label(member, version, anna, bert):
    task = services.task_create(actor=member, name="All", fields=FIELDS, version=version, overlap=2)
    answer(anna, task, YES)
    assert not selectors.labels_visible(actor=member, task=task).exists()


def test_drafts_of_others_are_never_shown(task, anna, member):
    entry, _ = services.entry_claim(actor=anna, task=task)
    services.label_save(actor=anna, entry=entry, values=YES)
    assert not selectors.labels_visible(actor=member, task=task).exists()


def test_disagreement_is_settled_and_history_kept(task, anna, bert, cleo):
    answer(anna, task, YES)
    entry = answer(bert, task, NO)
    assert entry.status == LabelEntry.Status.DISPUTED
    settled = services.entry_adjudicate(actor=cleo, entry=entry, values=NO)
    assert (settled.status, settled.result) == (LabelEntry.Status.SETTLED, NO)
    assert list(entry.events.values_list("verb", flat=True)) == ["submitted", "submitted", "adjudicated"]
    assert entry.labels.filter(is_adjudication=False).count() == 2
    with pytest.raises(Conflict, match="settled"):
        services.label_undo(actor=anna, task=task)


def test_only_the_named_settle(task, anna, bert):
    answer(anna, task, YES)
    entry = answer(bert, task, NO)
    with pytest.raises(NotAllowed):
        services.entry_adjudicate(actor=anna, entry=entry, values=YES)


def test_only_the_named_label(task, cleo, viewer, stranger):
    with pytest.raises(NotAllowed):
        services.entry_claim(actor=cleo, task=task)
    with pytest.raises(NotAllowed):
        services.entry_claim(actor=viewer, task=task)
    with pytest.raises(NotFound):
        services.entry_claim(actor=stranger, task=task)


def test_closed_task_takes_no_label(task, anna, member):
    services.task_set_status(actor=member, task=task, status="closed")
    with pytest.raises(Conflict, match="closed"):
        services.entry_claim(actor=anna, task=task)


def test_expert_may_not_make_a_task(anna, version):
    with pytest.raises(NotAllowed):
        services.task_create(actor=anna, name="x", fields=FIELDS, version=version)


def test_stranger_is_no_annotator(member, version, stranger):
    with pytest.raises(UserError, match="no member"):
        services.task_create(actor=member, name="x", fields=FIELDS, version=version, annotators=[stranger.user])


def test_overlap_beyond_the_named_is_refused(member, version, anna):
    with pytest.raises(UserError, match="2 labels"):
        services.task_create(actor=member, name="x", fields=FIELDS, version=version, overlap=2, annotators=[anna.user])


def all_answered(task, anna, bert, cleo):
    for mine, theirs in ((YES, YES), (YES, NO), (NO, NO), (YES, NO)):
        answer(anna, task, mine)
        entry = answer(bert, task, theirs)
    first = task.entries.get(position=1)
    services.entry_adjudicate(actor=cleo, entry=first, values=NO)
    return entry


def test_labels_become_item_fields_by_rule(task, version, anna, bert, cleo, member):
    all_answered(task, anna, bert, cleo)
    changed, count = services.labels_apply(actor=member, task=task, field="right", rule="adjudicated")
    assert (changed, count) == (version, 3)
    assert [item.data.get("right") for item in version.items.order_by("position")] == ["Yes", "No", "No", None]
    services.labels_apply(
        actor=member, task=task, field="right", rule="single", annotator=anna.user.email, item_field="anna_says"
    )
    assert [item.data["anna_says"] for item in version.items.order_by("position")] == ["Yes", "Yes", "No", "Yes"]
    assert AuditEvent.objects.filter(verb="label_task.applied").count() == 2


def test_labels_on_a_frozen_version_make_the_next_one(task, version, anna, bert, cleo, member):
    all_answered(task, anna, bert, cleo)
    dataset_version_freeze(actor=member, version=version)
    changed, _ = services.labels_apply(actor=member, task=LabelTask.objects.get(), field="right")
    assert (changed.number, changed.grew_from) == (2, version)
    assert "right" not in version.items.first().data


def test_agreement_is_kept_until_another_label(task, anna, bert, cleo):
    all_answered(task, anna, bert, cleo)
    found = services.agreement_of(task=LabelTask.objects.get())
    assert found[0]["entries"] == 4
    assert -1 <= found[0]["alpha"] <= 1
    assert found[0]["pairs"][0]["kappa"] is not None


def test_progress_counts_and_estimates(task, anna, bert):
    answer(anna, task, YES)
    Label.objects.update(seconds=30)
    progress = selectors.task_progress(actor=anna, task=task)
    assert (progress.total, progress.done, progress.left_for_me, progress.mine_today) == (4, 0, 3, 1)
    assert progress.seconds_left == 90


def test_rollouts_are_queued_and_their_steps_marked(member, anna):
    fields = [{"name": "steps", "label": "Steps", "kind": "steps", "required": True}]
    task = services.task_create(actor=member, name="Steps", fields=fields)
    content = {
        "messages": [{"role": "user", "content": "q"}],
        "steps": [{"title": "Read"}, {"title": "Calc"}],
        "answer": "a",
    }
    assert (
        services.task_add_subjects(actor=member, task=task, subjects=[{"subject": "rollout_1", "content": content}])
        == 1
    )
    assert (
        services.task_add_subjects(actor=member, task=task, subjects=[{"subject": "rollout_1", "content": content}])
        == 0
    )
    answer(anna, task, {"steps": {"0": 1, "1": "-1"}})
    marks = selectors.step_labels(team_id=member.team.pk, subjects=["rollout_1"])
    assert [(mark.step, mark.user, mark.mark) for mark in marks] == [(0, anna.user, 1), (1, anna.user, -1)]
    assert selectors.subject_labels(team=member.team, subjects=["rollout_1"])["rollout_1"] == [
        {"steps": {"0": 1, "1": -1}}
    ]
