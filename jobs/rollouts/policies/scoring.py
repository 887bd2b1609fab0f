"""How likely a model finds a given text after each of some conversations. For the process that holds the model."""

from collections.abc import Sequence

import torch

from jobs.rollouts.policies.hf_chat import HfChat

#: Tokens looked at in one forward pass, over all its rows.
BATCH_TOKENS = 16_384


@torch.no_grad()
def mean_logprobs(chat: HfChat, prompts: Sequence[list[int]], answer: list[int]) -> list[float | None]:
    """Mean log-probability per token of `answer` after each prompt, in nats; None where both do not fit."""
    found: list[float | None] = [None] * len(prompts)
    fitting = [n for n, prompt in enumerate(prompts) if prompt and len(prompt) + len(answer) <= chat.context]
    fitting.sort(key=lambda n: len(prompts[n]))
    while fitting:
        longest = len(answer) + len(prompts[fitting[-1]])
        part = fitting[-max(1, BATCH_TOKENS // longest) :]
        del fitting[-len(part) :]
        for n, value in zip(part, _one_pass(chat, [prompts[n] for n in part], answer), strict=True):
            found[n] = value
    return found


def _one_pass(chat: HfChat, prompts: list[list[int]], answer: list[int]) -> list[float]:
    """Padded on the left, so that the answer's tokens stand in the same columns."""
    longest = max(len(prompt) for prompt in prompts)
    pad, device = chat.tokenizer.pad_token_id, chat.model.device
    ids = torch.tensor([[pad] * (longest - len(prompt)) + prompt + answer for prompt in prompts], device=device)
    mask = torch.tensor(
        [[0] * (longest - len(prompt)) + [1] * (len(prompt) + len(answer)) for prompt in prompts], device=device
    )
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    keep = len(answer) + 1
    logits = chat.model(input_ids=ids, attention_mask=mask, position_ids=positions, logits_to_keep=keep).logits
    logprobs = torch.log_softmax(logits[:, -keep:-1].float(), dim=-1)
    taken = logprobs.gather(-1, ids[:, -len(answer) :, None]).squeeze(-1)
    return taken.mean(-1).tolist()
