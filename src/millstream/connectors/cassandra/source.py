"""The rows of a table as a bounded source: Flink's `CassandraSource`, with rows of the table's own columns."""

from __future__ import annotations

from typing import Any, Self

from millstream.base.errors import ConfigurationError, SourceError
from millstream.connectors.cassandra.client import CassandraClient
from millstream.connectors.cassandra.cluster import load_driver
from millstream.connectors.cassandra.connection_builder import ReadSettings
from millstream.connectors.cassandra.queries import Select
from millstream.connectors.cassandra.reading import (
    CassandraRead,
    CassandraSnapshot,
    TokenEnumerator,
    TokenReader,
    prepare_scan,
)
from millstream.connectors.cassandra.schema import read_columns
from millstream.connectors.cassandra.token_ranges import estimated_bytes, number_of_splits, read_ring
from millstream.connectors.key_ranges import Request, wanted_columns
from millstream.connectors.table_source import TableSource, positive
from millstream.spi.source import SourceReader, SplitEnumerator

__all__ = ["CassandraSource", "CassandraSourceBuilder"]

_MEBIBYTE = 2**20
_SPLIT_BYTES = 64 * _MEBIBYTE
_LEAST_SPLIT_BYTES = 10 * _MEBIBYTE


class CassandraSource(TableSource):
    """The rows of a table or a query, cut into ranges of tokens that are read side by side.

    Records are `Row`s with the names of the columns. Made by `CassandraSource.builder()`.

    Example:
        >>> from millstream.datastream.connectors.cassandra import CassandraSource, ClusterBuilder
        >>> builder = CassandraSource.builder().set_cluster_builder(ClusterBuilder("localhost"))
        >>> orders = builder.set_table("shop.orders").build()
    """

    def __init__(self, request: Request, read: CassandraRead, split_bytes: int, splits: int | None) -> None:
        super().__init__(read.builder, request, None, splits)
        self._read = read
        self._split_bytes = split_bytes

    @staticmethod
    def builder() -> CassandraSourceBuilder:
        """Begin to declare a source."""
        return CassandraSourceBuilder()

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Look at the table, and cut its ring into ranges.

        Raises:
            SourceError: If the cluster is away or refuses us, there is no such table or column, or a checkpoint is of
                something else.
            NotSupportedError: If the cluster's partitioner has no numbers for tokens.
        """
        client = self._read.new_client()
        try:
            client.open()
            begun = self._begin(client, parallelism) if restored is None else self._go_on(client, restored)
        finally:
            client.close()
        return TokenEnumerator(begun, parallelism)

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return TokenReader(self._read)

    @property
    def _declared(self) -> str:
        request = self._request
        return request.query or f"{request.table}: {request.columns and ', '.join(request.columns)}"

    def _begin(self, client: CassandraClient, parallelism: int) -> CassandraSnapshot:
        select, key = self._select(client)
        scan = prepare_scan(client, self._declared, select.name, select.ranged(key))
        ring = read_ring(client)
        splits = self._splits
        if splits is None:
            size = estimated_bytes(client, ring, select.keyspace, select.table)
            splits = number_of_splits(size, self._split_bytes, parallelism)
        return CassandraSnapshot(scan, ring.cut(splits))

    def _select(self, client: CassandraClient) -> tuple[Select, list[str]]:
        """Return what is executed, and the columns of the partition key."""
        request = self._request
        if request.query is not None:
            select = Select.of(request.query)
            keyspace, table = select.keyspace, select.table
        else:
            keyspace, _, table = (request.table or "").partition(".")
        columns = read_columns(client, keyspace, table)
        if not columns:
            raise SourceError(
                f"table {keyspace}.{table} is not there",
                hint="Create it, or correct its name: as the cluster writes it, unquoted.",
            )
        if request.query is None:
            wanted = wanted_columns(request, list(columns), f"table {keyspace}.{table}")
            select = Select.of_table(keyspace, table, wanted)
        return select, [name for name, column in columns.items() if column.kind == "partition_key"]

    def _go_on(self, client: CassandraClient, restored: CassandraSnapshot) -> CassandraSnapshot:
        if restored.scan.declared != self._declared:
            raise SourceError(
                f"the checkpoint is of a Cassandra source that reads {restored.scan.declared}",
                detail=f"This one reads {self._declared}.",
                hint="Give the source another uid, or start the job anew, without its checkpoint.",
            )
        restored.scan.check(client.prepare(restored.scan.cql))
        return restored


class CassandraSourceBuilder(ReadSettings):
    """Builds a `CassandraSource`; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.cassandra import CassandraSource
        >>> CassandraSource.builder().set_host("localhost").set_table("shop.orders").build()
        CassandraSource(table shop.orders at localhost:9042)
    """

    def __init__(self) -> None:
        super().__init__()
        self._table: str | None = None
        self._query: str | None = None
        self._columns: tuple[str, ...] | None = None
        self._split_bytes = _SPLIT_BYTES
        self._splits: int | None = None
        self._page_rows = CassandraRead.page_rows

    def set_query(self, query: str) -> Self:
        """Read the rows of a SELECT: `SELECT id, cents FROM shop.orders WHERE cents > 100 ALLOW FILTERING`.

        The range of tokens is put into it; it has no aggregates, GROUP BY, ORDER BY, LIMIT, and no parameters.

        Raises:
            ConfigurationError: If it cannot be read by ranges of tokens.
        """
        Select.of(query)
        self._query = query.strip().rstrip(";").rstrip()
        return self

    def set_table(self, table: str) -> Self:
        """Read a table or a view, `keyspace.table`, named as the cluster writes it, unquoted (millstream's own).

        Raises:
            ConfigurationError: If there is no keyspace.
        """
        keyspace, _, name = table.partition(".")
        if not keyspace or not name:
            raise ConfigurationError(
                f"the table of a Cassandra source is {table!r}",
                detail="It is keyspace.table, such as shop.orders.",
            )
        self._table = table
        return self

    def set_columns(self, *columns: str) -> Self:
        """Read these columns of the table only; by default all that it has when the job starts."""
        self._columns = columns
        return self

    def set_max_split_memory_size(self, size_bytes: int) -> Self:
        """Have no split of more than about so many bytes; by default 64 MiB.

        How large the table is, nodes estimate every few minutes: one that is new has a split for each subtask.

        Raises:
            ConfigurationError: If it is less than 10 MiB, as in Flink.
        """
        if size_bytes < _LEAST_SPLIT_BYTES:
            raise ConfigurationError(
                f"splits of a Cassandra source may have {size_bytes} bytes",
                detail=f"They must be allowed {_LEAST_SPLIT_BYTES} (10 MiB) at least.",
            )
        self._split_bytes = size_bytes
        return self

    def set_number_of_splits(self, splits: int) -> Self:
        """Cut the ring into so many ranges, whatever the table's size (millstream's own).

        Raises:
            ConfigurationError: If it is not positive.
        """
        self._splits = positive("number of splits", splits)
        return self

    def set_fetch_size(self, rows: int) -> Self:
        """Ask for so many rows at a time; by default 2,000.

        Raises:
            ConfigurationError: If it is not positive.
        """
        self._page_rows = positive("fetch size", rows)
        return self

    def build(self) -> CassandraSource:
        """Return the source.

        Raises:
            ConfigurationError: If something is missing, or said twice; if the driver is not installed.
        """
        load_driver()
        if (self._query is None) == (self._table is None):
            raise ConfigurationError(
                f"what the Cassandra source reads is {'not said' if self._query is None else 'said twice'}",
                hint="Call either set_query or set_table.",
            )
        if self._query is not None and self._columns is not None:
            raise ConfigurationError(
                "columns are named twice", hint="The query names them: leave set_columns out."
            )
        read = CassandraRead(self._cluster("source"), self._patience, self._level, self._page_rows)
        request = Request(self._table, self._query, self._columns, None, None)
        return CassandraSource(request, read, self._split_bytes, self._splits)
