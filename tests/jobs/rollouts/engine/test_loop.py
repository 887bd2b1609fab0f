"""One rollout: turns, calls, limits and every stop reason."""

import asyncio
import json
import time
from pathlib import Path

import pytest

from jobs.agents.prompts import PromptError, fill_prompt, prompt_fields
from jobs.agents.tools.spec import ToolSpec
from jobs.agents.tools.toolset import Toolset
from jobs.rollouts.engine.loop import run_rollout
from jobs.rollouts.engine.messages import opening_messages
from jobs.rollouts.engine.record import RolloutRecord
from jobs.rollouts.engine.sample import sample_of
from jobs.rollouts.engine.types import Limits, PolicyError, ToolResult
from tests.fakes.policy import ScriptedPolicy, call, calls, says

CASES = Path(__file__).parents[3] / "data" / "cases" / "inputs"
ITEM = {"messages": [{"role": "user", "content": "What is 2 times the rate of tea?"}], "schedule": {"tea": "4"}}
SPECS = [
    ToolSpec("lookup", config={"builtin": "table", "item_field": "schedule", "key": "good"}),
    ToolSpec("calc", config={"builtin": "calculator", "operation": "product"}),
]


class SlowTools:
    """Tools whose answers take as long as their argument says."""

    def __init__(self) -> None:
        self.open = self.most = 0

    def schemas(self):
        return []

    async def call(self, name, arguments, *, call_id):
        self.open += 1
        self.most = max(self.most, self.open)
        values = json.loads(arguments)
        try:
            await asyncio.sleep(values.get("seconds", 0))
        finally:
            self.open -= 1
        return ToolResult(f"{call_id}:{values.get('n')}", fatal=name == "broken", is_error=name == "broken")


def run(policy, *, toolset=None, item=ITEM, prompt="", **limits):
    bounds = Limits(**limits)
    tools = toolset or Toolset(SPECS, item=item, trace_id="trace_1", limits=bounds)
    return asyncio.run(
        run_rollout(item=item, policy=policy, toolset=tools, limits=bounds, system_prompt=prompt, trace_id="trace_1")
    )


def test_rollout_calls_tools_and_answers():
    policy = ScriptedPolicy(
        calls(call("lookup", '{"good": "tea"}', call_id="a")), calls(call("calc", '{"a": 4, "b": 2}')), says("8")
    )
    trajectory = run(policy, prompt="Be brief.")
    assert (trajectory.stop_reason, trajectory.answer, trajectory.error) == ("answered", "8", "")
    assert [[c.result for c in step.tool_calls] for step in trajectory.steps] == [["4"], ["8"], []]
    assert (trajectory.input_tokens, trajectory.output_tokens) == (30, 15)
    assert policy.seen[0] == [{"role": "developer", "content": "Be brief."}, ITEM["messages"][0]]
    assert policy.seen[1][2]["tool_calls"][0]["id"] == "a"
    assert policy.seen[1][3] == {"role": "tool", "tool_call_id": "a", "content": "4"}
    assert [tool["function"]["name"] for tool in policy.tools] == ["lookup", "calc"]


def test_parallel_results_are_paired_by_id_not_by_the_order_they_arrive():
    case = json.loads((CASES / "c085_out_of_order.json").read_text())
    slowest_first = [0.03, 0.02, 0.01]
    made = [
        call("wait", json.dumps({"seconds": seconds, "n": asked["args"]["t"]}), call_id=asked["id"])
        for seconds, asked in zip(slowest_first, case["calls"], strict=True)
    ]
    tools = SlowTools()
    policy = ScriptedPolicy(calls(*made), says("done"))
    trajectory = run(policy, toolset=tools)
    assert [c.result for c in trajectory.tool_calls] == ["a:application", "b:data", "c:kafka"]
    results = [(m["tool_call_id"], m["content"]) for m in policy.seen[1] if m["role"] == "tool"]
    assert results == [("a", "a:application"), ("b", "b:data"), ("c", "c:kafka")]
    assert tools.most == 3


def test_parallel_calls_are_at_most_so_many_at_once():
    tools = SlowTools()
    made = [call("wait", '{"seconds": 0.001}') for _ in range(10)]
    run(ScriptedPolicy(calls(*made), says("x")), toolset=tools, parallel_tools=2)
    assert tools.most == 2


def test_missing_and_doubled_call_ids_are_replaced_and_noted():
    case = json.loads((CASES / "c084_dup_call_ids.json").read_text())
    made = case["steps"][0]["tool_calls"]
    policy = ScriptedPolicy(calls(*made), calls(call("add", '{"n": 4}', call_id="c1")), says("done"))
    trajectory = run(policy, toolset=SlowTools())
    first = trajectory.steps[0].tool_calls
    assert [json.loads(c.arguments)["n"] for c in first] == [0, 1, 2, 3]
    ids = [c.id for c in trajectory.tool_calls]
    assert len(set(ids)) == 5
    assert all(ids)
    assert ids[2] == "c1"
    noted = [c for c in trajectory.tool_calls if c.notes]
    assert len(noted) == 4
    sent = [c["id"] for m in policy.seen[-1] if m.get("tool_calls") for c in m["tool_calls"]]
    answered = [m["tool_call_id"] for m in policy.seen[-1] if m["role"] == "tool"]
    assert sent == answered == ids


def test_bad_call_does_not_end_the_rollout():
    policy = ScriptedPolicy(calls(call("lookup", '{"good": "te')), calls(call("missing")), says("4"))
    trajectory = run(policy)
    assert trajectory.stop_reason == "answered"
    assert [c.is_error for c in trajectory.tool_calls] == [True, True]


@pytest.mark.parametrize(
    "limits, reason, n_steps, n_run",
    [
        ({"max_steps": 3}, "max_steps", 3, 2),
        ({"max_tool_calls": 2}, "max_tool_calls", 3, 2),
        ({"max_tokens": 10}, "max_tokens", 2, 1),
    ],
)
def test_limit_ends_the_rollout_without_failing_it(limits, reason, n_steps, n_run):
    trajectory = run(ScriptedPolicy(calls(call("lookup", '{"good": "tea"}', call_id=""))), **limits)
    assert trajectory.stop_reason == reason
    assert not trajectory.is_failed
    assert len(trajectory.steps) == n_steps
    ran = [c for c in trajectory.tool_calls if not c.is_error]
    assert len(ran) == n_run
    assert "not run" in trajectory.tool_calls[-1].notes[-1]


def test_answer_cut_by_the_model_counts_as_token_limit():
    trajectory = run(ScriptedPolicy(says("half an ans", finish_reason="length")))
    assert (trajectory.stop_reason, trajectory.answer) == ("max_tokens", "half an ans")


def test_slow_model_meets_the_time_limit():
    started = time.monotonic()
    trajectory = run(ScriptedPolicy(says("late"), seconds=5), max_seconds=0.02)
    assert trajectory.stop_reason == "max_seconds"
    assert not trajectory.is_failed
    assert time.monotonic() - started < 2


def test_slow_tool_meets_the_time_limit_and_keeps_what_was_done():
    made = [call("wait", '{"seconds": 0, "n": 1}', call_id="q"), call("wait", '{"seconds": 5}')]
    trajectory = run(ScriptedPolicy(calls(*made)), toolset=SlowTools(), max_seconds=0.05)
    assert trajectory.stop_reason == "max_seconds"
    assert [c.result for c in trajectory.tool_calls] == ["q:1", ""]
    assert "not finished" in trajectory.tool_calls[1].notes[0]


def test_tool_that_keeps_failing_ends_the_rollout():
    trajectory = run(ScriptedPolicy(calls(call("broken", "{}"), call("wait", "{}"))), toolset=SlowTools())
    assert trajectory.stop_reason == "tool_failed"
    assert trajectory.is_failed
    assert trajectory.error
    assert len(trajectory.tool_calls) == 2


def test_model_that_fails_ends_the_rollout_with_its_words():
    trajectory = run(ScriptedPolicy(calls(call("lookup", '{"good": "tea"}')), PolicyError("status 401: bad key")))
    assert (trajectory.stop_reason, trajectory.error) == ("model_failed", "status 401: bad key")
    assert len(trajectory.steps) == 1


def test_fault_of_ours_is_ours():
    trajectory = run(ScriptedPolicy(ValueError("secret detail")))
    assert trajectory.stop_reason == "studio_failed"
    assert "ValueError" in trajectory.error
    assert "secret" not in trajectory.error


def test_timeout_inside_the_policy_is_not_taken_for_the_time_limit():
    assert run(ScriptedPolicy(TimeoutError())).stop_reason == "studio_failed"


def test_cancellation_passes():
    async def cancelled():
        task = asyncio.create_task(
            run_rollout(item=ITEM, policy=ScriptedPolicy(says("x"), seconds=5), toolset=SlowTools(), limits=Limits())
        )
        await asyncio.sleep(0.01)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())


def test_prompt_is_filled_from_the_item():
    item = {"country": "Malta", "tags": ["a", "b"], "deep": {"x": {"y": 1}}, "two words": "w"}
    text = 'In {{ item.country }}, {{item.tags}}, {{ item.tags[1] }}, {{ item.deep.x }}; {{"a": {}}} stays.'
    assert fill_prompt(text, item) == 'In Malta, ["a","b"], b, {"y":1}; {{"a": {}}} stays.'
    assert prompt_fields(text) == ["item.country", "item.tags", "item.tags[1]", "item.deep.x"]
    assert fill_prompt('{{ item["two words"] }}', item) == "w"
    with pytest.raises(PromptError, match="item.two words"):
        prompt_fields("{{ item.two words }}")


def test_prompt_field_that_the_item_lacks_fails_the_rollout_by_name():
    trajectory = run(ScriptedPolicy(says("x")), prompt="{{ item.country }}")
    assert trajectory.stop_reason == "studio_failed"
    assert "item.country" in trajectory.error


def test_opening_messages_drop_empty_keys_of_exports():
    item = {"messages": [{"name": None, "role": "user", "content": "q"}]}
    assert opening_messages(item) == [{"role": "user", "content": "q"}]


def test_sample_holds_every_call_and_the_parsed_answer():
    trajectory = run(ScriptedPolicy(calls(call("lookup", '{"good": "tea"}', call_id="a")), says('{"rate": 4}')))
    sample = sample_of(trajectory, {"type": "json_schema"})
    assert sample.output_text == '{"rate": 4}'
    assert sample.output_json == {"rate": 4}
    assert sample_of(trajectory).output_json is None
    assert sample.output_tools == [
        {"id": "a", "type": "function", "function": {"name": "lookup", "arguments": '{"good": "tea"}'}}
    ]
    assert sample.choices[0]["message"] == {"role": "assistant", "content": '{"rate": 4}', "tool_calls": []}
    assert [step["index"] for step in sample.steps] == [0, 1]


def test_record_survives_the_journal():
    record = RolloutRecord("k", 0, "t", run(ScriptedPolicy(calls(call("lookup", "{}")), says("x"))), {"reward": 1.0})
    assert RolloutRecord.from_dict(json.loads(json.dumps(record.as_dict()))) == record
