"""One slice of a re-grading run: claim, grade in threads, store, until its time is over, its money spent or all done.

The thread that runs the slice keeps the database to itself.
"""

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.utils import timezone

from graders.failures import GraderInvalid
from graders.grading import CompiledGrader
from graders.selectors import models_of
from graders.services import grader_compiled
from graders.types import Grade, Sample
from graders.validation import is_costly
from jobs.rollouts import regrade
from jobs.rollouts import regrade_selectors as selectors
from jobs.rollouts.models import RegradeResult, RegradeRun
from jobs.rollouts.stored import stored_sample
from rftstudio.usage.models import Category, Unit
from rftstudio.usage.selectors import spend_stop_reason
from rftstudio.usage.services import Usage, usage_record_many

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
RENEW_SECONDS = 10.0
THREADS_COSTLY, THREADS = 8, 2
AT_ONCE = 64  # claimed together where grading costs nothing


def run_turn(run: RegradeRun, *, seconds: float) -> int:
    """Grade for about so many seconds; returns how many rollouts were stored."""
    try:
        grader = grader_compiled(run.grader_version)
    except GraderInvalid as exc:
        regrade.regrade_fail(run=run, note=f"The grader cannot run: {exc}")
        return 0
    costly = is_costly(run.grader_version.config)
    threads = THREADS_COSTLY if costly else THREADS
    with grader, ThreadPoolExecutor(threads, thread_name_prefix="regrade") as pool:
        return _Turn(run, grader, pool, threads if costly else AT_ONCE, seconds).run()


class _Turn:
    def __init__(
        self, run: RegradeRun, grader: CompiledGrader, pool: ThreadPoolExecutor, at_once: int, seconds: float
    ) -> None:
        self.run_row, self.grader, self.pool, self.at_once = run, grader, pool, at_once
        self.in_flight: dict[Future[Grade], RegradeResult] = {}
        self.ends_at = time.monotonic() + seconds
        self.renew_at = time.monotonic() + RENEW_SECONDS
        self.is_claiming = True
        self.has_judges = bool(models_of(run.grader_version.config))
        self.stored = 0

    def run(self) -> int:
        try:
            self._claim()
            while self.in_flight:
                done, _ = wait(self.in_flight, timeout=LOOK_SECONDS)
                self._store([(self.in_flight.pop(future), future.result()) for future in done])
                self._renew()
                self._claim()
        except BaseException:
            for future in self.in_flight:
                future.cancel()
            regrade.results_hand_back(row.pk for row in self.in_flight.values())
            raise
        return self.stored

    def _claim(self) -> None:
        if not self.is_claiming:
            return
        if self.has_judges and self._waits() and (why := self._money_says_stop()):
            regrade.regrade_pause(run=self.run_row, note=why)
        if time.monotonic() >= self.ends_at or not self._is_wanted():
            self.is_claiming = False
            return
        for row in regrade.results_claim(self.run_row, self._room()):
            sample = stored_sample(row.rollout)
            self.grader.prepare()
            future = self.pool.submit(self._grade, row.rollout.item.data, sample, row.rollout.trace_id)
            self.in_flight[future] = row

    def _money_says_stop(self) -> str:
        return spend_stop_reason(team=self.run_row.team, source=self.run_row.public_id)

    def _is_wanted(self) -> bool:
        return RegradeRun.objects.filter(pk=self.run_row.pk, status__in=selectors.ACTIVE).exists()

    def _room(self) -> int:
        """How many more may be begun: by threads, and by what is left of the money if each cost as the dearest did."""
        free = self.at_once - len(self.in_flight)
        cap = self.run_row.cap_usd
        if cap is None or not self.has_judges:
            return free
        left = cap - selectors.regrade_spent(self.run_row)
        dearest = selectors.regrade_dearest(self.run_row)
        if not dearest:
            return min(free, 0 if self.in_flight else 1)  # the first one shows what a rollout costs
        affordable = int(left / dearest) - len(self.in_flight)
        if affordable < 1 and not self.in_flight and self._waits():
            regrade.regrade_pause(
                run=self.run_row,
                note=f"The limit of ${cap} allows no further rollout: ${cap - left:.4f} are spent, and one costs up to "
                f"${dearest:.4f}.",
            )
        return min(free, max(0, affordable))

    def _waits(self) -> bool:
        return self.run_row.results.filter(status=RegradeResult.Status.QUEUED).exists()

    def _grade(self, item: dict[str, Any], sample: Sample, trace_id: str) -> Grade:
        try:
            return self.grader.grade(item, sample, trace_id)
        except Exception as exc:  # graders promise not to raise; one that does leaves this rollout ungraded
            log.exception("grader broke on %s", trace_id)
            return Grade(None, errors={"other_error": True}, details=f"The grader broke ({type(exc).__name__}).")

    @transaction.atomic
    def _store(self, graded: list[tuple[RegradeResult, Grade]]) -> None:
        if not graded:
            return
        usages = {row.pk: self._usages(row, grade) for row, grade in graded}
        dollars = usage_record_many(team=self.run_row.team, usages=[one for each in usages.values() for one in each])
        for row, grade in graded:
            cost = _sum([dollars[usage.source] for usage in usages[row.pk]])
            self.stored += regrade.result_store(row, grade=grade.as_dict(), cost_usd=cost)

    def _usages(self, row: RegradeResult, grade: Grade) -> list[Usage]:
        """Tokens of judges. The attempt is in the key: a rollout whose worker was lost did cost twice."""
        now, run_id = timezone.now(), self.run_row.public_id
        found = []
        for model, used in grade.usage.items():
            key = f"{run_id}:{row.rollout_id}:{row.attempt}:{model}"[:150]
            for unit, end, count in (
                (Unit.INPUT_TOKEN, "in", used.get("prompt_tokens", 0)),
                (Unit.OUTPUT_TOKEN, "out", used.get("completion_tokens", 0)),
            ):
                if count:
                    found.append(Usage(f"{key}:{end}", unit, model, count, now, run_id, Category.JUDGE))
        return found

    def _renew(self) -> None:
        if self.in_flight and time.monotonic() >= self.renew_at:
            self.renew_at = time.monotonic() + RENEW_SECONDS
            regrade.results_renew(row.pk for row in self.in_flight.values())


def _sum(parts: list[Decimal | None]) -> Decimal | None:
    """None where nothing was used or any part has no price: a part of a sum is not a sum."""
    return sum(parts, Decimal(0)) if parts and None not in parts else None
