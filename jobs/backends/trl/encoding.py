"""A demonstration as the tokens that are learnt.

It is rendered exactly as a rollout is: the prompt, then each of the policy's turns up to its closing token, then what
the tools or the user answered. Only the policy's own tokens are learnt, and none of a turn whose `weight` is 0.
"""

from itertools import takewhile

from jobs.agents.tools.spec import ToolSpec
from jobs.agents.tools.toolset import Toolset
from jobs.agents.tools.types import limits_from
from jobs.backends.trl.spec import Spec, SpecError, TrainItem
from jobs.rollouts.engine.messages import opening_messages
from jobs.rollouts.policies.hf_chat import HfChat

IGNORED = -100


def encode(chat: HfChat, spec: Spec, row: TrainItem) -> tuple[list[int], list[int]]:
    """The conversation as a rollout's tokens; labels are those of the policy's turns, `IGNORED` elsewhere."""
    specs = [ToolSpec.from_dict(tool) for tool in spec.tools]
    tools = Toolset(specs, item=row.item, trace_id="", limits=limits_from(spec.limits)).schemas()
    messages = opening_messages(row.item, spec.system_prompt)
    ids = chat.prompt_ids(messages, tools)
    labels = [IGNORED] * len(ids)
    turns = list(row.turns)
    if not turns or turns[0].get("role") != "assistant":
        raise SpecError(f"Item {row.key} has no turn of the assistant to learn from.", param="training_file")
    while turns:
        wrote = chat.reply_ids(messages, turns[0], tools)
        ids, labels = ids + wrote, labels + (wrote if turns[0].get("weight", 1) else [IGNORED] * len(wrote))
        answers = list(takewhile(lambda turn: turn.get("role") != "assistant", turns[1:]))
        messages, turns = [*messages, turns[0], *answers], turns[1 + len(answers) :]
        if turns:
            new = chat.continuation_ids(answers)
            ids, labels = ids + new, labels + [IGNORED] * len(new)
    if len(ids) > chat.context:
        raise SpecError(
            f"Item {row.key} has {len(ids)} tokens with its demonstration; {chat.context} fit the model.",
            param="training_file",
        )
    return ids, labels
