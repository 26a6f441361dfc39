"""What changes in tables of PostgreSQL, as a source without end (change data capture)."""

from __future__ import annotations

from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.connectors.change_source import ChangeSource, ChangeSourceBuilder
from millstream.connectors.postgres.address import PostgresAddress
from millstream.connectors.postgres.change_enumerator import ChangeEnumerator, ChangeRequest
from millstream.connectors.postgres.change_reader import ChangeReader
from millstream.connectors.postgres.rows import load_arrow_csv
from millstream.spi.source import SourceReader, SplitEnumerator

__all__ = ["PostgresChangeSource", "PostgresChangeSourceBuilder"]


class PostgresChangeSource(ChangeSource):
    """The rows of tables, and then each insert, update and delete, from a replication slot.

    Records of one table are `Row`s of kind INSERT, UPDATE_BEFORE, UPDATE_AFTER or DELETE; those of several tables are
    pairs `("public.orders", row)`. Made by `PostgresChangeSource.builder()`.

    Example:
        >>> from millstream.datastream.connectors.postgres import PostgresChangeSource
        >>> builder = PostgresChangeSource.builder().set_url("postgresql://replicator:secret@localhost:5432/shop")
        >>> changes = builder.set_tables("orders").set_slot_name("orders_to_lake").build()
    """

    @staticmethod
    def builder() -> PostgresChangeSourceBuilder:
        """Begin to declare a source."""
        return PostgresChangeSourceBuilder()

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


class PostgresChangeSourceBuilder(ChangeSourceBuilder):
    """Builds a `PostgresChangeSource`; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.postgres import PostgresChangeSource
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
        super().__init__()
        self._slot: str | None = None
        self._publication: str | None = None

    def set_slot_name(self, slot: str) -> PostgresChangeSourceBuilder:
        """Name the replication slot; each job has one of its own."""
        self._slot = slot
        return self

    def set_publication(self, publication: str) -> PostgresChangeSourceBuilder:
        """Name the publication; by default as the slot. It is made if it is missing."""
        self._publication = publication
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
        address = PostgresAddress.of(self._url, self._patience, **self._parts)
        publication = self._publication or self._slot
        return PostgresChangeSource(
            address,
            ChangeRequest(self._tables, self._slot, publication, self._reads_tables, self._split_rows),
        )
