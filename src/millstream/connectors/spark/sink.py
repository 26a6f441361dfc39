"""The sink of whatever Spark can write."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from millstream.base.errors import ConfigurationError, NotSupportedError, SinkError
from millstream.base.ids import new_id
from millstream.connectors.spark.columns import columns_of
from millstream.connectors.spark.committer import SparkCommit, SparkCommitter, Write, check_session
from millstream.connectors.staged_parquet import Layout, ParquetStagingWriter
from millstream.files.output import open_output
from millstream.files.paths import local_path
from millstream.files.remote import without_parameters
from millstream.spi.sink import Committer, Sink, SinkWriter, WriterContext
from millstream.types.datatypes import RowType

__all__ = ["SparkSink", "SparkSinkBuilder"]

_NAME = "the Spark sink"
_PREFIX = "spark"


class _Writing:
    """A session and what writes in it: known to the process of the program; elsewhere only its name."""

    def __init__(self, session: Any, write: Write) -> None:
        self.session = session
        self.write = write
        self._name = new_id()
        _WRITING[self._name] = self

    def __reduce__(self) -> Any:
        return _found, (self._name,)


_WRITING: WeakValueDictionary[str, _Writing] = WeakValueDictionary()


def _found(name: str) -> _Writing | None:
    return _WRITING.get(name)


@dataclass(frozen=True)
class SparkSink(Sink):
    """Has Spark write the records of each checkpoint as one DataFrame; made by `SparkSink.builder()`.

    Session and function stay with the program; slots only stage.

    Example:
        >>> from millstream.datastream.connectors.spark import SparkSink
        >>> from millstream.table import DataTypes
        >>> orders = DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT())])
        >>> builder = SparkSink.builder().set_staging_directory("/shared/staged").set_row_type(orders)
        >>> builder = builder.set_table("shop.orders")  # and set_session(spark).build()
    """

    _directory: str
    _row_type: RowType
    _writing: _Writing | None = field(repr=False, compare=False)

    @staticmethod
    def builder() -> SparkSinkBuilder:
        """Return a builder."""
        return SparkSinkBuilder()

    def check(self) -> None:
        """See whether the session is there, and the directory can be written.

        Raises:
            SessionLostError: If the session was stopped.
            SinkError: If the directory cannot be written.
        """
        check_session(self._on_driver().session)
        open_output(self._directory).check_writable()

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        return _SparkWriter(self._directory, self._row_type, context)

    def build_committer(self) -> Committer:
        """Make the committer, on the driver.

        Raises:
            SinkError: If this is the copy of another process.
        """
        writing = self._on_driver()
        return SparkCommitter(writing.session, self._directory, writing.write)

    def _on_driver(self) -> _Writing:
        if self._writing is None:
            raise SinkError(
                "a Spark sink was sent to another process", hint="Make it in the program that runs the job."
            )
        return self._writing


class SparkSinkBuilder:
    """Builds a `SparkSink`; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.spark import SparkSink
        >>> from millstream.table import DataTypes
        >>> fields = [DataTypes.FIELD("day", DataTypes.DATE()), DataTypes.FIELD("cents", DataTypes.BIGINT())]
        >>> day = DataTypes.ROW(fields)
        >>> builder = SparkSink.builder().set_staging_directory("/shared/staged").set_row_type(day)
        >>> builder = builder.set_path("/tables/days").set_format("parquet").set_partition_columns("day")
    """

    def __init__(self) -> None:
        self._session: Any = None
        self._directory: str | None = None
        self._row_type: RowType | None = None
        self._targets: list[Callable[[], Write]] = []
        self._format: str | None = None
        self._options: dict[str, Any] = {}
        self._partition_columns: tuple[str, ...] = ()

    def set_session(self, session: Any) -> SparkSinkBuilder:
        """Give the Spark session that writes.

        Raises:
            ConfigurationError: If it is none.
        """
        if not all(hasattr(session, name) for name in ("read", "createDataFrame", "catalog")):
            raise ConfigurationError(
                f"the Spark sink was given a {type(session).__name__}, not a Spark session",
                hint="set_session(SparkSession.builder.getOrCreate()).",
            )
        self._session = session
        return self

    def set_staging_directory(self, path: str) -> SparkSinkBuilder:
        """Name the directory where records wait for Spark: a path, or a `file:` URI, that all hosts see; kept for ever.

        It belongs to sinks; several jobs may have the same.

        Raises:
            NotSupportedError: If it is in an object store.
        """
        local = local_path(str(path))
        if local is None:
            raise NotSupportedError(
                f"records are not staged for Spark at {without_parameters(str(path))!r}: only in directories",
                hint="Name a directory that driver, slots and Spark's executors share.",
            )
        self._directory = os.path.abspath(local)
        return self

    def set_row_type(self, row_type: RowType) -> SparkSinkBuilder:
        """Declare the records, `DataTypes.ROW([...])`: the DataFrames' schema.

        Raises:
            ConfigurationError: If it is no row type, or has a type without columns.
            NotSupportedError: If Spark has no such type.
        """
        if not isinstance(row_type, RowType):
            raise ConfigurationError(
                f"records of a Spark sink are declared as {row_type!r}, which is no row type",
                hint='Such as DataTypes.ROW([DataTypes.FIELD("name", DataTypes.STRING())]).',
            )
        columns_of(row_type)
        self._row_type = row_type
        return self

    def set_table(self, name: str) -> SparkSinkBuilder:
        """Append to a table of Spark's catalogues (`catalog.schema.table`), which is made if there is none."""
        self._targets.append(lambda: self._appending(lambda writer: writer.saveAsTable(name)))
        return self

    def set_path(self, path: str) -> SparkSinkBuilder:
        """Append to a directory, as Spark's executors see it."""
        self._targets.append(lambda: self._appending(lambda writer: writer.save(str(path))))
        return self

    def set_format(self, format: str) -> SparkSinkBuilder:
        """Choose one of Spark's formats: `parquet`, `orc`, `json`, `csv`, or that of a connector, such as `jdbc`.

        By default Spark's own default. A connector that is told all by options needs neither table nor path.
        """
        self._format = format
        return self

    def set_option(self, key: str, value: Any) -> SparkSinkBuilder:
        """Give Spark's writer an option; never shown."""
        self._options[key] = value
        return self

    def set_partition_columns(self, *names: str) -> SparkSinkBuilder:
        """Have Spark partition what it writes by columns."""
        self._partition_columns = names
        return self

    def set_write(self, write: Write) -> SparkSinkBuilder:
        """Write by a function of the program, in the driver: `write(frame, commit)`, once for each checkpoint.

        `commit` is a `SparkCommit`. Where a driver is killed between the end of the function and the note of it, it is
        called again with the same rows and an equal `commit`, so that it can recognise them.
        """
        self._targets.append(lambda: write)
        return self

    def build(self) -> SparkSink:
        """Return the sink.

        Raises:
            ConfigurationError: If session, directory or row type are missing, or there is not exactly one target.
        """
        if self._session is None:
            raise ConfigurationError(
                "the Spark sink has no session", hint="set_session(SparkSession.builder.getOrCreate())."
            )
        if self._directory is None:
            raise ConfigurationError(
                "the Spark sink has no staging directory", hint='set_staging_directory("/data/staging").'
            )
        if self._row_type is None:
            raise ConfigurationError(
                "the Spark sink has no row type",
                hint="set_row_type(DataTypes.ROW([...])): the records' columns.",
            )
        if self._format is not None and not self._targets:
            self._targets.append(lambda: self._appending(lambda writer: writer.save()))
        if len(self._targets) != 1:
            raise ConfigurationError(
                f"the Spark sink has {len(self._targets)} targets, must have one",
                hint='set_table("db.events"), set_path("/data/events"), set_format("jdbc") with its options, or '
                "set_write(function).",
            )
        unknown = [name for name in self._partition_columns if name not in dict(columns_of(self._row_type))]
        if unknown:
            raise ConfigurationError(f"partition column {unknown[0]!r} is no field of the records")
        return SparkSink(self._directory, self._row_type, _Writing(self._session, self._targets[0]()))

    def _appending(self, finish: Callable[[Any], object]) -> Write:
        chosen, options, partitions = self._format, dict(self._options), self._partition_columns

        def write(frame: Any, commit: SparkCommit) -> None:
            writer = frame.write.mode("append").options(**options)
            if chosen is not None:
                writer = writer.format(chosen)
            if partitions:
                writer = writer.partitionBy(*partitions)
            finish(writer)

        return write


class _SparkWriter(ParquetStagingWriter):
    """Stages the records of one subtask."""

    def __init__(self, directory: str, row_type: RowType, context: WriterContext) -> None:
        super().__init__(_NAME, _PREFIX, context)
        self._declared = directory, row_type

    def find_layout(self) -> Layout:
        directory, row_type = self._declared
        return Layout(directory, row_type, (), columns_of(row_type))
