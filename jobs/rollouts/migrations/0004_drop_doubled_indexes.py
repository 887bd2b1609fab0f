"""Drop the indexes of foreign keys that begin another index of their table.

By hand: Django would copy the whole table in SQLite, millions of steps, and lose the triggers of the text search.
"""

import django.db.models.deletion
from django.db import migrations, models

DOUBLED = (("rollout", "team"), ("rollout", "batch"), ("step", "rollout"), ("largeresult", "step"))


def drop(apps, schema_editor):
    for model, name in DOUBLED:
        table, column = _place(apps, model, name)
        with schema_editor.connection.cursor() as cursor:
            found = schema_editor.connection.introspection.get_constraints(cursor, table)
        for index, about in found.items():
            if about["index"] and not about["unique"] and about["columns"] == [column]:
                schema_editor.execute(f"DROP INDEX {schema_editor.quote_name(index)}")


def make(apps, schema_editor):
    for model, name in DOUBLED:
        table, column = _place(apps, model, name)
        quote = schema_editor.quote_name
        schema_editor.execute(f"CREATE INDEX {quote(f'{table}_{column}')} ON {quote(table)} ({quote(column)})")


def _place(apps, model, name):
    meta = apps.get_model("rollouts", model)._meta
    return meta.db_table, meta.get_field(name).column


def key(to, related_name):
    return models.ForeignKey(
        db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name=related_name, to=to
    )


class Migration(migrations.Migration):
    dependencies = [("rollouts", "0003_views_masks_spans_list_index"), ("teams", "0001_initial")]
    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(drop, make)],
            state_operations=[
                migrations.AlterField("rollout", "team", key("teams.team", "+")),
                migrations.AlterField("rollout", "batch", key("rollouts.rolloutbatch", "rollouts")),
                migrations.AlterField("step", "rollout", key("rollouts.rollout", "steps")),
                migrations.AlterField("largeresult", "step", key("rollouts.step", "large_results")),
            ],
        )
    ]
