"""What changes in tables of MySQL and MariaDB, as a source without end (change data capture)."""

from __future__ import annotations

from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.connectors.change_source import ChangeSource, ChangeSourceBuilder
from millstream.connectors.mysql.address import MySqlAddress
from millstream.connectors.mysql.binlog import load_replication
from millstream.connectors.mysql.change_enumerator import ChangeEnumerator, ChangeRequest
from millstream.connectors.mysql.change_reader import ChangeReader
from millstream.connectors.mysql.rows import WHAT
from millstream.spi.source import SourceReader, SplitEnumerator
from millstream.types.arrow_types import load_arrow

__all__ = ["MySqlChangeSource", "MySqlChangeSourceBuilder"]


class MySqlChangeSource(ChangeSource):
    """The rows of tables, and then each insert, update and delete, from the binlog.

    Records of one table are `Row`s of kind INSERT, UPDATE_BEFORE, UPDATE_AFTER or DELETE; those of several tables are
    pairs `("shop.orders", row)`. Made by `MySqlChangeSource.builder()`.

    Example:
        >>> from millstream.datastream.connectors.mysql import MySqlChangeSource
        >>> builder = MySqlChangeSource.builder().set_url("mysql://replicator:secret@localhost:3306/shop")
        >>> changes = builder.set_tables("orders").build()
    """

    @staticmethod
    def builder() -> MySqlChangeSourceBuilder:
        """Begin to declare a source."""
        return MySqlChangeSourceBuilder()

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Look at server and tables.

        Raises:
            SourceError: If the server is away or refuses us, or something is missing.
            LostInputError: If the server has not got the changes behind the snapshot any more.
        """
        return ChangeEnumerator(self._address, self._request, parallelism, restored)

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return ChangeReader(self._address, self._request)


class MySqlChangeSourceBuilder(ChangeSourceBuilder):
    """Builds a `MySqlChangeSource`; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.mysql import MySqlChangeSource
        >>> (
        ...     MySqlChangeSource.builder()
        ...     .set_url("mysql://ada@db.example.org/shop")
        ...     .set_tables("orders", "customers")
        ...     .build()
        ... )
        MySqlChangeSource(orders, customers at db.example.org:3306/shop)
    """

    def build(self) -> MySqlChangeSource:
        """Return the source.

        Raises:
            ConfigurationError: If no tables are named; if PyMySQL, mysql-replication or pyarrow is not installed.
        """
        if not self._tables:
            raise ConfigurationError("no tables are named", hint="Call set_tables.")
        load_arrow(WHAT)
        load_replication()
        address = MySqlAddress.of(self._url, self._patience, **self._parts)
        return MySqlChangeSource(address, ChangeRequest(self._tables, self._reads_tables, self._split_rows))
