"""Testing a recipe: on one sample, on a set, and against the published version. Nothing is stored."""

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from statistics import fmean
from typing import Any

from graders.calibration import Calibration, Pair, calibrate
from graders.costs import judging_record
from graders.formula import Formula, FormulaError
from graders.formula_words import Share, formula_shares
from graders.gaming import TrickResult, gaming_results
from graders.grading import CompiledGrader
from graders.models import GraderVersion
from graders.sample_sources import StoredSample
from graders.services import draft_compiled, grader_compiled
from graders.types import Grade, Sample, is_pass
from graders.validation import is_costly
from rftstudio.teams.actor import Actor
from rftstudio.teams.models import Team
from rftstudio.teams.permissions import Permission, check_can

SET_SECONDS = 20.0
SIDE_BY_SIDE = 8
TEST_SOURCE = "grader-test"


@dataclass(frozen=True)
class PartResult:
    """One named part of a multi grader in a live test."""

    name: str
    reward: float | None
    milliseconds: float
    details: str
    share: Share | None
    flags: tuple[str, ...]


@dataclass
class Trial:
    """One sample graded by a draft, part by part."""

    grade: Grade
    passed: bool | None
    parts: list[PartResult] = field(default_factory=list)
    arithmetic: str = ""
    published: Grade | None = None
    published_number: int | None = None
    is_repeatable: bool | None = None
    usd: Decimal | None = None

    @property
    def usd_per_thousand(self) -> Decimal | None:
        """What judging 1,000 rollouts like this one would cost."""
        return None if self.usd is None else self.usd * 1000


@dataclass
class SetTrial:
    """A recipe over many samples. Means are over graded samples only."""

    rewards: list[float | None] = field(default_factory=list)
    before: list[float | None] = field(default_factory=list)
    samples: list[StoredSample] = field(default_factory=list)
    grades: list[Grade] = field(default_factory=list)
    was_cut: bool = False
    usd: Decimal | None = None

    @property
    def graded(self) -> list[float]:
        return [reward for reward in self.rewards if reward is not None]

    @property
    def mean(self) -> float | None:
        return fmean(self.graded) if self.graded else None

    @property
    def ungraded(self) -> int:
        return len(self.rewards) - len(self.graded)

    def share_of(self, value: float) -> float | None:
        return sum(reward == value for reward in self.graded) / len(self.graded) if self.graded else None

    @property
    def ties(self) -> int:
        """Graded samples whose reward another one has too: a grader that ties teaches little."""
        return sum(self.graded.count(reward) > 1 for reward in self.graded)

    @property
    def moved(self) -> list[int]:
        """Places whose reward differs from the published version's by more than 0.1."""
        pairs = enumerate(zip(self.rewards, self.before, strict=False))
        return [at for at, (now, old) in pairs if (now is None) != (old is None) or abs((now or 0) - (old or 0)) > 0.1]

    @property
    def mean_before(self) -> float | None:
        known = [reward for reward in self.before if reward is not None]
        return fmean(known) if known else None

    @property
    def usd_per_thousand(self) -> Decimal | None:
        return self.usd / len(self.rewards) * 1000 if self.usd is not None and self.rewards else None

    @property
    def why_ungraded(self) -> str:
        """What the first sample without a reward says."""
        return next((grade.details for grade in self.grades if grade.reward is None), "")


def trial_run(
    *, actor: Actor, team: Team, config: dict[str, Any], item: dict[str, Any], sample: Sample,
    published: GraderVersion | None = None,
) -> Trial:  # fmt: skip
    """Grade one sample with a draft, and with the published version beside it."""
    check_can(actor, Permission.VIEW, team=team)
    with draft_compiled(team=team, config=config) as grader:
        grade = grader.grade(item, sample, "trace_test")
        threshold = config.get("pass_threshold")
        threshold = 0.5 if threshold is None else threshold
        trial = Trial(grade, None if grade.reward is None else is_pass(grade.reward, threshold))
        _fill_parts(trial, grader, item, sample)
        trial.usd = judging_record(team=team, grades=[grade], source=TEST_SOURCE)
        if not is_costly(config):
            trial.is_repeatable = all(grader.grade(item, sample).reward == grade.reward for _ in range(2))
    if published is not None and not is_costly(published.config):
        with grader_compiled(published) as before:
            trial.published, trial.published_number = before.grade(item, sample), published.number
    return trial


def _fill_parts(trial: Trial, grader: CompiledGrader, item: dict[str, Any], sample: Sample) -> None:
    """The parts of the one grading that was paid for; cheap parts are timed by themselves."""
    if grader.kind != "multi":
        return
    rewards = trial.grade.sub_rewards
    values = {name: reward for name, reward in rewards.items() if reward is not None}
    shares: dict[str, Share] = {}
    try:
        formula = Formula(grader.config["calculate_output"], rewards)
        if formula.names <= values.keys():
            shares = {share.name: share for share in formula_shares(formula, values)}
            trial.arithmetic = arithmetic(formula.source, values, trial.grade.reward)
    except FormulaError:
        pass
    for name, part in trial.grade.parts.items():
        flags = tuple(flag for flag, value in part.errors.items() if value is True)
        trial.parts.append(PartResult(name, part.reward, part.milliseconds, part.details, shares.get(name), flags))


def arithmetic(formula: str, values: dict[str, float], reward: float | None) -> str:
    """The formula with its numbers put in: `min(1, 0.6 * 1.00 + 0.3 * 0.73) = 0.92`."""
    from graders.formula import NAME

    said = NAME.sub(lambda match: f"{values[match[0]]:.2f}" if match[0] in values else match[0], formula)
    return f"{said} = {reward:.2f}" if reward is not None else said


def set_run(
    *, actor: Actor, team: Team, config: dict[str, Any], samples: Iterable[StoredSample],
    published: GraderVersion | None = None,
) -> SetTrial:  # fmt: skip
    """Grade many samples, stopping after some seconds; says so when it was cut.

    A published version that costs nothing grades them too; of one that does, the rewards it gave then are taken.
    """
    check_can(actor, Permission.VIEW, team=team)
    whole = SetTrial()
    ends_at = time.monotonic() + SET_SECONDS
    with draft_compiled(team=team, config=config) as grader:
        for several in batched(samples, SIDE_BY_SIDE if grader.is_costly else 1):
            if time.monotonic() > ends_at:
                whole.was_cut = True
                break
            whole.samples += several
            whole.grades += _side_by_side(grader, several)
    whole.rewards = [grade.reward for grade in whole.grades]
    if published is not None:
        whole.before = _published_rewards(published, whole.samples)
    whole.usd = judging_record(team=team, grades=whole.grades, source=TEST_SOURCE)
    return whole


def _side_by_side(grader: CompiledGrader, several: Sequence[StoredSample]) -> list[Grade]:
    """Samples that wait for a judge or a server wait at the same time."""
    if len(several) == 1:
        return [grader.grade(several[0].item, several[0].sample)]
    grader.prepare()
    with ThreadPoolExecutor(len(several), thread_name_prefix="grader-set") as pool:
        return list(pool.map(lambda stored: grader.grade(stored.item, stored.sample), several))


def _published_rewards(published: GraderVersion, samples: Sequence[StoredSample]) -> list[float | None]:
    """Empty where nothing is known of what the published version gives."""
    if not is_costly(published.config):
        with grader_compiled(published) as before:
            return [before.grade(stored.item, stored.sample).reward for stored in samples]
    known = [stored.reward if stored.grader_version == published.public_id else None for stored in samples]
    return known if any(reward is not None for reward in known) else []


def batched(samples: Iterable[StoredSample], size: int) -> Iterator[list[StoredSample]]:
    remaining = iter(samples)
    while several := list(islice(remaining, size)):
        yield several


def gaming_run(*, version: GraderVersion, items: list[tuple[str, dict[str, Any]]]) -> list[TrickResult]:
    """Cheap tricks against a published version, over items as (key, row). Calls judges if the recipe has them."""
    with grader_compiled(version) as grader:
        return gaming_results(grader, items, pass_mark=version.pass_threshold)


def calibration_run(*, version: GraderVersion, samples: Iterable[StoredSample]) -> Calibration | None:
    """A published version against people's labels on the same samples; None without labelled, graded ones."""
    pairs = []
    with grader_compiled(version) as grader:
        for stored in samples:
            if stored.label is None:
                continue
            reward = grader.grade(stored.item, stored.sample).reward
            if reward is not None:
                pairs.append(Pair(stored.id, reward, stored.label, len(stored.sample.output_text)))
    return calibrate(pairs, pass_mark=version.pass_threshold)
