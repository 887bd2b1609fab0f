"""Real training on the example, small: what the journal says, and that pauses and crashes change nothing."""

import json
import shutil
from pathlib import Path

import pytest

from tests.jobs.backends.trl import runs, warm

pytestmark = pytest.mark.training


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing disturbed."""
    run = runs.make_run(tmp_path_factory.mktemp("whole") / "run")
    assert runs.train(run) == 0, (run / "trainer.log").read_text()[-3000:]
    return run


def test_journal_tells_the_whole_run(whole):
    events = runs.events(whole)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["type"] == "started"
    assert (events[0]["attempt"], events[0]["from_step"], events[0]["total_steps"]) == (1, 0, 4)
    assert [event["step"] for event in runs.of_type(whole, "step")] == [1, 2, 3, 4]
    assert [event["step"] for event in runs.of_type(whole, "checkpoint")] == [2, 4]
    closing = events[-1]
    assert (closing["type"], closing["status"], closing["error"]) == ("finished", "succeeded", None)
    assert closing["best_step"] in {2, 4}


def test_finished_counts_the_rollouts_of_the_journal(whole):
    closing = runs.events(whole)[-1]
    assert closing["rollouts"] == len(runs.lineage(whole)) == 4 * 2 * 4
    assert closing["train_steps"] == 4


def test_rollouts_bear_grades_steps_and_advantages(whole):
    records = list(runs.lineage(whole).values())
    assert all(record["trajectory"]["stop_reason"] for record in records)
    assert all(record["grade"]["sub_rewards"].keys() == {"answer", "evidence", "economy"} for record in records)
    assert len({record["trace_id"] for record in records}) == len(records)
    called = [call for record in records for step in record["trajectory"]["steps"] for call in step["tool_calls"]]
    assert any(call["result"] for call in called)
    for step in records[0]["trajectory"]["steps"]:
        assert step["logprob_sum"] <= 0
        assert step["entropy_mean"] >= 0
    by_group: dict = {}
    for (number, item, _), record in runs.lineage(whole).items():
        by_group.setdefault((number, item), []).append(record)
    for group in by_group.values():
        assert abs(sum(record["advantage"] for record in group)) < 1e-3


def test_step_metrics_bear_the_keys_of_the_wire(whole):
    first, second = (event["metrics"] for event in runs.of_type(whole, "step")[:2])
    assert {"train_mean_reward", "completion_tokens_mean", "mean_unresponsive_rewards", "scores", "errors"} <= set(
        first
    )
    assert {"loss", "entropy", "grad_norm", "learning_rate", "tools", "zero_variance_share"} <= set(first)
    assert "full_valid_mean_reward" not in first
    assert second["full_valid_mean_reward"] == second["scores"]["valid_reward_mean"]
    assert {row["name"] for row in second["scores"]["graders"]} == {"answer", "evidence", "economy"}
    rewards = [record["grade"]["reward"] for (step, _, _), record in runs.lineage(whole).items() if step == 1]
    assert first["train_mean_reward"] == pytest.approx(sum(rewards) / len(rewards))


def test_validation_rollouts_are_told_apart(whole):
    told = [event for event in runs.of_type(whole, "rollout") if event["phase"] == "validation"]
    assert [event["step"] for event in told] == [2] * 3 + [4] * 3


def test_checkpoint_folder_can_be_read_by_others_and_holds_template(whole):
    folder = whole / "checkpoints" / "checkpoint-4"
    assert (folder / "model.safetensors").stat().st_mode & 0o044 == 0o044
    assert json.loads((folder / "tokenizer_config.json").read_text())["response_template"]
    assert (folder / "chat_template.jinja").is_file()


def test_killed_run_goes_on_as_if_nothing_had_happened(whole, tmp_path):
    run = runs.make_run(tmp_path / "run")
    process = runs.start(run)
    runs.wait_for(run, process, "checkpoint", 2)
    runs.wait_for(run, process, "rollout", 3)
    runs.kill(process)
    with (run / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"seq":99999,"type":"roll')  # a crash leaves half a line
    half = run / "checkpoints" / "checkpoint-3"
    shutil.rmtree(half, ignore_errors=True)
    shutil.copytree(run / "checkpoints" / "checkpoint-2", half, ignore=shutil.ignore_patterns("studio-complete.json"))

    assert runs.train(run) == 0

    started = runs.of_type(run, "started")
    assert [(event["attempt"], event["from_step"]) for event in started] == [(1, 0), (2, 2)]
    sequence = [event["seq"] for event in runs.events(run)]
    assert sequence == list(range(1, len(sequence) + 1))
    assert runs.last_digest(run) == runs.last_digest(whole)
    assert list(map(runs.essence, runs.lineage(run).values())) == list(map(runs.essence, runs.lineage(whole).values()))
    assert runs.events(run)[-1]["rollouts"] == len(runs.lineage(run)) == 32


def test_paused_run_goes_on_with_the_same_weights(whole, tmp_path):
    run = runs.make_run(tmp_path / "run")
    process = warm.start(run)
    runs.wait_for(run, process, "step", 1)
    (run / "control").write_text("pause")
    assert process.wait(timeout=60) == 0
    pause = runs.events(run)[-1]
    assert (pause["status"], pause["reason"]) == ("paused", "control")
    assert pause["rollouts"] == pause["train_steps"] * 8
    (run / "control").write_text("")

    assert warm.train(run) == 0

    assert runs.of_type(run, "started")[1]["from_step"] == pause["train_steps"]
    assert runs.last_digest(run) == runs.last_digest(whole)
    assert runs.events(run)[-1]["rollouts"] == 32


def test_paused_adapter_with_credited_steps_goes_on_with_the_same_weights(tmp_path):
    """The wish comes while the second step tries its items; its checkpoint lies between two checks on validation."""
    plan = {"max_steps": 4, "eval_interval": 3, "lora": {"r": 4, "dropout": 0.1}, "credit": "prefix_value"}
    whole = runs.make_run(tmp_path / "whole" / "run", **plan)
    assert warm.train(whole) == 0, (whole / "trainer.log").read_text()[-3000:]
    run = runs.make_run(tmp_path / "paused" / "run", **plan)
    process = warm.start(run)
    runs.wait_for(run, process, "step", 1)
    (run / "control").write_text("pause")
    assert process.wait(timeout=120) == 0
    pause = runs.events(run)[-1]
    assert (pause["status"], pause["train_steps"]) == ("paused", 2)
    (run / "control").write_text("")
    assert warm.train(run) == 0, (run / "trainer.log").read_text()[-3000:]
    assert runs.last_digest(run) == runs.last_digest(whole)
    assert list(map(runs.essence, runs.lineage(run).values())) == list(map(runs.essence, runs.lineage(whole).values()))
    first = runs.of_type(whole, "checkpoint")[0]
    assert (Path(first["path"]) / "adapter_model.safetensors").is_file()
    assert first["digest"] != runs.last_digest(whole), "it was trained"


def test_cancelled_run_keeps_what_was_complete_and_stays_cancelled(tmp_path):
    run = runs.make_run(tmp_path / "run", max_steps=500, batch_size=8, group_size=8)
    process = warm.start(run)
    runs.wait_for(run, process, "step", 1)
    (run / "control").write_text("cancel")
    assert process.wait(timeout=60) == 0
    closing = runs.events(run)[-1]
    assert closing["status"] == "cancelled"
    assert closing["rollouts"] == len(runs.lineage(run)) == closing["train_steps"] * 64
    assert runs.train(run) == 0
    assert runs.events(run)[-1] == closing


def test_adapter_is_trained_published_and_trained_further(tmp_path):
    """A LoRA checkpoint is a model like any other: a server loads it merged, and a job may start from it."""
    from jobs.backends.base import Run
    from jobs.backends.trl.backend import TrlBackend
    from jobs.rollouts.policies.hf_chat import load_chat, load_network

    small = {"max_steps": 1, "eval_interval": 1, "max_eval_items": 1}
    first = runs.make_run(tmp_path / "first", lora={"r": 4}, **small)
    assert warm.train(first) == 0, (first / "trainer.log").read_text()[-3000:]
    kept = runs.of_type(first, "checkpoint")[-1]["path"]
    published = TrlBackend().export(Run("first", run_dir=str(first)), kept, tmp_path / "published")
    assert (published / "adapter_config.json").is_file()
    assert not (published / "config.json").exists()
    assert TrlBackend().validate({"base_model": str(published)}) == []
    names = [name for name, _ in load_chat(published).model.named_parameters()]
    assert not any("lora" in name for name in names), "merged"

    assert adapter_of(load_network(published)).base_model_name_or_path == str(published), (
        "what is trained on it rests on it"
    )

    second = runs.make_run(tmp_path / "second", **small, beta=0.1)
    spec = json.loads((second / "spec.json").read_text())
    (second / "spec.json").write_text(json.dumps({**spec, "base_model": str(published)}))
    assert warm.train(second) == 0, (second / "trainer.log").read_text()[-3000:]
    whole = Path(runs.of_type(second, "checkpoint")[-1]["path"])
    assert (whole / "model.safetensors").is_file()
    assert runs.of_type(second, "step")[0]["metrics"]["kl"] == 0, "the reference is what it starts from"


def adapter_of(network):
    """How a new adapter on these weights would be written down."""
    from peft import LoraConfig, get_peft_model

    return get_peft_model(network, LoraConfig(r=2, target_modules="all-linear")).peft_config["default"]


def test_run_whose_supervisor_is_gone_pauses(tmp_path):
    run = runs.make_run(tmp_path / "run", max_steps=500)
    process = runs.start(run, STUDIO_SUPERVISOR_PID="1", STUDIO_SUPERVISOR_TICKS="not-those-of-pid-1")
    assert process.wait(timeout=120) == 0
    closing = runs.events(run)[-1]
    assert (closing["status"], closing["reason"]) == ("paused", "supervisor_gone")


def test_run_without_items_fails_in_plain_words(tmp_path):
    run = runs.make_run(tmp_path / "run")
    (run / "train.jsonl").write_text("")
    assert runs.train(run) == 1
    assert runs.events(run)[-1]["error"] == {
        "code": "invalid_training_file",
        "message": "train.jsonl holds no items.",
        "param": "training_file",
    }
