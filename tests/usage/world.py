"""A team with a month of spend, as its pages show it."""

from datetime import timedelta
from decimal import Decimal

from django.utils import timezone

from rftstudio.teams.actor import Actor
from rftstudio.usage.models import Approval
from rftstudio.usage.services import (
    Usage,
    quota_set,
    reservation_ask,
    reservation_hold,
    reservation_settle,
    usage_record_many,
)
from tests.factories.usage import PriceFactory


def month_of_spend(owner: Actor, member: Actor) -> Approval:
    """Three weeks of training, judges and evaluations; one line without a price; one request that waits."""
    team, now = owner.team, timezone.now()
    PriceFactory(usd=Decimal("14.40") / 3600)
    PriceFactory(unit="output_token", subject="judge-1", usd="0.00001")
    quota_set(actor=owner, usd_month=Decimal(900), approval_above_usd=Decimal(200), jobs_at_once=3, rollouts_day=5000)
    quota_set(actor=owner, user=member.user, usd_month=Decimal(700))
    reservation_hold(actor=member, source="ftjob-seven", kind="job", label="Job 7", amount=170)
    reservation_hold(actor=owner, source="evalrun_nineteen", kind="evaluation", label="Evaluation 19", amount=9)
    usages = []
    for n in range(21):
        at, seconds = now - timedelta(days=n, hours=3), 600 + 400 * ((n * 7) % 5)
        usages += [
            Usage(f"step {n}", "training_second", "trl", seconds, at, "ftjob-seven", "", f"Job 7, train step {21 - n}"),
            Usage(
                f"judge {n}", "output_token", "judge-1", 41_200 + n, at, "ftjob-seven", "judge", "Job 7, judge judge-1"
            ),
            Usage(f"evaluation {n}", "output_token", "judge-1", 5_000 * (n % 4), at, "evalrun_nineteen"),
        ]
    usages.append(Usage("new model", "output_token", "model-x", 12_000, now - timedelta(hours=1), "ftjob-seven"))
    usage_record_many(team=team, usages=[one for one in usages if one.quantity])
    reservation_settle(team=team, source="evalrun_nineteen")
    return reservation_ask(
        actor=member, source="ftjob-thirteen", kind="job", label="Job 13", amount=285, likely=250, rollouts=960,
        words="Customs classification · trl · 60 train steps, 960 rollouts",
        concern="Baseline 28 is not ready: 81 % of items always score 0.",
    )  # fmt: skip
