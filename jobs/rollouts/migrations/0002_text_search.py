"""An index for the text search of rollouts, kept by the database."""

from django.db import migrations

from jobs.rollouts.search import index_create, index_drop


def forwards(apps, schema_editor):
    index_create(schema_editor.connection)


def backwards(apps, schema_editor):
    index_drop(schema_editor.connection)


class Migration(migrations.Migration):
    dependencies = [("rollouts", "0001_initial")]
    operations = [migrations.RunPython(forwards, backwards)]
