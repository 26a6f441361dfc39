"""The sink of Delta tables."""

from __future__ import annotations

from dataclasses import dataclass, field

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.connectors.delta.committer import DeltaCommitter
from millstream.connectors.delta.table import columns_of, create_table, load_deltalake, table_address
from millstream.connectors.delta.writer import DeltaWriter, check_partitions, find_layout
from millstream.connectors.lake.storage import is_in_s3
from millstream.files.output import open_output
from millstream.files.paths import local_path
from millstream.files.remote import without_parameters
from millstream.formats.row_columns import RowColumns
from millstream.spi.sink import Committer, Sink, SinkWriter, WriterContext
from millstream.types.datatypes import RowType

__all__ = ["DeltaSink", "DeltaSinkBuilder"]


@dataclass(frozen=True, slots=True)
class DeltaSink(Sink):
    """Appends records to a Delta table, exactly once; made by `DeltaSink.builder()`.

    Example:
        >>> from millstream.datastream.connectors.delta import DeltaSink
        >>> sink = DeltaSink.builder().set_table("/tables/orders").build()  # stream.sink_to(sink)
    """

    _path: str = field(repr=False)
    _row_type: RowType | None
    _partition_columns: tuple[str, ...] | None
    _application: str

    @staticmethod
    def builder() -> DeltaSinkBuilder:
        """Return a builder."""
        return DeltaSinkBuilder()

    def check(self) -> None:
        """See whether the table is there and takes the records; make it if it is not, and the row type is declared.

        Raises:
            SinkError: If it is not there, cannot be written, or has other columns.
            NotSupportedError: If such tables are not written.
        """
        open_output(self._path).check_writable()
        if self._row_type is not None:
            create_table(self._path, RowColumns(self._row_type).schema, self._partition_columns or ())
        find_layout(self._path, self._row_type, self._partition_columns)

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        return DeltaWriter(self._path, self._row_type, self._partition_columns, self._application, context)

    def build_committer(self) -> Committer:
        """Make the committer."""
        return DeltaCommitter(self._path)


class DeltaSinkBuilder:
    """Builds a `DeltaSink`; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.delta import DeltaSink
        >>> from millstream.table import DataTypes
        >>> fields = [DataTypes.FIELD("day", DataTypes.DATE()), DataTypes.FIELD("cents", DataTypes.BIGINT())]
        >>> day = DataTypes.ROW(fields)
        >>> sink = DeltaSink.builder().set_table("/tables/days").set_row_type(day).set_partition_columns("day").build()
    """

    def __init__(self) -> None:
        self._path: str | None = None
        self._row_type: RowType | None = None
        self._partition_columns: tuple[str, ...] | None = None
        self._application = "millstream"

    def set_table(self, path: str) -> DeltaSinkBuilder:
        """Name the table by its directory: a path or URI that every host of the job sees, `s3://bucket/orders`.

        Raises:
            NotSupportedError: If it is in another store than a directory or S3.
        """
        if local_path(str(path)) is None and not is_in_s3(str(path)):
            raise NotSupportedError(
                f"a Delta table at {without_parameters(str(path))!r} is not written: only those in directories and in "
                "S3 are",
                hint="Write Parquet files there with FileSink, and convert them to a table.",
            )
        self._path = table_address(str(path))
        return self

    def set_row_type(self, row_type: RowType) -> DeltaSinkBuilder:
        """Declare the records, `DataTypes.ROW([...])`; by default they are as the table is, which has to be there.

        Raises:
            ConfigurationError: If it is no row type.
        """
        if not isinstance(row_type, RowType):
            raise ConfigurationError(
                f"records of a Delta sink are declared as {row_type!r}, which is no row type",
                hint='Such as DataTypes.ROW([DataTypes.FIELD("name", DataTypes.STRING())]).',
            )
        self._row_type = row_type
        return self

    def set_partition_columns(self, *names: str) -> DeltaSinkBuilder:
        """Name the columns that the table is partitioned by; by default as the table is, a new one by none."""
        self._partition_columns = names
        return self

    def set_application_id(self, application_id: str) -> DeltaSinkBuilder:
        """Choose what the ids of transactions in the table's log begin with; by default `millstream`.

        Job, sink and attempt follow, so that two jobs with the same one do not disturb each other.

        Raises:
            ConfigurationError: If it is empty.
        """
        if not application_id:
            raise ConfigurationError("the application id of a Delta sink is empty")
        self._application = application_id
        return self

    def build(self) -> DeltaSink:
        """Return the sink.

        Raises:
            ConfigurationError: If there is no table, deltalake is not installed, or the types do not fit Delta's.
        """
        load_deltalake()
        if self._path is None:
            raise ConfigurationError("the Delta sink has no table", hint='set_table("/data/orders").')
        if self._row_type is not None:
            columns_of(RowColumns(self._row_type).schema)
            check_partitions(self._row_type, self._partition_columns or ())
        return DeltaSink(self._path, self._row_type, self._partition_columns, self._application)
