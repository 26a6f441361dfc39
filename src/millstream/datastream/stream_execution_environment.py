"""Where programs begin and jobs are submitted (PyFlink's `StreamExecutionEnvironment`)."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from millstream.base.declared import as_declared
from millstream.base.error_display import show_uncaught_errors
from millstream.base.errors import (
    ConfigurationError,
    JobDefinitionError,
    NotSupportedError,
    TypeMismatchError,
)
from millstream.base.missing import explain_missing
from millstream.base.signals import Terminated
from millstream.base.time import Duration
from millstream.base.type_variables import R
from millstream.common.io import InputFormat
from millstream.common.java_functions import SourceFunction
from millstream.common.job_client import JobClient
from millstream.common.job_execution_result import JobExecutionResult
from millstream.common.job_id import JobID
from millstream.common.watermark_strategy import HasWatermarkStrategy, WatermarkStrategy
from millstream.config import options, options_checkpointing, options_python
from millstream.config.configuration import ConfigSource, Configuration
from millstream.config.execution_config import ExecutionConfig
from millstream.connectors.collection import CollectionSource
from millstream.connectors.columns.event_time import EventTime, disorder_ms
from millstream.connectors.columns.frames import (
    arrow_table,
    check_columns,
    pandas_table,
    plain_table,
    polars_table,
)
from millstream.connectors.columns.kept import KeptDirectory
from millstream.connectors.columns.spark import check_frame, frames_source
from millstream.connectors.columns.table import TableSource
from millstream.connectors.source_function import SourceFunctionSource
from millstream.datastream.execution_mode import RuntimeExecutionMode
from millstream.datastream.execution_plan import ExecutionPlan
from millstream.datastream.job_files import CheckpointSettings, JobFiles
from millstream.datastream.records import records_of
from millstream.datastream.slot_sharing_group import SlotSharingGroup
from millstream.datastream.streams.cached_data_stream import Cache
from millstream.datastream.streams.data_stream import DataStream, check_strategy
from millstream.datastream.streams.missing import OF_TABLES
from millstream.datastream.streams.settings import Port
from millstream.files.file_systems import FileSystemSettings, using
from millstream.graph.explain import execution_plan
from millstream.graph.launcher import JobSubmission, RunningJob, find_launcher
from millstream.graph.transformation import Edge, Transformation
from millstream.operators.base import OperatorSpec
from millstream.operators.columnar.forms import check_names
from millstream.operators.source import SourceSpec
from millstream.operators.source_function import SourceFunctionSpec
from millstream.operators.user_code import fit
from millstream.spi.formats import BulkFormat
from millstream.spi.source import Boundedness, Source
from millstream.types.arrow_typeinfo import plain_schema, row_type_of
from millstream.types.arrow_types import load_arrow
from millstream.types.row import Row
from millstream.types.typeinfo import RowTypeInfo, TypeInformation

__all__ = ["StreamExecutionEnvironment"]

DEFAULT_JOB_NAME = "Flink Streaming Job"

_log = logging.getLogger(__name__)

_INSTEAD = {
    **OF_TABLES,
    "fromelements": "Use from_collection([...]).",
    "parallelize": "Use from_collection([...]).",
    "generatesequence": 'Use from_source(NumberSequenceSource(1, n), WatermarkStrategy.no_watermarks(), "numbers").',
    "fromsequence": 'Use from_source(NumberSequenceSource(1, n), WatermarkStrategy.no_watermarks(), "numbers").',
    "readtextfile": "Use from_source(FileSource.for_record_stream_format(StreamFormat.text_line_format(), path)...).",
    "readfile": "Use from_source(FileSource.for_record_stream_format(StreamFormat.text_line_format(), path)...).",
    "readstream": "Use from_source(...).",
    "read": "Use from_source(...).",
    "sockettextstream": "Write a SourceFunction that reads the socket, and use add_source(...).",
    "start": "Use execute(), or execute_async().",
    "run": "Use execute().",
    "stop": "Keep what execute_async() returns: client.cancel(), client.stop_with_savepoint(...).",
    "getstreamgraph": "Use get_execution_plan(), or millstream info.",
}
"""Methods of Java, of Spark and of earlier Flinks."""


class StreamExecutionEnvironment(JobFiles, CheckpointSettings):
    """The context of a program: makes streams, submits jobs.

    Not to be shared by threads.

    Attributes:
        executed_jobs: How many jobs this process has submitted, over all environments.

    Example:
        >>> from millstream.common import Configuration
        >>> from millstream.datastream import StreamExecutionEnvironment
        >>> local = Configuration.from_dict({"execution.target": "local"})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> sink = env.from_collection(["to be", "or not"]).flat_map(str.split).map(str.upper).print()
        >>> result = env.execute("words")
        TO
        BE
        OR
        NOT
    """

    executed_jobs: ClassVar[int] = 0
    _local_parallelism: ClassVar[int | None] = None

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration(configuration)
        self._config = ExecutionConfig(self._configuration)
        self._transformations: list[Transformation] = []
        self._created = 0
        self._collectors = 0
        self._caches: list[Cache] = []
        show_uncaught_errors(partial(self._configuration.get, options.VERBOSE))

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """Make an environment.

        Args:
            configuration: Options; they win over those given on the command line, and these over files.
        """
        settings = Configuration.load(os.environ)
        local_parallelism = StreamExecutionEnvironment._local_parallelism
        if local_parallelism is not None and not settings.contains_key(options.DEFAULT_PARALLELISM.key):
            settings.set(options.DEFAULT_PARALLELISM, local_parallelism, source=ConfigSource.DEFAULT)
        return StreamExecutionEnvironment(settings.add_all(configuration) if configuration else settings)

    # Options

    def get_config(self) -> ExecutionConfig:
        """Return the execution config; what is set there is set here."""
        return self._config

    def configure(self, configuration: Configuration) -> None:
        """Set all options that `configuration` sets."""
        self._configuration.add_all(configuration)

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """Set the parallelism of the operators that follow and have none of their own.

        Raises:
            ConfigurationError: If it is not positive.
        """
        self._config.set_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        """Return the parallelism of operators that have none of their own."""
        return self._configuration.default_parallelism()

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Set the number of key groups, at most 32768.

        Raises:
            ConfigurationError: If it is not within 1 and 32768.
        """
        if isinstance(max_parallelism, int) and max_parallelism > 32_768:
            raise ConfigurationError(
                f"the maximum parallelism is {max_parallelism}", detail="It is at most 32768."
            )
        self._config.set_max_parallelism(max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups."""
        return self._config.get_max_parallelism()

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        """Set when results are emitted."""
        self._configuration.set(options.RUNTIME_MODE, execution_mode)
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> StreamExecutionEnvironment:
        """Keep a timeout, accepted for compatibility: epochs decide how long records wait."""
        self._configuration.set(options.BUFFER_TIMEOUT, max(timeout_millis, 0))
        return self

    def get_buffer_timeout(self) -> int:
        """Return the timeout that was kept, in milliseconds."""
        timeout_ms: int = self._configuration.get(options.BUFFER_TIMEOUT)
        return timeout_ms

    def disable_operator_chaining(self) -> StreamExecutionEnvironment:
        """Chain no operators: each runs for itself, as a vertex of its own."""
        self._configuration.set(options.OPERATOR_CHAINING, False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Return whether operators are chained."""
        enabled: bool = self._configuration.get(options.OPERATOR_CHAINING)
        return enabled

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Return whether operators of different maximum parallelism are chained."""
        return bool(self._configuration.get(options_python.CHAIN_DIFFERENT_MAX_PARALLELISM))

    def get_default_local_parallelism(self) -> int:
        """Return the parallelism of environments that are made without one."""
        return StreamExecutionEnvironment._local_parallelism or os.cpu_count() or 1

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Set the parallelism of environments made from now on, in this process, if no option sets it.

        Raises:
            ConfigurationError: If it is not positive.
        """
        StreamExecutionEnvironment._local_parallelism = options.DEFAULT_PARALLELISM.convert(parallelism)

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> StreamExecutionEnvironment:
        """Accept a group; slots hold every vertex anyway."""
        return self

    # Sources

    def from_collection(
        self, collection: Iterable[R], type_info: TypeInformation | None = None
    ) -> DataStream[R]:
        """Make a stream of values; read by one subtask.

        Args:
            collection: The values: a list, a generator that ends, any iterable; pickled now, so later changes to
                them do not show.
            type_info: Type of the values, checked now.

        Raises:
            TypeMismatchError: If a value does not fit the type, or it is no collection of records but a text, a dict
                or a frame; the error names the call that gives records.
        """
        values = records_of(collection)
        _check_type_info(type_info)
        return self._add_source(
            "Collection Source",
            CollectionSource(fit(values, type_info)),
            WatermarkStrategy.no_watermarks(),
            type_info,
        )

    def from_pandas(
        self,
        df: Any,
        timestamp: str | None = None,
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "Pandas Source",
    ) -> DataStream[Row]:
        """Make a stream of the rows of a pandas DataFrame, with the names of its columns and without its index.

        NaN, NaT, NA and None are None. Otherwise as `from_arrow`.

        Raises:
            TypeMismatchError: If it is no DataFrame, or a column holds values of several types.
            ConfigurationError: As `from_arrow`, or if pandas is not installed.
        """
        return self._from_table(pandas_table(df), timestamp, watermark_strategy, source_name)

    def from_polars(
        self,
        df: Any,
        timestamp: str | None = None,
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "Polars Source",
    ) -> DataStream[Row]:
        """Make a stream of the rows of a polars DataFrame, with the names of its columns; as `from_arrow`.

        Raises:
            TypeMismatchError: If it is no DataFrame, or a column holds Python objects.
            ConfigurationError: As `from_arrow`, or if polars is not installed.
        """
        return self._from_table(polars_table(df), timestamp, watermark_strategy, source_name)

    def from_arrow(
        self,
        table: Any,
        timestamp: str | None = None,
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "Arrow Source",
    ) -> DataStream[Row]:
        """Make a stream of the rows of an Arrow table, with the names and types of its columns.

        The rows come in order, from one subtask; of a table of 100,000 rows or more each subtask reads a slice.

        Args:
            table: A Table, RecordBatch, RecordBatchReader (read to its end now), or an object that exports an Arrow
                stream, such as a DuckDB relation.
            timestamp: Column of event time: a timestamp or date, in UTC if it has no zone, or epoch milliseconds.
            watermark_strategy: How the stream gets watermarks, and timestamps if it has an assigner. Without one, and
                with `timestamp`, watermarks are as far behind as the table is out of order: nothing is late.
            source_name: Name of the operator.

        Raises:
            TypeMismatchError: If it is no table, an argument is not of its class, a name is there twice, a value is
                none of Python's, or there are rows and no column.
            ConfigurationError: If no type of records stands for a column's type, `timestamp` names no column of event
                time, or pyarrow is not installed.
            SourceError: If event time is null in a row.
        """
        return self._from_table(arrow_table(table), timestamp, watermark_strategy, source_name)

    def from_spark(
        self,
        df: Any,
        timestamp: str | None = None,
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "Spark Source",
        location: str | None = None,
    ) -> DataStream[Row]:
        """Make a stream of the rows of a Spark DataFrame, with the names and types of its columns.

        Spark writes them to Parquet files now, a file for each of its partitions, and the job reads several at a time;
        nothing goes through this process. The files go with the last stream and job that may read them.

        Args:
            df: A bounded DataFrame.
            timestamp: As of `from_arrow`.
            watermark_strategy: As of `from_arrow`; without one there is only the final watermark, as nobody has looked
                at the rows.
            source_name: Name of the operator.
            location: A directory for the files that all hosts share; by default a temporary one if Spark runs on this
                machine, else the directory of checkpoints.

        Raises:
            TypeMismatchError: If it is no DataFrame, or an argument is not of its class.
            SessionLostError: If its session was stopped.
            JobDefinitionError: If it is a streaming DataFrame.
            NotSupportedError: If a column is of a type that no type of records stands for.
            ConfigurationError: As `from_arrow`, or if no directory is named that all hosts share.
        """
        check_frame(df)
        load_arrow("Spark's DataFrames")
        kept = KeptDirectory.make(
            location,
            master=df.sparkSession.conf.get("spark.master", ""),
            checkpoints=self._configuration.get(options_checkpointing.CHECKPOINT_DIRECTORY),
        )
        event_time = None if timestamp is None else EventTime(timestamp)
        with using(FileSystemSettings.of(self._configuration, os.environ)):
            source = frames_source(df, kept, event_time)
        return self._from_columns(source, watermark_strategy, source_name, row_type_of(source.schema))

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """Make a stream of a source.

        Args:
            source: What is read.
            watermark_strategy: How records get timestamps, and the stream watermarks.
            source_name: Name of the operator.
            type_info: Type of the records, checked as they are read; by default the one that the source tells, if it
                does: its deserializer's, its format's.

        Raises:
            TypeMismatchError: If an argument is not of its class.
        """
        if not isinstance(source, Source):
            raise TypeMismatchError(f"from_source was given a {type(source).__name__}, not a Source")
        check_strategy(watermark_strategy)
        _check_type_info(type_info)
        stream = self._add_source(source_name, source, watermark_strategy, type_info)
        return stream if type_info is not None else self._typed(stream, source.get_produced_type())

    def add_source(
        self,
        source_func: SourceFunction | Source,
        source_name: str = "Custom Source",
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """Make a stream of a source function written in Python; PyFlink's only wrap Java classes.

        It runs once, unless it is a ParallelSourceFunction. Timestamps and watermarks are those that it emits.
        A source such as FlinkKafkaConsumer is read as by `from_source`, without watermarks; one that has a strategy of
        its own, as FlinkKinesisConsumer may, with that.

        Args:
            source_func: What runs, or is read.
            source_name: Name of the operator.
            type_info: Type of the records, checked as they are read; by default the one that the function tells.

        Raises:
            NotSupportedError: If it is something else.
        """
        if isinstance(source_func, Source):
            strategy = WatermarkStrategy.no_watermarks()
            if isinstance(source_func, HasWatermarkStrategy):
                strategy = source_func.watermark_strategy()
            return self.from_source(source_func, strategy, source_name, type_info)
        if not isinstance(source_func, SourceFunction):
            raise NotSupportedError(
                f"add_source was given a {type(source_func).__name__}",
                detail="Source functions of PyFlink wrap Java classes.",
                hint="Derive from SourceFunction, or use from_source(...) or from_collection(...).",
            )
        _check_type_info(type_info)
        source = SourceFunctionSource(source_func, self._configuration)
        strategy = WatermarkStrategy.no_watermarks()
        stream = self._add_source_spec(source_name, SourceFunctionSpec(source, strategy, type_info))
        return stream if type_info is not None else self._typed(stream, source_func.get_produced_type())

    def create_input(
        self, input_format: InputFormat | BulkFormat, type_info: TypeInformation | None = None
    ) -> DataStream:
        """Make a stream of an input format, such as AvroInputFormat.

        Args:
            input_format: What is read; its own type of records is not checked.
            type_info: Type of the records, which is checked.

        Raises:
            NotSupportedError: If it is a BulkFormat, or wraps a Java class.
        """
        _check_type_info(type_info)
        if not isinstance(input_format, InputFormat):
            raise NotSupportedError(
                f"create_input was given a {type(input_format).__name__}",
                hint="Use from_source(FileSource.for_bulk_file_format(format, path).build(), ...).",
            )
        source = input_format.to_source()
        return self._add_source("Custom Source", source, WatermarkStrategy.no_watermarks(), type_info)

    # Jobs

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run what was built since the last job, and wait for its end. Ctrl-C cancels the job.

        Raises:
            JobDefinitionError: If there is nothing to run, or it cannot run.
            JobExecutionError: If the job fails; the cause is chained.
        """
        job = self._launch(job_name)
        try:
            return _wait(job)
        except Terminated:
            job.suspend()
            raise
        except KeyboardInterrupt:
            job.cancel()
            raise

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Start what was built since the last job; returns at once.

        Raises:
            JobDefinitionError: If there is nothing to run, or it cannot run.
        """
        job = self._launch(job_name)
        return JobClient(job, lambda: _wait(job))

    def get_execution_plan(self) -> ExecutionPlan:
        """Return what would be run now, as JSON in Flink's format.

        Raises:
            JobDefinitionError: If there is nothing to run, or it cannot run.
        """
        return ExecutionPlan(execution_plan(self._job_transformations(), self._configuration))

    def close(self) -> None:
        """Forget what was built and not run, and drop what cached streams keep."""
        self._transformations.clear()
        for cache in self._caches:
            cache.invalidate()

    # Internals

    def __repr__(self) -> str:
        target = self._configuration.get(options.TARGET)
        built = len(self._transformations)
        return (
            f"StreamExecutionEnvironment(parallelism={self.get_parallelism()}, target={target}, "
            f"{built} operator{'' if built == 1 else 's'} built)"
        )

    if not TYPE_CHECKING:  # to checkers, what is not there is not there

        def __getattr__(self, name: str) -> Any:
            return explain_missing(self, name, what="the environment", hints=_INSTEAD)

    def _launch(self, job_name: str | None) -> RunningJob:
        transformations = self._job_transformations()
        filling = self._fill_caches(transformations)
        name = job_name or self._configuration.get(options.PIPELINE_NAME)
        submission = JobSubmission(
            name=name or DEFAULT_JOB_NAME,
            transformations=transformations,
            configuration=Configuration(self._configuration),
            named=bool(name),
        )
        self._transformations.clear()
        _warn_of_mistyped_keys(self._configuration)
        StreamExecutionEnvironment.executed_jobs += 1
        job = find_launcher().launch(submission)
        for cache in filling:
            cache.filled_by(job)
        return job

    def _fill_caches(self, transformations: list[Transformation]) -> list[Cache]:
        """Add a sink for each cached stream that the job computes and nobody has kept yet; return their caches."""
        filling = [
            cache for cache in self._caches if cache.is_free and cache.transformation in transformations
        ]
        for cache in filling:
            self._created += 1
            transformations.append(cache.sink(self._created))
        return filling

    def _job_transformations(self) -> list[Transformation]:
        """Return what was built since the last job and all that it reads, inputs first.

        Sources that nobody reads are left out, as in Flink.
        """
        needed: dict[int, Transformation] = {}
        kept = {cache.transformation.id: cache.source() for cache in self._caches if cache.is_filled}
        waiting = [each for each in self._transformations if each.inputs]
        while waiting:
            transformation = waiting.pop()
            transformation = kept.get(transformation.id, transformation)
            if needed.setdefault(transformation.id, transformation) is transformation:
                waiting.extend(edge.source for edge in transformation.inputs if edge.source.id not in needed)
        if not needed:
            raise JobDefinitionError(
                "no operators defined in the streaming topology",
                detail="Nothing was built since the last execute(), or only sources.",
                hint="End a stream in a sink, such as print() or sink_to(...), before execute().",
            )
        return [needed[key] for key in sorted(needed)]

    def _from_table(
        self, table: Any, timestamp: str | None, strategy: WatermarkStrategy | None, name: str
    ) -> DataStream[Row]:
        check_names("the table", table.schema.names)
        check_columns(table.num_rows, table.num_columns)
        schema = plain_schema(table.schema)
        row_type = row_type_of(schema)
        event_time = None if timestamp is None else EventTime(timestamp)
        if event_time is not None:
            event_time.check(schema)
            stamps = event_time.stamps(plain_table(table.select([timestamp])))
            if strategy is None:
                behind = Duration.of_millis(disorder_ms(stamps))
                strategy = WatermarkStrategy.for_bounded_out_of_orderness(behind)
        return self._from_columns(TableSource(table, event_time), strategy, name, row_type)

    def _from_columns(
        self, source: Source, strategy: WatermarkStrategy | None, name: str, row_type: RowTypeInfo
    ) -> DataStream[Row]:
        if strategy is None:
            strategy = WatermarkStrategy.no_watermarks()
        check_strategy(strategy)
        # What comes out of columns is of their type, so it is not looked at again.
        return self._typed(self._add_source(name, source, strategy, None), row_type)

    def _typed(self, stream: DataStream, type_info: TypeInformation | None) -> DataStream:
        """Return a source's stream with the type that its records are known to have: they are not checked."""
        _check_type_info(type_info)
        return DataStream(self, stream._ports, type_info)

    def _add_source(
        self,
        name: str,
        source: Source,
        strategy: WatermarkStrategy,
        type_info: TypeInformation | None,
    ) -> DataStream:
        return self._add_source_spec(name, SourceSpec(source, as_declared(strategy), type_info))

    def _add_source_spec(self, name: str, spec: SourceSpec) -> DataStream:
        source = spec.source
        transformation = self._add_transformation(name, spec, [])
        transformation.bounded = source.get_boundedness() is Boundedness.BOUNDED
        if source.max_parallelism() == 1:
            transformation.parallelism = 1
            transformation.fixed_parallelism = True
        return DataStream(self, (Port(transformation),), spec.output_type)

    def _add_transformation(self, name: str, spec: OperatorSpec, inputs: Sequence[Edge]) -> Transformation:
        self._created += 1
        transformation = Transformation(
            id=self._created,
            name=name,
            spec=spec,
            inputs=list(inputs),
            parallelism=self._configuration.get(options.DEFAULT_PARALLELISM),
        )
        self._transformations.append(transformation)
        return transformation

    def _next_collect_id(self) -> str:
        self._collectors += 1
        return f"collect-{self._collectors}"


def _wait(job: RunningJob) -> JobExecutionResult:
    result = job.wait()
    return JobExecutionResult(JobID(result.job_id), result.runtime_ms, dict(result.accumulators))


def _check_type_info(type_info: object) -> None:
    if type_info is not None and not isinstance(type_info, TypeInformation):
        raise TypeMismatchError(
            f"type_info is {type_info!r}", hint="Give it a type, with brackets: Types.INT()."
        )


def _warn_of_mistyped_keys(configuration: Configuration) -> None:
    """Warn of keys that look like an option's, or are without effect; the command line looked at its own."""
    for key in configuration.to_dict():
        warning = options.warning_about(key)
        if warning is not None and configuration.source(key) is ConfigSource.CODE:
            _log.warning("%s", warning)
