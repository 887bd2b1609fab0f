"""Text search over rollouts by an index of the database's own: FTS5 in SQLite, a tsvector in PostgreSQL.

The index knows title, answer, error, item and tools of every rollout; triggers and a generated column keep it true, whoever
writes the row. In SQLite it also knows the team, as a word that no text can hold, so that one team's search does not read
another's matches. A later migration that rebuilds the table in SQLite loses the triggers and has to set them again;
`tests/jobs/rollouts/test_search.py` fails until it does.
"""

# ruff: noqa: S608 - SQL is put together from constants; what people type is a parameter.

import re

from django.db import connection
from django.db.models.expressions import RawSQL

#: A search looks no further than so many of the newest matches.
MOST = 10_000
_LONGEST = 4_000  # characters of an answer or an error that are indexed
_TABLE = "rollouts_search"
_WORD = re.compile(r"[^\W_]+")

_TEXT = (
    f"'ofteam' || {{row}}.team_id || 'x ' || {{row}}.title || ' ' || substr({{row}}.answer, 1, {_LONGEST}) || ' ' || "
    f"substr({{row}}.error, 1, {_LONGEST}) || ' ' || {{row}}.group_key || ' ' || {{row}}.tool_path"
)
_OLD, _NEW = _TEXT.format(row="old"), _TEXT.format(row="new")
_SQLITE_TRIGGERS = (
    f"CREATE TRIGGER {_TABLE}_insert AFTER INSERT ON rollouts_rollout BEGIN "
    f"INSERT INTO {_TABLE}(rowid, words) VALUES (new.id, {_NEW}); END",
    f"CREATE TRIGGER {_TABLE}_delete AFTER DELETE ON rollouts_rollout BEGIN "
    f"INSERT INTO {_TABLE}({_TABLE}, rowid, words) VALUES ('delete', old.id, {_OLD}); END",
    f"CREATE TRIGGER {_TABLE}_update AFTER UPDATE OF team_id, title, answer, error, group_key, tool_path ON rollouts_rollout "
    f"WHEN {_OLD} <> {_NEW} BEGIN "
    f"INSERT INTO {_TABLE}({_TABLE}, rowid, words) VALUES ('delete', old.id, {_OLD}); "
    f"INSERT INTO {_TABLE}(rowid, words) VALUES (new.id, {_NEW}); END",
)
# ASCII punctuation parts words here as it does in FTS5; PostgreSQL alone would keep "-1" and "0.18" whole.
_POSTGRES = (
    "ALTER TABLE rollouts_rollout ADD COLUMN search_words tsvector GENERATED ALWAYS AS (to_tsvector('simple'::regconfig, "
    f"regexp_replace(title || ' ' || left(answer, {_LONGEST}) || ' ' || left(error, {_LONGEST}) || ' ' || group_key "
    "|| ' ' || tool_path, '[!-/:-@\\[-`{-~]+', ' ', 'g'))) STORED",
    f"CREATE INDEX {_TABLE} ON rollouts_rollout USING gin (search_words)",
)


def index_create(connection) -> None:
    """Make the index and fill it from what is stored. For the migration."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            for statement in _POSTGRES:
                cursor.execute(statement)
            return
        cursor.execute(f"CREATE VIRTUAL TABLE {_TABLE} USING fts5(words, content='', detail=none, columnsize=0)")
        cursor.execute(f"INSERT INTO {_TABLE}(rowid, words) SELECT id, {_TEXT.format(row='r')} FROM rollouts_rollout r")
        for statement in _SQLITE_TRIGGERS:
            cursor.execute(statement)


def index_drop(connection) -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("ALTER TABLE rollouts_rollout DROP COLUMN IF EXISTS search_words")
            return
        for deed in ("insert", "delete", "update"):
            cursor.execute(f"DROP TRIGGER IF EXISTS {_TABLE}_{deed}")
        cursor.execute(f"DROP TABLE IF EXISTS {_TABLE}")


def matches(team_id: int, text: str, *, most: int | None = MOST, below: int | None = None) -> RawSQL | None:
    """Ids of the team's newest rollouts with all these words, as a subquery; None when there is no word in the text.

    A star at the end of the text stands for any ending of its last word.     `below` is an id that all found ones are older than; without `most` all are found.
    """
    words = [word.lower() for word in _WORD.findall(text)]
    if not words:
        return None
    is_start = text.rstrip().endswith("*")  # every word that begins so; whole words are found much quicker
    if connection.vendor == "postgresql":
        sql = "SELECT id AS found FROM rollouts_rollout WHERE search_words @@ to_tsquery('simple', %s) AND team_id = %s"
        params: list = [" & ".join(f"'{word}'" for word in words) + (":*" if is_start else ""), team_id]
    else:
        sql = f"SELECT rowid AS found FROM {_TABLE} WHERE {_TABLE} MATCH %s"
        quoted = [f'"{word}"' for word in [f"ofteam{team_id}x", *words]]
        params = [" AND ".join(quoted) + ("*" if is_start else "")]
    if below is not None:
        sql += " AND id < %s" if connection.vendor == "postgresql" else " AND rowid < %s"
        params.append(below)
    if most is not None:
        sql += " ORDER BY found DESC LIMIT %s" if connection.vendor == "postgresql" else " ORDER BY rowid DESC LIMIT %s"
        params.append(most)
    return RawSQL(sql, params)  # noqa: S611 - values are parameters


def count(team_id: int, text: str, most: int) -> int:
    """How many of the team's rollouts have all these words, counted up to `most`."""
    found = matches(team_id, text, most=most)
    if found is None:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM ({found.sql}) AS counted", found.params)
        return int(cursor.fetchone()[0])
