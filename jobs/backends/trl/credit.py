"""Credit in training: a rollout's advantage shared among its steps by an attribution method.

`uniform` is what group-relative training does anyway and costs nothing. Other methods give each step a credit; the
credits of a rollout sum to its reward less its baseline, so the token-weighted mean of what comes out here stays the
rollout's own advantage, and only its distribution over the steps changes.
"""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from jobs.attribution.types import Credit, CreditRollout, CreditStep
from jobs.backends.trl.journal import events_read
from jobs.backends.trl.scoring import Scored
from jobs.rollouts.engine.types import Trajectory, trajectory_from_dict

DEFAULT_CLIP = 5.0
WINDOW_STEPS = 4


class CreditWindow:
    """The rollouts of the last few train steps, for methods that fit a model and need more than one step's worth.
    After a restart it is filled from the journal, so that a resumed run goes on as an undisturbed one would."""

    def __init__(self, attribute: Callable[[list[CreditRollout]], list[Credit]], *, steps: int = WINDOW_STEPS) -> None:
        self.attribute, self.size = attribute, steps
        self.steps: dict[int, list[CreditRollout]] = {}

    def fill(self, journal: Path, from_step: int) -> None:
        """Take in the steps before a restart, as the journal last told of them."""
        if not from_step or not journal.is_file():
            return
        found: dict[int, list[CreditRollout]] = {}
        for event in events_read(journal):
            if event["type"] == "started":
                found = {step: kept for step, kept in found.items() if step <= event["from_step"]}
            elif event["type"] == "rollout" and event["phase"] == "train":
                step, record = event["step"], event["record"]
                told = found.setdefault(step, [])
                trajectory = trajectory_from_dict(record["trajectory"])
                told.append(_as_credit(step, len(told), record["item_key"], trajectory, record["grade"]["reward"]))
        self.steps = {step: kept for step, kept in found.items() if from_step - self.size < step <= from_step}

    def credits(self, step: int, scored: list[Scored]) -> dict[int, Credit]:
        """The credits of this step's tries, by their place; those that a method cannot credit are missing."""
        self.steps[step] = [
            _as_credit(step, place, one.outcome.trial.key, one.outcome.trajectory, one.reward)
            for place, one in enumerate(scored)
        ]
        self.steps = {number: kept for number, kept in self.steps.items() if step - self.size < number}
        credits = self.attribute([rollout for number in sorted(self.steps) for rollout in self.steps[number]])
        split = ((credit.rollout.split(":"), credit) for credit in credits)
        return {int(place): credit for (number, place), credit in split if int(number) == step}


def _as_credit(step: int, place: int, key: str, trajectory: Trajectory, reward: float | None) -> CreditRollout:
    """A try as an attribution method sees it; its group is its item in its own train step."""
    steps = []
    for turn in trajectory.steps:
        calls = turn.tool_calls
        steps.append(
            CreditStep(
                kind="tool" if calls else "answer",
                name="+".join(call.name for call in calls),
                arguments="\n".join(call.arguments for call in calls) if calls else turn.text,
                result="\n".join(call.result for call in calls),
                tokens=max(1, turn.output_tokens),
                is_error=any(call.is_error for call in calls),
                step_reward=turn.step_reward,
            )
        )
    return CreditRollout(rollout=f"{step}:{place}", group=f"{step}:{key}", reward=reward, steps=steps)


def step_advantages(
    scored: list[Scored], credits: dict[int, Credit], *, clip: float = DEFAULT_CLIP
) -> list[list[float]]:
    """For each try the advantage of each of its steps, in the order of its tokens' turns.

    A group's scale (its deviation, if the run divides by it) is read off the advantages that TRL computed, so that
    `uniform` credits give back exactly those.
    """
    scales = _group_scales(scored, credits)
    shares = []
    for place, one in enumerate(scored):
        turns = one.outcome.tokens.turns
        credit = credits.get(place)
        if credit is None or one.reward is None or len(credit.credits) != len(turns):
            shares.append([one.advantage or 0.0] * len(turns))
            continue
        sizes = [end - start for start, end in turns]
        total, scale = sum(sizes), scales[one.outcome.trial.key]
        values = [scale * share * total / max(1, size) for share, size in zip(credit.credits, sizes, strict=True)]
        shares.append([min(clip, max(-clip, value)) for value in values])
    return shares


def _group_scales(scored: list[Scored], credits: dict[int, Credit]) -> dict[str, float]:
    """Advantage per unit of reward above the baseline, by group; 0 for a group without any signal."""
    ratios: dict[str, list[float]] = defaultdict(list)
    for place, one in enumerate(scored):
        credit = credits.get(place)
        if credit is None or one.reward is None or not one.advantage:
            continue
        above = one.reward - credit.baseline
        if abs(above) > 1e-9:
            ratios[one.outcome.trial.key].append(one.advantage / above)
    return defaultdict(float, {key: sum(values) / len(values) for key, values in ratios.items()})
