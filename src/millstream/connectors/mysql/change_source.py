"""What changes in tables of MySQL and MariaDB, as a source without end (change data capture)."""

from __future__ import annotations

from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.base.time import Duration, to_milliseconds
from millstream.connectors.mysql.address import MySqlAddress
from millstream.connectors.mysql.binlog import load_replication
from millstream.connectors.mysql.change_enumerator import ChangeEnumerator, ChangeRequest
from millstream.connectors.mysql.change_reader import ChangeReader
from millstream.connectors.mysql.rows import WHAT
from millstream.connectors.patience import Patience
from millstream.connectors.table_source_builder import SPLIT_ROWS, positive
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator
from millstream.types.arrow_types import load_arrow

__all__ = ["MySqlChangeSource", "MySqlChangeSourceBuilder"]


class MySqlChangeSource(Source):
    """The rows of tables, and then each insert, update and delete, from the binlog.

    Records of one table are `Row`s of kind INSERT, UPDATE_BEFORE, UPDATE_AFTER or DELETE; those of several tables are
    pairs `("shop.orders", row)`. Made by `MySqlChangeSource.builder()`.
    """

    def __init__(self, address: MySqlAddress, request: ChangeRequest) -> None:
        self._address = address
        self._request = request

    def __repr__(self) -> str:
        return f"MySqlChangeSource({', '.join(self._request.tables)} at {self._address})"

    @staticmethod
    def builder() -> MySqlChangeSourceBuilder:
        """Begin to declare a source."""
        return MySqlChangeSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        """Return CONTINUOUS_UNBOUNDED."""
        return Boundedness.CONTINUOUS_UNBOUNDED

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


class MySqlChangeSourceBuilder:
    """Builds a `MySqlChangeSource`; each method returns the builder.

    Example:
        >>> (
        ...     MySqlChangeSource.builder()
        ...     .set_url("mysql://ada@db.example.org/shop")
        ...     .set_tables("orders", "customers")
        ...     .build()
        ... )
        MySqlChangeSource(orders, customers at db.example.org:3306/shop)
    """

    def __init__(self) -> None:
        self._url: str | None = None
        self._password: str | None = None
        self._tables: tuple[str, ...] = ()
        self._reads_tables = True
        self._split_rows = SPLIT_ROWS
        self._patience = Patience()

    def set_url(self, url: str) -> MySqlChangeSourceBuilder:
        """Set the server's address: mysql://user@host:3306/database, with ?sslMode=verify_identity if need be."""
        self._url = url
        return self

    def set_password(self, password: str) -> MySqlChangeSourceBuilder:
        """Set the password."""
        self._password = password
        return self

    def set_tables(self, *tables: str) -> MySqlChangeSourceBuilder:
        """Read the changes of these tables: `orders`, `shop.orders`."""
        self._tables = tables
        return self

    def set_changes_only(self) -> MySqlChangeSourceBuilder:
        """Read no tables first: changes from when the job starts on."""
        self._reads_tables = False
        return self

    def set_split_size(self, rows: int) -> MySqlChangeSourceBuilder:
        """Have about so many rows in a split while tables are read; by default 200,000.

        Raises:
            ConfigurationError: If it is not positive.
        """
        self._split_rows = positive("split size", rows)
        return self

    def set_patience(self, patience: Duration) -> MySqlChangeSourceBuilder:
        """Wait so long for a server that is away; by default a minute."""
        self._patience = Patience(total_s=to_milliseconds(patience) / 1000)
        return self

    def build(self) -> MySqlChangeSource:
        """Return the source.

        Raises:
            ConfigurationError: If no tables are named; if PyMySQL, mysql-replication or pyarrow is not installed.
        """
        if not self._tables:
            raise ConfigurationError("no tables are named", hint="Call set_tables.")
        load_arrow(WHAT)
        load_replication()
        address = MySqlAddress.of(self._url, self._patience, password=self._password)
        return MySqlChangeSource(address, ChangeRequest(self._tables, self._reads_tables, self._split_rows))
