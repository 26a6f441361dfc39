"""What changes in tables of PostgreSQL, as a source without end (change data capture)."""

from __future__ import annotations

from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.base.time import Duration, to_milliseconds
from millstream.connectors.patience import Patience
from millstream.connectors.postgres.address import PostgresAddress
from millstream.connectors.postgres.change_enumerator import ChangeEnumerator, ChangeRequest
from millstream.connectors.postgres.change_reader import ChangeReader
from millstream.connectors.postgres.rows import load_arrow_csv
from millstream.connectors.table_source_builder import SPLIT_ROWS, positive
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator

__all__ = ["PostgresChangeSource", "PostgresChangeSourceBuilder"]


class PostgresChangeSource(Source):
    """The rows of tables, and then each insert, update and delete, from a replication slot.

    Records of one table are `Row`s of kind INSERT, UPDATE_BEFORE, UPDATE_AFTER or DELETE; those of several tables are
    pairs `("public.orders", row)`. Made by `PostgresChangeSource.builder()`.
    """

    def __init__(self, address: PostgresAddress, request: ChangeRequest) -> None:
        self._address = address
        self._request = request

    def __repr__(self) -> str:
        return f"PostgresChangeSource({', '.join(self._request.tables)} at {self._address})"

    @staticmethod
    def builder() -> PostgresChangeSourceBuilder:
        """Begin to declare a source."""
        return PostgresChangeSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        """Return CONTINUOUS_UNBOUNDED."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Make slot and publication, or find them.

        Raises:
            SourceError: If the server is away or refuses us, or something is missing.
            LostInputError: If the server has not got the changes behind the snapshot any more.
        """
        return ChangeEnumerator(self._address, self._request, parallelism, restored)

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return ChangeReader(self._address, self._request)


class PostgresChangeSourceBuilder:
    """Builds a `PostgresChangeSource`; each method returns the builder.

    Example:
        >>> (
        ...     PostgresChangeSource.builder()
        ...     .set_url("postgresql://ada@db.example.org/shop")
        ...     .set_tables("orders", "customers")
        ...     .set_slot_name("shop_to_lake")
        ...     .build()
        ... )
        PostgresChangeSource(orders, customers at db.example.org:5432/shop)
    """

    def __init__(self) -> None:
        self._url: str | None = None
        self._password: str | None = None
        self._tables: tuple[str, ...] = ()
        self._slot: str | None = None
        self._publication: str | None = None
        self._reads_tables = True
        self._split_rows = SPLIT_ROWS
        self._patience = Patience()

    def set_url(self, url: str) -> PostgresChangeSourceBuilder:
        """Set the server's address: postgresql://user@host:5432/database, with any parameters of libpq's."""
        self._url = url
        return self

    def set_password(self, password: str) -> PostgresChangeSourceBuilder:
        """Set the password; without one, libpq looks for it in PGPASSWORD and ~/.pgpass, there where slots run."""
        self._password = password
        return self

    def set_tables(self, *tables: str) -> PostgresChangeSourceBuilder:
        """Read the changes of these tables, named as in SQL."""
        self._tables = tables
        return self

    def set_slot_name(self, slot: str) -> PostgresChangeSourceBuilder:
        """Name the replication slot; each job has one of its own."""
        self._slot = slot
        return self

    def set_publication(self, publication: str) -> PostgresChangeSourceBuilder:
        """Name the publication; by default as the slot. It is made if it is missing."""
        self._publication = publication
        return self

    def set_changes_only(self) -> PostgresChangeSourceBuilder:
        """Read no tables first: changes from where the slot is, which is made if it is missing."""
        self._reads_tables = False
        return self

    def set_split_size(self, rows: int) -> PostgresChangeSourceBuilder:
        """Have about so many rows in a split while tables are read; by default 200,000.

        Raises:
            ConfigurationError: If it is not positive.
        """
        self._split_rows = positive("split size", rows)
        return self

    def set_patience(self, patience: Duration) -> PostgresChangeSourceBuilder:
        """Wait so long for a server that is away, or a slot in use; by default a minute."""
        self._patience = Patience(total_s=to_milliseconds(patience) / 1000)
        return self

    def build(self) -> PostgresChangeSource:
        """Return the source.

        Raises:
            ConfigurationError: If tables or slot are not named; if psycopg or pyarrow is not installed.
        """
        if not self._tables or self._slot is None:
            raise ConfigurationError(
                "tables or replication slot are not named", hint="Call set_tables and set_slot_name."
            )
        load_arrow_csv()
        address = PostgresAddress.of(self._url, self._patience, password=self._password)
        publication = self._publication or self._slot
        return PostgresChangeSource(
            address,
            ChangeRequest(self._tables, self._slot, publication, self._reads_tables, self._split_rows),
        )
