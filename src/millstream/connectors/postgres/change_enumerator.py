"""First the tables as they were when the slot was made, then the changes since: no gap, and nothing twice.

The slot is made together with a snapshot of the database at its position. Each table is read in that snapshot, in
ranges of its key, side by side. When all are finished, one subtask reads the changes::

    slot made at 0/19235B8 ── snapshot ─► table a [0] [1] [2] ─► table b [0] ─► changes from 0/19235B8 on ...
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError, SourceError
from millstream.connectors.key_ranges import Request
from millstream.connectors.postgres.address import PostgresAddress, load_psycopg, said
from millstream.connectors.postgres.enumerator import PostgresEnumerator, PostgresSnapshot, read_relation
from millstream.connectors.postgres.relation import Relation, find_table, literal, quoted
from millstream.connectors.postgres.replication import ChangePosition, check_slot, from_lsn
from millstream.spi.source import PlanRequest, RangeEnd, SourcePlan, SplitEnumerator, SplitRange

__all__ = ["CHANGES", "ChangeEnumerator", "ChangeRequest", "ChangeSnapshot", "ChangeSplit"]

_log = logging.getLogger(__name__)

CHANGES = "changes"
"""Names the split of all changes."""
_POLL_MS = 50
_ALIVE_MS = 10_000
"""A server ends a stream of which it heard nothing for a minute (wal_sender_timeout)."""
_LOG = """
SELECT pg_wal_lsn_diff(
    CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END, '0/0')::int8
"""


@dataclass(frozen=True)
class ChangeRequest:
    """What a program asks for.

    Attributes:
        tables: Names of tables, as SQL has them.
        slot: Name of the replication slot.
        publication: Name of the publication.
        reads_tables: Whether the tables are read before the changes.
        split_rows: Rows of a split of theirs.
    """

    tables: tuple[str, ...]
    slot: str
    publication: str
    reads_tables: bool
    split_rows: int


@dataclass(frozen=True, slots=True)
class ChangeSplit:
    """What a reader needs to read changes.

    Attributes:
        relations: The tables.
    """

    relations: tuple[Relation, ...]


@dataclass(frozen=True)
class ChangeSnapshot:
    """Where reading stands.

    Attributes:
        relations: The tables.
        reading: Where reading the tables stands; none if that was not asked for.
        position: In the changes.
    """

    relations: tuple[Relation, ...]
    reading: tuple[PostgresSnapshot, ...]
    position: ChangePosition


class ChangeEnumerator(SplitEnumerator):
    """Plans the ranges of a `PostgresChangeSource`.

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
        address: PostgresAddress,
        request: ChangeRequest,
        parallelism: int,
        restored: ChangeSnapshot | None,
    ) -> None:
        self._address = address
        self._request = request
        self._parallelism = parallelism
        self._connection: Any = None
        self._is_behind = True
        self._next_ms = self._alive_ms = 0
        connection = address.connect()
        try:
            requests = _check_tables(connection, address, request)
            _publish(connection, address, request)
            if restored is None:
                restored = self._begin(connection, requests)
                self._reading = self._begun
            else:
                check_slot(connection, address, request.slot, restored.position[0])
                self._reading = [
                    PostgresEnumerator(address, each, request.split_rows, None, parallelism, kept)
                    for each, kept in zip(requests, restored.reading, strict=False)
                ]
        except load_psycopg().Error as error:
            raise SourceError(
                f"PostgreSQL at {address} cannot be made to send changes", detail=said(error)
            ) from error
        finally:
            connection.close()
        self._relations = restored.relations
        self._position = restored.position

    def _begin(self, connection: Any, requests: Sequence[Request]) -> ChangeSnapshot:
        """Make the slot, and look at the tables in its snapshot."""
        request, address = self._request, self._address
        self._begun: list[PostgresEnumerator] = []
        if not request.reads_tables:
            position = _slot_position(connection, address, request)
            relations = tuple(read_relation(address, each) for each in requests)
            return ChangeSnapshot(relations, (), (position, 0))
        _drop_own(connection, address, request)
        replication = address.connect(replication="database")
        try:
            position, snapshot = _make_slot(replication, address, request.slot)
            try:
                for each in requests:
                    self._begun.append(
                        PostgresEnumerator(
                            address, each, request.split_rows, None, self._parallelism, None, snapshot
                        )
                    )
            except BaseException:
                self._drop_begun(connection)
                raise
        finally:
            replication.close()
        relations = tuple(each.relation for each in self._begun)
        return ChangeSnapshot(relations, (), (position, 0))

    def _drop_begun(self, connection: Any) -> None:
        for each in self._begun:
            each.close()
        connection.execute(f"SELECT pg_drop_replication_slot({literal(self._request.slot)})")

    def plan(self, request: PlanRequest) -> SourcePlan:
        """Plan the ranges of the next table; when there is none left, the changes."""
        for reading in self._reading:
            if not reading.has_ended:
                return SourcePlan(reading.plan(request).ranges, backlog=True)
            reading.close()
        if not self._is_worth_reading(request.now_ms):
            return SourcePlan(next_ms=self._next_ms)
        split = ChangeSplit(self._relations)
        changes = SplitRange(CHANGES, split, self._position, None, request.max_records)
        return SourcePlan({0: [changes]}, backlog=self._is_behind)

    def _is_worth_reading(self, now_ms: int) -> bool:
        """Return whether the server logged something since, or it is time to show that we are still there."""
        if self._is_behind:
            return True
        if now_ms < self._next_ms:
            return False
        self._next_ms = now_ms + _POLL_MS
        if now_ms < self._alive_ms and self._log_position() <= self._position[0]:
            return False
        self._alive_ms = now_ms + _ALIVE_MS
        return True

    def _log_position(self) -> int:
        psycopg = load_psycopg()
        if self._connection is None:
            self._connection = self._address.connect()
        try:
            (position,) = self._connection.execute(_LOG).fetchone()
        except psycopg.Error as error:
            self._connection.close()
            self._connection = None
            if isinstance(error, psycopg.OperationalError):
                return self._position[0] + 1  # the reader finds out how things are
            raise SourceError(
                f"PostgreSQL at {self._address} does not say how far it is", detail=said(error)
            ) from error
        return int(position)

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        """Take note of positions and finished ranges."""
        for end in ends:
            if end.split_id == CHANGES:
                self._position = end.position
                self._is_behind = end.records > 0
                continue
            name = end.split_id.rpartition("[")[0]
            for reading in self._reading:
                if reading.relation.name == name:
                    reading.advance([end])

    def snapshot(self) -> ChangeSnapshot:
        """Return where reading stands."""
        return ChangeSnapshot(
            self._relations, tuple(each.snapshot() for each in self._reading), self._position
        )

    def close(self) -> None:
        """End the transactions; the slot stays."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        for reading in self._reading:
            reading.close()


_SETTING = "SELECT current_setting('wal_level')"
_IDENTITY = """
SELECT relreplident::text,
       (SELECT array_agg(attname::text ORDER BY attnum) FROM pg_catalog.pg_attribute
        WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = '')
FROM pg_catalog.pg_class c WHERE oid = %s
"""


def _check_tables(connection: Any, address: PostgresAddress, request: ChangeRequest) -> list[Request]:
    """Check that changes of the tables can be read whole; return what to read of each."""
    (level,) = connection.execute(_SETTING).fetchone()
    if level != "logical":
        raise SourceError(
            f"PostgreSQL at {address} does not log what changes are read from: wal_level is {level}",
            hint="Set wal_level = logical in postgresql.conf and restart the server.",
        )
    requests = []
    for name in request.tables:
        table = find_table(connection, name, address)
        if table.kind != "r" or table.has_children:
            raise NotSupportedError(
                f"changes of {table.name} cannot be read: it is a view, has partitions or is inherited from",
                hint="Name the partitions, each a table of its own.",
            )
        identity, columns = connection.execute(_IDENTITY, (table.oid,)).fetchone()
        if identity != "f":
            raise SourceError(
                f"table {table.name} does not log whole rows before they are changed (REPLICA IDENTITY)",
                detail="Without them there is no UPDATE_BEFORE, and of a deleted row only its key is known.",
                hint=f"ALTER TABLE {table.name} REPLICA IDENTITY FULL",
            )
        requests.append(Request(table.name, None, tuple(columns), None, None))
    if len({each.table for each in requests}) < len(requests):
        raise ConfigurationError(f"a table is named twice: {', '.join(request.tables)}")
    return requests


_PUBLISHED = """
SELECT format('%%I.%%I', schemaname, tablename) FROM pg_catalog.pg_publication_tables WHERE pubname = %s
"""


def _publish(connection: Any, address: PostgresAddress, request: ChangeRequest) -> None:
    """Make the publication; check one that is there."""
    names = [find_table(connection, each, address).name for each in request.tables]
    there = "SELECT 1 FROM pg_catalog.pg_publication WHERE pubname = %s"
    if connection.execute(there, (request.publication,)).fetchone() is None:
        connection.execute(f"CREATE PUBLICATION {quoted(request.publication)} FOR TABLE {', '.join(names)}")
        return
    published = {row[0] for row in connection.execute(_PUBLISHED, (request.publication,)).fetchall()}
    if missing := [name for name in names if name not in published]:
        raise SourceError(
            f'publication "{request.publication}" has not got table {missing[0]}',
            hint=f"ALTER PUBLICATION {quoted(request.publication)} ADD TABLE {missing[0]}",
        )


_FOUND = """
SELECT plugin::text, database::text = current_database(), confirmed_flush_lsn::text
FROM pg_catalog.pg_replication_slots WHERE slot_name = %s
"""


def _find_slot(connection: Any, address: PostgresAddress, slot: str) -> Any:
    """Return what is known of a slot, None if there is none; it is one that a source like this one has made."""
    found = connection.execute(_FOUND, (slot,)).fetchone()
    if found is not None and (found[0] != "pgoutput" or not found[1]):
        raise SourceError(
            f'replication slot "{slot}" of PostgreSQL at {address} is not of this database, or of another plugin',
            hint="Choose another name (set_slot_name).",
        )
    return found


def _drop_own(connection: Any, address: PostgresAddress, request: ChangeRequest) -> None:
    """Remove the slot of an attempt that made no checkpoint, or of a job that is not gone on with."""
    psycopg = load_psycopg()
    if _find_slot(connection, address, request.slot) is None:
        return
    try:  # the stream of an attempt that failed may be there for a moment
        address.patience.call(
            lambda: connection.execute("SELECT pg_drop_replication_slot(%s)", (request.slot,)),
            is_passing=lambda error: isinstance(error, psycopg.errors.ObjectInUse),
            what=f"removing replication slot {request.slot}",
            log=_log,
        )
    except psycopg.errors.ObjectInUse as error:
        raise SourceError(
            f'replication slot "{request.slot}" of PostgreSQL at {address} is in use',
            detail=said(error),
            hint="One job reads from a slot: stop the other, or give this one a slot of its own (set_slot_name).",
        ) from error
    _log.warning(
        'replication slot "%s" of PostgreSQL at %s is made anew: the job goes on from no checkpoint',
        request.slot,
        address,
    )


def _make_slot(replication: Any, address: PostgresAddress, slot: str) -> tuple[int, str]:
    """Make the slot; return its position and the name of the snapshot at it, which lives until the next command."""
    psycopg = load_psycopg()
    result = replication.pgconn.exec_(
        f"CREATE_REPLICATION_SLOT {quoted(slot)} LOGICAL pgoutput EXPORT_SNAPSHOT".encode()
    )
    if result.status != psycopg.pq.ExecStatus.TUPLES_OK:
        error = psycopg.errors.error_from_result(result, encoding="utf-8")
        raise SourceError(
            f'PostgreSQL at {address} makes no replication slot "{slot}"',
            detail=said(error),
            hint="The user needs the attribute REPLICATION, and max_replication_slots has to leave room for one more.",
        ) from error
    return from_lsn(result.get_value(0, 1).decode()), result.get_value(0, 2).decode()


def _slot_position(connection: Any, address: PostgresAddress, request: ChangeRequest) -> int:
    """Return where the slot is; it is made if it is missing."""
    found = _find_slot(connection, address, request.slot)
    if found is not None:
        return from_lsn(found[2])
    (made,) = connection.execute(
        "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'pgoutput')", (request.slot,)
    ).fetchone()
    return from_lsn(made)
