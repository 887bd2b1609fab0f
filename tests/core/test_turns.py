"""Writers of one process queue: nobody is starved, a transaction that is left by any way hands the turn on."""

import threading

import pytest
from django.db import connection, connections, transaction
from django.db.utils import OperationalError

from rftstudio.core.sqlite3.turns import Turns
from rftstudio.teams.models import Team

sqlite_only = pytest.mark.skipif("connection.vendor != 'sqlite'", reason="other databases lock rows, not files")


def test_turns_come_in_the_order_of_asking():
    turns, came, asked = Turns(), [], threading.Semaphore(0)
    turns.take(1)

    def ask(number: int) -> None:
        asked.release()
        assert turns.take(10)
        came.append(number)
        turns.give()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for number, thread in enumerate(threads, 1):
        thread.start()
        while len(turns._waiting) < number:
            pass
    turns.give()
    for thread in threads:
        thread.join()
    assert came == list(range(8))


def test_turn_that_does_not_come_in_time_leaves_the_queue():
    turns = Turns()
    assert turns.take(0)
    assert turns.take(0.01) is False
    turns.give()
    assert turns.take(0)


@sqlite_only
@pytest.mark.django_db(transaction=True)
def test_every_way_out_of_a_transaction_hands_the_turn_on():
    with transaction.atomic():
        Team.objects.create(name="kept", slug="kept")
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        Team.objects.create(name="lost", slug=str(1 // 0))
    with pytest.raises(OperationalError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT * FROM no_such_table")
    with transaction.atomic():
        connection.close()
    Team.objects.filter(slug="kept").update(name="written alone")
    assert connection._held is None
    with transaction.atomic():
        assert connection._held is not None
    assert list(Team.objects.values_list("name", flat=True)) == ["written alone"]


@sqlite_only
@pytest.mark.django_db(transaction=True)
def test_many_threads_that_write_at_once_lose_no_update():
    team = Team.objects.create(name="0", slug="count")

    def write() -> None:
        for _ in range(20):
            with transaction.atomic():
                row = Team.objects.get(pk=team.pk)
                Team.objects.filter(pk=team.pk).update(name=str(int(row.name) + 1))
        connections.close_all()

    threads = [threading.Thread(target=write) for _ in range(12)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    team.refresh_from_db()
    assert team.name == "240"


@sqlite_only
@pytest.mark.django_db(transaction=True)
def test_thread_that_finds_no_turn_is_told_so(monkeypatch):
    found: list = []

    def write() -> None:
        connections["default"].settings_dict = {
            **connection.settings_dict,
            "OPTIONS": {**connection.settings_dict["OPTIONS"], "timeout": 0.05},
        }
        try:
            Team.objects.create(name="x", slug="x")
        except OperationalError as exc:
            found.append(str(exc))
        connections.close_all()

    with transaction.atomic():
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    assert "another thread" in found[0]
