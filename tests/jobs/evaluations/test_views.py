"""Evaluation pages: what people see and may do."""

import json

import pytest
from django.urls import reverse

from datasets.models import Item
from jobs.evaluations.models import Evaluation
from jobs.evaluations.services import evaluation_start
from tests.factories.studio import evaluation_parts, ready_baseline_of


def at(name: str, team, *args, query: str = "") -> str:
    return reverse(f"evaluations:{name}", args=[team.slug, *args]) + query


@pytest.fixture
def baseline(member):
    return ready_baseline_of(member)


def test_evaluation_detail_shows_figures_verdict_and_plot(client_of, member, baseline):
    page = client_of(member).get(at("evaluation-detail", member.team, baseline.public_id)).content.decode()
    assert "Baseline 1" in page
    assert "Mean reward" in page
    assert "0.43" in page
    assert "variance-plot" in page
    assert "Signal inside groups" in page
    assert "hx-trigger" not in page.split('id="evaluation-live"')[1].split(">")[0], "an ended evaluation is not polled"
    assert " style=" not in page.split("<main")[1]


def test_evaluation_detail_of_a_running_one_polls_and_ends_by_itself(client_of, member):
    evaluation = evaluation_start(actor=member, **evaluation_parts(member.team))
    client = client_of(member)
    page = client.get(at("evaluation-detail", member.team, evaluation.public_id)).content.decode()
    assert 'hx-trigger="every 5s"' in page
    assert "0</b> of 24 rollouts" in page
    assert "It is too early to say" in page
    live = client.get(at("evaluation-live", member.team, evaluation.public_id))
    assert "HX-Refresh" not in live
    Evaluation.objects.update(status="succeeded")
    live = client.get(at("evaluation-live", member.team, evaluation.public_id))
    assert live["HX-Refresh"] == "true"
    assert "hx-trigger" not in live.content.decode()


@pytest.mark.parametrize("name", ["evaluation-detail", "evaluation-live", "evaluation-charts"])
def test_evaluation_pages_are_hidden_from_strangers(client_of, stranger, baseline, name):
    assert client_of(stranger).get(at(name, baseline.team, baseline.public_id)).status_code == 404
    assert client_of(stranger).get(at(name, stranger.team, baseline.public_id)).status_code == 404


def test_evaluation_pages_show_a_viewer_no_actions(client_of, viewer, baseline):
    client = client_of(viewer)
    page = client.get(at("evaluation-detail", viewer.team, baseline.public_id))
    assert page.status_code == 200
    assert "Launch a job" not in page.content.decode()
    assert client.get(at("evaluation-new", viewer.team)).status_code == 403
    assert client.post(at("evaluation-cancel", viewer.team, baseline.public_id)).status_code == 403


def test_evaluation_list_shows_the_teams_own(client_of, member, stranger, baseline):
    ready_baseline_of(stranger)
    page = client_of(member).get(at("evaluation-list", member.team)).content.decode()
    assert page.count("/evaluations/evalrun_") == 1
    assert baseline.public_id in page


def test_evaluation_list_empty_says_what_to_do(client_of, member, viewer):
    assert "Run a baseline" in client_of(member).get(at("evaluation-list", member.team)).content.decode()
    assert "Run a baseline" not in client_of(viewer).get(at("evaluation-list", viewer.team)).content.decode()


def test_evaluation_list_asks_as_many_queries_for_twenty_as_for_ten(
    client_of, member, baseline, django_assert_max_num_queries
):
    client, counts = client_of(member), []
    for _ in range(2):
        for _ in range(9):
            ready_baseline_of(member)
        from django.db import connection
        from django.test.utils import CaptureQueriesContext

        with CaptureQueriesContext(connection) as found:
            client.get(at("evaluation-list", member.team))
        counts.append(len(found))
    assert counts[0] == counts[1]


def test_evaluation_new_orders_and_leads_to_the_evaluation(client_of, member):
    parts = evaluation_parts(member.team)
    client = client_of(member)
    assert client.get(at("evaluation-new", member.team)).status_code == 200
    form = {name: row.public_id for name, row in parts.items()}
    answer = client.post(at("evaluation-new", member.team), form | {"split": "test", "samples_per_item": 2, "seed": 0})
    evaluation = Evaluation.objects.get()
    assert answer.status_code == 302
    assert answer["Location"] == at("evaluation-detail", member.team, evaluation.public_id)
    assert evaluation.batch.rollouts.count() == 12


def test_evaluation_new_with_a_foreign_dataset_is_a_form_error(client_of, member, stranger):
    parts, foreign = evaluation_parts(member.team), evaluation_parts(stranger.team)
    form = {name: row.public_id for name, row in parts.items()} | {
        "dataset_version": foreign["dataset_version"].public_id, "split": "test", "samples_per_item": 2, "seed": 0,
    }  # fmt: skip
    answer = client_of(member).post(at("evaluation-new", member.team), form)
    assert answer.status_code == 422
    assert not Evaluation.objects.exists()


def test_evaluation_compare_shows_the_paired_difference(client_of, member, baseline):
    better = ready_baseline_of(member, rewards=(1.0, 1.0, 0.3))
    better.dataset_version = baseline.dataset_version
    better.save()
    page = client_of(member).get(
        at("evaluation-compare", member.team, query=f"?a={baseline.public_id}&b={better.public_id}")
    )
    text = page.content.decode()
    assert "Better beyond chance." in text
    assert "+0.33" in text
    assert "judged by different graders" in text


def test_evaluation_compare_with_a_foreign_one_shows_nothing_of_it(client_of, member, stranger, baseline):
    foreign = ready_baseline_of(stranger)
    page = client_of(member).get(
        at("evaluation-compare", member.team, query=f"?a={baseline.public_id}&b={foreign.public_id}")
    )
    assert foreign.policy_label not in page.content.decode() or not foreign.policy_label
    assert foreign.public_id not in page.content.decode().split("<main")[1]


def test_item_titles_cannot_smuggle_markup_into_the_plot():
    from jobs.evaluations.charts import variance_plot

    item = {"key": "k", "title": '<a href="https://x.example">x</a>', "rollouts": 2, "graded": 2, "passed": 1,
            "mean": 0.5, "spread": 0.5, "best": 1.0, "kind": "signal"}  # fmt: skip
    plot = variance_plot([item], threshold=0.5, learnable=0.1, samples=2)
    texts = [text for trace in plot["data"] for text in trace.get("text", [])]
    assert "best 1.00" in texts[0]
    assert [trace["name"] for trace in plot["data"][-2:]] == ["on average: 0.50", "best of 2: 1.00"]
    assert not any("<a " in text for text in texts)


def test_evaluation_detail_pivots_by_a_field_of_the_items(client_of, member, baseline):
    for n, item in enumerate(Item.objects.filter(version=baseline.dataset_version, split="test")):
        item.raw = json.dumps(item.data | {"kind": "rate" if n % 2 else "duty", "note": f"only {n}"})
        item.save()
    page = client_of(member).get(at("evaluation-detail", member.team, baseline.public_id)).content.decode()
    assert "By kind" in page
    assert "<td>duty</td>" in page
    assert "By note" not in page
