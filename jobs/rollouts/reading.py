"""One rollout as it is read: its siblings, its facts, its steps as cards. Reads only, no credit."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.rollouts.models import Rollout, Step
from jobs.rollouts.sentences import Sentence, ToolWords, step_sentence
from jobs.rollouts.weights import weights_of
from rftstudio.core.errors import NotFound
from rftstudio.teams.models import Team

#: Results longer than this arrive when they are asked for.
LAZY_BYTES = 64_000
#: What of a long result is shown before that.
PREVIEW = 1_200
#: Steps on one page.
WINDOW = 200


@dataclass
class CallView:
    """One tool call of a step, ready to show."""

    number: int
    name: str
    arguments: str
    result: str  # a preview when `is_long`
    size: int
    is_long: bool
    is_error: bool
    milliseconds: float | None
    notes: list[str]
    sentence: Sentence


@dataclass
class StepView:
    """One step card."""

    index: int
    sentence: Sentence
    meta: str
    error: str
    text: str
    reasoning: str
    calls: list[CallView]
    step_reward: float | None
    is_answer: bool
    tokens: int

    reply: str = ""  # what the user or the system said after it

    @property
    def number(self) -> int:
        return self.index + 1


@dataclass
class SubReward:
    """A named part of the reward and, in a weighted sum, what it adds."""

    name: str
    value: float | None
    weight: float | None = None

    @property
    def adds(self) -> float | None:
        return None if self.value is None or self.weight is None else self.value * self.weight


@dataclass
class Siblings:
    """The rollouts of the same item in the same batch, in the order of their tries."""

    me: Rollout
    everyone: list[Rollout]

    @property
    def others(self) -> list[Rollout]:
        return [rollout for rollout in self.everyone if rollout.pk != self.me.pk]

    @property
    def graded(self) -> list[Rollout]:
        return [rollout for rollout in self.others if rollout.reward is not None]

    @property
    def baseline(self) -> float | None:
        """Mean reward of the graded others."""
        return math.fsum(r.reward for r in self.graded) / len(self.graded) if self.graded else None

    @property
    def place(self) -> int:
        """1-based place among the tries."""
        return next(index for index, r in enumerate(self.everyone, start=1) if r.pk == self.me.pk)

    @property
    def rank(self) -> int | None:
        """1 is the best of the graded ones."""
        if self.me.reward is None:
            return None
        return 1 + sum(1 for r in self.graded if r.reward is not None and r.reward > self.me.reward)

    def beside(self, by: int) -> Rollout | None:
        """The rollout `by` places further in the group."""
        index = self.place - 1 + by
        return self.everyone[index] if 0 <= index < len(self.everyone) else None


@dataclass
class Reading:
    """Everything about a rollout but its steps and its credit."""

    rollout: Rollout
    siblings: Siblings
    words: ToolWords
    sub_rewards: list[SubReward] = field(default_factory=list)
    low: float = 0.0  # the grader's range
    high: float = 1.0


def rollout_reading(*, team: Team, public_id: str) -> Reading:
    """A rollout of this team; NotFound for anything else."""
    rollout = (
        Rollout.objects.select_related("batch__agent_version", "batch__grader_version__grader", "batch__model", "item")
        .filter(team=team, public_id=public_id)
        .first()
    )
    if rollout is None:
        raise NotFound("There is nothing at this address.")
    batch = rollout.batch
    group = Rollout.objects.filter(batch=batch, group_key=rollout.group_key).order_by("sample_index")
    everyone = list(group.defer("extra", "grade", "answer", "error", "flags"))
    config = batch.grader_version.config if batch.grader_version else {}
    low, high = reward_range(config, [r.reward for r in everyone])
    weights = weights_of(config)
    return Reading(
        rollout=rollout,
        siblings=Siblings(rollout, everyone),
        words=ToolWords.of(batch.agent_version.tools if batch.agent_version else []),
        sub_rewards=[SubReward(name, value, weights.get(name)) for name, value in rollout.sub_rewards.items()],
        low=low,
        high=high,
    )


def prompt_of(rollout: Rollout) -> list[tuple[str, str]]:
    """What the policy was given: role and text of each message before the first step."""
    messages = rollout.item.data.get("messages") if rollout.item else rollout.extra.get("prompt")
    found = []
    for message in messages if isinstance(messages, list) else []:
        if isinstance(message, dict) and message.get("content"):
            content = message["content"]
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
            found.append((str(message.get("role") or "user"), text))
    return found


def reward_range(config: dict[str, Any], rewards: Sequence[float | None]) -> tuple[float, float]:
    """The grader's own range where it states one, else 0 to 1, widened to the rewards at hand."""
    low, high = 0.0, 1.0
    stated = config.get("range")
    if isinstance(stated, list | tuple) and len(stated) == 2 and all(isinstance(end, int | float) for end in stated):
        low, high = sorted(float(end) for end in stated)
    seen = [reward for reward in rewards if reward is not None]
    return min([low, *seen]), max([high, *seen]) if high > low or seen else low + 1


def steps_of(rollout: Rollout, *, start: int = 0, count: int = WINDOW) -> list[Step]:
    return list(rollout.steps.filter(index__gte=start).order_by("index")[:count])


def step_views(
    steps: Sequence[Step], words: ToolWords, *, last_index: int, replies: Mapping[str, str] | None = None
) -> list[StepView]:
    views = [_step_view(step, words, is_last=step.index == last_index) for step in steps]
    for view in views:
        view.reply = str((replies or {}).get(str(view.number), ""))
    return views


def _step_view(step: Step, words: ToolWords, *, is_last: bool) -> StepView:
    calls = [_call_view(number, call, words) for number, call in enumerate(step.tool_calls or [])]
    wrong = [call for call in calls if call.is_error]
    return StepView(
        index=step.index,
        sentence=step_sentence(step.text, step.tool_calls or [], words, is_last=is_last),
        meta=_size(step, calls),
        error=_first_line(wrong[0].result) or "The tool answered with an error" if wrong else "",
        text=step.text,
        reasoning=step.reasoning,
        calls=calls,
        step_reward=step.step_reward,
        is_answer=not calls and is_last,
        tokens=step.output_tokens,
    )


def _call_view(number: int, call: dict[str, Any], words: ToolWords) -> CallView:
    result = str(call.get("result", ""))
    size = int(call.get("result_bytes") or len(result))
    is_long = size > LAZY_BYTES
    return CallView(
        number=number,
        name=str(call.get("name", "")),
        arguments=str(call.get("arguments", "")),
        result=result[:PREVIEW] if is_long else result,
        size=size,
        is_long=is_long,
        is_error=bool(call.get("is_error")),
        milliseconds=call.get("milliseconds"),
        notes=[str(note) for note in call.get("notes") or []],
        sentence=call_sentence_of(call, words),
    )


def call_sentence_of(call: dict[str, Any], words: ToolWords) -> Sentence:
    return step_sentence("", [call], words, is_last=False)


def _size(step: Step, calls: list[CallView]) -> str:
    """How much came back, or how much was written."""
    if not calls:
        count = len(step.text.split())
        return f"{count:,} word{'' if count == 1 else 's'}"
    if any(call.is_long for call in calls):
        return f"{sum(call.size for call in calls) / 1000:,.0f} kB"
    count = sum(len(call.result.split()) for call in calls)
    return f"{count:,} word{'' if count == 1 else 's'}"


def _first_line(text: str) -> str:
    line = text.strip().splitlines()[0] if text.strip() else ""
    return line[:120] + "…" if len(line) > 120 else line


def result_text(*, team: Team, public_id: str, step: int, call: int) -> str:
    """The whole result of one tool call."""
    found = Step.objects.filter(rollout__team=team, rollout__public_id=public_id, index=step).first()
    calls = found.tool_calls if found else []
    if found is None or not 0 <= call < len(calls):
        raise NotFound("There is nothing at this address.")
    if "result_digest" in calls[call]:
        kept = found.large_results.filter(call=call).first()
        if kept is not None:
            return kept.text
    return str(calls[call].get("result", ""))
