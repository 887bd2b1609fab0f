"""The database itself refuses to change or remove ledger lines and prices."""

from django.db import migrations

from rftstudio.core.guards import guards_drop, guards_set

TABLES = ("usage_ledgerline", "usage_price")


def on(apps, schema_editor) -> None:
    guards_set(schema_editor.connection, TABLES)


def off(apps, schema_editor) -> None:
    guards_drop(schema_editor.connection, TABLES)


class Migration(migrations.Migration):
    dependencies = [("usage", "0001_initial")]

    operations = [migrations.RunPython(on, off)]
