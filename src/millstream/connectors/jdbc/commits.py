"""The table of markers: what was done, noted in the transaction that did it.

==============================  =========================================================
name                            number
==============================  =========================================================
`<writer>`                      the last of its stages that was committed, from 1
`<writer>+<stage>`              how many batches are in that stage; gone when the stage is
==============================  =========================================================

A writer lives in one attempt of one subtask, and its name tells job, sink and attempt (`WriterContext.new_name`). So
numbers only grow, and a row is enough for each. Rows of writers, and stages that nobody came back for, are removed when
they have not changed for as long as the options say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from millstream.connectors.jdbc.database import Database, Session

__all__ = ["Markers"]


class Markers:
    """Reads and writes the table of markers.

    Args:
        database: Where it is.
        name: How it is called.
    """

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._table = database.quote_table(name)
        self._schema = name.rpartition(".")[0]
        self._name, self._number, self._at = map(database.quote, ("name", "number", "changed_ms"))

    def create(self, session: Session) -> None:
        """Make the table, if it is not there."""
        session.execute(
            f"CREATE TABLE IF NOT EXISTS {self._table} ({self._name} VARCHAR(200) NOT NULL PRIMARY KEY, "
            f"{self._number} BIGINT NOT NULL, {self._at} BIGINT NOT NULL)"
        )

    def begin(self, session: Session, name: str, now_ms: int) -> None:
        """Note 0 for a name that is not there."""
        columns = f"{self._name}, {self._number}, {self._at}"
        sql = self._database.insert_new(self._table, columns, "?, ?, ?", self._name)
        session.change(sql, (name, 0, now_ms))

    def advance(self, session: Session, name: str, number: int, now_ms: int) -> bool:
        """Note a number if it is larger than what is noted; return whether it was.

        Whoever notes for the same name at the same time waits until this transaction ends.
        """
        self.begin(session, name, now_ms)
        changed = session.change(
            f"UPDATE {self._table} SET {self._number} = ?, {self._at} = ? "
            f"WHERE {self._name} = ? AND {self._number} < ?",
            (number, now_ms, name, number),
        )
        return changed > 0

    def number(self, session: Session, name: str) -> int | None:
        """Return what is noted for a name."""
        rows = session.execute(f"SELECT {self._number} FROM {self._table} WHERE {self._name} = ?", (name,))
        return int(rows[0][0]) if rows else None

    def stages(self, session: Session, *, before_ms: int | None = None) -> list[str]:
        """Return the names of the stages that there are; those that were not changed since, if a time is given."""
        sql = f"SELECT {self._name} FROM {self._table} WHERE {self._name} LIKE ?"
        if before_ms is None:
            rows = session.execute(sql, ("%+%",))
        else:
            rows = session.execute(f"{sql} AND {self._at} < ?", ("%+%", before_ms))
        return [name for (name,) in rows]

    def stage_table(self, stage: str) -> str:
        """Return the name of the table of a stage, quoted: names of tables are short."""
        digest = hashlib.blake2b(stage.encode(), digest_size=12).hexdigest()
        name = f"millstream_stage_{digest}"
        return self._database.quote_table(f"{self._schema}.{name}" if self._schema else name)

    def drop_stages(self, session: Session, stages: Iterable[str]) -> None:
        """Remove stages: the table first, for it is found by what is noted."""
        for stage in stages:
            if self._database.short_waits is not None:
                session.execute(self._database.short_waits)
            session.execute(f"DROP TABLE IF EXISTS {self.stage_table(stage)}")
            session.change(f"DELETE FROM {self._table} WHERE {self._name} = ?", (stage,))

    def forget_writers(self, session: Session, before_ms: int) -> None:
        """Remove what is noted for writers and has not changed since a time."""
        session.change(
            f"DELETE FROM {self._table} WHERE {self._at} < ? AND {self._name} NOT LIKE ?", (before_ms, "%+%")
        )
