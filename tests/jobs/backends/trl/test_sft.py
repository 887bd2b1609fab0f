"""The supervised warm start, trained for real on a few demonstrations."""

import json
from dataclasses import replace

import pytest

from rftstudio.demo import world
from tests.jobs.backends.trl import runs, warm

pytestmark = pytest.mark.training


def demonstration(row: dict) -> list[dict]:
    """What a faultless clerk does with one of the example's items."""
    turns = []
    for n, call in enumerate(row["reference_calls"]):
        name, arguments = call["name"], call["arguments"]
        result = row["schedule"][arguments["good"]] if name == "lookup" else str(arguments["a"] * arguments["b"])
        function = {"name": name, "arguments": json.dumps(arguments, separators=(",", ":"))}
        turns.append(
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": f"c{n}", "type": "function", "function": function}],
            }
        )
        turns.append({"role": "tool", "tool_call_id": f"c{n}", "content": result})
    return [*turns, {"role": "assistant", "content": row["reference_answer"]}]


def make_run(folder, **plan):
    run = runs.make_run(folder, **{"max_steps": 6, "batch_size": 8, "eval_interval": 3, "learning_rate": 1e-3, **plan})
    spec = json.loads((run / "spec.json").read_text())
    (run / "spec.json").write_text(json.dumps({**spec, "method": "supervised"}))
    rows = [row for row in world.items_make() if row["split"] == "train"][:24]
    lines = [json.dumps({"key": row["id"], "item": row, "turns": demonstration(row)}) for row in rows]
    (run / "train.jsonl").write_text("\n".join(lines) + "\n")
    return run


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    run = make_run(tmp_path_factory.mktemp("sft") / "run")
    assert warm.train(run) == 0, (run / "trainer.log").read_text()[-3000:]
    return run


def test_warm_start_learns_its_demonstrations_and_validates_with_real_rollouts(whole):
    steps = [event["metrics"] for event in runs.of_type(whole, "step")]
    assert steps[-1]["loss"] < steps[0]["loss"] / 2
    assert [step["train_mean_reward"] for step in steps] == [None] * 6
    told = runs.of_type(whole, "rollout")
    assert [(event["phase"], event["step"]) for event in told] == [("validation", 3)] * 3 + [("validation", 6)] * 3
    assert runs.of_type(whole, "checkpoint")[-1]["validation_reward"] is not None
    closing = runs.events(whole)[-1]
    assert (closing["status"], closing["train_steps"], closing["rollouts"]) == ("succeeded", 6, 0)


def test_paused_warm_start_goes_on_with_the_same_weights(whole, tmp_path):
    run = make_run(tmp_path / "run")
    process = warm.start(run)
    runs.wait_for(run, process, "step", 1)
    (run / "control").write_text("pause")
    assert process.wait(timeout=120) == 0
    assert runs.events(run)[-1]["status"] == "paused"
    (run / "control").write_text("")
    assert warm.train(run) == 0
    assert runs.of_type(run, "started")[1]["from_step"] < 6
    assert runs.last_digest(run) == runs.last_digest(whole)


def test_tokens_learnt_are_those_the_policy_would_write(whole):
    from jobs.rollouts.policies.hf_chat import load_chat

    chat = load_chat(runs.BASE_MODEL)
    row = next(row for row in world.items_make() if row["kind"] == "duty")
    messages, turn = [{"role": "user", "content": "How much?"}], demonstration(row)[0]
    ids = chat.reply_ids(messages, turn, [])
    assert ids[-1] in chat.eos_ids
    assert not any(token in chat.eos_ids for token in ids[:-1])
    text = chat.tokenizer.decode(ids)
    assert turn["tool_calls"][0]["function"]["arguments"] in text
    with_turn = chat.prompt_ids([*messages, turn, demonstration(row)[1]], [])
    rebuilt = chat.prompt_ids(messages, []) + ids + chat.continuation_ids([demonstration(row)[1]])
    assert rebuilt == with_turn


def test_users_later_turns_and_turns_of_weight_0_are_read_and_not_learnt(tmp_path):
    from jobs.backends.trl.encoding import IGNORED, encode
    from jobs.backends.trl.spec import TrainItem, spec_read
    from jobs.rollouts.policies.hf_chat import load_chat

    chat = load_chat(runs.BASE_MODEL)
    spec = replace(spec_read(make_run(tmp_path / "run")), system_prompt="", tools=[])
    talk = [
        ("assistant", "Yes.", 1),
        ("user", "Sure?", 1),
        ("assistant", "Hm.", 0),
        ("user", "So?", 1),
        ("assistant", "42", 1),
    ]
    turns = [{"role": role, "content": text, "weight": weight} for role, text, weight in talk]
    ids, labels = encode(chat, spec, TrainItem("a", {"messages": [{"role": "user", "content": "Is it?"}]}, turns))
    said = [{"role": turn["role"], "content": turn["content"]} for turn in turns]
    whole_talk = chat.prompt_ids([{"role": "user", "content": "Is it?"}, *said, {"role": "user", "content": "x"}], [])
    assert ids == whole_talk[: len(ids)]
    learnt = chat.tokenizer.decode([label for label in labels if label != IGNORED])
    end = chat.tokenizer.decode([ids[-1]])
    assert learnt == f"Yes.{end}42{end}"
