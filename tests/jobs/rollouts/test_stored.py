"""Stored rollouts as graders see them."""

from jobs.rollouts.models import LargeResult
from jobs.rollouts.stored import stored_sample
from tests.factories.rollouts import LOOK, RolloutFactory, call, steps_for


def test_sample_of_a_stored_rollout(db):
    rollout = RolloutFactory(answer="120")
    steps_for(rollout, [[LOOK], "120"])
    sample = stored_sample(rollout)
    assert (sample.output_text, sample.usage["output_tokens"], len(sample.steps)) == ("120", 80, 2)
    assert sample.output_tools[0]["function"] == {"name": "lookup", "arguments": '{"good": "pears"}'}
    assert sample.steps[0]["tool_calls"][0]["result"] == "pears: see fruit, fresh"
    assert sample.steps[1]["milliseconds"] == 800.0


def test_results_kept_apart_are_whole_again(db):
    rollout = RolloutFactory()
    steps_for(rollout, [[call("read", "{}", "the sta", result_digest="d"), LOOK], "done"])
    LargeResult.objects.create(step=rollout.steps.get(index=0), call=0, text="the start and the end")
    results = [made["result"] for made in stored_sample(rollout).steps[0]["tool_calls"]]
    assert results == ["the start and the end", "pears: see fruit, fresh"]
