"""Generation by vLLM inside TRL: the same asks, answered by TRL's vLLM client or its colocated engine.

Not run on hardware without a GPU: see docs/training.md for what was checked. vLLM draws its own chance, so such a run
does not repeat bit by bit, and it reports no entropies. One training process only: the rounds of several processes
differ in number, and TRL's generation call waits for all of them.
"""

from collections.abc import Callable, Sequence
from typing import Any

from jobs.rollouts.policies.generation import Ask, Generation, Stopped
from jobs.rollouts.policies.hf_chat import HfChat


class VllmChat(HfChat):
    """Renders and reads as `HfChat`; only the tokens come from elsewhere."""

    def __init__(self, model: Any, tokenizer: Any, *, generation: Any) -> None:
        super().__init__(model, tokenizer)
        self.generation = generation

    def generate(self, asks: Sequence[Ask], *, should_stop: Callable[[], bool] = bool) -> list[Generation]:
        if should_stop():
            raise Stopped
        prompts = [ask.prompt for ask in asks]
        _, completions, logprobs, _ = self.generation.generate(prompts=prompts, images=None, num_generations=1)
        return [
            self._cut(ask, list(ids), [position[0] for position in logs])
            for ask, ids, logs in zip(asks, completions, logprobs, strict=True)
        ]

    def _cut(self, ask: Ask, ids: list[int], logprobs: list[float]) -> Generation:
        """vLLM knows one limit for all; each ask has its own."""
        ids, logprobs = ids[: ask.max_tokens], [0.0 if value is None else value for value in logprobs[: ask.max_tokens]]
        has_ended = bool(ids) and ids[-1] in self.eos_ids
        return Generation(ids, logprobs, [], "stop" if has_ended else "length")
