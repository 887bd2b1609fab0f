"""What readiness looks at and what it answers: facts, lines, remedies. Portable."""

from dataclasses import asdict, dataclass, field
from typing import Any

OK, WARN, BLOCK = "ok", "warn", "block"


@dataclass
class Remedy:
    """What to do about a line: words, and where it is done (empty when there is no page for it)."""

    label: str
    url: str = ""


@dataclass
class Line:
    """One check: what was measured, what is wanted, the evidence and the way out."""

    key: str
    level: str
    name: str
    measured: str
    wanted: str
    evidence: str
    remedy: Remedy | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Facts:
    """What the checks look at. None means not measured, which is said and never passed over."""

    metrics: dict[str, Any]
    is_finished: bool = True
    is_cancelled: bool = False
    train_items: int = 0
    validation_items: int = 0
    leaked_items: int = 0
    missing_fields: dict[str, int] = field(default_factory=dict)  # template path → train rows without it
    checked_rows: int = 0
    row_fields: list[str] = field(default_factory=list)  # what those rows have
    grader_problems: list[str] = field(default_factory=list)
    versions_measured: int = 1  # versions of this agent with a finished evaluation on this dataset
    other_graders: int = 0  # finished evaluations of the same agent by another grader
    is_trainable: bool = True
    model_name: str = ""
    label_agreement: float | None = None
    labelled_rollouts: int = 0
    tricks_tried: int | None = None
    tricks_passed: list[str] = field(default_factory=list)
    budget_left_usd: float | None = None  # of the team's month; None without a quota
    urls: dict[str, str] = field(default_factory=dict)

    def number(self, key: str) -> float | None:
        return self.metrics.get(key)

    def remedy(self, label: str, target: str = "") -> Remedy:
        return Remedy(label, self.urls.get(target, ""))


def percent(share: float | None) -> str:
    """`38 %`; one decimal below 10 %; a dash when not measured."""
    if share is None:
        return "–"
    value = share * 100
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:.1f} %"
