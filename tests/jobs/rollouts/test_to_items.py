"""Rollouts and imported traces become items."""

import json

import pytest
from django.urls import reverse

from datasets.models import Dataset, DatasetVersion
from datasets.repairs import change_undo
from datasets.services import dataset_create
from jobs.rollouts.imports.service import rollouts_import
from jobs.rollouts.models import Rollout
from jobs.rollouts.to_items import rollouts_to_items
from rftstudio.core.errors import NotAllowed, NotFound, UserError


@pytest.fixture
def traces(member):
    """Two chats that begin alike and one other; the second has the better answer."""
    rows = [
        {
            "messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}],
            "reward": reward,
        }
        for question, answer, reward in (("1 + 1?", "3", 0.0), ("1 + 1?", "2", 1.0), ("2 + 2?", "5", 0.2))
    ]
    rollouts_import(actor=member, content="\n".join(map(json.dumps, rows)).encode(), filename="chats.jsonl")
    return Rollout.objects.filter(batch__kind="import").order_by("id")


def values(change) -> list[dict]:
    return [item.data for item in change.version.items.order_by("position")]


def test_traces_become_one_item_a_question(member, traces):
    made = values(rollouts_to_items(actor=member, rollouts=traces, name="From traces"))
    assert [row["messages"] for row in made] == [
        [{"role": "user", "content": "1 + 1?"}],
        [{"role": "user", "content": "2 + 2?"}],
    ]
    assert [row["from_rollout"] for row in made] == [traces[0].public_id, traces[2].public_id]
    assert not any("reference_answer" in row for row in made)


@pytest.mark.parametrize(("answers", "references"), [("passed", ["2", None]), ("best", ["2", "5"])])
def test_answers_become_references_when_wanted(member, traces, answers, references):
    made = values(rollouts_to_items(actor=member, rollouts=traces, name="From traces", answers=answers))
    assert [row.get("reference_answer") for row in made] == references


def test_rollouts_of_items_bring_the_items_and_keep_their_reference(member, evaluation):
    rollouts = evaluation.batch.rollouts.all()
    made = values(rollouts_to_items(actor=member, rollouts=rollouts, name="Hard ones", answers="best"))
    assert [row["answer"] for row in made] == [str(n) for n in range(6)]
    assert not any("reference_answer" in row for row in made)


def test_frozen_dataset_grows_a_draft_that_can_be_undone(member, traces, evaluation):
    dataset = evaluation.dataset_version.dataset
    before = evaluation.dataset_version.items.count()
    change = rollouts_to_items(actor=member, rollouts=traces, dataset=dataset)
    assert (change.version.number, change.version.status) == (2, DatasetVersion.Status.DRAFT)
    assert change.version.items.count() == before + 2
    again = rollouts_to_items(actor=member, rollouts=traces.filter(pk=traces[0].pk), dataset=dataset)
    assert again.version == change.version
    change_undo(actor=member, version=again.version, change_id=again.pk)
    assert change.version.items.count() == before + 2


def test_refusals(member, expert, stranger, traces):
    with pytest.raises(NotAllowed):
        rollouts_to_items(actor=expert, rollouts=traces, name="x")
    with pytest.raises(UserError, match="question"):
        rollouts_to_items(actor=stranger, rollouts=traces, name="x")
    foreign = dataset_create(actor=stranger, name="Theirs")
    with pytest.raises(NotFound):
        rollouts_to_items(actor=member, rollouts=traces, dataset=foreign)
    with pytest.raises(UserError, match="choice"):
        rollouts_to_items(actor=member, rollouts=traces, name="x", answers="other")
    assert not Dataset.objects.filter(team=member.team).exists()


def test_page_makes_items_of_a_search_or_of_one_rollout(client_of, member, stranger, traces):
    client = client_of(member)
    address = reverse("rollouts:rollout-items", args=[member.team.slug])
    assert (
        address + "?q=2"
        in client.get(reverse("rollouts:rollout-list", args=[member.team.slug]) + "?q=2").content.decode()
    )
    page = client.get(address + "?reward=0.5-1")
    assert (page.context["rollout_count"], page.context["questions"]) == (1, ["1 + 1?"])
    assert client.post(address, {"answers": ""}).status_code == 422
    answer = client.post(f"{address}?rollout={traces[2].public_id}", {"name": "One", "answers": "best"})
    version = Dataset.objects.get(name="One").versions.get()
    assert answer.url == reverse("datasets:version-detail", args=[member.team.slug, version.public_id])
    assert version.items.get().data["reference_answer"] == "5"
    assert client.get(address + "?rollout=roll-none").status_code == 404
    assert client_of(stranger).get(address).status_code == 404
