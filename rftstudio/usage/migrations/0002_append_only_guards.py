"""The database itself refuses to change or remove ledger lines and prices."""

from django.db import migrations

from rftstudio.usage.guards import guards_drop, guards_set


def on(apps, schema_editor) -> None:
    guards_set(schema_editor.connection)


def off(apps, schema_editor) -> None:
    guards_drop(schema_editor.connection)


class Migration(migrations.Migration):
    dependencies = [("usage", "0001_initial")]

    operations = [migrations.RunPython(on, off)]
