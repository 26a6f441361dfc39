"""Results of a stream as tables: of Arrow, pandas, polars and Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from millstream.base.errors import JobDefinitionError, NotSupportedError, TypeMismatchError
from millstream.config import options_checkpointing
from millstream.connectors.columns.frames import load_library
from millstream.connectors.columns.kept import KeptDirectory
from millstream.connectors.files.buckets import BucketAssigner
from millstream.connectors.files.sink import FileSink
from millstream.datastream.streams.cached_data_stream import find_unbounded
from millstream.files.file_systems import FileSystemSettings, using
from millstream.files.paths import list_files
from millstream.formats.parquet.record_writer import RecordParquetWriters
from millstream.formats.record_columns import RecordColumns
from millstream.graph.launcher import spark_session
from millstream.operators.collect_columns import CollectColumnsSpec, Gathered
from millstream.operators.sink import SinkSpec
from millstream.types.arrow_types import load_arrow
from millstream.types.typeinfo import TypeInformation

if TYPE_CHECKING:
    from millstream.datastream.streams.stream_ends import CloseableIterator, StreamEnds

__all__ = ["ArrowBatches", "collect_arrow", "to_arrow", "to_pandas", "to_polars", "to_spark"]


class ArrowBatches:
    """Record batches of a running job, as they come; closing it before its end cancels the job.

    Iterating raises what made the job fail. Batches of a stream of declared type all have the same schema.
    """

    def __init__(self, collected: CloseableIterator[Gathered], columns: RecordColumns) -> None:
        self._collected = collected
        self._columns = columns
        self._schema = columns.schema

    def __iter__(self) -> Iterator[Any]:
        for gathered in self._collected:
            data = gathered.data
            batch = self._columns.batch(data) if isinstance(data, list) else data
            if self._schema is None:
                self._schema = batch.schema
            yield batch

    @property
    def schema(self) -> Any:
        """Names and types of the columns; None before the first batch of a stream whose type is not declared."""
        return self._schema

    def close(self) -> None:
        """Cancel the job unless it has ended."""
        self._collected.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def collect_arrow(stream: StreamEnds[Any], job_name: str | None) -> ArrowBatches:
    """Run the program and bring a stream's records here, batch by batch.

    Raises:
        ConfigurationError: If pyarrow is not installed.
    """
    columns = RecordColumns(stream._type_info)
    collected: CloseableIterator[Gathered] = stream._collect(
        lambda collect_id: CollectColumnsSpec(collect_id, stream._type_info), job_name
    )
    return ArrowBatches(collected, columns)


def to_arrow(stream: StreamEnds[Any], job_name: str | None) -> Any:
    """Run the program and return all records of a stream as a `pyarrow.Table`.

    Raises:
        JobDefinitionError: If the stream does not end.
        ConfigurationError: If pyarrow is not installed.
        TypeMismatchError: If records of a type that is not declared fit no one type.
    """
    _check_bounded(stream, "to_arrow")
    pa = load_arrow("results as tables")
    with collect_arrow(stream, job_name) as results:
        collected = [gathered.data for gathered in results._collected]
    batches = [each for each in collected if not isinstance(each, list)]
    records = [record for each in collected if isinstance(each, list) for record in each]
    if records or not batches:
        batches.append(results._columns.batch(records))
    try:
        return pa.Table.from_batches(batches) if len(batches) == 1 else _joined(pa, batches)
    except pa.ArrowException as error:
        raise TypeMismatchError(
            "the records of the stream do not fit into one table",
            detail=f"{error}.",
            hint="Have the operators before it give a column one type, or declare one: map(f, Types.ROW_NAMED(...)).",
        ) from error


def _joined(pa: Any, batches: list[Any]) -> Any:
    """Return batches as one table: a column's type is the widest of its numbers, floats if some are.

    Raises:
        TypeMismatchError: If a column holds both text and bytes, which Arrow would take for bytes.
        pyarrow.ArrowException: If it holds other values that fit no one type.
    """
    schemas = list({batch.schema: None for batch in batches})
    texts = {
        field.name for schema in schemas for field in schema if field.type in (pa.string(), pa.large_string())
    }
    mixed = [
        field.name
        for schema in schemas
        for field in schema
        if field.name in texts and field.type in (pa.binary(), pa.large_binary())
    ]
    if mixed:
        raise TypeMismatchError(
            "the records of the stream do not fit into one table",
            detail=f"Column {mixed[0]!r} holds text in some of them and bytes in others.",
            hint="Have the operators before it give a column one type.",
        )
    return pa.concat_tables([pa.Table.from_batches([each]) for each in batches], promote_options="permissive")


def to_pandas(stream: StreamEnds[Any], job_name: str | None) -> Any:
    """Run the program and return all records of a stream as a pandas DataFrame.

    Raises:
        ConfigurationError: If pandas or pyarrow is not installed.
        TypeMismatchError: If a map has a key twice.
    """
    pandas = load_library("pandas", "to_pandas")
    _check_bounded(stream, "to_pandas")
    pa = load_arrow("results as tables")
    table = to_arrow(stream, job_name)
    try:
        frame = table.to_pandas(maps_as_pydicts="strict")
    except pa.ArrowException as error:
        raise TypeMismatchError(
            "the results make no frame of pandas",
            detail=f"{error}.",
            hint="to_arrow() gives them as they are, maps with a key that is there twice too.",
        ) from error
    # pandas makes floats of integers where one is missing, which large ones do not survive.
    whole = {getattr(pa, name)(): getattr(pandas, dtype)() for name, dtype in _INTEGERS.items()}
    for place, column in enumerate(table.columns):
        if column.null_count and column.type in whole:
            frame.isetitem(place, column.to_pandas(types_mapper=whole.get))
    return frame


_INTEGERS = {"int8": "Int8Dtype", "int16": "Int16Dtype", "int32": "Int32Dtype", "int64": "Int64Dtype"}


def to_polars(stream: StreamEnds[Any], job_name: str | None) -> Any:
    """Run the program and return all records of a stream as a polars DataFrame.

    Raises:
        ConfigurationError: If polars or pyarrow is not installed.
    """
    polars = load_library("polars", "to_polars")
    _check_bounded(stream, "to_polars")
    return polars.from_arrow(to_arrow(stream, job_name))


def to_spark(stream: StreamEnds[Any], session: Any, location: str | None, job_name: str | None) -> Any:
    """Run the program and return all records of a stream as a Spark DataFrame.

    Raises:
        JobDefinitionError: If the stream does not end.
        ConfigurationError: If there is no session, or no directory that all hosts share is named.
    """
    _check_bounded(stream, "to_spark")
    configuration = stream._environment._configuration
    if session is None:
        session = spark_session(configuration)
    schema = RecordColumns(stream._type_info).schema
    if schema is None:
        return session.createDataFrame(to_arrow(stream, job_name))
    _check_times(session, schema)
    kept = KeptDirectory.make(
        location,
        master=session.conf.get("spark.master", ""),
        checkpoints=configuration.get(options_checkpointing.CHECKPOINT_DIRECTORY),
    )
    stream._sink("Spark DataFrame", SinkSpec(_parquet_files(kept.path, stream._type_info), stream._type_info))
    stream._environment.execute(job_name)
    with using(FileSystemSettings.of(configuration, os.environ)):
        return _frame(session, kept, schema)


def _check_times(session: Any, schema: Any) -> None:
    """Check that Spark reads what the files are going to hold: it has a type for times of day, but not by default."""
    if not any(map(_holds_times, schema.types)) or session.conf.get(_TIMES, "false") == "true":
        return
    raise NotSupportedError(
        "Spark has no type for times of day",
        detail=f"Columns: {', '.join(map(str, schema))}.",
        hint=f"Map them to text or numbers, or try {_TIMES}=true in the session.",
    )


def _holds_times(kind: Any) -> bool:
    pa = load_arrow("results as tables")
    return bool(pa.types.is_time(kind)) or any(
        _holds_times(kind.field(place).type) for place in range(kind.num_fields)
    )


_TIMES = "spark.sql.timeType.enabled"


def _parquet_files(path: str, type_info: TypeInformation | None) -> FileSink:
    assert type_info is not None, "there is a schema without a type"
    builder = FileSink.for_bulk_format(path, RecordParquetWriters(type_info))
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    return builder.build()


def _frame(session: Any, kept: KeptDirectory, schema: Any) -> Any:
    """Return what was written, or no rows if nothing was; it is read when the frame is, as often as it is."""
    if not list_files(kept.path):
        kept.remove()
        return session.createDataFrame(schema.empty_table())
    kept.keep_for_process()
    return session.read.parquet(kept.uri)


def _check_bounded(stream: StreamEnds[Any], method: str) -> None:
    unbounded = find_unbounded(stream)
    if unbounded is not None:
        raise JobDefinitionError(
            f'{method} was called on a stream that does not end: source "{unbounded}" is unbounded',
            hint="Use collect_arrow(), which gives batches as they come, or a sink.",
        )
