"""The database refuses to change or remove what was written down."""

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.models import ProtectedError
from django.utils import timezone

from rftstudio.core.guards import APPEND_ONLY
from rftstudio.teams.models import AuditEvent
from rftstudio.teams.services import audit
from rftstudio.usage.models import LedgerLine, Price
from rftstudio.usage.services import usage_record
from tests.factories.usage import PriceFactory


@pytest.fixture
def line(team):
    PriceFactory()
    usage_record(team=team, source="s", unit="training_second", subject="trl", quantity=3, at=timezone.now())
    return LedgerLine.objects.get()


def refused(deed) -> None:
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        deed()


def test_ledger_line_cannot_be_changed_or_removed(line):
    refused(lambda: LedgerLine.objects.filter(pk=line.pk).update(usd=1))
    refused(lambda: LedgerLine.objects.filter(pk=line.pk).update(note="x"))
    refused(lambda: LedgerLine.objects.filter(pk=line.pk).delete())
    refused(line.delete)
    line.usd = 9
    refused(line.save)
    assert LedgerLine.objects.get().usd == 3


def test_price_cannot_be_changed_or_removed(line):
    refused(lambda: Price.objects.update(usd=2))
    refused(lambda: Price.objects.all().delete())


def test_audit_log_cannot_be_changed_or_removed(team, member):
    audit(member, "thing.done", note="as it was")
    refused(lambda: AuditEvent.objects.update(verb="thing.undone"))
    refused(lambda: AuditEvent.objects.update(user=None))
    refused(lambda: AuditEvent.objects.all().delete())
    with pytest.raises(ProtectedError):
        member.user.delete()
    assert AuditEvent.objects.get(verb="thing.done").data == {"note": "as it was"}


@pytest.mark.parametrize("table", APPEND_ONLY)
def test_each_append_only_table_has_its_guards(table, db):
    """A migration that rebuilds the table in SQLite loses them, and has to set them again."""
    query = "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND tbl_name = %s"
    if connection.vendor == "postgresql":
        query = "SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal AND tgrelid = %s::regclass"
    with connection.cursor() as cursor:
        cursor.execute(query, [table])
        assert cursor.fetchone()[0] == 2


@pytest.mark.django_db(transaction=True)
def test_the_ledger_is_empty_again_for_each_test_that_commits(team):
    assert not LedgerLine.objects.exists()
    usage_record(team=team, source="s", unit="training_second", subject="trl", quantity=3, at=timezone.now())
