"""The filters of the rollout list: read from the query string, said in words, turned into a queryset."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from django.db.models import BooleanField, Exists, F, Max, OuterRef, Q, QuerySet, Value
from django.db.models.expressions import RawSQL
from django.db.models.fields.json import KeyTransform
from django.db.models.functions import Concat, Replace

from jobs.rollouts import search
from jobs.rollouts.models import Rollout, RolloutBatch
from rftstudio.teams.models import Team

#: Query parameters that are no filters.
OTHER_PARAMETERS = {"by", "after", "before", "peek", "format", "open", "charts"}
#: Ids, or matches of a text, that are looked through before all.
NEAR, NEAR_MATCHES = 4000, 400
#: Rewards no further apart are equal.
EQUAL = 1e-9
#: Stands for an end that a range does not have.
ANY = "any"

#: As the index rollout_with_error has it, without parameters: with them SQLite would not see that it fits.
_WITH_ERROR = RawSQL("n_tool_errors > 0 OR NOT (error = '')", [], BooleanField())

Range = tuple[float | None, float | None]


@dataclass(frozen=True)
class SubRewardRange:
    """A sub-reward by its name, and the range it is in."""

    name: str
    ends: Range


@dataclass(frozen=True)
class Filters:
    """What the list is narrowed to. Empty fields narrow nothing."""

    source: str = ""
    train_step: Range | None = None
    item: str = ""
    reward: Range | None = None
    steps: Range | None = None
    calls: Range | None = None
    tokens: Range | None = None
    sub_reward: SubRewardRange | None = None
    tool: str = ""
    stop: str = ""
    status: str = ""
    passed: bool | None = None
    graded: bool | None = None
    error: bool | None = None
    alike: bool | None = None
    kind: str = ""
    batch: str = ""
    q: str = ""
    problems: list[str] = field(default_factory=list, compare=False)

    @property
    def is_empty(self) -> bool:
        return not self.active()

    def active(self) -> list[str]:
        """Names of the filters that narrow."""
        return [f.name for f in fields(self) if f.name != "problems" and getattr(self, f.name) not in ("", None)]


_RANGES = ("train_step", "reward", "steps", "calls", "tokens")
_FLAGS = ("passed", "graded", "error", "alike")
#: Those that say whose rollouts are meant.
_PLACES = {"source", "batch", "item"}
#: Those that no index holds, so they look only where a place narrows first.
_IN_A_PLACE = ("tokens", "sub_reward", "alike")
_COLUMNS = (("reward", "reward"), ("steps", "n_steps"), ("calls", "n_tool_calls"), ("tokens", "output_tokens"))
_LABELS = {
    "source": "From", "train_step": "Train steps", "item": "Item", "reward": "Reward", "steps": "Steps",
    "calls": "Tool calls", "tokens": "Tokens written", "sub_reward": "Sub-reward", "tool": "Tool", "stop": "Ended", "status": "Status", "passed": "Passed",
    "graded": "Graded", "error": "With an error", "alike": "Rewards all alike", "kind": "Tried for", "batch": "Batch",
    "q": "Text",
}  # fmt: skip


def filters_from(query: Mapping[str, str]) -> Filters:
    """Read a query string. What it does not know or cannot read becomes a problem in words, never silence."""
    values: dict[str, Any] = {}
    problems = []
    known = set(_LABELS)
    for name, text in query.items():
        text = text.replace("\x00", "").strip()
        if name in OTHER_PARAMETERS or not text:
            continue
        if name not in known:
            problems.append(f"There is no filter named {name}; it was left out.")
            continue
        try:
            values[name] = _value(name, text)
        except ValueError as exc:
            problems.append(f"{_LABELS[name]}: {exc}")
    for name in _IN_A_PLACE:
        if name in values and not values.keys() & _PLACES:
            del values[name]
            problems.append(f"{_LABELS[name]}: choose a job, an evaluation or an item as well; it was left out.")
    return Filters(**values, problems=problems)


def _value(name: str, text: str) -> Any:
    if name in _RANGES:
        return read_range(text)
    if name in _FLAGS:
        if text.lower() not in ("1", "0", "yes", "no", "true", "false"):
            raise ValueError(f"{text!r} is neither 1 nor 0.")
        return text.lower() in ("1", "yes", "true")
    if name == "sub_reward":
        part, _, ends = text.rpartition(":")
        if not part:
            raise ValueError(f"{text!r} names no part and range. Choose the part, or write it as citations:0.5-1.")
        return SubRewardRange(part, read_range(ends))
    if name == "kind" and text not in RolloutBatch.Kind.values:
        raise ValueError(f"{text!r} is no kind. Use one of {', '.join(RolloutBatch.Kind.values)}.")
    if name == "stop" and text not in Rollout.StopReason.values:
        raise ValueError(f"{text!r} is no stop reason. Use one of {', '.join(Rollout.StopReason.values)}.")
    if name == "status" and text not in Rollout.Status.values:
        raise ValueError(f"{text!r} is no status. Use one of {', '.join(Rollout.Status.values)}.")
    return text


def read_range(text: str) -> Range:
    """`0.5-1`, `-0.2-0.4`, `5` (exactly), `5-` (from), `any-5` (up to; `-5` is minus five); ends are inclusive. A minus
    behind an e belongs to its number: `1e-05-0.5`."""
    cut = next((place for place in range(1, len(text)) if text[place] == "-" and text[place - 1] not in "eE"), -1)
    parts = (text, text) if cut < 0 else (text[:cut], text[cut + 1 :])
    try:
        low, high = (float(part) if part.strip() not in ("", ANY) else None for part in parts)
    except ValueError as exc:
        raise ValueError(f"{text!r} is no range. Write it as 0.5-1.") from exc
    if any(end is not None and not math.isfinite(end) for end in (low, high)):
        raise ValueError(f"{text!r} is no range. Write it as 0.5-1.")
    if low is not None and high is not None and low > high:
        low, high = high, low
    return low, high


def show_number(value: float | None) -> str:
    """A number as a person and as the query string write it: no trailing zeros."""
    return "" if value is None else f"{value:.6g}"


def range_text(ends: Range) -> str:
    """The range for the query string."""
    low, high = ends
    return show_number(low) if low == high else between_text(show_number(low), show_number(high))


def between_text(low: str, high: str) -> str:
    """A range from its two ends as they were typed."""
    return f"{low or ANY}-{high}"


def _range_words(ends: Range) -> str:
    low, high = ends
    return show_number(low) if low == high else f"{show_number(low) or ANY} to {show_number(high) or ANY}"


def chips(filters: Filters, query: Mapping[str, str], names: Mapping[str, str] | None = None) -> list[dict[str, str]]:
    """One chip a filter: label, value, and the query string without it."""
    made = []
    for name in filters.active():
        value = getattr(filters, name)
        if name in _RANGES:
            words = _range_words(value)
        elif name == "sub_reward":
            words = f"{value.name} {_range_words(value.ends)}"
        elif name == "kind":
            words = RolloutBatch.Kind(value).label.lower()
        elif name in _FLAGS:
            words = "yes" if value else "no"
        elif name == "stop":
            words = Rollout.StopReason(value).label
        else:
            words = (names or {}).get(name, value)
        made.append({"name": name, "label": _LABELS[name], "value": words})
    return made


def rows(
    *,
    team: Team,
    filters: Filters,
    leave_out: tuple[str, ...] = (),
    below: int | None = None,
    above: int | None = None,
    is_near: bool = False,
    is_rare: bool = False,
    among: QuerySet[Rollout] | None = None,
) -> QuerySet[Rollout]:
    """The team's rollouts that the filters leave, in no order. `leave_out` names filters to ignore.

    With `is_near` only the newest ones, which are found at once: enough for a page of anything common. `is_rare` finds
    the same as without, quicker when few are left. All have ids between `below` and `above`. `among` narrows them to rows
    that must already be the team's: they are not asked for it again.
    """
    use = {name for name in filters.active() if name not in leave_out}
    # Batches are the team's. Asked for the team as well, SQLite would rather read all the team's rollouts.
    by_batch = use & {"source", "train_step", "batch", "kind"} or (among is None and "item" in use)
    if among is None:
        among = Rollout.objects.all() if by_batch else Rollout.objects.filter(team=team)
    found = among.filter(batch_id__in=_batches(team, filters, use)) if by_batch else among
    if "item" in use:
        found = found.filter(group_key=filters.item)
    if below is not None:
        found = found.filter(id__lt=below)
    if is_near and not filters.q:
        top = below or (Rollout.objects.aggregate(top=Max("id"))["top"] or 0) + 1
        above = top - NEAR - 1
    if above is not None:
        found = found.filter(id__gt=above)
    for name, column in _COLUMNS:
        if name in use:
            # Among few ids the index of ids is to be read, not that of all rewards.
            value = F(column) + 0 if above is not None else F(column)
            found = found.alias(**{f"_{name}": value}).filter(_between(f"_{name}", getattr(filters, name)))
    if "tool" in use:
        path = Concat(Value(">"), Replace(F("tool_path"), Value("+"), Value(">")), Value(">"))
        found = found.alias(_path=path).filter(_path__contains=f">{filters.tool}>")
        known = search.matches(team.pk, filters.tool, most=None, below=below) if is_rare else None
        found = found if known is None else found.filter(pk__in=known)
    found = _by_outcome(found, filters, use)
    if "q" in use:
        found = found.filter(_text(team, filters.q, below, NEAR_MATCHES if is_near else search.MOST))
    return found


def _by_outcome(found: QuerySet[Rollout], filters: Filters, use: set[str]) -> QuerySet[Rollout]:
    """How the rollouts ended and what they were rewarded with."""
    if "stop" in use:
        found = found.filter(stop_reason=filters.stop)
    if "status" in use:
        found = found.filter(status=filters.status)
    if "passed" in use:
        found = found.filter(passed=filters.passed)
    if "graded" in use:
        found = found.filter(reward__isnull=not filters.graded)
    if "error" in use:
        found = found.filter(_WITH_ERROR if filters.error else ~Q(n_tool_errors__gt=0) & Q(error=""))
    if "sub_reward" in use and filters.sub_reward:
        value = KeyTransform(filters.sub_reward.name, "sub_rewards")
        found = found.alias(_part=value).filter(_between("_part", filters.sub_reward.ends))
    if "alike" in use:
        found = found.filter(_alike() if filters.alike else ~_alike())
    return found


def _alike() -> Q:
    """Graded, with a graded sibling, and none that was rewarded otherwise: a rollout that teaches nothing."""
    siblings = Rollout.objects.filter(
        batch_id=OuterRef("batch_id"), group_key=OuterRef("group_key"), reward__isnull=False
    ).exclude(pk=OuterRef("pk"))
    apart = siblings.filter(Q(reward__gt=OuterRef("reward") + EQUAL) | Q(reward__lt=OuterRef("reward") - EQUAL))
    return Q(reward__isnull=False) & Q(Exists(siblings)) & ~Q(Exists(apart))


def _batches(team: Team, filters: Filters, use: set[str]) -> QuerySet[RolloutBatch]:
    batches = RolloutBatch.objects.filter(team=team)
    if "source" in use:
        batches = batches.filter(source=filters.source)
    if "kind" in use:
        batches = batches.filter(kind=filters.kind)
    if "batch" in use:
        batches = batches.filter(public_id=filters.batch)
    if "train_step" in use and filters.train_step:
        batches = batches.filter(_between("train_step", filters.train_step))
    return batches.values("pk")


def _between(column: str, ends: Range) -> Q:
    low, high = ends
    condition = Q(**{f"{column}__isnull": False})
    if low is not None:
        condition &= Q(**{f"{column}__gte": low - EQUAL})
    if high is not None:
        condition &= Q(**{f"{column}__lte": high + EQUAL})
    return condition


def is_id(words: str) -> bool:
    """Whether a search is for one rollout by its public id or its trace."""
    return words.startswith(("roll-", "trace_", "imp_"))


def _text(team: Team, words: str, below: int | None, most: int) -> Q:
    """Words of title, answer, error, item and tools; a whole id finds its rollout."""
    if is_id(words):
        return Q(public_id=words) | Q(trace_id=words)
    found = search.matches(team.pk, words, most=most, below=below)
    return Q(pk__in=[]) if found is None else Q(pk__in=found)
