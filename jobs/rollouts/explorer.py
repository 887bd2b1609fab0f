"""What the rollout list shows: keyset pages of rollouts or of groups, counts, histograms. Reads only."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.db.models import Count, Exists, F, Max, Min, OuterRef, QuerySet
from django.db.models.functions import Floor

from jobs.rollouts import search
from jobs.rollouts.filters import Filters, is_id, rows
from jobs.rollouts.models import Rollout, RolloutBatch
from rftstudio.core.errors import NotFound
from rftstudio.teams.models import Team

PAGE = 50
GROUPS_PAGE = 20
#: Rows of one group shown in the list; the rest is one click away.
GROUP_ROWS = 12
#: Step marks in a row.
RIBBON = 14
#: Counted exactly up to here; above it "more than".
COUNT_EXACT = 10_000
#: A search that leaves few is counted among this many of the newest rollouts.
COUNT_AMONG = 25_000
#: Histograms look at no more than this many of the newest rollouts, and say so.
SAMPLE = 200_000
BINS = 16

#: Columns of a list row; long texts stay in the table.
_COLUMNS = (
    "id", "public_id", "batch_id", "group_key", "sample_index", "status", "stop_reason", "reward", "passed",
    "sub_rewards", "advantage", "title", "n_steps", "n_tool_calls", "n_tool_errors", "tool_path", "input_tokens",
    "output_tokens", "cost_usd", "milliseconds", "created_at",
)  # fmt: skip


@dataclass
class Row:
    """One rollout of the list."""

    rollout: Rollout
    advantage: float | None
    is_outside: bool = False  # a sibling that the filter leaves out

    @property
    def short_path(self) -> str:
        """The first steps, as many as a row has room for."""
        return ">".join(self.rollout.tool_path.split(">")[:RIBBON])

    @property
    def more_steps(self) -> int:
        return max(0, self.rollout.n_steps - RIBBON)

    @property
    def tokens(self) -> int:
        return self.rollout.input_tokens + self.rollout.output_tokens


@dataclass
class Group:
    """The rollouts of one item in one batch."""

    batch: RolloutBatch
    key: str
    title: str
    rows: list[Row] = field(default_factory=list)
    dots: list[dict[str, Any]] = field(default_factory=list)  # for the strip; the view adds addresses

    def __post_init__(self) -> None:
        self.size = len(self.rows)

    @property
    def anchor(self) -> int:
        """Names the group in an address: the id of its first try."""
        return min(row.rollout.id for row in self.rows)

    @property
    def rewards(self) -> list[float]:
        return [row.rollout.reward for row in self.rows if row.rollout.reward is not None]

    @property
    def mean(self) -> float | None:
        return math.fsum(self.rewards) / len(self.rewards) if self.rewards else None

    @property
    def spread(self) -> float | None:
        """Standard deviation of the graded rewards; None below two."""
        if len(self.rewards) < 2 or self.mean is None:
            return None
        return math.sqrt(math.fsum((reward - self.mean) ** 2 for reward in self.rewards) / len(self.rewards))

    @property
    def passes(self) -> int:
        return sum(1 for row in self.rows if row.rollout.passed)

    @property
    def has_little_signal(self) -> bool:
        return self.spread is not None and self.spread < 0.05

    @property
    def parts_after(self) -> int | None:
        return parts_after([row.rollout.tool_path for row in self.rows])


@dataclass
class Page:
    """A page of rows or groups and where its neighbours start."""

    rows: list[Row] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    after: int | None = None  # cursor of the next page: rows older than this id
    before: int | None = None  # cursor of the page before


@dataclass(frozen=True)
class Bar:
    """One bar of a histogram over [low, high]."""

    low: float
    high: float
    count: int
    is_selected: bool = True


@dataclass
class Histogram:
    """Bars, and how many rollouts they count."""

    bars: list[Bar]
    total: int
    is_sample: bool = False

    @property
    def tallest(self) -> int:
        return max((bar.count for bar in self.bars), default=0)


def rollout_page(*, team: Team, filters: Filters, after: int | None = None, before: int | None = None) -> Page:
    """Fifty rollouts, newest first. Cursors are ids, so new rows never shift a page."""
    found, next_after, next_before = _keyset(partial(rows, team=team, filters=filters), PAGE, after, before)
    members = _members(found)
    made = [Row(rollout, _advantage(rollout, members[rollout.batch_id, rollout.group_key])) for rollout in found]
    return Page(rows=made, after=next_after, before=next_before)


def group_page(*, team: Team, filters: Filters, after: int | None = None, before: int | None = None) -> Page:
    """Twenty groups with a rollout that the filters leave; their other rollouts come along, marked as outside."""

    def heads_of(**reach: Any) -> QuerySet[Rollout]:
        group = Rollout.objects.filter(batch_id=OuterRef("batch_id"), group_key=OuterRef("group_key"))
        newer = rows(team=team, filters=filters, among=group.filter(id__gt=OuterRef("id")))
        return rows(team=team, filters=filters, **reach).filter(~Exists(newer))

    heads, next_after, next_before = _keyset(heads_of, GROUPS_PAGE, after, before)
    return Page(groups=_groups(heads, team, filters), after=next_after, before=next_before)


def group_get(*, team: Team, filters: Filters, anchor: int) -> Group:
    """The group that a rollout belongs to."""
    head = Rollout.objects.filter(team=team, id=anchor).select_related("batch").only(*_COLUMNS, "batch").first()
    if head is None:
        raise NotFound("There is nothing at this address.")
    return _groups([head], team, filters)[0]


def _groups(heads: list[Rollout], team: Team, filters: Filters) -> list[Group]:
    """The whole groups of these rollouts, best first; what does not match is marked as outside."""
    members = _members(heads)
    ids = [member.id for group in members.values() for member in group]
    inside = set(
        rows(team=team, filters=filters, among=Rollout.objects.filter(id__in=ids)).values_list("id", flat=True)
    )
    groups = []
    for head in heads:
        siblings = members[head.batch_id, head.group_key]
        made = [Row(sibling, _advantage(sibling, siblings), sibling.id not in inside) for sibling in siblings]
        made.sort(key=lambda row: (row.rollout.reward is None, -(row.rollout.reward or 0), row.rollout.sample_index))
        groups.append(Group(head.batch, head.group_key, head.title or head.group_key, made))
    return groups


def _keyset(find: Callable[..., QuerySet[Rollout]], size: int, after: int | None, before: int | None):
    """Rows of one page, and the cursors of the pages after and before it."""
    if before is not None:
        ids = list(find().filter(id__gt=before).order_by("id").values_list("id", flat=True)[: size + 1])
        more, page = len(ids) > size, _by_ids(ids[:size])
        return page, (page[-1].id if page else None), (page[0].id if page and more else None)
    ids = _newest_first(find, size + 1, after)
    more, page = len(ids) > size, _by_ids(ids[:size])
    return page, (page[-1].id if more else None), (page[0].id if page and after is not None else None)


def _newest_first(find: Callable[..., QuerySet[Rollout]], count: int, after: int | None) -> list[int]:
    """The newest ids before `after`. A common filter fills its page from the newest ids, whatever index the database
    would have preferred; only a rare one is searched to the end."""
    ids: list[int] = []
    for reach in ("is_near", "is_rare"):
        found = find(below=after, **{reach: True}).order_by("-id")
        ids = list(found.values_list("id", flat=True)[:count])
        if len(ids) == count:
            break
    return ids


def _by_ids(ids: list[int]) -> list[Rollout]:
    """Newest first."""
    return list(Rollout.objects.filter(id__in=ids).select_related("batch").only(*_COLUMNS, "batch").order_by("-id"))


def _members(heads: Iterable[Rollout]) -> dict[tuple[int, str], list[Rollout]]:
    """All rollouts of the groups of these rollouts."""
    keys = {(rollout.batch_id, rollout.group_key) for rollout in heads}
    found: dict[tuple[int, str], list[Rollout]] = defaultdict(list)
    if keys:
        batches, names = {batch for batch, _ in keys}, {name for _, name in keys}
        for rollout in Rollout.objects.filter(batch_id__in=batches, group_key__in=names).only(*_COLUMNS).order_by("id"):
            if (rollout.batch_id, rollout.group_key) in keys:
                found[rollout.batch_id, rollout.group_key].append(rollout)
    return found


def _advantage(rollout: Rollout, siblings: list[Rollout]) -> float | None:
    """As the trainer used it, else the reward against the mean of the other graded rollouts."""
    if rollout.advantage is not None:
        return rollout.advantage
    others = [s.reward for s in siblings if s.id != rollout.id and s.reward is not None]
    if rollout.reward is None or not others:
        return None
    return rollout.reward - math.fsum(others) / len(others)


def parts_after(paths: Iterable[str]) -> int | None:
    """How many steps all tool paths have in common; None for fewer than two paths or when they never part."""
    split = [path.split(">") for path in paths if path]
    if len(split) < 2 or all(path == split[0] for path in split):
        return None
    common = 0
    for names in zip(*split, strict=False):
        if len(set(names)) > 1:
            break
        common += 1
    return common


@dataclass(frozen=True)
class Counted:
    """How many rollouts a search leaves, and how far that was counted."""

    count: int
    is_more: bool = False  # there are more than `count`
    among: int | None = None  # counted among so many of the newest only


def counted(*, team: Team, filters: Filters) -> Counted:
    """Exact up to 10,000. In very large teams what filters leave is counted among the newest only, and says so; but not
    what belongs to one source, batch or item: that may be old, and is read by batch."""
    if filters.active() == ["q"] and not is_id(filters.q):
        count = search.count(team.pk, filters.q, COUNT_EXACT + 1)
        return Counted(min(count, COUNT_EXACT), count > COUNT_EXACT)
    found = rows(team=team, filters=filters)
    among = None
    if filters.tool and not filters.q and search.count(team.pk, filters.tool, COUNT_EXACT + 1) <= COUNT_EXACT:
        found = rows(team=team, filters=filters, is_rare=True)
    elif not (filters.is_empty or filters.q or filters.source or filters.batch or filters.item):
        newest = Rollout.objects.filter(team=team).order_by("-id").values_list("id", flat=True)
        if floor := newest[COUNT_AMONG : COUNT_AMONG + 1].first():
            found, among = rows(team=team, filters=filters, above=floor), COUNT_AMONG
    count = found.order_by()[: COUNT_EXACT + 1].count()
    is_more = count > COUNT_EXACT
    return Counted(min(count, COUNT_EXACT), is_more, None if is_more else among)


def reward_histogram(*, team: Team, filters: Filters) -> Histogram:
    """Rewards of what the other filters leave; the reward filter only marks its bars."""
    found, is_sample = _sample(rows(team=team, filters=filters, leave_out=("reward", "graded", "passed")))
    graded = found.filter(reward__isnull=False)
    ends = graded.aggregate(low=Min("reward"), high=Max("reward"), count=Count("id"))
    if not ends["count"]:
        return Histogram([], 0)
    low, high = min(0.0, ends["low"]), max(1.0, ends["high"])
    width = (high - low) / BINS
    counted = graded.annotate(bin=Floor((F("reward") - low) / width)).values("bin").annotate(count=Count("id"))
    counts: dict[int, int] = defaultdict(int)
    for row in counted.order_by():
        counts[min(BINS - 1, max(0, int(row["bin"])))] += row["count"]
    chosen = filters.reward
    bars = []
    for index in range(BINS):
        start, end = low + index * width, low + (index + 1) * width
        inside = chosen is None or ((chosen[0] is None or end > chosen[0]) and (chosen[1] is None or start < chosen[1]))
        bars.append(Bar(start, end, counts[index], inside))
    return Histogram(bars, ends["count"], is_sample)


def step_histogram(*, team: Team, filters: Filters) -> Histogram:
    """How many steps the rollouts took; above 24 steps bars join several counts."""
    found, is_sample = _sample(rows(team=team, filters=filters, leave_out=("steps",)))
    counts = dict(found.order_by().values_list("n_steps").annotate(count=Count("id")))
    return _integers(counts, filters.steps, is_sample)


def train_step_histogram(*, team: Team, filters: Filters) -> Histogram:
    """How many rollouts came from which train step."""
    found, is_sample = _sample(rows(team=team, filters=filters, leave_out=("train_step",)))
    found = found.filter(batch__train_step__isnull=False)
    counts = dict(found.order_by().values_list("batch__train_step").annotate(count=Count("id")))
    return _integers(counts, filters.train_step, is_sample)


def _integers(counts: dict[int, int], chosen, is_sample: bool, most: int = 24) -> Histogram:
    if not counts:
        return Histogram([], 0)
    low, high = min(counts), max(counts)
    width = math.ceil((high - low + 1) / most)
    bars = []
    for start in range(low, high + 1, width):
        end = min(high, start + width - 1)
        count = sum(counts.get(value, 0) for value in range(start, end + 1))
        inside = chosen is None or (
            (chosen[0] is None or end >= chosen[0]) and (chosen[1] is None or start <= chosen[1])
        )
        bars.append(Bar(start, end, count, inside))
    return Histogram(bars, sum(counts.values()), is_sample)


def _sample(found: QuerySet[Rollout]) -> tuple[QuerySet[Rollout], bool]:
    """The newest rows up to SAMPLE."""
    floor = found.order_by("-id").values_list("id", flat=True)[SAMPLE : SAMPLE + 1].first()
    return (found.filter(id__gt=floor), True) if floor else (found, False)


def tool_names(rollouts: Iterable[Rollout]) -> list[str]:
    """Tools in the order in which they first occur, so that marks mean the same in every row."""
    names: dict[str, None] = {}
    for rollout in rollouts:
        for part in rollout.tool_path.split(">"):
            if part and part != "answer":
                names.setdefault(part)
    return list(names)
