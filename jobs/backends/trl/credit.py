"""Credit in training: a rollout's advantage shared among its steps by an attribution method.

`uniform` is what group-relative training does anyway and costs nothing. Other methods give each step a credit; the
credits of a rollout sum to its reward less its baseline, so the token-weighted mean of what comes out here stays the
rollout's own advantage, and only its distribution over the steps changes.
"""

from collections import defaultdict
from typing import Any

from jobs.attribution.types import CreditRollout, CreditStep
from jobs.backends.trl.scoring import Scored

DEFAULT_CLIP = 5.0


def credit_rollout(place: int, one: Scored) -> CreditRollout:
    """A scored try as an attribution method sees it."""
    steps = []
    for step in one.outcome.trajectory.steps:
        calls = step.tool_calls
        steps.append(
            CreditStep(
                kind="tool" if calls else "answer",
                name="+".join(call.name for call in calls),
                arguments="\n".join(call.arguments for call in calls) if calls else step.text,
                result="\n".join(call.result for call in calls),
                tokens=max(1, step.output_tokens),
                is_error=any(call.is_error for call in calls),
                step_reward=step.step_reward,
            )
        )
    return CreditRollout(rollout=str(place), group=one.outcome.trial.key, reward=one.reward, steps=steps)


def step_advantages(scored: list[Scored], credits: list[Any], *, clip: float = DEFAULT_CLIP) -> list[list[float]]:
    """For each try the advantage of each of its steps, in the order of its tokens' turns.

    A group's scale (its deviation, if the run divides by it) is read off the advantages that TRL computed, so that
    `uniform` credits give back exactly those.
    """
    by_place = {int(credit.rollout): credit for credit in credits}
    scales = _group_scales(scored, by_place)
    shares = []
    for place, one in enumerate(scored):
        turns = one.outcome.tokens.turns
        credit = by_place.get(place)
        if credit is None or one.reward is None or len(credit.credits) != len(turns):
            shares.append([one.advantage or 0.0] * len(turns))
            continue
        sizes = [end - start for start, end in turns]
        total, scale = sum(sizes), scales[one.outcome.trial.key]
        values = [scale * share * total / max(1, size) for share, size in zip(credit.credits, sizes, strict=True)]
        shares.append([min(clip, max(-clip, value)) for value in values])
    return shares


def _group_scales(scored: list[Scored], credits: dict[int, Any]) -> dict[str, float]:
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
