"""Makes scored tries without a model."""

from graders.types import Grade
from jobs.backends.trl.scoring import Scored
from jobs.backends.trl.tries import Outcome, Tokens, Try
from jobs.rollouts.engine.types import StepRecord, ToolCallRecord, Trajectory


def scored(key="a", reward=1.0, *, calls=("lookup",), sizes=(5, 2), sub_rewards=None, errors=None, stop="answered"):
    """A try with one step per call and an answer; `sizes` are the tokens of its turns."""
    steps = [
        StepRecord(index=n, tool_calls=[ToolCallRecord(f"call_{n}", name, "{}", "12")], output_tokens=size)
        for n, (name, size) in enumerate(zip(calls, sizes, strict=False))
    ]
    steps.append(StepRecord(index=len(steps), text="12", output_tokens=sizes[-1]))
    tokens = Tokens(prompt=[1, 2])
    for size in sizes:
        tokens.add([7] * size, logprobs=[-0.1] * size)
    trajectory = Trajectory(steps=steps, stop_reason=stop, answer="12")
    grade = Grade(reward, sub_rewards or {}, errors or {}, milliseconds=2.0)
    return Scored(Outcome(Try(key, {}, 0, "trace", "1"), trajectory, tokens), grade)
