"""Triggers that make a table append-only, in SQLite and PostgreSQL alike.

A later migration that rebuilds such a table in SQLite loses its triggers, and has to set them again;
`tests/core/test_guards.py` fails until it does.
"""

from collections.abc import Iterable

#: Tables whose rows are only ever added. A migration names its own: those of other rooms may not be there yet.
APPEND_ONLY = ("usage_ledgerline", "usage_price", "teams_auditevent")

_SQLITE = """
CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table}
BEGIN SELECT RAISE(ABORT, '{table} is append-only: add another line instead'); END;
CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table}
BEGIN SELECT RAISE(ABORT, '{table} is append-only: add another line instead'); END;
"""
_SQLITE_OFF = """
DROP TRIGGER IF EXISTS {table}_no_update;
DROP TRIGGER IF EXISTS {table}_no_delete;
"""
_POSTGRES = """
CREATE OR REPLACE FUNCTION studio_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only: add another line instead', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE ON {table}
FOR EACH ROW EXECUTE FUNCTION studio_append_only();
CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table}
FOR EACH STATEMENT EXECUTE FUNCTION studio_append_only();
"""
_POSTGRES_OFF = """
DROP TRIGGER IF EXISTS {table}_no_change ON {table};
DROP TRIGGER IF EXISTS {table}_no_truncate ON {table};
"""


def guards_set(connection, tables: Iterable[str] = APPEND_ONLY) -> None:
    """Put the triggers in place, whether or not they were there."""
    guards_drop(connection, tables)
    _run(connection, tables, _POSTGRES if connection.vendor == "postgresql" else _SQLITE)


def guards_drop(connection, tables: Iterable[str] = APPEND_ONLY) -> None:
    """Only for migrations that rebuild a table, and for emptying a test's database."""
    _run(connection, tables, _POSTGRES_OFF if connection.vendor == "postgresql" else _SQLITE_OFF)


def _run(connection, tables: Iterable[str], script: str) -> None:
    with connection.cursor() as cursor:
        for table in tables:
            if connection.vendor == "postgresql":
                cursor.execute(script.format(table=table))
            else:
                for statement in _statements(script.format(table=table)):
                    cursor.execute(statement)


def _statements(script: str) -> list[str]:
    """One statement each: SQLite's driver takes no more, and a trigger's body holds semicolons of its own."""
    found, lines = [], []
    for line in filter(str.strip, script.splitlines()):
        lines.append(line)
        if line.endswith("END;") or (line.endswith(";") and line.startswith("DROP")):
            found.append("\n".join(lines))
            lines = []
    return found
