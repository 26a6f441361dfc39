"""The source of Iceberg tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.base.errors import ConfigurationError, SourceError
from millstream.connectors.iceberg.files import IcebergFiles
from millstream.connectors.iceberg.history import IcebergHistory
from millstream.connectors.iceberg.library import load_pyiceberg
from millstream.connectors.iceberg.table import Catalog, check_identifier
from millstream.connectors.lake.builder import LakeSourceBuilder, Reading
from millstream.connectors.lake.enumerator import TableFileEnumerator
from millstream.connectors.lake.reader import TableFileReader
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator

__all__ = ["IcebergSource", "IcebergSourceBuilder"]


class IcebergSource(Source):
    """The rows of an Iceberg table, once or as they come; made by `IcebergSource.builder()`.

    Example:
        >>> from millstream.datastream.connectors.iceberg import IcebergSource
        >>> catalog = {"type": "rest", "uri": "http://localhost:8181"}
        >>> source = IcebergSource.builder().set_catalog("lake", catalog).set_table("shop.orders").build()
    """

    def __init__(self, catalog: Catalog, reading: Reading, ref: str) -> None:
        self._catalog = catalog
        self._reading = reading
        self._ref = ref

    def __repr__(self) -> str:
        return f"IcebergSource({self._catalog})"

    @staticmethod
    def builder() -> IcebergSourceBuilder:
        """Return a builder."""
        return IcebergSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED unless the table is followed."""
        follows = self._reading.interval_ms is not None
        return Boundedness.CONTINUOUS_UNBOUNDED if follows else Boundedness.BOUNDED

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Look at the table.

        Raises:
            SourceError: If the catalog, the table or the snapshot is not there.
            NotSupportedError: If the table has what is not read.
        """
        return TableFileEnumerator(
            IcebergHistory(self._catalog, self._reading, self._ref),
            parallelism,
            interval_ms=self._reading.interval_ms,
            split_bytes=self._reading.split_bytes,
            restored=restored,
        )

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return TableFileReader(
            str(self._catalog),
            IcebergFiles(self._catalog),
            self._reading.conditions,
            in_utc=self._reading.in_utc,
        )


class IcebergSourceBuilder(LakeSourceBuilder):
    """Builds an `IcebergSource`; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.iceberg import IcebergSource
        >>> builder = IcebergSource.builder().set_catalog("lake", {"type": "rest", "uri": "http://localhost:8181"})
        >>> source = builder.set_table("shop.orders").set_ref("audited").build()  # a branch or tag
    """

    def __init__(self) -> None:
        super().__init__()
        self._catalog: tuple[str, dict[str, str]] | None = None
        self._table: str | None = None
        self._ref = "main"

    def set_catalog(self, name: str, properties: Mapping[str, str]) -> IcebergSourceBuilder:
        """Name the catalog, and how it is reached: pyiceberg's properties, such as `type`, `uri` and `warehouse`."""
        self._catalog = name, {key: str(value) for key, value in properties.items()}
        return self

    def set_table(self, identifier: str) -> IcebergSourceBuilder:
        """Name the table with its namespace: `sales.orders`.

        Raises:
            ConfigurationError: If there is no namespace.
        """
        self._table = check_identifier(identifier, "source")
        return self

    def set_ref(self, name: str) -> IcebergSourceBuilder:
        """Read a branch or a tag; by default the branch `main`."""
        self._ref = name
        return self

    def set_snapshot(self, snapshot_id: int) -> IcebergSourceBuilder:
        """Read the table as it was with a snapshot."""
        self._version = snapshot_id
        return self

    def set_starting_snapshot(self, snapshot_id: int) -> IcebergSourceBuilder:
        """Read what was appended behind this snapshot, not what was there with it."""
        self._starting = snapshot_id
        return self

    def set_ending_snapshot(self, snapshot_id: int) -> IcebergSourceBuilder:
        """Read no later snapshots than this one; by default up to the newest when the job starts."""
        self._ending = snapshot_id
        return self

    def build(self) -> IcebergSource:
        """Return the source.

        Raises:
            ConfigurationError: If catalog or table are missing, settings exclude each other, or pyiceberg is not
                installed.
        """
        load_pyiceberg("catalog")
        if self._catalog is None:
            raise ConfigurationError("the Iceberg source has no catalog", hint='set_catalog("name", {...}).')
        if self._table is None:
            raise ConfigurationError("the Iceberg source has no table", hint='set_table("sales.orders").')
        reading = self._reading("set_snapshot", "set_starting_snapshot", "set_ending_snapshot")
        name, properties = self._catalog
        return IcebergSource(Catalog(name, properties, self._table, SourceError), reading, self._ref)
