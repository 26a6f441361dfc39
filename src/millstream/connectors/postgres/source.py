"""Tables and queries of PostgreSQL as a bounded source."""

from __future__ import annotations

from typing import Any

from millstream.connectors.postgres.address import PostgresAddress
from millstream.connectors.postgres.enumerator import PostgresEnumerator, read_relation
from millstream.connectors.postgres.reader import PostgresReader
from millstream.connectors.postgres.rows import load_arrow_csv
from millstream.connectors.table_source import TableSource, TableSourceBuilder
from millstream.spi.source import SourceReader, SplitEnumerator
from millstream.types.datatypes import RowType

__all__ = ["PostgresSource", "PostgresSourceBuilder"]


class PostgresSource(TableSource):
    """The rows of a table or a query, cut into ranges of keys that are read side by side, all in one snapshot.

    Rows are `Row`s with the names of the columns. Made by `PostgresSource.builder()`.

    Example:
        >>> from millstream.datastream.connectors.postgres import PostgresSource
        >>> builder = PostgresSource.builder().set_url("postgresql://reader:secret@localhost:5432/shop")
        >>> orders = builder.set_table("orders").build()
    """

    _address: PostgresAddress

    @staticmethod
    def builder() -> PostgresSourceBuilder:
        """Begin to declare a source."""
        return PostgresSourceBuilder()

    def read_row_type(self) -> RowType:
        """Ask the server for names and types of the columns.

        Raises:
            SourceError: If it is away or refuses us, or what is to be read is not there.
        """
        return read_relation(self._address, self._request).row_type

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Look at the table, and cut it into ranges.

        Raises:
            SourceError: If the server is away or refuses us, or what is to be read is not there.
        """
        return PostgresEnumerator(
            self._address, self._request, self._split_rows, self._splits, parallelism, restored
        )

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return PostgresReader(self._address)


class PostgresSourceBuilder(TableSourceBuilder):
    """Builds a `PostgresSource`; each method returns the builder.

    The URL may have any parameters of libpq's. Without a password libpq looks for it in PGPASSWORD and ~/.pgpass, there
    where slots run.

    Example:
        >>> from millstream.datastream.connectors.postgres import PostgresSource
        >>> source = (
        ...     PostgresSource.builder()
        ...     .set_url("postgresql://ada@db.example.org/shop")
        ...     .set_password("enigma")
        ...     .set_table("orders")
        ...     .build()
        ... )
        >>> source
        PostgresSource(table orders at db.example.org:5432/shop)
    """

    def build(self) -> PostgresSource:
        """Return the source.

        Raises:
            ConfigurationError: If it is not said what to read, or two settings exclude each other; if psycopg or
                pyarrow is not installed.
        """
        request = self._request()
        load_arrow_csv()
        parts = dict(self._parts)
        address = PostgresAddress.of(self._url, self._patience, dbname=parts.pop("database", None), **parts)
        return PostgresSource(address, request, self._rows_of_split(), self._splits)
