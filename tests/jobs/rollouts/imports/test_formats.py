"""Each format, against what its file is known to hold."""

import gzip
import json
import struct
from pathlib import Path

import pytest

from jobs.rollouts.imports.detect import read_rollouts
from jobs.rollouts.imports.types import Unreadable

CASES = Path(__file__).parents[3] / "data" / "cases"
TRACES = CASES / "traces"
EXPECTED = json.loads((TRACES / "expected_traces.json").read_text())


def read(name: str):
    places = (TRACES / name, CASES / "real" / name, CASES / "inputs" / Path(name).name)
    return read_rollouts(next(path for path in places if path.exists()).read_bytes())


def codes(found) -> list[str]:
    return [flag["code"] for flag in found.report()["flags"]]


def one(value, **how):
    return read_rollouts(json.dumps(value).encode(), **how).rollouts[0]


@pytest.mark.parametrize("name", [name for name in EXPECTED if name.startswith("langfuse")])
def test_langfuse_traces_count_tokens_and_cost_once(name):
    wanted = EXPECTED[name]
    found = read(name)
    (rollout,) = found.rollouts
    assert found.format == "langfuse"
    assert len(rollout.extra["spans"]) == wanted["observations"]
    assert sum(span["parent"] == "" for span in rollout.extra["spans"]) == wanted["roots"]
    assert rollout.input_tokens + rollout.output_tokens == wanted["tokens_counted_once"]
    assert rollout.cost_usd == pytest.approx(wanted["cost_counted_once"])
    assert rollout.sub_rewards == wanted["scores"]
    assert rollout.seconds == pytest.approx(wanted["duration_s"], abs=0.006)
    assert codes(found) == []
    assert [len(step.tool_calls) for step in rollout.steps] == [1, 0]
    assert rollout.steps[0].tool_calls[0].result


def test_step_rows_keep_every_step_and_flag_repeated_ids():
    wanted = EXPECTED["eval-protocol/frozen_lake_trajectory_13.jsonl"]
    found = read("eval-protocol/frozen_lake_trajectory_13.jsonl")
    assert len(found.rollouts) == wanted["rollouts"]
    for key, rollout in zip(("0", "1", "2"), found.rollouts, strict=True):
        row = wanted["per_rollout"][key]
        assert len(rollout.steps) == row["step_rows"]
        assert rollout.n_calls == row["tool_calls"]
        assert sum(len(step.tool_calls) for step in rollout.steps) == row["tool_results"]
        assert [step.step_reward for step in rollout.steps] == row["reward_per_step"]
        assert rollout.reward == row["reward_sum"]
        assert sum(flag.code == "duplicate_call_id" for flag in rollout.flags) == row["duplicate_tool_call_ids"]
    assert "\\u001b[41m" in found.rollouts[0].steps[0].tool_calls[0].result


def test_span_export_reads_spans_in_time_order():
    wanted = EXPECTED["azure-rft/zava_evalrun_step0_traces_14.json"]
    found = read("azure-rft/zava_evalrun_step0_traces_14.json")
    assert found.format == "span_export"
    assert len(found.rollouts) == wanted["items"]
    spans = sorted((len(rollout.extra["spans"]) for rollout in found.rollouts), reverse=True)
    assert set(wanted["spans_per_item"]) <= set(spans)
    rewards = [rollout.reward for rollout in found.rollouts]
    assert all(score in rewards for score in wanted["scores"])
    assert sum(bool(rollout.passed) for rollout in found.rollouts) == wanted["status"]["pass"]
    assert codes(found).count("empty_call_id") == wanted["empty_tool_call_ids"]
    assert found.report()["tool_calls"] == sum(wanted["tools_used"].values())
    names = [call.name for r in found.rollouts for step in r.steps for call in step.tool_calls]
    assert names.count("calculate") == wanted["tools_used"]["functions.calculate"]
    assert all(call.result for r in found.rollouts for step in r.steps for call in step.tool_calls)


def test_span_export_rows_of_the_reference_shape():
    spans = [
        {"id": "a", "trace_id": "trace_9", "parent_id": None, "started_at": "2026-09-21T14:30:00Z",
         "ended_at": "2026-09-21T14:30:01Z", "error": None,
         "span_data": {"type": "generation", "input": [], "usage": {"input_tokens": 5, "output_tokens": 2},
                       "output": [{"role": "assistant", "content": '{"city":"Lisbon"}', "recipient": "functions.look"}]}},
        {"id": "b", "trace_id": "trace_9", "parent_id": None, "started_at": "2026-09-21T14:30:01Z",
         "ended_at": "2026-09-21T14:30:02Z", "error": None,
         "span_data": {"type": "function", "name": "functions.look", "input": '{"city":"Lisbon"}', "output": "145"}},
    ]  # fmt: skip
    row = {
        "run_id": "evalrun_1", "data_source_idx": 3,
        "item": {"messages": [{"role": "user", "content": "cap?"}], "trace": {"type": "trace", "spans": spans}},
        "sample": {"outputs": [], "finish_reason": "stop"},
        "grades": {"expense_grader-0b54c7de-1d0f-4c41-9f0a-6f1f3a6f8f11": 1.0},
        "passes": {"expense_grader-0b54c7de-1d0f-4c41-9f0a-6f1f3a6f8f11": True},
    }  # fmt: skip
    found = read_rollouts((json.dumps(row) + "\n").encode() * 2)
    first = found.rollouts[0]
    assert (first.group, first.reward, first.sub_rewards) == ("item 3", 1.0, {"expense_grader": 1.0})
    assert (first.steps[0].tool_calls[0].name, first.steps[0].tool_calls[0].result) == ("look", "145")
    assert first.output_tokens == 2
    assert "no_final_answer" in codes(found)


def test_local_trace_pairs_events_and_keeps_a_failure_ungraded():
    row = {
        "sample_index": 4, "input_item": {"messages": [{"role": "user", "content": "q"}]},
        "trace": [
            {"event": "reasoning_summary", "summary": "look"}, {"event": "preamble_message", "text": "Let me see."},
            {"event": "tool_call", "name": "search", "arguments": {"q": 1}, "call_id": "c1"},
            {"event": "tool_call", "name": "list", "arguments": "{}", "call_id": "c2"},
            {"event": "tool_result", "type": "function_call_output", "call_id": "c2", "output": "two"},
            {"event": "tool_result", "type": "function_call_output", "call_id": "c1", "output": "one"},
            {"event": "tool_call", "name": "cat", "arguments": "{}", "call_id": "c3"},
            {"event": "tool_error", "name": "cat", "error": "no such file"},
            {"event": "final_message", "text": "42"},
        ],
        "final_message_text": "42", "metrics": {"reward": 0.5, "f1": 0.25}, "duration_seconds": 2.5,
        "usage_cumulative": {"input_tokens": 10, "output_tokens": 4},
    }  # fmt: skip
    rollout = one([row])
    assert [len(step.tool_calls) for step in rollout.steps] == [2, 1, 0]
    assert [call.result for call in rollout.steps[0].tool_calls] == ["one", "two"]
    assert rollout.steps[1].tool_calls[0].is_error
    assert (rollout.steps[0].reasoning, rollout.steps[0].text) == ("look", "Let me see.")
    assert (rollout.reward, rollout.sub_rewards, rollout.answer, rollout.group) == (0.5, {"f1": 0.25}, "42", "sample 4")
    failed = one([{**row, "metrics": {"reward": -1}, "error": "boom"}])
    assert (failed.reward, failed.stop_reason, failed.error) == (None, "model_failed", "boom")


def test_otlp_orphan_is_shown_not_dropped():
    wanted = EXPECTED["otlp/opentelemetry_proto_trace.json"]
    found = read("otlp/opentelemetry_proto_trace.json")
    (rollout,) = found.rollouts
    assert len(rollout.extra["spans"]) == wanted["spans"]
    assert len(rollout.steps) == 1
    assert codes(found) == ["orphan_span"]
    assert rollout.seconds == wanted["duration_s"]


def test_otlp_logs_are_named():
    with pytest.raises(Unreadable, match="log records, not spans"):
        read("otlp/opentelemetry_proto_logs.json")


def attribute(key, value):
    kind = "intValue" if isinstance(value, int) else "stringValue"
    return {"key": key, "value": {kind: str(value) if kind == "intValue" else value}}


GENAI = {
    "resourceSpans": [{"resource": {"attributes": [attribute("service.name", "desk")]}, "scopeSpans": [{"spans": [
        {"traceId": "AA" * 16, "spanId": "01" * 8, "name": "invoke_agent", "startTimeUnixNano": "1000000000000000000",
         "endTimeUnixNano": "1000000005000000000", "attributes": [attribute("gen_ai.operation.name", "invoke_agent"),
                                                                  attribute("gen_ai.usage.input_tokens", 30)]},
        {"traceId": "AA" * 16, "spanId": "02" * 8, "parentSpanId": "01" * 8, "name": "chat m",
         "startTimeUnixNano": "1000000001000000000", "endTimeUnixNano": "1000000002000000000", "attributes": [
             attribute("gen_ai.operation.name", "chat"), attribute("gen_ai.usage.input_tokens", 10),
             attribute("gen_ai.usage.output_tokens", 9007199254740993),
             attribute("gen_ai.input.messages", json.dumps([{"role": "user", "parts": [{"type": "text", "content": "duty?"}]}])),
             attribute("gen_ai.output.messages", json.dumps([{"role": "assistant", "parts": [
                 {"type": "tool_call", "id": "c1", "name": "lookup", "arguments": {"good": "pears"}}]}]))]},
        {"traceId": "AA" * 16, "spanId": "03" * 8, "parentSpanId": "01" * 8, "name": "execute_tool lookup",
         "startTimeUnixNano": "1000000002000000000", "endTimeUnixNano": "1000000003000000000", "attributes": [
             attribute("gen_ai.operation.name", "execute_tool"), attribute("gen_ai.tool.name", "lookup"),
             attribute("gen_ai.tool.call.result", "3 per crate")]},
    ]}]}]
}  # fmt: skip


def test_otlp_genai_conventions_become_steps_with_results():
    rollout = one(GENAI)
    assert rollout.title == "duty?"
    (step,) = rollout.steps
    assert (step.tool_calls[0].name, step.tool_calls[0].result) == ("lookup", "3 per crate")
    assert json.loads(step.tool_calls[0].arguments) == {"good": "pears"}
    assert rollout.output_tokens == 9007199254740993
    assert rollout.input_tokens == 10


def proto(number, value):
    """One protobuf field, written by hand."""

    def varint(n):
        out = b""
        while True:
            n, low = n >> 7, n & 0x7F
            out += bytes([low | (0x80 if n else 0)])
            if not n:
                return out

    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3 | 1) + struct.pack("<Q", value)


def test_otlp_protobuf_reads_as_the_json_does():
    def pair(key, text):
        return proto(1, key.encode()) + proto(2, proto(1, text.encode()))

    span = (
        proto(1, b"\xaa" * 16) + proto(2, b"\x02" * 8) + proto(5, b"chat m") + proto(7, 10**18) + proto(8, 10**18 + 10**9)
        + proto(9, pair("gen_ai.operation.name", "chat")) + proto(9, pair("gen_ai.completion", "hello"))
    )  # fmt: skip
    content = proto(1, proto(1, proto(1, pair("service.name", "desk"))) + proto(2, proto(2, span)))
    found = read_rollouts(content)
    assert found.format == "otlp_protobuf"
    (rollout,) = found.rollouts
    assert (rollout.answer, rollout.seconds, rollout.trace_id) == ("hello", 1.0, "aa" * 16)


@pytest.mark.parametrize("content", [b"\x00\x01\x02", b"\x0a\xff\xff", b"\x0a\x02hi\x00"])
def test_other_bytes_are_refused_in_words(content):
    with pytest.raises(Unreadable):
        read_rollouts(content)


def test_inspect_letters_are_rewards():
    wanted = EXPECTED["inspect-ai/security_guide_success.json"]
    found = read("inspect-ai/security_guide_success.json")
    assert len(found.rollouts) == wanted["samples_in_file"]
    assert [r.extra["scores"] for r in found.rollouts] == wanted["scores"]
    assert sum(r.reward for r in found.rollouts) / 3 == wanted["accuracy"]
    assert [r.extra["events"] for r in found.rollouts] == wanted["events"]
    assert codes(found) == []


def test_tau_bench_groups_trials_of_a_task():
    found = read("tau-bench/gpt4o_airline_trajectories.jsonl")
    groups = {}
    for rollout in found.rollouts:
        groups.setdefault(rollout.group, []).append(rollout.reward)
    assert (len(found.rollouts), len(groups)) == (40, 10)
    assert sum(len(set(rewards)) == 1 for rewards in groups.values()) == 6
    assert codes(found) == []
    assert found.rollouts[0].extra["replies"]


def test_atif_round_trip_of_calls_and_observations():
    value = {
        "schema_version": "ATIF-v1.4", "session_id": "s1", "agent": {"name": "a", "version": "1", "model_name": "m"},
        "steps": [
            {"step_id": 1, "source": "user", "message": "duty?"},
            {"step_id": 2, "source": "agent", "message": "", "timestamp": "2026-01-01T00:00:00Z",
             "tool_calls": [{"tool_call_id": "x", "function_name": "lookup", "arguments": {"good": "pears"}},
                            {"tool_call_id": "y", "function_name": "lookup", "arguments": {}}],
             "observation": {"results": [{"source_call_id": "x", "content": "3"}]}},
            {"step_id": 3, "source": "agent", "message": "120"},
        ],
        "final_metrics": {"total_prompt_tokens": 9, "total_completion_tokens": 3, "extra": {"reward": 0.5}},
    }  # fmt: skip
    found = read_rollouts(json.dumps(value).encode())
    (rollout,) = found.rollouts
    assert (rollout.title, rollout.answer, rollout.reward, rollout.output_tokens) == ("duty?", "120", 0.5, 3)
    assert [c.result for c in rollout.steps[0].tool_calls] == ["3", ""]
    assert codes(found) == ["call_without_result"]


# Reported faults -----------------------------------------------------------------------------------------------------


def test_rewards_on_steps_are_kept_and_summed():
    (rollout,) = read("inputs/c099_steps.json").rollouts
    assert [step.step_reward for step in rollout.steps] == [0.1, 0.2, 0.0, 0.5]
    assert rollout.reward == pytest.approx(0.8)


def test_span_without_its_parent_stands_at_the_root():
    found = read("inputs/c107_orphan.json")
    assert [span["id"] for span in found.rollouts[0].extra["spans"]] == ["a", "b"]
    assert codes(found) == ["orphan_span"]


def test_span_cycles_are_named_and_all_spans_listed():
    found = read("inputs/c108_cycle.json")
    assert len(found.rollouts[0].steps) == 3
    messages = [flag["message"] for flag in found.report()["flags"]]
    assert any("a → b → a" in text or "b → a → b" in text for text in messages)
    assert any("c → c" in text for text in messages)


def test_times_are_never_negative_and_ordered_by_the_instant():
    found = read("inputs/c110_times.json")
    spans = found.rollouts[0].extra["spans"]
    assert sorted(codes(found)) == ["end_before_start", "no_end", "no_time_zone"]
    assert [span["id"] for span in spans] == ["a", "b", "c"]
    assert [span["milliseconds"] for span in spans] == [None, None, 1000.0]


def test_a_parent_that_repeats_its_childrens_tokens_counts_nothing():
    (rollout,) = read("inputs/c111_parent_sum.json").rollouts
    assert (rollout.input_tokens, rollout.output_tokens) == (14426, 771)


def test_parts_of_one_rollout_are_one_rollout_with_one_reward():
    found = read("inputs/c091_subagents.jsonl")
    assert [(r.key, r.reward, r.extra["parts"]) for r in found.rollouts] == [
        ("r1", 1.0, ["main", "sub-1"]), ("r2", 0.0, ["main"]),
    ]  # fmt: skip


def test_events_of_several_rollouts_land_in_their_own():
    found = read("inputs/c092_mixed_batch.jsonl")
    assert [[step.text for step in r.steps] for r in found.rollouts] == [["ra"] * 3, ["rb"] * 3, ["rc"] * 3]


def test_the_same_record_twice_is_one_rollout_and_another_body_is_flagged():
    found = read("inputs/c094_twice.jsonl")
    assert [(r.key, r.reward) for r in found.rollouts] == [("r1", 1.0)]
    assert codes(found) == ["conflicting_rollout"]


def test_bad_arguments_and_doubled_ids_lose_no_call():
    assert codes(read("inputs/c081_bad_args.json")) == ["bad_arguments"]
    found = read("inputs/c084_dup_call_ids.json")
    calls = found.rollouts[0].steps[0].tool_calls
    assert [json.loads(call.arguments)["n"] for call in calls] == [0, 1, 2, 3]
    assert len({call.id for call in calls}) == 4
    assert sorted(codes(found)) == ["duplicate_call_id", "empty_call_id", "empty_call_id"]


def test_results_pair_by_id_not_by_place():
    (rollout,) = read("inputs/c085_out_of_order.json").rollouts
    assert [call.result for call in rollout.steps[0].tool_calls] == ["1", "2", "3"]


def test_bad_lines_are_named_and_good_ones_kept():
    content = b'{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}\n{"mess\n'
    found = read_rollouts(content)
    assert len(found.rollouts) == 1
    assert found.report()["flags"][0]["where"].startswith("line 2")


def test_gzip_and_byte_order_marks_are_no_obstacle():
    content = b'\xef\xbb\xbf{"messages": [{"role": "assistant", "content": "a"}]}'
    assert read_rollouts(gzip.compress(content)).rollouts[0].answer == "a"


@pytest.mark.parametrize(
    "content, words",
    [
        (b"  \n", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        ("{}".encode("utf-16"), "UTF-16"),
        (b'{"a": 1}', "No known trace format"),
        (b"plain words", "no JSON"),
        (b'{"a": "\xff"}', "not valid UTF-8"),
    ],
)
def test_what_is_no_trace_is_refused_with_what_it_is(content, words):
    with pytest.raises(Unreadable, match=words):
        read_rollouts(content)
