"""The source of Delta tables."""

from __future__ import annotations

from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.connectors.delta.files import DeltaFiles
from millstream.connectors.delta.history import DeltaHistory
from millstream.connectors.delta.table import load_deltalake, name_of, table_address
from millstream.connectors.lake.builder import LakeSourceBuilder, Reading
from millstream.connectors.lake.enumerator import TableFileEnumerator
from millstream.connectors.lake.reader import TableFileReader
from millstream.connectors.table_source import positive
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator

__all__ = ["DeltaSource", "DeltaSourceBuilder"]


class DeltaSource(Source):
    """The rows of a Delta table, once or as they come; made by `DeltaSource.builder()`.

    Example:
        >>> from millstream.datastream.connectors.delta import DeltaSource
        >>> source = DeltaSource.builder().set_table("/tables/orders").build()
    """

    def __init__(self, address: str, reading: Reading, *, reads_changes: bool) -> None:
        self._address = address
        self._reading = reading
        self._reads_changes = reads_changes

    def __repr__(self) -> str:
        return f"DeltaSource({name_of(self._address)})"

    @staticmethod
    def builder() -> DeltaSourceBuilder:
        """Return a builder."""
        return DeltaSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED unless the table is followed."""
        follows = self._reading.interval_ms is not None
        return Boundedness.CONTINUOUS_UNBOUNDED if follows else Boundedness.BOUNDED

    def max_parallelism(self) -> int | None:
        """Return 1 for changes, which are in order; else any number of subtasks shares the files."""
        return 1 if self._reads_changes else None

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Look at the table.

        Raises:
            SourceError: If the table or the version is not there.
            NotSupportedError: If the table has what is not read.
        """
        return TableFileEnumerator(
            DeltaHistory(self._address, self._reading, reads_changes=self._reads_changes),
            parallelism,
            interval_ms=self._reading.interval_ms,
            split_bytes=self._reading.split_bytes,
            restored=restored,
        )

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return TableFileReader(
            name_of(self._address),
            DeltaFiles(self._address),
            self._reading.conditions,
            in_utc=self._reading.in_utc,
        )


class DeltaSourceBuilder(LakeSourceBuilder):
    """Builds a `DeltaSource`; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.delta import DeltaSource
        >>> source = DeltaSource.builder().set_table("/tables/orders").set_version(17).build()
    """

    def __init__(self) -> None:
        super().__init__()
        self._table: str | None = None
        self._reads_changes = False

    def set_table(self, path: str) -> DeltaSourceBuilder:
        """Name the table by its directory: a path or URI that every host of the job sees, `s3://bucket/orders`."""
        self._table = str(path)
        return self

    def set_version(self, version: int) -> DeltaSourceBuilder:
        """Read the table as it was at a version.

        Raises:
            ConfigurationError: If it is negative.
        """
        self._version = _number(version)
        return self

    def set_starting_version(self, version: int) -> DeltaSourceBuilder:
        """Read what this version and later ones brought, not what was there before.

        Raises:
            ConfigurationError: If it is negative.
        """
        self._starting = _number(version)
        return self

    def set_ending_version(self, version: int) -> DeltaSourceBuilder:
        """Read no later versions; by default up to the newest one when the job starts.

        Raises:
            ConfigurationError: If it is negative.
        """
        self._ending = _number(version)
        return self

    def read_changes(self) -> DeltaSourceBuilder:
        """Give changes as rows with their kind: what was updated (`-U`, `+U`), deleted (`-D`) and inserted (`+I`).

        Where the table has a change data feed they are as it tells them; else rows of files that are removed are
        deleted, and those of files that are added inserted. One subtask reads them, in order.
        """
        self._reads_changes = True
        return self

    def build(self) -> DeltaSource:
        """Return the source.

        Raises:
            ConfigurationError: If there is no table, settings exclude each other, or deltalake is not installed.
        """
        load_deltalake()
        if self._table is None:
            raise ConfigurationError("the Delta source has no table", hint='set_table("/data/orders").')
        if self._reads_changes and self._skips_changes:
            raise ConfigurationError("read_changes and set_skip_changes exclude each other")
        if self._reads_changes and self._interval_ms is None and self._starting is None:
            raise ConfigurationError(
                "changes are to be read of one version",
                hint="Name the first version, by set_starting_version(...); or follow the table, by "
                "monitor_continuously(...).",
            )
        reading = self._reading("set_version", "set_starting_version", "set_ending_version")
        return DeltaSource(table_address(self._table), reading, reads_changes=self._reads_changes)


def _number(version: int) -> int:
    return positive("version of a Delta table", version + 1) - 1
