"""Gain in knowledge: the formula by hand, and what is stored of a policy's log-probabilities."""

import json
import math
from datetime import timedelta

import httpx2
import pytest
from django.core.management import call_command
from django.urls import reverse
from django.utils import timezone

from jobs.agents.models import ModelEndpoint
from jobs.attribution import knowledge, rerun, tasks
from jobs.attribution.methods.registry import compute
from jobs.attribution.models import RolloutCredit
from jobs.attribution.services import attribution_compute
from jobs.attribution.types import CreditRollout, CreditStep
from jobs.rollouts.imports.service import rollouts_import
from jobs.rollouts.models import Rollout, RolloutBatch
from jobs.rollouts.policies import local
from rftstudio.core.errors import UpstreamUnavailable, UserError
from rftstudio.usage.models import Reservation, UsageRecord
from tests.factories.rollouts import LOOK, RolloutBatchFactory, customs_group, steps_for
from tests.factories.studio import ready_baseline_of


def rollout(name, reward, logprobs, before):
    steps = [CreditStep("tool", "look", reference_logprob=value) for value in logprobs]
    return CreditRollout(name, "g", reward, [*steps, CreditStep("answer")], before)


def test_gain_is_the_growth_of_the_probability_per_token():
    # geometric mean probabilities: 0.1 before, then 0.4, then unknown, then 0.3
    known = rollout("r", 1.0, [math.log(0.4), None, math.log(0.3)], math.log(0.1))
    other = CreditRollout("s", "g", 0.0, [CreditStep("answer")])
    [credit] = compute("information_gain", [known, other])
    assert credit.rollout == "r"
    assert credit.credits == pytest.approx([0.3, 0.0, -0.1, 0.0])
    assert (credit.baseline, credit.is_complete) == (0.0, False)
    assert credit.low == [None] * 4


def test_without_a_start_the_first_step_gains_nothing():
    [credit] = compute(
        "information_gain", [rollout("r", 1.0, [math.log(0.4), math.log(0.5)], None), rollout("s", 0.0, [], None)]
    )
    assert credit.credits == pytest.approx([0.0, 0.1, 0.0])


def lines():
    step = {
        "tool_calls": [{"id": "c", "name": "look", "arguments": "{}", "result": "x"}],
        "reference_logprob": math.log(0.5),
    }
    return [
        {
            "rollout_id": f"r{n}",
            "group": "g",
            "reward": n,
            "reference_logprob": math.log(0.25),
            "steps": [step, {"text": "done"}],
        }
        for n in range(2)
    ]


@pytest.mark.django_db
def test_log_probabilities_of_a_file_are_stored_and_credited(member):
    outcome = rollouts_import(actor=member, content="\n".join(map(json.dumps, lines())).encode())
    assert attribution_compute(rollouts=outcome.batch, methods=["information_gain"]) == {"information_gain": 2}
    assert RolloutCredit.objects.first().credits == pytest.approx([0.25, 0.0])


def test_command_credits_a_file_and_says_why_not(tmp_path, capsys):
    steps = [{"name": "look", "reference_logprob": math.log(0.5)}, {"kind": "answer"}]
    rows = [{"group": "g", "rollout": "a", "reward": 1, "reference_logprob": math.log(0.25), "steps": steps},
            {"group": "g", "rollout": "b", "reward": 0, "steps": [{"kind": "answer"}]}]  # fmt: skip
    file = tmp_path / "groups.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    call_command("attribution_compute", str(file), "--method", "information_gain", "--json")
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["credits"] == pytest.approx([0.25, 0.0])
    assert second["reason"] == "no log-probabilities of the reference"


@pytest.mark.django_db
def test_policy_that_studio_does_not_serve_cannot_be_read(team, member):
    made = customs_group(RolloutBatchFactory(team=team))[0]
    with pytest.raises(UserError, match="not served by Studio"):
        knowledge.knowledge_ask(actor=member, rollout=Rollout.objects.get(pk=made.pk))


@pytest.fixture
def readable(member):
    """A graded rollout of a policy on this machine, whose item has a reference."""
    baseline = ready_baseline_of(member, rewards=(1.0, 0.0), samples=2, n_train=4, n_test=2)
    ModelEndpoint.objects.filter(pk=baseline.model_id).update(kind=ModelEndpoint.Kind.LOCAL)
    rollout = baseline.batch.rollouts.filter(reward__isnull=False).order_by("id").first()
    steps_for(rollout, [[LOOK], "120"])
    for sibling in Rollout.objects.filter(batch=rollout.batch_id, group_key=rollout.group_key).exclude(pk=rollout.pk):
        steps_for(sibling, [[LOOK], "80"])
    Rollout.objects.filter(batch=rollout.batch_id).update(n_steps=2)
    return Rollout.objects.get(pk=rollout.pk)


@pytest.mark.django_db
def test_policy_is_asked_by_a_worker_and_its_answer_is_stored_once(member, readable, monkeypatch):
    asked = []
    answer = {"logprobs": [math.log(0.25), math.log(0.5)], "tokens": 40}
    monkeypatch.setattr(knowledge, "_ask", lambda rollout, body: asked.append(body) or answer)
    knowledge.knowledge_ask(actor=member, rollout=readable)
    assert knowledge.is_running(Rollout.objects.get(pk=readable.pk))
    assert knowledge.knowledge_read(rollout_id=readable.pk) == 2
    assert knowledge.knowledge_read(rollout_id=readable.pk) == 0  # the same message again
    assert len(asked) == 1
    assert asked[0]["text"] == knowledge.reference_of(readable) != ""
    assert len(asked[0]["conversations"]) == 2
    rollout = Rollout.objects.get(pk=readable.pk)
    assert rollout.extra["reference_logprob"] == math.log(0.25)
    assert rollout.steps.get(index=0).reference_logprob == math.log(0.5)
    assert not knowledge.is_running(rollout)


@pytest.fixture
def woken(monkeypatch) -> list:
    """Ids of rollouts whose reading workers were asked for."""
    seen: list = []
    monkeypatch.setattr(tasks.knowledge_read, "apply_async", lambda args, **options: seen.append(args[0]))
    return seen


@pytest.mark.django_db
def test_double_click_asks_one_worker(member, readable, woken, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        for page in (readable, Rollout.objects.get(pk=readable.pk)):  # both were loaded before either was asked
            knowledge.knowledge_ask(actor=member, rollout=page)
    assert woken == [readable.pk]


@pytest.mark.django_db
def test_message_that_comes_twice_at_once_is_paid_once(member, readable, monkeypatch):
    answer = {"logprobs": [math.log(0.25), math.log(0.5)], "tokens": 40}

    def meanwhile(rollout, body):
        monkeypatch.setattr(knowledge, "_ask", lambda rollout, body: answer)
        knowledge.knowledge_read(rollout_id=readable.pk)  # the other worker is done first
        return answer

    monkeypatch.setattr(knowledge, "_ask", meanwhile)
    knowledge.knowledge_ask(actor=member, rollout=readable)
    knowledge.knowledge_read(rollout_id=readable.pk)
    (usage,) = UsageRecord.objects.filter(batch_source=knowledge.source_of(readable))
    assert usage.quantity == 40


def long_ago(rollout) -> None:
    """As if a worker had been asked twenty minutes ago."""
    then = timezone.now() - timedelta(minutes=20)
    fresh = Rollout.objects.get(pk=rollout.pk)
    Rollout.objects.filter(pk=rollout.pk).update(extra=fresh.extra | {knowledge.ASKED: then.isoformat()})
    Reservation.objects.filter(source=knowledge.source_of(rollout)).update(updated_at=then)


@pytest.mark.django_db
def test_worker_that_died_is_followed_by_one_more(member, readable, woken, django_capture_on_commit_callbacks):
    knowledge.knowledge_ask(actor=member, rollout=readable)
    with django_capture_on_commit_callbacks(execute=True):
        knowledge.knowledge_sweep()
        assert woken == [], "it was asked just now"
        long_ago(readable)
        for _ in range(2):
            knowledge.knowledge_sweep()
    assert woken == [readable.pk]
    assert knowledge.is_running(Rollout.objects.get(pk=readable.pk))
    long_ago(readable)
    with django_capture_on_commit_callbacks(execute=True):
        knowledge.knowledge_sweep()
    assert woken == [readable.pk]
    assert "neither answered" in Rollout.objects.get(pk=readable.pk).extra[knowledge.ERROR]
    assert Reservation.objects.get(source=knowledge.source_of(readable)).status == "settled"


@pytest.mark.django_db
def test_rollout_that_is_gone_holds_no_money(member, readable):
    knowledge.knowledge_ask(actor=member, rollout=readable)
    long_ago(readable)
    Rollout.objects.filter(pk=readable.pk).update(public_id="roll-another")  # as if its row were deleted
    assert knowledge.knowledge_read(rollout_id=0) == 0
    knowledge.knowledge_sweep()
    assert Reservation.objects.get(source=knowledge.source_of(readable)).status == "settled"


@pytest.mark.django_db
def test_rollout_that_was_read_by_a_worker_that_died_holds_no_money(member, readable):
    knowledge.knowledge_ask(actor=member, rollout=readable)
    Rollout.objects.filter(pk=readable.pk).update(extra={})  # the answer is stored; the money was not given back
    knowledge.knowledge_read(rollout_id=readable.pk)
    assert Reservation.objects.get(source=knowledge.source_of(readable)).status == "settled"


@pytest.mark.django_db
@pytest.mark.parametrize("fails", ["slow", "no JSON", "a list"])
def test_server_that_cannot_be_read_leaves_the_reason(member, readable, monkeypatch, fails):
    def post(self, url, **how):
        if fails == "slow":
            raise httpx2.ReadTimeout("timed out")
        return httpx2.Response(502, text="<html>" if fails == "no JSON" else "[]")

    monkeypatch.setattr(local, "ensure_server", lambda model, run_dir: "http://127.0.0.1:9/v1")
    monkeypatch.setattr(httpx2.Client, "post", post)
    knowledge.knowledge_ask(actor=member, rollout=readable)
    assert knowledge.knowledge_read(rollout_id=readable.pk) == 0
    rollout = Rollout.objects.get(pk=readable.pk)
    assert "The model server gave no answer" in rollout.extra[knowledge.ERROR]
    assert not knowledge.is_running(rollout)


@pytest.mark.django_db
def test_policy_that_does_not_answer_leaves_the_reason(member, readable, monkeypatch):
    def refuse(rollout, body):
        raise UpstreamUnavailable("The model server did not start.")

    monkeypatch.setattr(knowledge, "_ask", refuse)
    knowledge.knowledge_ask(actor=member, rollout=readable)
    assert knowledge.knowledge_read(rollout_id=readable.pk) == 0
    rollout = Rollout.objects.get(pk=readable.pk)
    assert "did not start" in rollout.extra[knowledge.ERROR]
    assert not knowledge.is_running(rollout)


@pytest.mark.django_db
def test_page_waits_for_the_reading_and_then_shows_its_gains(client_of, member, readable, monkeypatch):
    monkeypatch.setattr(
        knowledge, "_ask", lambda rollout, body: {"logprobs": [math.log(0.25), math.log(0.5)], "tokens": 4}
    )
    url = reverse("rollouts:rollout-detail", args=[member.team.slug, readable.public_id])
    client, part = client_of(member), {"HTTP_HX_REQUEST": "true", "HTTP_HX_TARGET": "walk"}
    asked = {"credit": "information_gain", "wait": "1"}
    assert "Read it now" in client.get(url, asked).content.decode()
    client.post(reverse("attribution:knowledge-read", args=[member.team.slug, readable.public_id]))
    waiting = client.get(url, asked, **part).content.decode()
    assert 'hx-trigger="every 3s"' in waiting
    assert "credit=information_gain&amp;step" in waiting  # a link of its own, which does not wait
    knowledge.knowledge_read(rollout_id=readable.pk)
    assert client.get(url, asked, **part).headers["HX-Refresh"] == "true"
    page = client.get(url, {"credit": "information_gain"}).content.decode()
    assert "raised the policy’s chance of the reference answer most, from 25 % to 50 % a token" in page
    assert "no interval" in page
    assert "every 3s" not in page


@pytest.mark.django_db
@pytest.mark.parametrize(
    "kind, train_step, moved", [("train_step", 1, False), ("train_step", 2, True), ("validation", 10, True)]
)
def test_policy_that_moved_on_is_not_asked_in_its_place(member, readable, kind, train_step, moved):
    RolloutBatch.objects.filter(pk=readable.batch_id).update(kind=kind, train_step=train_step)
    rollout = Rollout.objects.get(pk=readable.pk)
    for reason in (knowledge.why_not(rollout, 1), rerun.why_not(rollout, 1)):
        assert ("weights of train step" in reason) is moved
