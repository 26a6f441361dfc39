"""Tables and queries of MySQL and MariaDB as a bounded source."""

from __future__ import annotations

from typing import Any

from millstream.connectors.mysql.address import MySqlAddress
from millstream.connectors.mysql.enumerator import MySqlEnumerator, read_relation
from millstream.connectors.mysql.reader import MySqlReader
from millstream.connectors.mysql.rows import WHAT
from millstream.connectors.table_source import TableSource, TableSourceBuilder
from millstream.spi.source import SourceReader, SplitEnumerator
from millstream.types.arrow_types import load_arrow
from millstream.types.datatypes import RowType

__all__ = ["MySqlSource", "MySqlSourceBuilder"]


class MySqlSource(TableSource):
    """The rows of a table or a query, cut into ranges of keys that are read side by side.

    Each subtask reads in one snapshot of its own; at parallelism 1 all rows are of one moment. Rows are `Row`s with the
    names of the columns. Made by `MySqlSource.builder()`.

    Example:
        >>> from millstream.datastream.connectors.mysql import MySqlSource
        >>> builder = MySqlSource.builder().set_url("mysql://reader:secret@localhost:3306/shop")
        >>> orders = builder.set_table("orders").build()
    """

    _address: MySqlAddress

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
    """Builds a `MySqlSource`; each method returns the builder. The URL may end with ?sslMode=verify_identity.

    Example:
        >>> from millstream.datastream.connectors.mysql import MySqlSource
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
