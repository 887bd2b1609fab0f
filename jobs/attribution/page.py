"""The rollout page in plain values: method tabs, and one row a step with its credit and the sibling beside it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jobs.attribution import waterfall
from jobs.attribution.catalogue import ALL, LIVE
from jobs.attribution.convert import stored_step
from jobs.attribution.methods import information_gain
from jobs.attribution.methods.base import action_key
from jobs.attribution.models import RolloutCredit
from jobs.attribution.reliability import Reliability, reliability_of
from jobs.attribution.words import because, interval_words, is_clear, verdict
from jobs.rollouts.alignment import Beside, align, common_start
from jobs.rollouts.models import Rollout, Step
from jobs.rollouts.reading import WINDOW, Reading, StepView, step_views
from jobs.rollouts.sentences import Sentence

DEFAULT = "prefix_value"
#: Graded rollouts in the batch from which the learning method is shown first.
ENOUGH_TO_LEARN = 60
#: In rollouts longer than this, runs of this many unclear and small steps fold to one row.
FOLD_ABOVE, FOLD_RUN = 12, 4
_SMALL = 0.02  # of the reward range


@dataclass
class Tab:
    """One credit method to choose."""

    key: str
    name: str
    note: str
    reliability: Reliability
    is_current: bool
    is_ready: bool

    @property
    def blocks(self) -> list[bool]:
        return [index < self.reliability.blocks for index in range(4)]


@dataclass
class Side:
    """The sibling's part of a row."""

    kind: str
    title: str = ""
    object: str = ""
    icon: str = ""
    number: int | None = None
    parts_here: bool = False
    extra: list[str] = field(default_factory=list)


@dataclass
class Why:
    """Why a step got this much, for the selected one."""

    sentence: str
    did: list[float]
    did_not: list[float]
    others: list[tuple[str, float]]
    did_drawing: str = ""
    did_not_drawing: str = ""
    people: list[tuple[str, str]] = field(default_factory=list)

    @property
    def did_mean(self) -> float | None:
        return math.fsum(self.did) / len(self.did) if self.did else None

    @property
    def did_not_mean(self) -> float | None:
        return math.fsum(self.did_not) / len(self.did_not) if self.did_not else None


@dataclass
class StepRow:
    """One row of the three columns."""

    view: StepView
    drawing: str = ""
    credit: float | None = None
    low: float | None = None
    high: float | None = None
    support: int = 0
    is_clear: bool = False
    is_exact: bool = False  # read off, not estimated: there is no interval to have
    is_selected: bool = False
    mark: int | None = None
    side: Side | None = None
    why: Why | None = None

    @property
    def number(self) -> int:
        return self.view.number

    @property
    def interval(self) -> str:
        """What the number rests on: its interval, or why there is none."""
        if self.low is None or self.high is None:
            return "no interval" if self.is_exact else "no support"
        return interval_words(self.low, self.high)

    @property
    def failed(self) -> str:
        """That tool calls of the step failed, in words; empty where none did."""
        count, wrong = len(self.view.calls), sum(call.is_error for call in self.view.calls)
        if not wrong:
            return ""
        return "failed" if wrong == count else f"{wrong} of {count} calls failed"

    @property
    def label(self) -> str:
        """The row in words: "Step 4, read a ruling, credit plus 0.24, between 0.15 and 0.33, clear"."""
        words = list(filter(None, [f"Step {self.number}", self.view.sentence.title.lower(), self.failed]))
        if self.credit is not None:
            words.append(f"credit {'minus' if self.credit < 0 else 'plus'} {abs(self.credit):.2f}")
            if self.low is None or self.high is None:
                words.append("read off the policy" if self.is_exact else "without support in the group")
            else:
                words.append(f"between {_spoken(self.interval)}")
                words.append("clear" if self.is_clear else "could be zero")
        return ", ".join(words)


def _spoken(interval: str) -> str:
    """An interval as a screen reader should say it."""
    return interval.replace(" to ", " and ").replace("+", "").replace("−", "minus ")


@dataclass
class Fold:
    """A run of unclear, small steps shown as one row."""

    rows: list[StepRow]

    @property
    def total(self) -> float:
        return math.fsum(row.credit or 0.0 for row in self.rows)


@dataclass
class Walk:
    """The whole three columns of one window of steps."""

    rows: list[StepRow | Fold]
    axis_labels: str = ""
    start_drawing: str = ""
    end_drawing: str = ""
    gap_drawing: str = ""
    gap: float | None = None
    baseline: float | None = None
    verdict: str = ""
    verdict_step: int | None = None
    verdict_words: str = ""  # what that step did
    why_none: str = ""
    first: int = 1
    last: int = 0
    total: int = 0
    overview: str = ""
    has_grey: bool = False  # some steps have a credit without an interval
    is_exact: bool = False  # all have: the method reads its credit off
    is_running: bool = False  # each bar begins where the one before it ended
    failed: Sequence[int] = ()  # indices of the steps in which a tool call failed, in the whole rollout


def method_tabs(
    group_size: int,
    current: str,
    credits: Mapping[str, RolloutCredit],
    has: Mapping[str, bool],
    live: Mapping[str, str],
    judge: Reliability | None = None,
) -> list[Tab]:
    """Every method with its reliability; one that cannot run says what it needs. `has` tells of methods whether the
    steps hold what they need, `live` has the notes of some, `judge` how far the judge was found to agree."""
    tabs = []
    for key, method in ALL.items():
        missing = not has.get(key, True) or (key in LIVE and not (key in credits and credits[key].credits))
        note = f"needs {method.needs}" if missing else _NOTES.get(key, method.needs)
        tabs.append(
            Tab(
                key=key,
                name=method.name,
                note=live.get(key, note),
                reliability=judge if key == "judge" and judge else reliability_of(key, group_size),
                is_current=key == current,
                is_ready=not missing,
            )
        )
    return tabs


_NOTES = {
    "uniform": "no view of steps",
    "returns_to_go": "rewards per step",
    "divergence": "shared graph of steps",
    "anchor_state": "same state, other step",
    "prefix_value": "learned value of a prefix",
    "judge": "checked on your labels",
    "rerun": "fresh continuations",
    "information_gain": "read off the policy",
}


def why_no_credit(reading: Reading, method: str, has: Mapping[str, bool]) -> str:
    """Why the waterfall is absent, or an empty text."""
    rollout, siblings = reading.rollout, reading.siblings
    if rollout.reward is None:
        return "This rollout is ungraded, which is not 0, so there is no reward to share."
    if not siblings.others:
        return "It is the only rollout of its item, so there is no baseline to compare it with."
    if not siblings.graded:
        return "None of its siblings is graded, so there is no baseline to compare it with."
    if not rollout.n_steps:
        return "It has no steps."
    if method == "information_gain" and not has.get(method, True):
        return "No log-probabilities of the reference answer are stored with its steps."
    if method == "returns_to_go" and not has.get(method, True):
        return "The grader gave no rewards on the way. A per-step grader would."
    return ""


def sibling_cycle(
    reading: Reading, mine: Sequence[str], keys: Mapping[int, Sequence[str]]
) -> list[tuple[Rollout, str]]:
    """The siblings in the order of the C key: most alike with another reward, best, worst, then the rest."""
    others = reading.siblings.others
    reward = reading.rollout.reward

    def alike(other: Rollout) -> tuple:
        differs = other.reward is not None and reward is not None and abs(other.reward - reward) > 1e-9
        distance = abs((other.reward or 0.0) - (reward or 0.0))
        return (not differs, -common_start(mine, keys.get(other.pk, [])), -distance, other.sample_index)

    found: dict[int, tuple[Rollout, str]] = {}
    ordered = sorted(others, key=alike)
    if ordered:
        found[ordered[0].pk] = (ordered[0], "closest until it parts")
    graded = sorted(reading.siblings.graded, key=lambda r: (-(r.reward or 0.0), r.sample_index))
    for other, words in (
        ((graded[0], "the best of the group"), (graded[-1], "the worst of the group")) if graded else ()
    ):
        found.setdefault(other.pk, (other, words))
    for other in others:
        found.setdefault(other.pk, (other, ""))
    return list(found.values())


def action_keys(steps: Sequence[Step]) -> list[str]:
    return [action_key(stored_step(step)) for step in steps]


def build_walk(
    *,
    reading: Reading,
    steps: Sequence[Step],
    mine: Sequence[str],
    credit: RolloutCredit | None,
    method: str,
    start: int = 0,
    selected: int | None = None,
    sides: Sequence[Side] = (),
    marks: Mapping[int, int] | None = None,
    failed: Sequence[int] = (),
) -> Walk:
    """Rows of one window of steps. `start` is the first index shown; `selected` a step number, 0 for none; `failed` has
    the indices of the steps in which a tool call failed."""
    total = reading.rollout.n_steps or len(mine)
    replies = reading.rollout.extra.get("replies")
    views = step_views(steps, reading.words, last_index=max(0, len(mine) - 1), replies=replies)
    walk = Walk(rows=[], first=start + 1, last=start + len(views), total=total, failed=failed)
    rows = [StepRow(view=view) for view in views]
    if credit is not None and len(credit.credits) == len(mine):
        _add_credit(walk, rows, reading, credit, method)
    for row in rows:
        row.side = sides[row.view.index] if row.view.index < len(sides) else None
        row.mark = (marks or {}).get(row.view.index)
    decided = next((row for row in rows if row.number == walk.verdict_step), None)
    if decided is not None:
        walk.verdict_words = ", ".join(
            filter(None, [decided.view.sentence.title.lower(), decided.view.sentence.object])
        )
    chosen = walk.verdict_step if selected is None else selected
    for row in rows:
        row.is_selected = row.number == chosen
    walk.rows = _folded(rows, total, reading.high - reading.low)
    return walk


def _add_credit(walk: Walk, rows: list[StepRow], reading: Reading, credit: RolloutCredit, method: str) -> None:
    reward = float(reading.rollout.reward or 0.0)
    complete = credit.is_complete
    # A gain is a chance, not a part of the reward: its bars begin at nothing.
    origin = 0.0 if method == information_gain.KEY else credit.baseline
    values = [origin]
    for share in credit.credits:
        values.append(values[-1] + share if complete else origin)
    reach = values if complete else [origin + share for share in credit.credits]
    axis = waterfall.axis_for(reading.low, reading.high, [*reach, reward, origin], origin)
    clear = [is_clear(low, high) for low, high in zip(credit.low, credit.high, strict=True)]
    for row in rows:
        index = row.view.index
        row.credit, row.low, row.high = credit.credits[index], credit.low[index], credit.high[index]
        row.support, row.is_clear, row.is_exact = credit.support[index], clear[index], method == information_gain.KEY
        row.drawing = waterfall.step_row(
            axis, start=values[index], end=values[index] + row.credit, low=row.low, high=row.high,
            is_clear=row.is_clear, is_running=complete,
        )  # fmt: skip
    walk.baseline, walk.is_running, walk.is_exact = credit.baseline, complete, method == information_gain.KEY
    walk.has_grey = any(row.low is None for row in rows)
    walk.axis_labels = waterfall.grid_symbol(axis) + waterfall.axis_labels(axis)
    walk.start_drawing = waterfall.start_row(axis) if complete else waterfall.grid_row()
    walk.end_drawing = waterfall.grid_row() if method == information_gain.KEY else waterfall.end_row(axis, reward)
    gap = reward - values[-1]
    if complete and abs(gap) > 1e-6:
        walk.gap, walk.gap_drawing = gap, waterfall.gap_row(axis, values[-1], reward)
    if walk.total > WINDOW:
        wrong = set(walk.failed)
        walk.overview = waterfall.overview(credit.credits, clear, [i in wrong for i in range(len(credit.credits))])
    walk.verdict, walk.verdict_step = verdict(credit, clear, method)


def _folded(rows: list[StepRow], total: int, span: float) -> list[StepRow | Fold]:
    """Runs of unclear and small steps of a long rollout become one row each."""
    if total <= FOLD_ABOVE:
        return list(rows)
    result: list[StepRow | Fold] = []
    run: list[StepRow] = []

    def close() -> None:
        result.extend([Fold(list(run))] if len(run) >= FOLD_RUN else run)
        run.clear()

    for row in rows:
        parts = bool(row.side and row.side.parts_here)
        dull = row.credit is not None and not row.is_clear and abs(row.credit) < _SMALL * span
        if dull and not row.is_selected and not parts and not row.view.error and row.mark is None:
            run.append(row)
        else:
            close()
            result.append(row)
    close()
    return result


def sides_for(
    mine: Sequence[str], theirs: Sequence[str], sibling: Rollout, sentences: Mapping[int, Sentence]
) -> list[Side]:
    """The sibling's column, one entry for each of my steps."""
    found = align(mine, theirs)
    last = max((place for place, beside in enumerate(found) if beside.step is not None), default=-1)
    return [_side(beside, sibling, sentences, is_over=place > last) for place, beside in enumerate(found)]


def _side(beside: Beside, sibling: Rollout, sentences: Mapping[int, Sentence], *, is_over: bool) -> Side:
    extra = [
        f"{sentences[index].title} {sentences[index].object}".strip() for index in beside.extra if index in sentences
    ]
    if beside.step is None or beside.step not in sentences:
        ended = "it had already answered" if sibling.stop_reason == "answered" else "it had ended"
        title = f"No step here; {ended}" if is_over else "No step here"
        return Side("none", title, parts_here=beside.parts_here, extra=extra)
    sentence = sentences[beside.step]
    return Side(beside.kind, sentence.title, sentence.object, sentence.icon, beside.step + 1, beside.parts_here, extra)


def why_this_much(
    *,
    reading: Reading,
    index: int,
    mine: Sequence[str],
    keys: Mapping[int, Sequence[str]],
    credits: Mapping[str, RolloutCredit],
    method: str,
) -> Why:
    """Evidence for one step: the guess before and after, who did the same and who did not, what other methods say."""
    did = [r.reward for r in reading.siblings.graded if mine[index] in keys.get(r.pk, ()) and r.reward is not None]
    did_not = [
        r.reward for r in reading.siblings.graded if mine[index] not in keys.get(r.pk, ()) and r.reward is not None
    ]
    credit = credits.get(method)
    others = [
        (ALL[key].name, other.credits[index])
        for key, other in credits.items()
        if key not in (method, "uniform") and key in ALL and index < len(other.credits)
    ]
    axis = waterfall.axis_for(reading.low, reading.high, [], 0.0)
    return Why(
        sentence=because(method, credit, index),
        did=did,
        did_not=did_not,
        others=others,
        did_drawing=waterfall.dot_line(did, axis),
        did_not_drawing=waterfall.dot_line(did_not, axis),
    )
