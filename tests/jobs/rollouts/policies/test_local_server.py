"""The local model server, as a real process with the shipped base model."""

import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from jobs.rollouts.engine.types import PolicyError
from jobs.rollouts.policies.local import ensure_server, server_key
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
def run_dir(tmp_path_factory):
    """Where the one server of these tests is found."""
    folder = tmp_path_factory.mktemp("run")
    yield folder
    if is_there(folder):
        os.kill(pid_of(folder), signal.SIGTERM)


@pytest.fixture
def server(run_dir):
    """Started by the first test that asks."""
    return ensure_server(BASE_MODEL, run_dir=run_dir), run_dir


def state_of(run_dir):
    return run_dir / "servers" / server_key(BASE_MODEL)


def pid_of(run_dir):
    return int((state_of(run_dir) / "pid").read_text())


def is_there(run_dir):
    return (state_of(run_dir) / "port").exists()


def ask(url, **body):
    payload = {"model": "any", "messages": MESSAGES, "tools": TOOLS, "max_tokens": 24, **body}
    request = urllib.request.Request(
        f"{url}/chat/completions", json.dumps(payload).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_answer_has_the_shape_of_chat_completions(server):
    answer = ask(server[0], seed=1, temperature=0)
    assert answer["object"] == "chat.completion"
    [choice] = answer["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "lookup"
    assert json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])
    assert answer["usage"]["total_tokens"] > answer["usage"]["prompt_tokens"] > 0
    assert answer["studio"]["logprob_sum"] <= 0
    assert answer["studio"]["entropy_mean"] >= 0


def stream(url, **body):
    """The pieces as they came."""
    payload = {"model": "any", "messages": MESSAGES, "tools": TOOLS, "max_tokens": 24, "stream": True, **body}
    request = urllib.request.Request(
        f"{url}/chat/completions", json.dumps(payload).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        lines = [line[6:] for line in answer.read().decode().splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_stream_comes_token_by_token_and_says_what_the_whole_says(server):
    talk = [
        *MESSAGES,
        {"role": "assistant", "content": "12"},
        {"role": "user", "content": "Why? Say it in many words."},
    ]
    asked = {"messages": talk, "tools": [], "seed": 3, "temperature": 1.5}
    whole = ask(server[0], **asked)
    pieces = stream(server[0], **asked, stream_options={"include_usage": True})
    deltas = [one["choices"][0]["delta"] for one in pieces if one["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == (whole["choices"][0]["message"]["content"] or "")
    assert len([delta for delta in deltas if delta.get("content")]) > 1
    assert pieces[-1]["usage"] == whole["usage"]
    assert pieces[-2]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]


def test_stream_gives_calls_whole(server):
    pieces = stream(server[0], seed=1, temperature=0)
    calls = [call for one in pieces for call in one["choices"][0]["delta"].get("tool_calls") or []]
    assert [call["function"]["name"] for call in calls] == ["lookup"]
    assert not any(one["choices"][0]["delta"].get("content") for one in pieces)
    assert pieces[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_stop_text_ends_the_answer_and_logprobs_are_told(server):
    talk = {"messages": [{"role": "user", "content": "Count."}], "tools": [], "seed": 3, "temperature": 1.5}
    whole = ask(server[0], **talk, logprobs=True)["choices"][0]
    text, told = whole["message"]["content"], whole["logprobs"]["content"]
    assert all(one["logprob"] <= 0 for one in told)
    assert "".join(one["token"] for one in told).strip().startswith(text[:3])
    stop = text[2:4]
    cut = ask(server[0], **talk, stop=stop)
    assert cut["choices"][0]["message"]["content"] == text[: text.find(stop)].strip()
    assert cut["choices"][0]["finish_reason"] == "stop"
    assert cut["usage"]["completion_tokens"] < len(told) + 1


def test_same_seed_same_answer_also_in_company(server):
    alone = [ask(server[0], seed=n)["studio"]["logprob_sum"] for n in range(8)]
    together: dict[int, float] = {}
    threads = [
        threading.Thread(target=lambda n=n: together.update({n: ask(server[0], seed=n)["studio"]["logprob_sum"]}))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[n] for n in range(8)] == pytest.approx(alone, abs=1e-3)


def test_prompt_follows_the_order_of_tools(server):
    short = ask(server[0], seed=1, tools=TOOLS[:1])["usage"]["prompt_tokens"]
    assert short < ask(server[0], seed=1, tools=TOOLS)["usage"]["prompt_tokens"]


@pytest.mark.parametrize(
    "body, words",
    [
        ({"messages": []}, "messages"),
        ({"stop": [""]}, "stop"),
        ({"stream": True, "n": 2}, "n must be 1"),
        ({"n": 2}, "n must be 1"),
        ({"temperature": "hot"}, "temperature"),
        ({"messages": [{"role": "user", "content": "tea " * 600}]}, "tokens"),
    ],
)
def test_request_that_cannot_be_answered_is_refused_in_words(server, body, words):
    with pytest.raises(urllib.error.HTTPError) as refusal:
        ask(server[0], **body)
    assert refusal.value.code == 400
    assert words in json.load(refusal.value)["error"]["message"]


def test_models_and_health(server):
    with urllib.request.urlopen(f"{server[0]}/models") as answer:
        assert json.load(answer)["data"][0]["id"] == str(BASE_MODEL)
    with urllib.request.urlopen(server[0].removesuffix("/v1") + "/health") as answer:
        assert json.load(answer)["pid"] == pid_of(server[1])


def test_ensure_server_finds_the_one_that_runs(server):
    url, run_dir = server
    assert ensure_server(BASE_MODEL, run_dir=run_dir) == url


def test_folder_without_a_model_is_refused_with_the_reason(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(PolicyError, match="could not be served"):
        ensure_server(tmp_path / "empty", run_dir=tmp_path)


def test_score_says_how_likely_a_text_is_after_each_conversation(server):
    """Against transformers itself: one conversation at a time, without padding."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    longer = [
        *MESSAGES,
        {"role": "assistant", "content": "The rate for tea is 12."},
        {"role": "user", "content": "Sure?"},
    ]
    request = urllib.request.Request(
        f"{server[0]}/score",
        json.dumps({"conversations": [MESSAGES, longer], "tools": TOOLS, "text": "The rate is 12"}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        found = json.load(answer)["logprobs"]
    tokenizer, model = (
        AutoTokenizer.from_pretrained(BASE_MODEL),
        AutoModelForCausalLM.from_pretrained(BASE_MODEL).eval(),
    )
    text = tokenizer("The rate is 12", add_special_tokens=False)["input_ids"]
    for value, conversation in zip(found, [MESSAGES, longer], strict=True):
        as_system = [{**m, "role": "system"} if m["role"] == "developer" else m for m in conversation]
        prompt = tokenizer.apply_chat_template(as_system, tools=TOOLS, add_generation_prompt=True, return_dict=True)[
            "input_ids"
        ]
        with torch.no_grad():
            logprobs = torch.log_softmax(model(torch.tensor([prompt + text])).logits[0].float(), dim=-1)
        expected = sum(float(logprobs[len(prompt) - 1 + n, token]) for n, token in enumerate(text)) / len(text)
        assert value == pytest.approx(expected, abs=1e-3)


def test_ensure_server_replaces_a_dead_one_and_many_callers_share_it(server):
    """Comes last: the others would have to start a server anew."""
    _, run_dir = server
    dead = pid_of(run_dir)
    os.kill(dead, signal.SIGKILL)
    time.sleep(0.2)
    urls: list[str] = []
    threads = [
        threading.Thread(target=lambda: urls.append(ensure_server(BASE_MODEL, run_dir=run_dir, idle_seconds=6)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(urls) == 3
    assert len(set(urls)) == 1
    assert pid_of(run_dir) != dead
    limit = time.monotonic() + 30
    while is_there(run_dir):  # it ends by itself when it idles
        assert time.monotonic() < limit
        time.sleep(0.2)
