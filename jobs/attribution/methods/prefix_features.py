"""What a small model may know about a rollout after its first t steps. Numbers in, numbers out; no names.

Tool names enter only as one-hot columns ordered by how often they occur, so renaming every tool changes nothing.
Nothing here looks at the rollout's own reward; siblings' rewards enter leave-one-out and only through what the
siblings have in common with the prefix.
"""

import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from jobs.attribution.methods.base import Group, RunningSet, action_key, outcome_key, result_key
from jobs.attribution.types import CreditStep

MAX_NAMES = 14
MAX_WORDS = 24
_WORD = re.compile(r"[^\W_]{2,20}")


@dataclass
class _Seen:
    """One step, its keys worked out once."""

    name: str
    is_answer: bool
    is_error: bool
    action: str
    outcome: str
    result: str
    words: frozenset[str]
    given: frozenset[str]  # words of the arguments
    tokens: int
    size: int


@dataclass
class Vocabulary:
    """Tool names and result words that several groups share, most frequent first."""

    names: dict[str, int]
    words: dict[str, int]

    @property
    def width(self) -> int:
        return len(self.names)


@dataclass
class Rows:
    """Feature rows of all prefixes: T + 1 for a rollout of T steps."""

    x: np.ndarray
    reward: np.ndarray  # the rollout's reward
    baseline: np.ndarray  # its leave-one-out mean
    weight: np.ndarray  # 1 / (T + 1): every rollout counts once
    group: np.ndarray  # index of the group
    starts: list[list[int]]  # per group, per rollout: index of its first row


def feature_rows(groups: list[Group]) -> Rows:
    """All prefixes of all rollouts of all groups."""
    seen = [[[_see(step) for step in rollout.steps] for rollout in group.rollouts] for group in groups]
    vocabulary = _vocabulary(seen)
    rows: list[list[float]] = []
    reward: list[float] = []
    baseline: list[float] = []
    weight: list[float] = []
    owner: list[int] = []
    starts: list[list[int]] = []
    for number, (group, steps) in enumerate(zip(groups, seen, strict=True)):
        view = _GroupView(group, steps)
        starts.append([])
        for place, rollout in enumerate(group.rollouts):
            starts[-1].append(len(rows))
            count = len(rollout.steps) + 1
            rows += _prefix_rows(view, place, vocabulary)
            reward += [float(rollout.reward)] * count
            baseline += [view.baselines[place]] * count
            weight += [1 / count] * count
            owner += [number] * count
    return Rows(
        np.array(rows), np.array(reward), np.array(baseline), np.array(weight), np.array(owner, dtype=int), starts
    )


def _see(step: CreditStep) -> _Seen:
    text = step.result if step.kind != "answer" else step.arguments + " " + step.result
    return _Seen(
        name=step.name,
        is_answer=step.kind == "answer",
        is_error=step.is_error,
        action=action_key(step),
        outcome=outcome_key(step),
        result=result_key(step),
        words=frozenset(_WORD.findall(text[:4000].lower())),
        given=frozenset(
            _WORD.findall((step.arguments + (step.result if step.kind == "answer" else ""))[:2000].lower())
        ),
        tokens=max(1, step.tokens),
        size=len(text),
    )


def _vocabulary(seen: list[list[list[_Seen]]]) -> Vocabulary:
    names: Counter[str] = Counter()
    words: Counter[str] = Counter()
    first: dict[str, int] = {}
    for group in seen:
        used = {word for steps in group for step in steps for word in step.words}
        words.update(used)
        for steps in group:
            for step in steps:
                if not step.is_answer:
                    names[step.name] += 1
                    first.setdefault(step.name, len(first))
    least = max(2, len(seen) // 10)
    common = sorted((word for word, count in words.items() if least <= count), key=lambda word: (-words[word], word))
    ordered = sorted(names, key=lambda name: (-names[name], first[name]))
    return Vocabulary(
        {name: index for index, name in enumerate(ordered[:MAX_NAMES])},
        {word: index for index, word in enumerate(common[:MAX_WORDS])},
    )


class _GroupView:
    """Who among the siblings did what, for leave-one-out questions."""

    def __init__(self, group: Group, steps: list[list[_Seen]]) -> None:
        self.steps = steps
        self.rewards = group.rewards
        self.baselines = [group.baseline(place) for place in range(len(steps))]
        self.total = math.fsum(self.rewards)
        self.square = math.fsum(reward * reward for reward in self.rewards)
        self.doers: dict[str, set[int]] = defaultdict(set)
        for place, taken in enumerate(steps):
            state, known = RunningSet(), RunningSet()
            for step in taken:
                state.add(step.outcome)
                if not step.is_error:
                    known.add(step.result)
                for key in ("a" + step.action, "o" + step.outcome, "r" + step.result):
                    self.doers[key].add(place)
                self.doers["s" + state.key].add(place)
                self.doers["k" + known.key].add(place)

    def lean(self, key: str, place: int, prior: float = 1.0) -> tuple[float, float]:
        """How far siblings who did this stand from the baseline, drawn to zero; and their share."""
        others = self.doers.get(key, set()) - {place}
        if not others:
            return 0.0, 0.0
        mean = sum(self.rewards[other] for other in sorted(others))
        baseline = self.baselines[place]
        return (mean - len(others) * baseline) / (len(others) + prior), len(others) / (len(self.rewards) - 1)


def _prefix_rows(view: _GroupView, place: int, vocabulary: Vocabulary) -> list[list[float]]:
    """Rows 0 … T of one rollout, built up step by step."""
    width, n_words = vocabulary.width, len(vocabulary.words)
    others = len(view.rewards) - 1
    own = view.rewards[place]
    baseline = view.baselines[place]
    variance = max(0.0, (view.square - own * own) / others - baseline**2)
    fixed = [baseline, math.sqrt(variance), baseline * (1 - baseline)]
    used = [0.0] * width
    counts = [0.0] * width
    last = [0.0] * (width + 1)
    pair = [0.0] * (width * width)
    words = [0.0] * n_words
    lean = [0.0] * 14
    errors = repeats = empty = 0
    learned: set[str] = set()
    actions: set[str] = set()
    results: set[str] = set()
    state, known = RunningSet(), RunningSet()
    sum_action = sum_outcome = lowest = highest = 0.0
    grounded = 0.0
    rows = [fixed + [0.0] * 14 + used + counts + last + pair + words + lean]
    for index, step in enumerate(view.steps[place]):
        number = vocabulary.names.get(step.name) if not step.is_answer else None
        before = [slot for slot in range(width) if used[slot]]
        last = [0.0] * (width + 1)
        pair = [0.0] * (width * width)
        if step.is_answer:
            last[width] = 1.0
        elif number is not None:
            last[number] = 1.0
            for slot in before:
                pair[slot * width + number] = 1.0
            used[number] = 1.0
            counts[number] = math.log1p(math.expm1(counts[number]) + 1)
        fresh = step.given - learned
        grounded = 1 - len(fresh) / len(step.given) if step.given else 0.0
        is_repeat = step.action in actions
        errors += step.is_error
        repeats += is_repeat
        empty += not step.words
        words = [0.0] * n_words
        for word in step.words:
            if word in vocabulary.words:
                words[vocabulary.words[word]] = 1.0
        learned |= step.words
        actions.add(step.action)
        results.add(step.result)
        state.add(step.outcome)
        if not step.is_error:
            known.add(step.result)
        by_action, share_action = view.lean("a" + step.action, place)
        by_outcome, share_outcome = view.lean("o" + step.outcome, place)
        by_result, _ = view.lean("r" + step.result, place)
        by_state, share_state = view.lean("s" + state.key, place)
        by_known, share_known = view.lean("k" + known.key, place)
        sum_action += by_action
        sum_outcome += by_outcome
        lowest, highest = min(lowest, by_outcome), max(highest, by_outcome)
        lean = [
            by_action, share_action, by_outcome, share_outcome, by_result, by_state, share_state, by_known,
            share_known, sum_action, sum_outcome, lowest, highest, float(share_outcome == 0),
        ]  # fmt: skip
        own_part = [
            1.0, math.log1p(index + 1), float(index == 0), float(index == 1), float(step.is_answer),
            float(step.is_error), math.log1p(errors), float(is_repeat), math.log1p(repeats), float(empty > 0),
            grounded, math.log1p(step.size) / 8, math.log1p(step.tokens) / 8, math.log1p(len(results)),
        ]  # fmt: skip
        rows.append(fixed + own_part + used + counts + last + pair + words + lean)
    return rows
