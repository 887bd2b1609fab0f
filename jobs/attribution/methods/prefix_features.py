"""What a small model may know about a rollout after its first t steps. Numbers in, numbers out; no names.

Tool names enter only as one-hot columns ordered by how often they occur, so renaming every tool changes nothing.
Nothing here looks at the rollout's own reward; siblings' rewards enter only through values of the prefix that were
worked out without it (`effects`), and through the leave-one-out mean.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jobs.attribution.methods import anchor_state, divergence
from jobs.attribution.methods.base import Group, action_key, outcome_key, result_key
from jobs.attribution.methods.effects import Walk, choose_sizes, incidence, walks
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
    guides = [_guides(groups, keys) for keys in (divergence.keys, anchor_state.keys)]
    rows: list[list[float]] = []
    reward: list[float] = []
    baseline: list[float] = []
    weight: list[float] = []
    owner: list[int] = []
    starts: list[list[int]] = []
    for number, (group, steps) in enumerate(zip(groups, seen, strict=True)):
        view = _GroupView(group, steps, [guide[number] for guide in guides])
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


def _guides(groups: list[Group], keys: Callable) -> list[list[Walk]]:
    """What siblings say about every prefix, own rewards left out."""
    tables = [incidence(group, keys) for group in groups]
    sizes = choose_sizes(groups, tables)
    return [walks(group, table, sizes) for group, table in zip(groups, tables, strict=True)]


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
    """One group, with the share of siblings that did the same."""

    def __init__(self, group: Group, steps: list[list[_Seen]], guides: list[list[Walk]]) -> None:
        self.steps = steps
        self.guides = guides
        self.rewards = group.rewards
        self.baselines = [group.baseline(place) for place in range(len(steps))]
        self.square = math.fsum(reward * reward for reward in self.rewards)
        self.doers: dict[str, set[int]] = defaultdict(set)
        for place, taken in enumerate(steps):
            for step in taken:
                for key in ("a" + step.action, "o" + step.outcome, "r" + step.result):
                    self.doers[key].add(place)

    def share(self, key: str) -> float:
        """Share of the siblings that did this too."""
        return (len(self.doers[key]) - 1) / (len(self.rewards) - 1)


def _prefix_rows(view: _GroupView, place: int, vocabulary: Vocabulary) -> list[list[float]]:
    """Rows 0 … T of one rollout, built up step by step."""
    width, n_words = vocabulary.width, len(vocabulary.words)
    others = len(view.rewards) - 1
    own, baseline = view.rewards[place], view.baselines[place]
    spread = math.sqrt(max(0.0, (view.square - own * own) / others - baseline**2))
    fixed = [baseline, spread]
    used, counts = [0.0] * width, [0.0] * width
    last, pair = [0.0] * (width + 1), [0.0] * (width * width)
    words = [0.0] * n_words
    errors = repeats = empty = alone = 0
    learned: set[str] = set()
    actions: set[str] = set()
    results: set[str] = set()
    lowest = 1.0
    rows = [fixed + [0.0] * 14 + [1.0] + [0.0] * 12 + used + counts + last + pair + words]
    for index, step in enumerate(view.steps[place]):
        number = vocabulary.names.get(step.name) if not step.is_answer else None
        before = [slot for slot in range(width) if used[slot]]
        last, pair = [0.0] * (width + 1), [0.0] * (width * width)
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
        share = view.share("o" + step.outcome)
        alone += share == 0
        lowest = min(lowest, share)
        guide = []
        for walks_ in view.guides:
            walk = walks_[place]
            lean = float(walk.value_without[index]) - baseline
            guide += [lean, lean * abs(lean), float(walk.spread_without[index])]
        rows.append([
            *fixed,
            1.0, math.log1p(index + 1), float(index == 0), float(step.is_answer), float(step.is_error),
            math.log1p(errors), math.log1p(repeats), float(empty > 0), grounded, math.log1p(step.size) / 8,
            math.log1p(len(results)), view.share("a" + step.action), share, view.share("r" + step.result),
            lowest, math.log1p(alone), float(alone > 0), float(alone > 1), (alone > 0) * baseline,
            (alone == 0) * math.log1p(index + 1), (alone > 0) * guide[0], *guide,
            *used, *counts, *last, *pair, *words,
        ])  # fmt: skip
    return rows
