"""The full-text index of items. See datasets/item_search.py."""

from django.db import migrations

POSTGRESQL = """
CREATE TABLE datasets_item_words (item_id bigint PRIMARY KEY, version_id bigint NOT NULL, words tsvector NOT NULL);
CREATE INDEX datasets_item_words_found ON datasets_item_words USING gin (words);
CREATE INDEX datasets_item_words_place ON datasets_item_words (version_id, item_id);
"""
# Without the text itself, which stands in the item: half the size.
SQLITE = "CREATE VIRTUAL TABLE datasets_item_words USING fts5 (words, content='')"


def make(apps, schema_editor):
    schema_editor.execute(POSTGRESQL if schema_editor.connection.vendor == "postgresql" else SQLITE)


def drop(apps, schema_editor):
    schema_editor.execute("DROP TABLE datasets_item_words")


class Migration(migrations.Migration):
    dependencies = [("datasets", "0001_initial")]
    operations = [migrations.RunPython(make, drop)]
