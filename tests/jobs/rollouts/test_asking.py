"""Rollouts queued for people."""

import pytest
from django.urls import reverse

from datasets.labelling.services import entry_claim, label_submit
from datasets.models import LabelTask
from graders.labels import questions, rollout_labels
from jobs.attribution.selectors import marks_of
from jobs.rollouts.asking import rollouts_ask, rollouts_drawn
from rftstudio.core.errors import NotAllowed, NotFound, UserError
from tests.factories.rollouts import LOOK


def test_rollouts_are_drawn_over_the_whole_range(evaluation):
    drawn = rollouts_drawn(evaluation.batch.rollouts.all(), 6)
    assert sorted(rollout.reward for rollout in drawn) == [0.0, 0.0, 0.3, 0.3, 1.0, 1.0]
    assert len(rollouts_drawn(evaluation.batch.rollouts.all(), 100)) == 18


def test_people_see_steps_and_answer_and_never_the_reward(member, expert, evaluation):
    rollout = evaluation.batch.rollouts.order_by("id").first()
    rollout.steps.create(index=1, text="", tool_calls=[LOOK])
    task = rollouts_ask(actor=member, batches=[evaluation.batch], count=18)
    entry = task.entries.get(subject=rollout.public_id)
    assert set(entry.content) == {"messages", "steps", "answer"}
    assert entry.content["answer"] == "0"
    assert entry.content["steps"][1] == {"title": "Lookup · pears", "text": "pears: see fruit, fresh"}
    assert "0.3" not in str(task.entries.values_list("content", flat=True))


def test_what_they_say_measures_graders(member, expert, evaluation):
    task = rollouts_ask(actor=member, batches=[evaluation.batch], count=3)
    said = []
    for value in ("right", "wrong", "partly right"):
        entry, _ = entry_claim(actor=expert, task=task)
        label_submit(actor=expert, entry=entry, values={"verdict": value})
        said.append(entry.subject)
    (question,) = questions(team=member.team)
    assert (question.kind, question.count, question.likely_good) == ("choice", 3, ["right"])
    assert rollout_labels(team=member.team, rollouts=said) == dict(zip(said, [1.0, 0.0, 0.0], strict=True))


def test_rollouts_of_a_search_are_asked_about_with_their_steps(member, expert, client_of, evaluation):
    rollout = evaluation.batch.rollouts.order_by("id").first()
    address = reverse("rollouts:rollout-ask", args=[member.team.slug]) + f"?rollout={rollout.public_id}"
    client_of(member).post(address, {"source": "search", "count": "5", "question": "steps", "overlap": "1"})
    entry, _ = entry_claim(actor=expert, task=LabelTask.objects.get())
    assert entry.subject == rollout.public_id
    label_submit(actor=expert, entry=entry, values={"verdict": "right", "steps": {"0": "1"}})
    assert [(mark.user, mark.step_index, mark.mark) for mark in marks_of(rollout)] == [(expert.user, 0, 1)]


def test_pairs_of_one_item_are_asked_about(member, expert, client_of, evaluation):
    task = rollouts_ask(actor=member, batches=[evaluation.batch], count=4, question="better")
    entry, _ = entry_claim(actor=expert, task=task)
    _, first, second = entry.subject.split(":")
    one, other = (evaluation.batch.rollouts.get(public_id=each) for each in (first, second))
    assert (one.group_key, {one.reward, other.reward}) == (other.group_key, {0.0, 1.0})
    page = client_of(expert).get(reverse("labels:entry-next", args=[member.team.slug, task.public_id])).content.decode()
    assert page.index(">A</h3>") < page.index(">B</h3>")
    assert first not in page.replace(task.public_id, "")
    settled = label_submit(actor=expert, entry=entry, values={"better": "a"})
    assert (task.entries.count(), settled.result) == (4, {"better": "a"})
    assert questions(team=member.team) == []


def test_refusals(member, expert, stranger, evaluation):
    with pytest.raises(NotAllowed):
        rollouts_ask(actor=expert, batches=[evaluation.batch], count=1)
    with pytest.raises(NotFound):
        rollouts_ask(actor=stranger, batches=[evaluation.batch], count=1)
    for options in ({"count": 0}, {"count": 1, "question": "other"}, {"count": 1, "batches": []}):
        with pytest.raises(UserError):
            rollouts_ask(**{"actor": member, "batches": [evaluation.batch], **options})
    assert not LabelTask.objects.exists()


def test_page_queues_them(member, expert, stranger, client_of, evaluation):
    address = reverse("rollouts:rollout-ask", args=[member.team.slug])
    assert "Queue them" in client_of(member).get(address).content.decode()
    data = {"source": f"evaluation:{evaluation.public_id}", "count": "5", "question": "worth", "overlap": "2"}
    answer = client_of(member).post(address, data)
    task = LabelTask.objects.get()
    assert answer.url == reverse("labels:task-detail", args=[member.team.slug, task.public_id])
    assert (task.entries.count(), task.overlap, task.fields[0]["kind"]) == (5, 2, "score")
    assert client_of(member).post(address, {}).status_code == 422
    assert client_of(expert).get(address).status_code == 403
    assert client_of(stranger).get(address).status_code == 404
