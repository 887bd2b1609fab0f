"""The database itself refuses to change or remove what the audit log says; whom it names can no longer be deleted."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from rftstudio.core.guards import guards_drop, guards_set

TABLES = ("teams_auditevent",)


def on(apps, schema_editor) -> None:
    guards_set(schema_editor.connection, TABLES)


def off(apps, schema_editor) -> None:
    guards_drop(schema_editor.connection, TABLES)


class Migration(migrations.Migration):
    dependencies = [("teams", "0001_initial")]

    operations = [
        migrations.AlterField(
            model_name="auditevent",
            name="team",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="audit_events", to="teams.team"
            ),
        ),
        migrations.AlterField(
            model_name="auditevent",
            name="user",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AlterField(
            model_name="auditevent",
            name="api_key",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="teams.apikey",
            ),
        ),
        migrations.RunPython(on, off),
    ]
