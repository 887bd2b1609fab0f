"""Supervised jobs: what they may learn from, and how they are launched."""

import pytest
from django.urls import reverse

from datasets.models import Item
from jobs import demonstrations
from jobs.evaluations.services import evaluation_start
from jobs.models import Job
from jobs.rollouts.models import Rollout, Step
from jobs.services import job_launch
from jobs.spec import run_spec
from rftstudio.core.errors import NotFound, UserError
from tests.factories.studio import ready_baseline_of, rollouts_end


@pytest.fixture
def practised(member, ready_baseline):
    """Rollouts on the train items of the baseline's dataset: of each item one good, one middling, one bad."""
    parts = {name: getattr(ready_baseline, name) for name in ("dataset_version", "agent_version", "grader_version")}
    found = evaluation_start(actor=member, **parts, split="train", samples_per_item=3)
    rollouts_end(found.batch, [1.0, 0.6, 0.0])
    call = {"id": "c1", "name": "lookup", "arguments": '{"good":"tea"}', "result": "12"}
    for rollout in Rollout.objects.filter(batch=found.batch):
        Step.objects.create(rollout=rollout, index=0, tool_calls=[call])
        Step.objects.create(rollout=rollout, index=1, text=f"answer {rollout.reward}")
    return found


def choose(source, **more):
    return {"from": "rollouts", "of": source.public_id, **more}


def test_rollouts_become_demonstrations_best_first_and_of_train_items_only(member, ready_baseline, practised):
    job = job_launch(
        actor=member, baseline=ready_baseline, plan={}, method="supervised",
        demonstrations=choose(practised, least_reward=0.5, most_per_item=2),
    )  # fmt: skip
    rows = list(run_spec(job).train)
    assert [row["key"] for row in rows[:3]] == ["train-0", "train-0", "train-1"]
    assert len(rows) == 24
    assert [turn["role"] for turn in rows[0]["turns"]] == ["assistant", "tool", "assistant"]
    assert rows[0]["turns"][0]["tool_calls"][0]["function"] == {"name": "lookup", "arguments": '{"good":"tea"}'}
    assert (rows[0]["turns"][2]["content"], rows[1]["turns"][2]["content"]) == ("answer 1.0", "answer 0.6")
    assert run_spec(job).spec["method"] == "supervised"
    assert (job.plan["max_steps"], job.total_steps) == (3, 3), "24 demonstrations in batches of 8"


def test_reward_that_misses_the_mark_in_its_last_bits_is_good_enough(member, ready_baseline, practised):
    ready_baseline.grader_version.pass_threshold = 0.8
    Rollout.objects.filter(batch=practised.batch, reward=0.6).update(reward=0.1 + 0.7, passed=True)
    offered = {one.key: one.count for one in demonstrations.sources(ready_baseline)}
    assert offered[f"rollouts:{practised.public_id}"] == 24
    choice = demonstrations.choice_read(choose(practised), baseline=ready_baseline)
    assert demonstrations.count(ready_baseline, choice) == 24
    job = job_launch(actor=member, baseline=ready_baseline, plan={}, method="supervised", demonstrations=choice)
    assert len(list(run_spec(job).train)) == 24


def test_answers_that_items_hold_become_demonstrations(member, ready_baseline):
    Item.objects.filter(key="train-3").update(raw='{"messages":[{"role":"user","content":"x"}],"answer":""}')
    Item.objects.filter(key="train-4").update(raw='{"messages":[{"role":"user","content":"x"}],"answer":{"a":1}}')
    job = job_launch(
        actor=member, baseline=ready_baseline, plan={"n_epochs": 2}, method="supervised",
        demonstrations={"from": "references", "field": "answer"},
    )  # fmt: skip
    rows = {row["key"]: row["turns"] for row in run_spec(job).train}
    assert len(rows) == 11, "an empty answer teaches nothing"
    assert rows["train-1"] == [{"role": "assistant", "content": "1"}]
    assert rows["train-4"] == [{"role": "assistant", "content": '{"a": 1}'}]
    assert job.plan["max_steps"] == 4


def test_turns_that_items_hold_become_demonstrations_and_are_offered(member, ready_baseline):
    turns = '[{"role":"assistant","content":"a"},{"role":"user","content":"b"},{"role":"assistant","content":"c"}]'
    raw = f'{{"messages":[{{"role":"user","content":"x"}}],"shown":{turns}}}'
    Item.objects.filter(key="train-3").update(raw=raw)
    choice = {"from": "turns", "field": "shown"}
    job = job_launch(actor=member, baseline=ready_baseline, plan={}, method="supervised", demonstrations=choice)
    (row,) = run_spec(job).train
    assert [turn["content"] for turn in row["turns"]] == ["a", "b", "c"]
    offered = [one.key for one in demonstrations.sources(ready_baseline)]
    assert "turns:shown" in offered
    assert "references:shown" not in offered


def test_turns_that_the_assistant_does_not_begin_are_neither_offered_nor_launched(member, ready_baseline):
    turns = '[{"role":"user","content":"b"},{"role":"assistant","content":"c"}]'
    Item.objects.filter(split="train").update(raw=f'{{"messages":[{{"role":"user","content":"x"}}],"asked":{turns}}}')
    assert not [one.key for one in demonstrations.sources(ready_baseline) if "asked" in one.key]
    choice = {"from": "turns", "field": "asked"}
    with pytest.raises(UserError, match="the first must be the assistant's"):
        job_launch(actor=member, baseline=ready_baseline, plan={}, method="supervised", demonstrations=choice)
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    "choice, words",
    [
        (None, "none are chosen"),
        ({"from": "references"}, "the field that holds the answer"),
        ({"from": "references", "field": "messages"}, "the field that holds the answer"),
        ({"from": "references", "field": "colour"}, "No train item has an answer in colour"),
        ({"from": "rollouts", "of": "evalrun_none"}, "No rollout on a train item reaches 0.5"),
        ({"from": "rollouts", "of": "x", "least_reward": "high"}, "must be a number"),
        ({"from": "rollouts", "of": "x", "most_per_item": 99}, "are not possible"),
    ],
)
def test_choice_that_cannot_teach_is_refused_in_words(member, ready_baseline, choice, words):
    with pytest.raises(UserError, match=words):
        job_launch(actor=member, baseline=ready_baseline, plan={}, method="supervised", demonstrations=choice)
    assert not Job.objects.exists()


def test_rollouts_of_the_test_split_are_never_learnt_from(member, ready_baseline):
    with pytest.raises(UserError, match="kept for measuring"):
        job_launch(
            actor=member, baseline=ready_baseline, plan={}, method="supervised", demonstrations=choose(ready_baseline)
        )


def test_rollouts_of_another_team_are_not_there(stranger, member, practised):
    foreign = ready_baseline_of(stranger)
    assert demonstrations.count(foreign, choose(practised, least_reward=0.0, most_per_item=8)) == 0
    with pytest.raises(NotFound):
        job_launch(actor=stranger, baseline=practised, plan={}, method="supervised", demonstrations=choose(practised))


def test_baseline_without_a_foothold_may_be_warmed_up_and_not_practised(member):
    flat = ready_baseline_of(member, rewards=(0.0,))
    job = job_launch(
        actor=member, baseline=flat, plan={}, method="supervised",
        demonstrations={"from": "references", "field": "answer"},
    )  # fmt: skip
    assert job.method == "supervised"


def test_method_that_does_not_exist_is_refused(member, ready_baseline):
    with pytest.raises(UserError, match="Use one of reinforcement, supervised"):
        job_launch(actor=member, baseline=ready_baseline, plan={}, method="dpo")


def test_launch_form_offers_examples_and_launches(client_of, member, ready_baseline, practised):
    client = client_of(member)
    url = reverse("jobs:job-new", args=[member.team.slug]) + f"?baseline={ready_baseline.public_id}&method=supervised"
    page = client.get(url).content.decode()
    assert f'value="rollouts:{practised.public_id}"' in page
    assert 'value="references:answer"' in page
    key = page.split('name="launch_key" value="')[1].split('"')[0]
    form = {"launch_key": key, "backend": "trl", "seed": 0, "method": "supervised", "read_warnings": "on"}
    refused = client.post(url, form)
    assert refused.status_code == 422
    assert "Choose what it learns from." in refused.content.decode()
    answer = client.post(url, form | {"learn_from": f"rollouts:{practised.public_id}", "most_per_item": 1})
    assert answer.status_code == 302, answer.content.decode()
    job = Job.objects.get()
    assert job.demonstrations == choose(practised, least_reward=0.5, most_per_item=1)
    page = client.get(answer["Location"]).content.decode()
    assert "Learn from good examples" in page


def test_estimate_of_a_supervised_job_counts_demonstrations(client_of, member, ready_baseline):
    query = (
        f"?baseline={ready_baseline.public_id}&backend=trl&seed=0&method=supervised&learn_from=references:answer"
        "&batch_size=4&n_epochs=2"
    )
    page = client_of(member).get(reverse("jobs:job-estimate", args=[member.team.slug]) + query).content.decode()
    assert "12 ÷ 4 × 2 = 6" in page
    assert "24 demonstrations" in page
