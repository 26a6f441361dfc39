"""Tables and queries of PostgreSQL as a bounded source."""

from __future__ import annotations

from typing import Any

from millstream.connectors.key_ranges import Request
from millstream.connectors.postgres.address import PostgresAddress
from millstream.connectors.postgres.enumerator import PostgresEnumerator, read_relation
from millstream.connectors.postgres.reader import PostgresReader
from millstream.connectors.postgres.rows import load_arrow_csv
from millstream.connectors.table_source_builder import TableSourceBuilder
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator
from millstream.types.datatypes import RowType

__all__ = ["PostgresSource", "PostgresSourceBuilder"]


class PostgresSource(Source):
    """The rows of a table or a query, cut into ranges of keys that are read side by side, all in one snapshot.

    Rows are `Row`s with the names of the columns. Made by `PostgresSource.builder()`.
    """

    def __init__(
        self, address: PostgresAddress, request: Request, split_rows: int | None, splits: int | None
    ) -> None:
        self._address = address
        self._request = request
        self._split_rows = split_rows
        self._splits = splits

    def __repr__(self) -> str:
        return f"PostgresSource({self._request} at {self._address})"

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

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED: rows are read that are there when the job starts."""
        return Boundedness.BOUNDED

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

    Example:
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

    def __init__(self) -> None:
        super().__init__()
        self._url: str | None = None
        self._parts: dict[str, Any] = {}

    def set_url(self, url: str) -> PostgresSourceBuilder:
        """Set the server's address: postgresql://user@host:5432/database, with any parameters of libpq's."""
        self._url = url
        return self

    def set_host(self, host: str, port: int = 5432) -> PostgresSourceBuilder:
        """Set the server's host and port."""
        self._parts.update(host=host, port=port)
        return self

    def set_database(self, database: str) -> PostgresSourceBuilder:
        """Set the database."""
        self._parts["dbname"] = database
        return self

    def set_username(self, username: str) -> PostgresSourceBuilder:
        """Set who reads."""
        self._parts["user"] = username
        return self

    def set_password(self, password: str) -> PostgresSourceBuilder:
        """Set the password; without one, libpq looks for it in PGPASSWORD and ~/.pgpass, there where slots run."""
        self._parts["password"] = password
        return self

    def build(self) -> PostgresSource:
        """Return the source.

        Raises:
            ConfigurationError: If it is not said what to read, or two settings exclude each other; if psycopg or
                pyarrow is not installed.
        """
        request = self._request()
        load_arrow_csv()
        address = PostgresAddress.of(self._url, self._patience, **self._parts)
        return PostgresSource(address, request, self._rows_of_split(), self._splits)
