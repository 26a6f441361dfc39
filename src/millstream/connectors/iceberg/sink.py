"""The sink of Iceberg tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.clock import SystemClock
from millstream.base.crash_points import reach
from millstream.base.errors import ConfigurationError, SinkError
from millstream.connectors.iceberg.columns import kind_of
from millstream.connectors.iceberg.library import load_pyiceberg
from millstream.connectors.iceberg.table import Catalog, Conflict, Table, check_identifier
from millstream.connectors.staged_parquet import (
    Layout,
    ParquetStagingWriter,
    StagedParquet,
    publish_files,
    refuse_unpublished,
)
from millstream.files.output import open_output
from millstream.formats.parquet.writer import writers_with_schema
from millstream.formats.row_columns import RowColumns
from millstream.spi.serialization import BulkWriterFactory
from millstream.spi.sink import Committer, Sink, SinkWriter, WriterContext
from millstream.types.datatypes import RowType

__all__ = ["IcebergSink", "IcebergSinkBuilder"]

_PREFIX = "millstream.committed"
_TRIES = 20
_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class IcebergSink(Sink):
    """Appends records to an Iceberg table, exactly once; made by `IcebergSink.builder()`.

    Example:
        >>> from millstream.datastream.connectors.iceberg import IcebergSink
        >>> catalog = {"type": "rest", "uri": "http://localhost:8181"}
        >>> sink = IcebergSink.builder().set_catalog("lake", catalog).set_table("shop.orders").build()
    """

    _catalog: Catalog
    _row_type: RowType | None

    @staticmethod
    def builder() -> IcebergSinkBuilder:
        """Return a builder."""
        return IcebergSinkBuilder()

    def check(self) -> None:
        """See whether the table is there and takes the records; make it if it is not, and the row type is declared.

        Raises:
            SinkError: If it is not there, cannot be written, or has other columns.
            NotSupportedError: If such tables are not written.
        """
        if self._row_type is not None:
            self._catalog.create(self._row_type)
        layout = _find_layout(self._catalog.load(), self._row_type)
        open_output(layout.base).check_writable()

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        return _IcebergWriter(self._catalog, self._row_type, context)

    def build_committer(self) -> Committer:
        """Make the committer."""
        return _IcebergCommitter(self._catalog)


class IcebergSinkBuilder:
    """Builds an `IcebergSink`; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.iceberg import IcebergSink
        >>> from millstream.table import DataTypes
        >>> orders = DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT())])
        >>> builder = IcebergSink.builder().set_catalog("lake", {"type": "rest", "uri": "http://localhost:8181"})
        >>> sink = builder.set_table("shop.orders").set_row_type(orders).build()
    """

    def __init__(self) -> None:
        self._catalog: tuple[str, dict[str, str]] | None = None
        self._table: str | None = None
        self._row_type: RowType | None = None

    def set_catalog(self, name: str, properties: Mapping[str, str]) -> IcebergSinkBuilder:
        """Name the catalog, and how it is reached: pyiceberg's properties, such as `type`, `uri` and `warehouse`."""
        self._catalog = name, {key: str(value) for key, value in properties.items()}
        return self

    def set_table(self, identifier: str) -> IcebergSinkBuilder:
        """Name the table with its namespace: `sales.orders`.

        Raises:
            ConfigurationError: If there is no namespace.
        """
        self._table = check_identifier(identifier, "sink")
        return self

    def set_row_type(self, row_type: RowType) -> IcebergSinkBuilder:
        """Declare the records, `DataTypes.ROW([...])`; by default they are as the table is, which has to be there.

        Raises:
            ConfigurationError: If it is no row type.
        """
        if not isinstance(row_type, RowType):
            raise ConfigurationError(
                f"records of an Iceberg sink are declared as {row_type!r}, which is no row type",
                hint='Such as DataTypes.ROW([DataTypes.FIELD("name", DataTypes.STRING())]).',
            )
        self._row_type = row_type
        return self

    def build(self) -> IcebergSink:
        """Return the sink.

        Raises:
            ConfigurationError: If catalog or table are missing, pyiceberg is not installed, or a type is none of
                Iceberg's.
        """
        load_pyiceberg("catalog")
        if self._catalog is None:
            raise ConfigurationError("the Iceberg sink has no catalog", hint='set_catalog("name", {...}).')
        if self._table is None:
            raise ConfigurationError("the Iceberg sink has no table", hint='set_table("sales.orders").')
        if self._row_type is not None:
            RowColumns(self._row_type)
            kind_of(self._row_type)
        name, properties = self._catalog
        return IcebergSink(Catalog(name, properties, self._table), self._row_type)


def _find_layout(table: Table, row_type: RowType | None) -> Layout:
    found = table.row_type() if row_type is None else row_type
    columns = tuple((field.name, kind_of(field.data_type)) for field in found)
    table.check_fits(columns)
    table.check_nulls([field.name for field in found if field.data_type.nullable])
    return Layout(table.base, found, (), columns)


class _IcebergWriter(ParquetStagingWriter):
    """Stages the records of one subtask."""

    def __init__(self, catalog: Catalog, row_type: RowType | None, context: WriterContext) -> None:
        super().__init__(str(catalog), _PREFIX, context)
        self._catalog = catalog
        self._row_type = row_type

    def find_layout(self) -> Layout:
        table = self._catalog.load()
        self._partitioning = table.partitioning
        layout = _find_layout(table, self._row_type)
        self._schema = table.stored_schema(layout.row_type)
        return layout

    def find_formats(self, layout: Layout) -> BulkWriterFactory:
        return writers_with_schema(layout.row_type, self._schema)

    def cut(self, batch: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
        return self._partitioning.cut(batch)

    def directories(self, key: tuple[Any, ...]) -> list[str]:
        return self._partitioning.path(key).split("/") if key else []

    def partition_of(self, key: tuple[Any, ...]) -> list[tuple[str, Any]]:
        return list(zip(self._partitioning.names, key, strict=True))


class _IcebergCommitter(Committer):
    """Adds the files of each checkpoint to the table in one commit.

    The order of what was committed is a property of the table, set in the same commit. A commit that is repeated
    finds it; of two at once the catalog lets one through, and the other looks again.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._clock = SystemClock()

    def commit(self, committables: Sequence[Any]) -> None:
        groups: dict[tuple[str, tuple[int, ...]], list[StagedParquet]] = {}
        for committable in committables:
            groups.setdefault((committable.owner, committable.order), []).append(committable)
        for owner, order in sorted(groups):
            reach("sink.publish", owner)
            self._commit(owner, order, groups[owner, order])

    def abort(self, committables: Sequence[Any]) -> None:
        if committables:
            output = open_output(self._catalog.load().base)
            for committable in committables:
                output.remove(committable.staged_path)

    def _commit(self, owner: str, order: tuple[int, ...], files: list[StagedParquet]) -> None:
        name = str(self._catalog)
        for attempt in range(1, _TRIES + 1):
            table = self._catalog.load()
            output = open_output(table.base)
            if table.committed(owner) >= order:
                refuse_unpublished(name, files, output)
                return
            for columns in {file.columns for file in files}:
                table.check_fits(columns)
            publish_files(name, files, output)
            try:
                table.add(files, owner, order)
                return
            except Conflict as conflict:
                if attempt == _TRIES:
                    raise SinkError(
                        f"{name} is changed by others all the time",
                        detail=f"The commit was tried {_TRIES} times; at last: {conflict}",
                        hint="The files are kept; the commit is repeated when the job is restarted.",
                    ) from conflict
            self._clock.wait(_PAUSE_S * attempt)
