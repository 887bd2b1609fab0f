"""Credit over many rollouts of one source: by tool, by place in the rollout, over train steps; agreement and marks."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from jobs.attribution.methods.base import Z90, canonical
from jobs.attribution.models import RolloutCredit, StepMark
from jobs.attribution.selectors import marks_on
from jobs.rollouts.models import Rollout, RolloutBatch, Step
from jobs.rollouts.sentences import ToolWords, call_sentence
from rftstudio.teams.models import Team

#: The newest credited rollouts that a summary looks at.
MOST = 3000
#: Arguments are read from the steps of so many of them; shown are these many, each used at least so often.
MOST_READ, MOST_ARGUMENTS, LEAST_CALLS, LONGEST_NAME = 1000, 12, 2, 120
#: So many tools in fewer than five rollouts each are one row.
LEAST_SELDOM = 3
#: Places from here on are one row.
LAST_PLACE = 12


@dataclass
class Line:
    """Mean credit of one kind of step. The interval is over rollouts."""

    name: str
    steps: int = 0
    rollouts: int = 0
    mean: float = 0.0
    low: float | None = None
    high: float | None = None
    clear_plus: int = 0
    clear_minus: int = 0
    is_joined: bool = False  # of several names

    @property
    def is_clear(self) -> bool:
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


@dataclass
class Summary:
    """What one method says about a source."""

    source: str
    method: str
    rollouts: int = 0
    uncredited: int = 0
    is_cut: bool = False
    by_tool: list[Line] = field(default_factory=list)
    by_argument: list[Line] = field(default_factory=list)  # of the tools with most steps, the most frequent arguments
    by_place: list[Line] = field(default_factory=list)
    over_time: dict[str, list[tuple[int, float]]] = field(default_factory=dict)  # tool → (train step, mean credit)
    agreement: list[tuple[str, float, int]] = field(default_factory=list)  # other method, correlation, steps
    marks: list[Line] = field(default_factory=list)


def credit_summary(*, team: Team, source: str, method: str) -> Summary:
    """Reads stored credit only; what has none yet is counted."""
    batches = dict(RolloutBatch.objects.filter(team=team, source=source).values_list("pk", "train_step"))
    found = list(
        RolloutCredit.objects.filter(method=method, rollout__batch_id__in=batches)
        .order_by("-rollout_id")
        .values_list("rollout_id", "rollout__batch_id", "rollout__tool_path", "credits", "low", "high")[: MOST + 1]
    )
    summary = Summary(source, method, rollouts=min(len(found), MOST), is_cut=len(found) > MOST)
    graded = Rollout.objects.filter(batch_id__in=batches, reward__isnull=False, n_steps__gt=0)
    summary.uncredited = max(0, graded.order_by()[: MOST + 1].count() - len(found))
    found = found[:MOST]
    tools: dict[str, list[tuple[int, float, int]]] = defaultdict(list)
    places: dict[str, list[tuple[int, float, int]]] = defaultdict(list)
    times: dict[tuple[str, int], list[float]] = defaultdict(list)
    for rollout, batch, path, credits, low, high in found:
        names = path.split(">") if path else []
        for index, credit in enumerate(credits):
            name = names[index] if index < len(names) and not names[index].endswith("…") else "further steps"
            sign = _clear(low[index], high[index])
            tools[name].append((rollout, credit, sign))
            place = str(index + 1) if index + 1 < LAST_PLACE else f"{LAST_PLACE} and later"
            places[place].append((rollout, credit, sign))
            if batches[batch] is not None:
                times[name, batches[batch]].append(credit)
    summary.by_tool = _by_tool(tools)
    summary.by_argument = _by_argument(found, _tool_words(batches))
    summary.by_place = [line(name, rows) for name, rows in places.items()]
    summary.by_place.sort(key=lambda one: int(one.name.split()[0]))
    for (name, step), values in sorted(times.items(), key=lambda entry: entry[0][1]):
        summary.over_time.setdefault(name, []).append((step, math.fsum(values) / len(values)))
    summary.agreement = _agreement(found, method)
    summary.marks = _marks(found)
    return summary


def _by_tool(tools: dict[str, list[tuple[int, float, int]]]) -> list[Line]:
    """One line a tool, most steps first. A policy that misspells calls many names once: those share the last line."""
    lines = sorted((line(name, rows) for name, rows in tools.items()), key=lambda one: -one.steps)
    seldom = [one.name for one in lines if one.low is None]
    if len(seldom) < LEAST_SELDOM:
        return lines
    joined = line(f"{len(seldom)} names seldom called", [row for name in seldom for row in tools[name]])
    joined.is_joined = True
    return [*(one for one in lines if one.low is not None), joined]


def _tool_words(batches: Iterable[int]) -> ToolWords:
    """How the newest agent of the source wants its calls to read."""
    newest = RolloutBatch.objects.filter(pk__in=batches, agent_version__isnull=False).select_related("agent_version")
    batch = newest.order_by("-pk").first()
    return ToolWords.of(batch.agent_version.tools if batch and batch.agent_version else [])


def _by_argument(found: Sequence[tuple], words: ToolWords) -> list[Line]:
    """Mean credit of the calls that came most often with the same arguments, whatever the order of their keys. A turn of
    parallel calls is left out: its credit is not one call's."""
    credits = {row[0]: (row[3], row[4], row[5]) for row in found[:MOST_READ]}
    rows: dict[str, list[tuple[int, float, int]]] = defaultdict(list)
    names: dict[str, str] = {}
    steps = Step.objects.filter(rollout_id__in=list(credits)).order_by("rollout_id", "index")
    for rollout, index, calls in steps.values_list("rollout_id", "index", "tool_calls").iterator():
        shares, low, high = credits[rollout]
        if calls and len(calls) == 1 and index < len(shares):
            key = f"{calls[0].get('name', '')} {canonical(str(calls[0].get('arguments', '')))}"
            said = call_sentence(str(calls[0].get("name", "")), str(calls[0].get("arguments", "")), words)
            names.setdefault(key, " · ".join(filter(None, [said.title, said.object]))[:LONGEST_NAME])
            rows[key].append((rollout, shares[index], _clear(low[index], high[index])))
    often = sorted((entry for entry in rows.items() if len(entry[1]) >= LEAST_CALLS), key=lambda entry: -len(entry[1]))
    return sorted((line(names[key], members) for key, members in often[:MOST_ARGUMENTS]), key=lambda one: -one.mean)


def _clear(low: float | None, high: float | None) -> int:
    if low is None or high is None:
        return 0
    return 1 if low > 0 else -1 if high < 0 else 0


def line(name: str, rows: Sequence[tuple[int, float, int]]) -> Line:
    """Mean credit per step, its interval from the spread between rollouts."""
    per_rollout: dict[int, list[float]] = defaultdict(list)
    for rollout, credit, _ in rows:
        per_rollout[rollout].append(credit)
    mean = math.fsum(credit for _, credit, _ in rows) / len(rows)
    made = Line(name, len(rows), len(per_rollout), mean)
    made.clear_plus = sum(sign > 0 for _, _, sign in rows)
    made.clear_minus = sum(sign < 0 for _, _, sign in rows)
    if len(per_rollout) >= 5:
        spread = [math.fsum(values) - mean * len(values) for values in per_rollout.values()]
        error = Z90 * math.sqrt(math.fsum(value * value for value in spread)) / len(rows)
        made.low, made.high = mean - error, mean + error
    return made


def _agreement(found: Sequence[tuple], method: str) -> list[tuple[str, float, int]]:
    """Rank correlation with the other methods over all steps that both credited."""
    from jobs.attribution.bench.measure import spearman

    mine = {row[0]: row[3] for row in found}
    others: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    rows = RolloutCredit.objects.filter(rollout_id__in=list(mine)[:1000]).exclude(method__in=[method, "uniform"])
    for rollout, other, credits in rows.values_list("rollout_id", "method", "credits"):
        if len(credits) == len(mine[rollout]):
            others[other][0].extend(mine[rollout])
            others[other][1].extend(credits)
    return sorted((name, spearman(a, b), len(a)) for name, (a, b) in others.items() if len(a) > 2)


def _marks(found: Iterable[tuple]) -> list[Line]:
    """Mean credit of steps that people marked as helping, neither, harming."""
    credits = {row[0]: row[3] for row in found}
    sorted_by: dict[int, list[tuple[int, float, int]]] = defaultdict(list)
    rollouts = Rollout.objects.filter(pk__in=list(credits)).only("public_id", "team_id")
    for mark in marks_on(list(rollouts)):
        if mark.step_index < len(credits[mark.rollout_id]):
            sorted_by[mark.mark].append((mark.rollout_id, credits[mark.rollout_id][mark.step_index], 0))
    return [line(StepMark.Mark(mark).label, rows) for mark, rows in sorted(sorted_by.items(), reverse=True)]
