"""Rows of a table, looked up by key: a prepared statement for each key, many at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from millstream.base.errors import ConfigurationError, SourceError, shorten
from millstream.connectors.blocking_lookup import BlockingLookup, LookupBuilder, LookupSettings, rows_by_key
from millstream.connectors.cassandra.client import CassandraClient
from millstream.connectors.cassandra.cluster import load_driver
from millstream.connectors.cassandra.connection_builder import ReadSettings
from millstream.connectors.cassandra.queries import Select, quote
from millstream.connectors.cassandra.reading import CassandraRead
from millstream.connectors.cassandra.rows import convert
from millstream.connectors.cassandra.schema import read_columns
from millstream.connectors.cassandra.values import RowReader
from millstream.connectors.key_ranges import Request, wanted_columns

__all__ = ["CassandraLookup", "CassandraLookupBuilder"]


@dataclass(frozen=True)
class _Target:
    """What is asked.

    Attributes:
        table: `keyspace.table`; None if there is a query.
        columns: Which of its columns, None for all.
        keys: The columns that a key is of; None for the primary key.
        query: With `?` for the parts of a key; None if there is a table.
    """

    table: str | None
    columns: tuple[str, ...] | None
    keys: tuple[str, ...] | None
    query: str | None

    @property
    def name(self) -> str:
        return f"table {self.table}" if self.query is None else f"the query {self.query[:200]}"

    def cql(self, client: CassandraClient) -> str:
        """Return what is executed for a key.

        Raises:
            SourceError: If table or column is not there.
        """
        if self.query is not None:
            return self.query
        assert self.table is not None
        keyspace, _, table = self.table.partition(".")
        found = read_columns(client, keyspace, table)
        if not found:
            raise SourceError(
                f"{self.name} is not there",
                hint="Create it, or correct its name: as the cluster writes it, unquoted.",
            )
        wanted = wanted_columns(Request(self.table, None, self.columns, None, None), list(found), self.name)
        keys = self.keys or [name for name, column in found.items() if column.is_key]
        conditions = " AND ".join(f"{quote(key)} = ?" for key in keys)
        return f"{Select.of_table(keyspace, table, wanted).cql} WHERE {conditions}"


class _Connection:
    """A client with the prepared statement. Threads may share it: it only reads."""

    def __init__(self, read: CassandraRead, target: _Target) -> None:
        self.client = read.new_client()
        self.client.open()
        try:
            self.prepared = self.client.prepare(target.cql(self.client))
        except BaseException:
            self.client.close()
            raise
        self.rows = RowReader.of(self.prepared, target.name)
        self.parts = len(self.prepared.column_metadata or ())


class CassandraLookup(BlockingLookup[_Connection]):
    """Finds rows of a table by key; made by `CassandraLookup.builder()`.

    A key is a value, or a tuple of the values of several columns.

    Example:
        >>> from millstream.datastream.connectors.cassandra import CassandraLookup, ClusterBuilder
        >>> builder = CassandraLookup.builder().set_cluster_builder(ClusterBuilder("localhost"))
        >>> builder = builder.set_table("shop.customers").set_key_columns("id")
        >>> customers = builder.build()  # AsyncDataStream.unordered_lookup(orders, customers, ...)
    """

    shares_client = True

    def __init__(self, read: CassandraRead, target: _Target, settings: LookupSettings) -> None:
        super().__init__(settings)
        self._read = read
        self._target = target

    def __repr__(self) -> str:
        return f"CassandraLookup({self._target.name} at {self._read.builder})"

    @staticmethod
    def builder() -> CassandraLookupBuilder:
        """Return a builder."""
        return CassandraLookupBuilder()

    def connect(self) -> _Connection:
        """Connect, and have the cluster look at the statement."""
        connection = _Connection(self._read, self._target)
        if not connection.parts:
            connection.client.close()
            raise SourceError(
                f"{self._target.name} has no parameter for the key", hint="Write WHERE id = ? into it."
            )
        return connection

    def find(self, client: _Connection, keys: Sequence[Any]) -> dict[Any, Any]:
        """Send a request for each key, and wait for all answers."""
        bound = [self._bind(client, key) for key in keys]
        futures = [client.client.ask(each) for each in bound]
        return rows_by_key(
            self._answers(client, keys, bound, futures),
            gives_lists=self._asking.gives_lists,
            where=self._target.name,
        )

    def _answers(
        self, client: _Connection, keys: Sequence[Any], bound: Sequence[Any], futures: Sequence[Any]
    ) -> Iterator[tuple[Any, Any]]:
        what = f"looking up keys of {self._target.name}"
        for key, statement, future in zip(keys, bound, futures, strict=True):
            for row in client.rows.rows(client.client.answer(future, statement, what=what)):
                yield key, row

    def _bind(self, client: _Connection, key: Any) -> Any:
        parts = key if client.parts > 1 else (key,)
        if not isinstance(parts, tuple) or len(parts) != client.parts:
            raise SourceError(
                f"a key of {self._target.name} is {shorten(key)}, and has {client.parts} columns",
                hint="Let the key be a tuple of as many values.",
            )
        try:
            bound = client.prepared.bind([convert(part) for part in parts])
        except Exception as error:
            raise SourceError(
                f"key {shorten(key)} does not fit the columns of {self._target.name}",
                detail=" ".join(str(error).split())[:400],
                hint="Convert it in the key selector: docs/connectors/cassandra.md has the types.",
            ) from error
        if self._read.level is not None:
            bound.consistency_level = self._read.level.value
        return bound

    def disconnect(self, client: _Connection) -> None:
        """End the connection."""
        client.client.close()


class CassandraLookupBuilder(LookupBuilder, ReadSettings):
    """Makes a `CassandraLookup`; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.cassandra import CassandraLookup, ClusterBuilder
        >>> builder = CassandraLookup.builder().set_cluster_builder(ClusterBuilder("localhost"))
        >>> builder = builder.set_table("shop.customers").set_key_columns("id").set_columns("name")
        >>> names = builder.build()
    """

    def __init__(self) -> None:
        super().__init__()
        self._table: str | None = None
        self._columns: tuple[str, ...] | None = None
        self._keys: tuple[str, ...] | None = None
        self._query: str | None = None

    def set_table(self, table: str) -> Self:
        """Look into a table, `keyspace.table`, named as the cluster writes it, unquoted."""
        self._table = table
        return self

    def set_columns(self, *columns: str) -> Self:
        """Choose the columns of rows; by default all."""
        self._columns = columns
        return self

    def set_key_columns(self, *columns: str) -> Self:
        """Choose what a key is compared with, the partition key at least; by default the whole primary key."""
        self._keys = columns
        return self

    def set_query(self, query: str) -> Self:
        """Execute a query for each key: `SELECT name FROM shop.customers WHERE id = ?`."""
        self._query = query.strip().rstrip(";")
        return self

    def set_gives_lists(self) -> Self:
        """Have a list of rows for each key; without it several rows are an error."""
        self._gives_lists = True
        return self

    def build(self) -> CassandraLookup:
        """Return the look-up.

        Raises:
            ConfigurationError: If something is missing, or said twice; if the driver is not installed.
        """
        load_driver()
        if (self._query is None) == (self._table is None):
            raise ConfigurationError(
                f"what the Cassandra look-up asks for is {'not said' if self._query is None else 'said twice'}",
                hint="Call either set_query or set_table.",
            )
        if self._query is not None and (self._columns or self._keys):
            raise ConfigurationError(
                "columns are named twice",
                hint="The query names them: leave set_columns and set_key_columns out.",
            )
        if self._table is not None and "." not in self._table:
            raise ConfigurationError(
                f"the table of a Cassandra look-up is {self._table!r}",
                detail="It is keyspace.table, such as shop.customers.",
            )
        read = CassandraRead(self._cluster("look-up"), self._patience, self._level)
        target = _Target(self._table, self._columns, self._keys, self._query)
        return CassandraLookup(read, target, self._settings())
