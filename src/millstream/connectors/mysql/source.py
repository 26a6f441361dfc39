"""Tables and queries of MySQL and MariaDB as a bounded source."""

from __future__ import annotations

from typing import Any, Self

from millstream.connectors.key_ranges import Request
from millstream.connectors.mysql.address import MySqlAddress
from millstream.connectors.mysql.enumerator import MySqlEnumerator, read_relation
from millstream.connectors.mysql.reader import MySqlReader
from millstream.connectors.mysql.rows import WHAT
from millstream.connectors.table_source_builder import TableSourceBuilder
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator
from millstream.types.arrow_types import load_arrow
from millstream.types.datatypes import RowType

__all__ = ["MySqlSource", "MySqlSourceBuilder"]


class MySqlSource(Source):
    """The rows of a table or a query, cut into ranges of keys that are read side by side.

    Each subtask reads in one snapshot of its own; at parallelism 1 all rows are of one moment. Rows are `Row`s with the
    names of the columns. Made by `MySqlSource.builder()`.
    """

    def __init__(
        self, address: MySqlAddress, request: Request, split_rows: int | None, splits: int | None
    ) -> None:
        self._address = address
        self._request = request
        self._split_rows = split_rows
        self._splits = splits

    def __repr__(self) -> str:
        return f"MySqlSource({self._request} at {self._address})"

    @staticmethod
    def builder() -> MySqlSourceBuilder:
        """Begin to declare a source."""
        return MySqlSourceBuilder()

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
        return MySqlEnumerator(
            self._address, self._request, self._split_rows, self._splits, parallelism, restored
        )

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return MySqlReader(self._address)


class MySqlSourceBuilder(TableSourceBuilder):
    """Builds a `MySqlSource`; each method returns the builder.

    Example:
        >>> source = (
        ...     MySqlSource.builder()
        ...     .set_url("mysql://ada@db.example.org/shop")
        ...     .set_password("enigma")
        ...     .set_table("orders")
        ...     .build()
        ... )
        >>> source
        MySqlSource(table orders at db.example.org:3306/shop)
    """

    def __init__(self) -> None:
        super().__init__()
        self._url: str | None = None
        self._parts: dict[str, Any] = {}

    def set_url(self, url: str) -> Self:
        """Set the server's address: mysql://user@host:3306/database, with ?sslMode=verify_identity if need be."""
        self._url = url
        return self

    def set_host(self, host: str, port: int = 3306) -> Self:
        """Set the server's host and port."""
        self._parts.update(host=host, port=port)
        return self

    def set_database(self, database: str) -> Self:
        """Set the database."""
        self._parts["database"] = database
        return self

    def set_username(self, username: str) -> Self:
        """Set who reads."""
        self._parts["user"] = username
        return self

    def set_password(self, password: str) -> Self:
        """Set the password."""
        self._parts["password"] = password
        return self

    def build(self) -> MySqlSource:
        """Return the source.

        Raises:
            ConfigurationError: If it is not said what to read, or two settings exclude each other; if PyMySQL or
                pyarrow is not installed.
        """
        request = self._request()
        load_arrow(WHAT)
        address = MySqlAddress.of(self._url, self._patience, **self._parts)
        return MySqlSource(address, request, self._rows_of_split(), self._splits)
