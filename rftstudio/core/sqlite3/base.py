"""SQLite as Django has it, with one change: the threads of a process take turns at writing.

SQLite lets one writer in and makes the others poll, with pauses up to a tenth of a second and luck to decide. Sixteen
threads that write at once starve each other until one has waited its whole timeout: "database is locked". Here they
queue, so a thread waits for those before it and for no one else. Between processes SQLite's own way remains; there are
few of them.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db.backends.sqlite3 import base
from django.db.utils import OperationalError

from rftstudio.core.sqlite3.turns import Turns

_turns: defaultdict[str, Turns] = defaultdict(Turns)  # by database file
os.register_at_fork(after_in_child=_turns.clear)  # a parent's thread that writes is not in its child

_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE")


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection that writes in its turn: a whole transaction, or a single statement outside of one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._held: Turns | None = None

    def create_cursor(self, name: str | None = None) -> Any:
        cursor = self.connection.cursor(factory=_Cursor)
        cursor.turn = self._turn_of_statement
        return cursor

    def _start_transaction_under_autocommit(self) -> None:
        self._take()
        try:
            super()._start_transaction_under_autocommit()  # type: ignore[misc] # the stubs leave it out
        except BaseException:
            self._give()
            raise

    def _commit(self) -> None:
        super()._commit()  # type: ignore[misc] # the stubs leave it out
        self._give()

    def _rollback(self) -> None:
        try:
            super()._rollback()  # type: ignore[misc] # the stubs leave it out
        finally:
            self._give()

    def _close(self) -> None:
        try:
            super()._close()  # type: ignore[misc] # the stubs leave it out
        finally:
            self._give()

    @contextmanager
    def _turn_of_statement(self, query: str) -> Iterator[None]:
        is_alone = self._held is None and query.lstrip()[:7].upper().startswith(_WRITES)
        if is_alone:
            self._take()
        try:
            yield
        finally:
            if is_alone:
                self._give()

    def _take(self) -> None:
        turns = _turns[str(self.settings_dict["NAME"])]
        if not turns.take(float(self.settings_dict["OPTIONS"].get("timeout", 5))):
            raise OperationalError("database is locked: another thread of this process has been writing all the time")
        self._held = turns

    def _give(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.give()


class _Cursor(base.SQLiteCursorWrapper):
    turn: Any  # set by whoever makes the cursor

    def execute(self, query: str, params: Any = None) -> Any:
        with self.turn(query):
            return super().execute(query, params)

    def executemany(self, query: str, param_list: Any) -> Any:
        with self.turn(query):
            return super().executemany(query, param_list)
