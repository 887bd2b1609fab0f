"""What an update does, against a computation by hand: advantages within groups, ungraded tries, figures of the optimiser."""

import json
import statistics
from pathlib import Path

import pytest

from tests.jobs.backends.trl import runs, warm

pytestmark = pytest.mark.training
TEMPERATURE, BETA, GROUP = 1.4, 0.3, 6
#: About half of the answers gets no number, the others one of five.
SOURCE = """
def grade(sample, item):
    told = sum(map(ord, sample["output_text"]))
    return float("nan") if told % 2 == 0 else (told % 5) / 4
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    plan = {"max_steps": 2, "eval_interval": 1, "max_eval_items": 1, "temperature": TEMPERATURE}
    plan |= {"beta": BETA, "group_size": GROUP}
    found = runs.make_run(tmp_path_factory.mktemp("update") / "run", **plan)
    spec = json.loads((found / "spec.json").read_text())
    spec["grader"] = {"type": "python", "name": "odd", "source": SOURCE}
    (found / "spec.json").write_text(json.dumps(spec))
    assert warm.train(found, listen=True) == 0, (found / "trainer.log").read_text()[-3000:]
    return found


def records(run: Path, step: int) -> list[dict]:
    told = runs.of_type(run, "rollout")
    return [event["record"] for event in told if (event["phase"], event["step"]) == ("train", step)]


def by_hand(rewards: list[float | None], size: int) -> list[float]:
    """GRPO's advantages: reward less the group's mean, by its deviation, over the graded tries; 0 for the others."""
    found: list[float] = []
    for start in range(0, len(rewards), size):
        group = rewards[start : start + size]
        graded = [reward for reward in group if reward is not None]
        mean = statistics.fmean(graded) if graded else 0.0
        deviation = statistics.stdev(graded) if len(graded) > 1 else 0.0
        found += [0.0 if reward is None else (reward - mean) / (deviation + 1e-4) for reward in group]
    return found


def test_ungraded_tries_are_in_no_mean_and_no_deviation(run):
    seen = set()
    for step in (1, 2):
        told = records(run, step)
        rewards = [record["grade"]["reward"] for record in told]
        seen |= {reward is None for reward in rewards}
        expected = by_hand(rewards, GROUP)
        assert [record["advantage"] or 0.0 for record in told] == pytest.approx(expected, abs=1e-4)
        assert [record["advantage"] is None for record in told] == [reward is None for reward in rewards]
    assert seen == {True, False}, "some were graded and some were not"


class ByHand:
    """One update, computed anew from the rows that TRL had and the rewards that the journal tells."""

    def __init__(self, run: Path, step: int, weights: Path) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        rows = json.loads((run / "batches.jsonl").read_text().splitlines()[step - 1])
        told = records(run, step)
        advantages = by_hand([record["grade"]["reward"] for record in told], GROUP)
        model = AutoModelForCausalLM.from_pretrained(weights)
        base = AutoModelForCausalLM.from_pretrained(runs.BASE_MODEL)
        loss, count, kl, entropy = 0.0, 0, 0.0, 0.0
        self.logprob_sums: list[float] = []
        for place, advantage in enumerate(advantages):
            prompt = kept(rows["prompt_ids"][place], rows["prompt_mask"][place])
            completion = kept(rows["completion_ids"][place], rows["completion_mask"][place])
            wrote = torch.tensor(kept(rows["tool_mask"][place], rows["completion_mask"][place]), dtype=torch.bool)
            new, spread = logprobs(model, prompt, completion)
            with torch.no_grad():
                old, _ = logprobs(base, prompt, completion)
            self.logprob_sums.append(float(new[wrote].detach().sum()))
            if told[place]["grade"]["reward"] is None:
                assert not wrote.any(), "no token of an ungraded try is trained on"
                continue
            apart = torch.exp(old - new) - (old - new) - 1
            ratio = torch.exp(new - new.detach())  # 1; TRL weighs the divergence with it too, as DeepSeek-V3.2 does
            gain = ratio * advantage - BETA * ratio * apart
            loss = loss - gain[wrote].sum()
            count += int(wrote.sum())
            kl += float(apart[wrote].detach().sum())
            entropy += float(spread[wrote].detach().sum())
        (loss / count).backward()
        self.kl, self.entropy = kl / count, entropy / count
        self.grad_norm = float(torch.cat([one.grad.flatten() for one in model.parameters()]).norm())


def kept(values: list[int], mask: list[int]) -> list[int]:
    return [value for value, keep in zip(values, mask, strict=True) if keep]


def logprobs(model, prompt: list[int], completion: list[int]):
    """The log-probability of each token of the completion, and the entropy it was drawn under."""
    import torch

    logits = model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1] / TEMPERATURE
    told = torch.log_softmax(logits, dim=-1)
    return told.gather(1, torch.tensor(completion)[:, None])[:, 0], -(told.exp() * told).sum(-1)


@pytest.mark.parametrize("step", [1, 2])
def test_gradient_entropy_and_divergence_are_those_computed_by_hand(run, step):
    weights = runs.BASE_MODEL if step == 1 else run / "checkpoints/checkpoint-1"
    found = ByHand(run, step, weights)
    told = runs.of_type(run, "step")[step - 1]["metrics"]
    assert told["grad_norm"] == pytest.approx(found.grad_norm, rel=2e-3)
    assert told["entropy"] == pytest.approx(found.entropy, rel=1e-3)
    assert told["kl"] == pytest.approx(found.kl, rel=1e-2, abs=1e-7)
    assert (told["kl"] > 0) == (step == 2), "the policy has moved away from its base"
    for record, summed in zip(records(run, step), found.logprob_sums, strict=True):
        if record["grade"]["reward"] is not None:
            steps = record["trajectory"]["steps"]
            assert sum(turn["logprob_sum"] for turn in steps) == pytest.approx(summed, rel=1e-3, abs=1e-3)
