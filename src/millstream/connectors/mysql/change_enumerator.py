"""First the tables, then their changes: no gap, and nothing twice.

Each table is read in ranges of its key, side by side, each subtask in a transaction of its own, whose position in
the log of changes is known. When all are finished, one subtask reads the changes from the first of these positions on,
and leaves those out that were read with their rows (`PartFilter`)::

    subtask 0  table a [0] [2] at 4711 ─┐
    subtask 1  table a [1] [3] at 4790 ─┴─► changes from 4711 on; up to 4790 only those of rows of [0] and [2]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError, LostInputError, NotSupportedError, SourceError
from millstream.connectors.key_ranges import Request
from millstream.connectors.mysql.address import MySqlAddress, is_away, load_pymysql, query, said
from millstream.connectors.mysql.binlog import ANEW, ChangePosition
from millstream.connectors.mysql.ddl import TableName
from millstream.connectors.mysql.enumerator import MySqlEnumerator, MySqlSnapshot, Part, read_relation
from millstream.connectors.mysql.moments import last_position, order_of
from millstream.connectors.mysql.relation import Relation, Table, find_table, quoted
from millstream.spi.source import PlanRequest, RangeEnd, SourcePlan, SplitEnumerator, SplitRange

__all__ = [
    "CHANGES",
    "ChangeEnumerator",
    "ChangeRequest",
    "ChangeSnapshot",
    "ChangeSplit",
    "TablesRead",
]

CHANGES = "changes"
"""Names the split of all changes."""
_OVER = "over"
"""Names the splits by which subtasks learn that the tables are read."""
_POLL_MS = 50
_ALIVE_MS = 10_000
"""The stream is looked after so often although nothing was logged."""


@dataclass(frozen=True)
class ChangeRequest:
    """What a program asks for.

    Attributes:
        tables: Names of tables, as SQL has them.
        reads_tables: Whether the tables are read before the changes.
        split_rows: Rows of a split of theirs.
    """

    tables: tuple[str, ...]
    reads_tables: bool
    split_rows: int


@dataclass(frozen=True, slots=True)
class ChangeSplit:
    """What a reader needs to read changes.

    Attributes:
        relations: The tables, by their names.
        parts: When what of them was read; empty if all changes count.
    """

    relations: dict[TableName, Relation]
    parts: dict[TableName, tuple[Part, ...]]


@dataclass(frozen=True, slots=True)
class TablesRead:
    """Tells a reader that there is nothing left to be read of the tables: it ends its transaction."""


@dataclass(frozen=True)
class ChangeSnapshot:
    """Where reading stands.

    Attributes:
        server: Number of the server, of whose log the position is.
        relations: The tables.
        reading: Where reading the tables stands; none if that was not asked for, or is over.
        parts: When what of them was read, if reading is over and it still matters.
        position: In the changes; None while tables are read.
    """

    server: str
    relations: tuple[Relation, ...]
    reading: tuple[MySqlSnapshot, ...]
    parts: dict[TableName, tuple[Part, ...]]
    position: ChangePosition | None


class ChangeEnumerator(SplitEnumerator):
    """Plans the ranges of a `MySqlChangeSource`.

    Args:
        address: The database.
        request: What is read.
        parallelism: Number of subtasks.
        restored: A snapshot to go on from.

    Raises:
        SourceError: If the server is away or refuses us, or something is missing.
        LostInputError: If the server has not got the changes behind the snapshot any more.
    """

    def __init__(
        self,
        address: MySqlAddress,
        request: ChangeRequest,
        parallelism: int,
        restored: ChangeSnapshot | None,
    ) -> None:
        self._address = address
        self._connection: Any = None
        self._is_behind = True
        self._next_ms = self._alive_ms = 0
        connection = address.connect()
        try:
            _check_server(connection, address)
            requests = [_check_table(connection, address, request, name) for name in request.tables]
            if len({each.table for each in requests}) < len(requests):
                raise ConfigurationError(f"a table is named twice: {', '.join(request.tables)}")
            ((server,),) = query(connection, "SELECT @@server_id")
            if restored is None:
                restored = _begin(connection, address, request, requests, server)
            _check_log(connection, address, restored, server)
        except load_pymysql().err.MySQLError as error:
            raise SourceError(f"changes of MySQL at {address} cannot be read", detail=said(error)) from error
        finally:
            connection.close()
        self._server = restored.server
        self._relations = restored.relations
        self._parts = dict(restored.parts)
        self._position = restored.position
        reads = self._position is None
        self._reading = [
            MySqlEnumerator(
                address,
                each,
                request.split_rows,
                None,
                parallelism,
                restored.reading[place] if restored.reading else None,
                keeps_moments=True,
            )
            for place, each in enumerate(requests if reads else [])
        ]
        if reads:
            self._relations = tuple(each.relation for each in self._reading)

    def plan(self, request: PlanRequest) -> SourcePlan:
        """Plan the ranges of the next table; when there is none left, the changes."""
        for reading in self._reading:
            if not reading.has_ended:
                return SourcePlan(reading.plan(request).ranges, backlog=True)
        if self._position is None:
            self._turn_to_changes()
            over = range(request.parallelism)
            return SourcePlan(
                {each: [SplitRange(f"{_OVER}[{each}]", TablesRead())] for each in over}, backlog=True
            )
        if not self._is_worth_reading(request.now_ms, self._position):
            return SourcePlan(next_ms=self._next_ms)
        split = ChangeSplit({_name(each): each for each in self._relations}, self._parts)
        changes = SplitRange(CHANGES, split, self._position, None, request.max_records)
        return SourcePlan({0: [changes]}, backlog=self._is_behind)

    def _turn_to_changes(self) -> None:
        """Begin where the first of the tables' parts was read."""
        self._parts = {_name(each.relation): tuple(each.parts) for each in self._reading}
        first = min((part.moment for parts in self._parts.values() for part in parts), key=order_of)
        self._position = (*first, 0)
        self._reading = []

    def _is_worth_reading(self, now_ms: int, position: ChangePosition) -> bool:
        """Return whether the server logged something since, or it is time to look after the stream."""
        if self._is_behind:
            return True
        if now_ms < self._next_ms:
            return False
        self._next_ms = now_ms + _POLL_MS
        if now_ms < self._alive_ms and not self._has_more(position):
            return False
        self._alive_ms = now_ms + _ALIVE_MS
        return True

    def _has_more(self, position: ChangePosition) -> bool:
        errors = load_pymysql().err
        if self._connection is None:
            self._connection = self._address.connect()
        try:
            last = last_position(self._connection, self._address)
        except (errors.MySQLError, OSError) as error:
            self._disconnect()
            if is_away(error):
                return True  # the reader finds out how things are
            raise SourceError(
                f"MySQL at {self._address} does not say how far it is", detail=said(error)
            ) from error
        return order_of(last) > order_of(position[:2])

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        """Take note of positions and finished ranges."""
        for end in ends:
            if end.split_id == CHANGES:
                self._is_behind = end.records > 0 or end.position != self._position
                self._position = end.position
                self._forget_parts(end.position)
                continue
            name = end.split_id.rpartition("[")[0]  # none has it that is over
            for reading in self._reading:
                if reading.relation.name == name:
                    reading.advance([end])

    def _forget_parts(self, position: ChangePosition) -> None:
        moments = [order_of(part.moment) for parts in self._parts.values() for part in parts]
        if moments and order_of(position[:2]) >= max(moments):
            self._parts = {}

    def snapshot(self) -> ChangeSnapshot:
        """Return where reading stands."""
        reading = tuple(each.snapshot() for each in self._reading)
        return ChangeSnapshot(self._server, self._relations, reading, dict(self._parts), self._position)

    def _disconnect(self) -> None:
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None

    def close(self) -> None:
        """Close the connection."""
        self._disconnect()


def _name(relation: Relation) -> TableName:
    assert relation.table is not None, "changes of a query"
    return relation.table


_SETTINGS = {
    "log_bin": ("ON", "Start the server with --log-bin --server-id=1."),
    "binlog_format": ("ROW", "SET GLOBAL binlog_format = 'ROW', and have writers connect again."),
    "binlog_row_image": ("FULL", "SET GLOBAL binlog_row_image = 'FULL', and have writers connect again."),
    "binlog_row_metadata": ("FULL", "SET GLOBAL binlog_row_metadata = 'FULL' (MySQL 8.0.1, MariaDB 10.5)."),
    "log_bin_compress": ("OFF", "SET GLOBAL log_bin_compress = OFF."),
    "binlog_row_value_options": (
        "",
        "SET GLOBAL binlog_row_value_options = '', and have writers connect again.",
    ),
}


def _check_server(connection: Any, address: MySqlAddress) -> None:
    """Check that the server logs changes so that rows can be read from them."""
    listed = ", ".join(f"'{name}'" for name in _SETTINGS)
    found = dict(query(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({listed})"))
    for name, (wanted, hint) in _SETTINGS.items():
        if (name in found or name == "binlog_row_metadata") and found.get(name) != wanted:
            raise SourceError(
                f"MySQL at {address} does not log what changes are read from: {name} is {found.get(name)!r}",
                hint=hint,
            )


_CHARSETS = ("", "binary", "ascii", "latin1", "utf8", "utf8mb3", "utf8mb4")
_COLUMNS = """
SELECT column_name, COALESCE(character_set_name, ''), extra FROM information_schema.columns
WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position
"""


def _check_table(connection: Any, address: MySqlAddress, request: ChangeRequest, name: str) -> Request:
    """Check that changes of a table can be read; return what to read of it."""
    table: Table = find_table(connection, name, address)
    if table.kind != "BASE TABLE":
        raise NotSupportedError(f"changes of {table.sql} cannot be read: it is a {table.kind.lower()}")
    if request.reads_tables and table.engine != "InnoDB":
        raise NotSupportedError(
            f"table {table.sql} cannot be read at one moment: it is of engine {table.engine}",
            hint=f"ALTER TABLE {table.sql} ENGINE = InnoDB; or read changes only (set_changes_only).",
        )
    columns = query(connection, _COLUMNS, (table.schema, table.name))
    for column, charset, _ in columns:
        if charset not in _CHARSETS:
            raise NotSupportedError(
                f"column {column!r} of {table.sql} is in character set {charset}, in which changes are not read",
                hint=f"ALTER TABLE {table.sql} CONVERT TO CHARACTER SET utf8mb4.",
            )
    own = tuple(column for column, _, extra in columns if "GENERATED" not in extra.replace("DEFAULT_", ""))
    return Request(f"{quoted(table.schema)}.{quoted(table.name)}", None, own, None, None)


def _begin(
    connection: Any, address: MySqlAddress, request: ChangeRequest, requests: Sequence[Request], server: str
) -> ChangeSnapshot:
    if request.reads_tables:
        return ChangeSnapshot(server, (), (), {}, None)
    position = (*last_position(connection, address), 0)
    relations = tuple(read_relation(address, each) for each in requests)
    return ChangeSnapshot(server, relations, (), {}, position)


def _check_log(connection: Any, address: MySqlAddress, snapshot: ChangeSnapshot, server: str) -> None:
    """Check that the server still has what is behind a snapshot."""
    if snapshot.server != server:
        raise LostInputError(
            f"MySQL at {address} is server {server}; the checkpoint's position is of server {snapshot.server}",
            detail="Each server has a log of its own.",
            hint=f"Name the server that the job read from. {ANEW}",
        )
    moments = [snapshot.position[:2]] if snapshot.position is not None else []
    for reading in snapshot.reading:
        moments += [part.moment for part in reading.parts]
        moments += [each.moment for each in reading.positions.values() if each.moment is not None]
    logs = {row[0]: int(row[1]) for row in query(connection, "SHOW BINARY LOGS")}
    for file, place in moments:
        if logs.get(file, 0) < place:
            raise LostInputError(
                f"MySQL at {address} has not got the changes behind {file}:{place} any more",
                detail=f"It has {', '.join(logs) or 'no log'}.",
                hint=f"{ANEW} Have the server keep its binlog longer (binlog_expire_logs_seconds).",
            )
