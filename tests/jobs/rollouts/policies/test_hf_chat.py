"""Rendering, generating and reading back with the shipped base model."""

import json
import random
from pathlib import Path

import pytest

from jobs.rollouts.engine.types import ToolCallRecord
from jobs.rollouts.policies.generation import Ask, Generation, Stopped
from rftstudio.demo import world

pytestmark = pytest.mark.training

BASE_MODEL = Path(world.__file__).parent / "base_model"
TOOLS = [
    {"type": "function", "function": {key: tool[key] for key in ("name", "description", "parameters")}}
    for tool in world.TOOLS
]
MESSAGES = [
    {"role": "developer", "content": world.SYSTEM_PROMPT},
    {"role": "user", "content": "Hull: the ship carries tea and silk. What is the rate for tea?"},
]


@pytest.fixture(scope="module")
def hf_chat():
    """The module under test, imported late: it loads torch, which other lanes have no use for."""
    from jobs.rollouts.policies import hf_chat

    return hf_chat


@pytest.fixture(scope="module")
def chat(hf_chat):
    return hf_chat.load_chat(BASE_MODEL)


def asks(chat, count, **kwargs):
    prompt = chat.prompt_ids(MESSAGES, TOOLS)
    return [Ask(prompt, 24, random.Random(n).random, **kwargs) for n in range(count)]


def read(chat, text):
    return chat.reader.read(text, prefix="")


def test_tools_are_rendered_in_the_order_given(chat):
    text = chat.tokenizer.decode(chat.prompt_ids(MESSAGES, TOOLS))
    swapped = chat.tokenizer.decode(chat.prompt_ids(MESSAGES, TOOLS[::-1]))
    assert text.index("lookup(good)") < text.index("calc(a, b)")
    assert swapped.index("calc(a, b)") < swapped.index("lookup(good)")


def test_developer_message_is_the_system_turn(chat):
    system = [{**MESSAGES[0], "role": "system"}, MESSAGES[1]]
    assert chat.prompt_ids(MESSAGES, TOOLS) == chat.prompt_ids(system, TOOLS)


def test_continuation_equals_rendering_the_whole_conversation(chat):
    call = ToolCallRecord("call_1", "lookup", '{"good":"tea"}')
    function = {"name": call.name, "arguments": call.arguments}
    turn = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }
    result = {"role": "tool", "tool_call_id": "call_1", "content": "see silk"}
    sampled = chat.tokenizer('<tool_call>lookup{"good":"tea"}</tool_call><|im_end|>')["input_ids"]
    kept = chat.prompt_ids(MESSAGES, TOOLS) + sampled + chat.continuation_ids([result])
    assert kept == chat.prompt_ids([*MESSAGES, turn, result], TOOLS)


def test_continuation_holds_every_result_of_a_parallel_turn(chat):
    results = [{"role": "tool", "tool_call_id": f"call_{n}", "content": text} for n, text in enumerate(["12", "34"])]
    text = chat.tokenizer.decode(chat.continuation_ids(results))
    assert text == "\n<|im_start|>tool\n12<|im_end|>\n<|im_start|>tool\n34<|im_end|>\n<|im_start|>assistant\n"


def test_continuation_with_a_users_next_turn_equals_rendering_the_whole(chat):
    said, asks_again = {"role": "assistant", "content": "12"}, {"role": "user", "content": "Sure?"}
    sampled = chat.tokenizer("12<|im_end|>")["input_ids"]
    kept = chat.prompt_ids(MESSAGES, TOOLS) + sampled + chat.continuation_ids([asks_again])
    assert kept == chat.prompt_ids([*MESSAGES, said, asks_again], TOOLS)


def test_tries_do_not_depend_on_their_neighbours(chat):
    together = chat.generate(asks(chat, 12))
    alone = [chat.generate([ask])[0] for ask in asks(chat, 12)]
    assert [one.ids for one in together] == [one.ids for one in alone]
    assert len({tuple(one.ids) for one in together}) > 1


def test_generation_tells_logprob_and_entropy_of_every_token(chat):
    for one in chat.generate(asks(chat, 4)):
        assert len(one.ids) == len(one.logprobs) == len(one.entropies)
        assert all(value <= 0 for value in one.logprobs)
        assert all(value >= 0 for value in one.entropies)
        assert (one.ids[-1] in chat.eos_ids) == (one.finish_reason == "stop")


def test_engine_that_reports_no_entropies_gets_none_invented(chat):
    told = Generation(ids=[5, 6], logprobs=[-0.5, -0.25], entropies=[])
    reply = chat.reply(Ask([1], 8, lambda: 0.0), told)
    assert (reply.logprob_sum, reply.entropy_mean, reply.output_tokens) == (-0.75, None, 2)


def test_greedy_is_the_most_likely_and_needs_no_chance(chat):
    first, second = chat.generate(asks(chat, 2, temperature=0))
    assert first.ids == second.ids
    narrow = chat.generate(asks(chat, 1, top_p=1e-6))[0]
    assert narrow.ids == first.ids


def test_token_limit_ends_a_reply_as_length(chat):
    prompt = chat.prompt_ids(MESSAGES, TOOLS)
    [whole] = chat.generate([Ask(prompt, 24, temperature=0)])
    assert whole.finish_reason == "stop"
    assert len(whole.ids) > 1
    [cut] = chat.generate([Ask(prompt, len(whole.ids) - 1, temperature=0)])
    assert (cut.ids, cut.finish_reason) == (whole.ids[:-1], "length")
    [none] = chat.generate([Ask(prompt, 0)])
    assert (none.ids, none.finish_reason) == ([], "length")


def test_generation_stops_when_asked(chat):
    with pytest.raises(Stopped):
        chat.generate(asks(chat, 1), should_stop=lambda: True)


def test_call_is_read_with_its_arguments_as_written(chat):
    message = read(chat, '<tool_call>lookup{"good": "tea"}</tool_call><|im_end|>')
    assert message["tool_calls"] == [
        {"id": "call_0", "type": "function", "function": {"name": "lookup", "arguments": '{"good": "tea"}'}}
    ]
    assert message["content"] == ""


def test_two_calls_and_text_are_read_apart(chat):
    message = read(
        chat, 'so <tool_call>lookup{"good":"tea"}</tool_call><tool_call>calc{"a":1,"b":2}</tool_call><|im_end|>'
    )
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["lookup", "calc"]
    assert message["content"] == "so"


@pytest.mark.parametrize(
    "text, name, arguments",
    [
        ('<tool_call>lookup{"good":tea}</tool_call><|im_end|>', "lookup", '{"good":tea}'),
        ('<tool_call>lookup{"good":"te', "lookup", '{"good":"te'),
        ("<tool_call></tool_call><|im_end|>", "unreadable_call", "</tool_call>"),
        ('<tool_call>{"good":"tea"}</tool_call><|im_end|>', "unreadable_call", '{"good":"tea"}</tool_call>'),
    ],
)
def test_malformed_call_stays_a_call(chat, text, name, arguments):
    message = read(chat, text)
    assert message["tool_calls"][0]["function"] == {"name": name, "arguments": arguments}
    assert message["content"] == ""


def test_plain_answer_is_text(chat):
    assert read(chat, "42<|im_end|>") == {"content": "42", "reasoning": "", "tool_calls": []}


def test_reader_without_a_template_knows_the_common_form(hf_chat):
    class Bare:
        response_template = None
        eos_token, pad_token = "<|im_end|>", None

        def parse_response(self, text, schema, prefix):
            from transformers.utils.chat_parsing import parse_response

            return parse_response(text, schema, prefix=prefix)

    reader = hf_chat.ReplyReader(Bare())
    good = '<think>hm</think><tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call><|im_end|>'
    message = reader.read(good, prefix="")
    assert message["reasoning"] == "hm"
    assert message["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"x": 1}'}
    bad = reader.read('<tool_call>{"name": "f", "arguments": {"x": }}</tool_call>', prefix="")
    assert bad["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"name": "f", "arguments": {"x": }}'}


def test_template_message_parses_arguments_where_the_template_wants_it(hf_chat):
    turn = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": '{"x":1}'}}]}
    kept = hf_chat.as_template_message(turn, keep_text=True)
    assert kept["tool_calls"][0]["function"]["arguments"] == '{"x":1}'
    assert kept["content"] == ""
    parsed = hf_chat.as_template_message(turn, keep_text=False)
    assert parsed["tool_calls"][0]["function"]["arguments"] == {"x": 1}
    turn["tool_calls"][0]["function"]["arguments"] = "{bad"
    assert hf_chat.as_template_message(turn, keep_text=False)["tool_calls"][0]["function"]["arguments"] == {
        "unreadable": "{bad"
    }


def test_what_is_remembered_is_made_once_given_as_a_copy_and_bounded(hf_chat):
    store: dict[str, list[int]] = {}
    hf_chat.remembered(store, "a", 2, lambda: [1]).append(2)
    assert hf_chat.remembered(store, "a", 2, lambda: pytest.fail("made already")) == [1]
    for key in "bcdef":
        assert hf_chat.remembered(store, key, 2, lambda key=key: [ord(key)]) == [ord(key)]
        assert len(store) <= 2


def test_manifest_names_the_shipped_files():
    import hashlib

    sums = json.loads((BASE_MODEL / "manifest.json").read_text())["sha256"]
    assert {"model.safetensors", "tokenizer.json", "chat_template.jinja"} <= set(sums)
    for name, digest in sums.items():
        assert hashlib.sha256((BASE_MODEL / name).read_bytes()).hexdigest() == digest
