"""The contract of table connectors: what a table's rows come from and go to.

A connector is found by the option `connector` of a table (`registry.find_connector`), and is made for that table. It
is stateless: everything is in the table's options. ::

    find_connector(table) ──► TableConnector
        .scan(environment, columns)  ──►  DataStream of Columns: exactly these columns, f0, f1, ...
        .scan_mode()                 ──►  which kinds of change the rows have
        .accepts(mode)               ──►  what the sink wants to be given when `mode` is what there is
        .sink(stream, ...)           ──►  the end of a stream of Columns with exactly the written columns
        .lookup(keys)                ──►  finds rows by key (look-up joins)

Kinds of rows are in `Columns.kinds`, types as `functions/types.py` says; `Columns.timestamps` is None.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.table.connectors.options import ConnectorOptions
from millstream.table.plan.changes import INSERT_ONLY, ChangelogMode

if TYPE_CHECKING:
    from millstream.table.catalog.resolved import ResolvedTable

__all__ = ["LookupRuntime", "SinkRequest", "TableConnector"]


@dataclass(frozen=True)
class SinkRequest:
    """What a sink is asked for beside the rows.

    Attributes:
        overwrite: INSERT OVERWRITE: what is there is replaced.
        mode: Which kinds of change the rows have.
        upsert_keys: Places of written columns that tell rows apart; empty if none do.
    """

    overwrite: bool = False
    mode: ChangelogMode = INSERT_ONLY
    upsert_keys: tuple[int, ...] = ()


@dataclass(frozen=True)
class LookupRuntime:
    """Finds rows by key.

    Attributes:
        lookup: Of `LookupJoinSpec`: an `AsyncLookup` that gives tuples with the columns asked for.
        cache: What each subtask keeps; None for nothing.
        attempts: How often a look-up is tried.
        asynchronous: Whether several are under way at once.
    """

    lookup: Any
    cache: Any = None
    attempts: int = 1
    asynchronous: bool = False


class TableConnector(ABC):
    """A connector, made for one table.

    Attributes:
        name: Value of the option `connector`.
    """

    name: str = ""

    def __init__(self, table: ResolvedTable) -> None:
        self.table = table
        self.options = ConnectorOptions(table)

    @abstractmethod
    def check(self) -> None:
        """Check the table's options: all known, those that are required there, values that fit.

        Raises:
            ConfigurationError: If not; names the option.
        """

    # --- reading

    @property
    def can_scan(self) -> bool:
        """Whether the table can be read."""
        return type(self).scan is not TableConnector.scan

    def is_bounded(self) -> bool:
        """Return whether what `scan` reads ends."""
        return False

    def scan_mode(self) -> ChangelogMode:
        """Return which kinds of change the rows have."""
        return INSERT_ONLY

    def readable_metadata(self) -> Mapping[str, Any]:
        """Return the metadata that rows come with: key to type."""
        return {}

    def check_metadata(self) -> None:
        """Refuse metadata columns that the connector does not have.

        Raises:
            ConfigurationError: If there is one.
        """
        for column in self.table.columns:
            key = column.metadata_key or column.name
            if column.kind == "metadata" and key not in self.readable_metadata():
                known = ", ".join(self.readable_metadata()) or "none"
                raise ConfigurationError(
                    f'table "{self.table.full_name}" has the metadata column "{column.name}"',
                    detail=f"The connector {self.name} knows the metadata: {known}.",
                )

    def scan(self, environment: Any, columns: Sequence[int]) -> Any:
        """Return a DataStream of `Columns`.

        Args:
            environment: The `StreamExecutionEnvironment`.
            columns: Places in the table's `schema`, in the order they are given.

        Raises:
            NotSupportedError: If the connector only writes.
        """
        raise NotSupportedError(
            f'table "{self.table.full_name}" cannot be read: the connector "{self.name}" only writes',
            hint="Read another table, or INSERT INTO this one.",
        )

    # --- writing

    @property
    def can_sink(self) -> bool:
        """Whether the table can be written."""
        return type(self).sink is not TableConnector.sink

    def accepts(self, mode: ChangelogMode) -> ChangelogMode:
        """Return which kinds of change the sink wants, given what there is.

        A mode without `before` but with `updates` asks for updates by key. The planner refuses what cannot be given:
        a sink that returns INSERT_ONLY for a mode with updates takes inserts only.
        """
        return INSERT_ONLY

    def writable_metadata(self) -> Mapping[str, Any]:
        """Return the metadata that can be written: key to type."""
        return {}

    def sink(self, stream: Any, request: SinkRequest) -> Any:
        """End a DataStream of `Columns` whose columns are those of the table's `write_schema`.

        Returns:
            The sink.

        Raises:
            NotSupportedError: If the connector only reads.
        """
        raise NotSupportedError(
            f'table "{self.table.full_name}" cannot be written: the connector "{self.name}" only reads'
        )

    def begin_overwrite(self) -> Callable[[], None]:
        """Prepare INSERT OVERWRITE; what is returned is called when the job has succeeded, and removes what was there.

        Raises:
            NotSupportedError: If the connector cannot replace what is there.
        """
        raise NotSupportedError(
            f'table "{self.table.full_name}" cannot be overwritten: the connector "{self.name}" only adds',
            hint="Write INSERT INTO.",
        )

    # --- looking up

    @property
    def can_lookup(self) -> bool:
        """Whether rows are found by key."""
        return type(self).lookup is not TableConnector.lookup

    def lookup(self, keys: Sequence[int], columns: Sequence[int]) -> LookupRuntime:
        """Return what finds rows by key.

        Args:
            keys: Places in the table's `schema`.
            columns: Places of the columns that the rows found have, in order.

        Raises:
            NotSupportedError: If the connector does not.
        """
        raise NotSupportedError(
            f'table "{self.table.full_name}" cannot be looked up by key: the connector "{self.name}" does not do that',
            hint="Use the connector jdbc, or join without FOR SYSTEM_TIME AS OF.",
        )
