"""Testing drafts and versions on stored rollouts."""

from decimal import Decimal

import pytest
from django.utils import timezone

from graders.gaming import TRICKS
from graders.sample_sources import StoredSample, stored_samples
from graders.samples import sample_from
from graders.services import draft_compiled, grader_create, grader_version_publish
from graders.trials import calibration_run, gaming_run, set_run
from graders.types import Grade
from graders.wire import run_answer
from jobs.rollouts.models import Rollout, RolloutBatch, Step
from rftstudio.core.errors import QuotaExceeded
from rftstudio.usage.services import quota_set, stop_set, usage_record
from tests.factories.studio import AgentVersionFactory, FrozenVersionFactory
from tests.factories.teams import UserFactory
from tests.factories.usage import PriceFactory

EXACT = {"type": "string_check", "operation": "eq", "input": "{{sample.output_text}}", "reference": "{{item.answer}}"}


@pytest.fixture
def version(member):
    return grader_version_publish(actor=member, grader=grader_create(actor=member, name="Exact", config=EXACT))


@pytest.fixture
def rollouts(team):
    data = FrozenVersionFactory(team=team)
    batch = RolloutBatch.objects.create(team=team, kind="evaluation", agent_version=AgentVersionFactory(team=team))
    for n, item in enumerate(data.items.filter(split="test")[:3]):
        rollout = Rollout.objects.create(
            team=team, batch=batch, item=item, group_key=item.key, sample_index=0, trace_id=f"t{n}", status="done",
            stop_reason="answered", reward=0.5, answer=item.data["answer"] if n else "wrong",
        )  # fmt: skip
        Step.objects.create(rollout=rollout, index=0, text="", output_tokens=7,
                            tool_calls=[{"id": "c", "name": "lookup", "arguments": "{}", "result": "x"}])  # fmt: skip
    return data


def test_stored_rollouts_become_samples(team, rollouts):
    samples = stored_samples(team=team, version=rollouts)
    assert [stored.item_key for stored in samples] == ["test-2", "test-1", "test-0"]
    assert samples[0].sample.output_tools[0]["function"]["name"] == "lookup"
    assert samples[0].sample.usage["output_tokens"] == 7
    assert samples[0].reward == 0.5


def test_stored_rollouts_of_another_team_are_not_found(stranger, rollouts):
    assert stored_samples(team=stranger.team, version=rollouts) == []
    assert stored_samples(team=stranger.team, rollout=Rollout.objects.first().public_id) == []


def test_draft_against_the_published_version(member, version, rollouts):
    draft = {**EXACT, "operation": "ne"}
    samples = stored_samples(team=member.team, version=rollouts)
    trial = set_run(actor=member, team=member.team, config=draft, samples=samples, published=version)
    assert trial.rewards == [0.0, 0.0, 1.0]
    assert trial.before == [1.0, 1.0, 0.0]
    assert (len(trial.moved), trial.ties, trial.share_of(0.0)) == (3, 2, pytest.approx(2 / 3))


def test_ungraded_samples_leave_the_mean(member):
    samples = [StoredSample(str(n), str(n), item, sample_from("a")) for n, item in enumerate([{"answer": "a"}, {}])]
    trial = set_run(actor=member, team=member.team, config=EXACT, samples=samples)
    assert (trial.mean, trial.ungraded) == (1.0, 1)


def test_gaming_and_calibration_of_a_version(version):
    assert len(gaming_run(version=version, items=[("a", {"answer": "x"}), ("b", {"answer": "y"})])) == len(TRICKS)
    labelled = [StoredSample(str(n), "k", {"answer": "a"}, sample_from(text), label=label)
                for n, (text, label) in enumerate([("a", 1.0), ("b", 0.0), ("a", 0.9), ("b", 1.0)])]  # fmt: skip
    assert calibration_run(version=version, samples=labelled).agreement.value == 0.75
    assert calibration_run(version=version, samples=[]) is None


def test_wire_answer_has_every_key_of_the_reference():
    answer = run_answer({"type": "multi", "name": "m"}, Grade(None, {"a": None}, {"invalid_variable_error": True}))
    assert answer["reward"] == 0.0
    assert len(answer["metadata"]["errors"]) == 14
    assert answer["metadata"]["errors"]["invalid_variable_error"] is True
    assert set(answer) == {"reward", "metadata", "sub_rewards", "model_grader_token_usage_per_model"}


def test_tokens_of_a_test_are_noted_and_priced(member, settings):
    from decimal import Decimal

    from django.utils import timezone

    from graders.trials import trial_run
    from jobs.agents.models import ModelEndpoint
    from rftstudio.usage.models import Price, UsageRecord
    from tests.fakes.server import HttpServer, Reply

    settings.STUDIO_ALLOWED_PRIVATE_HOSTS = ["127.0.0.1"]
    for unit, usd in (("input_token", "0.000001"), ("output_token", "0.000004")):
        Price.objects.create(unit=unit, subject="expert", usd=Decimal(usd), valid_from=timezone.now())
    usage = {"prompt_tokens": 1000, "completion_tokens": 250, "total_tokens": 1250}
    answer = {"choices": [{"message": {"role": "assistant", "content": "1"}}], "usage": usage}
    config = {
        "type": "score_model",
        "model": "expert",
        "input": [{"role": "user", "content": "{{ sample.output_text }}"}],
    }
    with HttpServer(lambda request: Reply.of(answer)) as server:
        ModelEndpoint.objects.create(team=member.team, name="expert", kind="openai", model="m", base_url=server.url)
        trial = trial_run(actor=member, team=member.team, config=config, item={}, sample=sample_from("x"))
    assert (trial.usd, trial.usd_per_thousand) == (Decimal("0.002"), Decimal("2"))
    assert UsageRecord.objects.filter(team=member.team, subject="expert").count() == 2


def test_trial_with_a_judge_is_refused_once_nothing_is_left_or_all_is_stopped(member, owner):
    judge = {"type": "score_model", "name": "j", "model": "judge-1", "input": [{"role": "user", "content": "Mark it."}]}
    quota_set(actor=owner, usd_month=Decimal(1))
    with draft_compiled(team=member.team, config=judge):
        pass
    stop_set(user=UserFactory(is_superuser=True), team=member.team, is_on=True, reason="audit")
    with pytest.raises(QuotaExceeded, match="audit"):
        draft_compiled(team=member.team, config=judge)
    stop_set(user=UserFactory(is_superuser=True), team=member.team, is_on=False)
    PriceFactory()
    usage_record(team=member.team, source="s", unit="training_second", subject="x", quantity=1, at=timezone.now())
    with pytest.raises(QuotaExceeded, match=r"nothing left this month of \$1.00"):
        draft_compiled(team=member.team, config=judge)
    with draft_compiled(team=member.team, config=EXACT):
        pass  # costs nothing
