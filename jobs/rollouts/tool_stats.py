"""How a tool has been answering: time and errors of its calls in the newest rollouts, for the tool's page."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jobs.rollouts.models import Rollout, Step
from rftstudio.teams.models import Team

#: Rollouts with tool calls that are looked at, the newest of the team.
LOOKED_AT = 1_000
SHOWN_ERRORS = 3
#: Upper ends of the bands of the picture, in milliseconds; the last band is open.
BANDS = ((10.0, "up to 10 ms"), (100.0, "to 100 ms"), (1_000.0, "to 1 s"), (5_000.0, "to 5 s"), (math.inf, "longer"))


@dataclass
class ToolStats:
    """Figures over every call that was found; times are of whole calls, their retries included."""

    calls: int = 0
    rollouts: int = 0
    since: datetime | None = None
    errors: int = 0
    retried: int = 0
    ended: int = 0  # rollouts that this tool ended
    p50: float | None = None
    p95: float | None = None
    slowest: float | None = None
    slowest_rollout: str = ""
    bands: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)  # what the model read when it failed, most often first

    @property
    def error_share(self) -> float | None:
        return self.errors / self.calls if self.calls else None


def tool_stats(*, team: Team, name: str) -> ToolStats:
    """Look through the newest rollouts of the team for calls of that name."""
    newest = Rollout.objects.filter(team=team, n_tool_calls__gt=0).order_by("-id")
    columns = ("pk", "public_id", "tool_path", "stop_reason", "started_at")
    rows = [row for row in newest.values(*columns)[:LOOKED_AT] if name in _tools_of(row["tool_path"])]
    stats, times = ToolStats(rollouts=len(rows)), []
    by_id = {row["pk"]: row for row in rows}
    said: Counter[str] = Counter()
    example: dict[str, str] = {}
    last: dict[int, dict[str, Any]] = {}
    steps = Step.objects.filter(rollout_id__in=by_id).order_by("-rollout_id", "index")
    for pk, calls in steps.values_list("rollout_id", "tool_calls"):
        for call in calls:
            last[pk] = call
            if call.get("name") != name:
                continue
            stats.calls += 1
            milliseconds = float(call.get("milliseconds") or 0.0)
            times.append((milliseconds, by_id[pk]["public_id"]))
            stats.retried += any(" at try " in note or note.startswith("tried ") for note in call.get("notes") or ())
            if call.get("is_error"):
                stats.errors += 1
                text = " ".join(str(call.get("result", "")).split())[:160] or "an empty answer"
                said[text] += 1
                example.setdefault(text, by_id[pk]["public_id"])
    stats.since = min((row["started_at"] for row in rows if row["started_at"]), default=None)
    stats.ended = sum(
        row["stop_reason"] == Rollout.StopReason.TOOL_FAILED and last.get(pk, {}).get("name") == name
        for pk, row in by_id.items()
    )
    stats.messages = [{"text": t, "count": n, "rollout": example[t]} for t, n in said.most_common(SHOWN_ERRORS)]
    _add_times(stats, sorted(times))
    return stats


def _tools_of(path: str) -> set[str]:
    """Names on a tool path. One that was cut short may hide more, so its last name counts by its beginning only."""
    return set(path.replace("+", ">").split(">"))


def _add_times(stats: ToolStats, times: Sequence[tuple[float, str]]) -> None:
    if not times:
        return
    stats.p50, stats.p95 = (times[max(0, math.ceil(share * len(times)) - 1)][0] for share in (0.5, 0.95))
    stats.slowest, stats.slowest_rollout = times[-1]
    low = -1.0
    for high, label in BANDS:
        count = sum(low < milliseconds <= high for milliseconds, _ in times)
        stats.bands.append({"label": label, "count": count, "share": count / len(times)})
        low = high
