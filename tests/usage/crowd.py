"""Fifty people who launch at the same moment, each a process of its own. `python crowd.py`, database by DATABASE_URL.

Prints one JSON object: how many held money, what the refused ones were told, and the most that was ever held and spent
together, as a watcher saw it meanwhile. Half of those who hold spend a part and settle, so that sums move both ways.
"""

import json
import multiprocessing
import os
import sys
import time
from decimal import Decimal

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "rftstudio.settings.test"
django.setup()

from django.db import connection  # noqa: E402
from django.utils import timezone  # noqa: E402

from rftstudio.core.errors import QuotaExceeded  # noqa: E402
from rftstudio.teams.actor import Actor  # noqa: E402
from rftstudio.teams.models import Membership, Team  # noqa: E402
from rftstudio.usage import selectors  # noqa: E402
from rftstudio.usage.services import reservation_hold, reservation_settle, usage_record  # noqa: E402

CROWD, AMOUNT = 50, Decimal("0.70")


def launch(number: int, start, told, spends: bool) -> None:
    """One person: waits for the start, holds, and perhaps spends half of it and settles."""
    connection.close()
    member = Membership.objects.select_related("team", "user").get()
    actor = Actor(team=member.team, role=member.role, user=member.user)
    source = f"ftjob-{number}"
    start.wait()
    try:
        reservation_hold(actor=actor, source=source, kind="job", label=f"Job {number}", amount=AMOUNT)
    except QuotaExceeded as exc:
        told.put(str(exc))
        return
    told.put("")
    if spends:
        usage_record(
            team=actor.team, source=f"{source}/1", unit="training_second", subject="trl", quantity=AMOUNT / 2,
            at=timezone.now(), batch_source=source,
        )  # fmt: skip
        reservation_settle(team=actor.team, source=source)


def watch(stop, most) -> None:
    """Look at the budget again and again; keep the highest sum of spent and held."""
    connection.close()
    team = Team.objects.get()
    highest = Decimal(0)
    while not stop.is_set():
        budget = budget_at_one_moment(team)
        highest = max(highest, budget.spent + budget.held)
        time.sleep(0.005)
    most.put(str(highest))


def budget_at_one_moment(team: Team) -> selectors.Budget:
    """Both sums of one snapshot: a spend between two reads would count twice."""
    from django.db import transaction

    with transaction.atomic():
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        return selectors.budget_get(team=team)


def main(spends: bool) -> None:
    fork = multiprocessing.get_context("fork")
    start, stop, told, most = fork.Event(), fork.Event(), fork.Queue(), fork.Queue()
    connection.close()
    people = [fork.Process(target=launch, args=(n, start, told, spends)) for n in range(CROWD)]
    watcher = fork.Process(target=watch, args=(stop, most))
    for process in [*people, watcher]:
        process.start()
    start.set()
    answers = [told.get(timeout=120) for _ in people]
    for process in people:
        process.join(60)
    stop.set()
    highest = most.get(timeout=30)
    watcher.join(30)
    print(json.dumps({
        "admitted": answers.count(""), "refused": sorted(set(filter(None, answers))), "highest": highest,
        "failed": sum(process.exitcode != 0 for process in people),
    }))  # fmt: skip


if __name__ == "__main__":
    main("spend" in sys.argv[1:])
