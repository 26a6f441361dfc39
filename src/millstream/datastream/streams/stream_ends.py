"""Where streams end: in sinks, or in the program, as results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Self, overload

from millstream.base.errors import TypeMismatchError
from millstream.base.html import html_table
from millstream.base.missing import explain_missing
from millstream.base.type_variables import T
from millstream.common.functions import SinkFunction
from millstream.datastream.streams.settings import OperatorSettings
from millstream.graph.launcher import RunningJob
from millstream.operators.base import OperatorSpec
from millstream.operators.sink import CollectSpec, PrintSpec, SinkFunctionSpec, SinkSpec
from millstream.spi.sink import Sink
from millstream.types.typeinfo import TypeInformation

if TYPE_CHECKING:
    from millstream.datastream.stream_execution_environment import StreamExecutionEnvironment
    from millstream.datastream.streams.results import ArrowBatches

__all__ = ["CloseableIterator", "DataStreamSink", "StreamEnds"]


class StreamEnds(OperatorSettings, ABC, Generic[T]):
    """What a stream has for its end; a base of `DataStream`, which says what the members are."""

    _environment: StreamExecutionEnvironment
    _type_info: TypeInformation | None

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print each record to the driver's standard output.

        Args:
            sink_identifier: Put before each record.
        """
        return self._sink("Print to Std. Out", PrintSpec(sink_identifier, value_type=self._type_info))

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write records to a sink.

        Raises:
            TypeMismatchError: If it is not a Sink.
        """
        if not isinstance(sink, Sink):
            hint = "Use add_sink(...) for a SinkFunction." if isinstance(sink, SinkFunction) else None
            raise TypeMismatchError(f"sink_to was given a {type(sink).__name__}, not a Sink", hint=hint)
        return self._sink(type(sink).__name__, SinkSpec(sink, self._type_info))

    def add_sink(self, sink_func: SinkFunction | Sink) -> DataStreamSink:
        """Call a SinkFunction for each record; a sink such as StreamingFileSink is written to as by `sink_to`.

        Raises:
            TypeMismatchError: If it is not a SinkFunction.
        """
        if isinstance(sink_func, Sink):
            return self.sink_to(sink_func)
        if not isinstance(sink_func, SinkFunction):
            raise TypeMismatchError(f"add_sink was given a {type(sink_func).__name__}, not a SinkFunction")
        return self._sink(type(sink_func).__name__, SinkFunctionSpec(sink_func))

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CloseableIterator[T]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[T]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[T]: ...

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator[T] | list[T]:
        """Run the program and bring this stream's records here.

        Args:
            job_execution_name: Name of the job.
            limit: Stop after so many records.

        Returns:
            An iterator over the records as they come, to be closed; with a limit, a list. The job waits while as many
            records as `millstream.collect.max-bytes` says are not taken.
        """
        records: CloseableIterator[T] = self._collect(CollectSpec, job_execution_name)
        if limit is None:
            return records
        with records:
            return list(islice(records, limit))

    def to_arrow(self, job_execution_name: str | None = None) -> Any:
        """Run the program and return this stream's records as a `pyarrow.Table`.

        Rows have the names of their fields, tuples f0, f1, ..., other values one column "value"; the types are the
        declared ones. What is not declared has the type of its values.

        Args:
            job_execution_name: Name of the job.

        Raises:
            JobDefinitionError: If the stream does not end.
            ConfigurationError: If pyarrow is not installed.
            TypeMismatchError: If records of a type that is not declared fit no one type.
            JobExecutionError: If the job fails.
        """
        from millstream.datastream.streams import results

        return results.to_arrow(self, job_execution_name)

    def to_pandas(self, job_execution_name: str | None = None) -> Any:
        """Run the program and return this stream's records as a pandas DataFrame; columns as `to_arrow`.

        A missing value is what pandas takes for one, NaN, NaT or None; integers where one is missing are of a nullable
        type (Int64) rather than floats.

        Args:
            job_execution_name: Name of the job.

        Raises:
            ConfigurationError: If pandas or pyarrow is not installed.
            MillstreamError: As `to_arrow`.
        """
        from millstream.datastream.streams import results

        return results.to_pandas(self, job_execution_name)

    def to_polars(self, job_execution_name: str | None = None) -> Any:
        """Run the program and return this stream's records as a polars DataFrame; columns as `to_arrow`.

        Args:
            job_execution_name: Name of the job.

        Raises:
            ConfigurationError: If polars or pyarrow is not installed.
            MillstreamError: As `to_arrow`.
        """
        from millstream.datastream.streams import results

        return results.to_polars(self, job_execution_name)

    def to_spark(
        self, session: Any = None, location: str | None = None, job_execution_name: str | None = None
    ) -> Any:
        """Run the program and return this stream's records as a Spark DataFrame; columns as `to_arrow`.

        Records of a declared type do not go through this process: the slots write Parquet files, which Spark reads.
        They are kept until the process ends.

        Args:
            session: A `SparkSession`; by default the one that is there, or that the job runs in.
            location: A directory for the files that all hosts share; by default a temporary one if Spark runs on this
                machine, else the directory of checkpoints.
            job_execution_name: Name of the job.

        Raises:
            JobDefinitionError: If the stream does not end.
            ConfigurationError: If there is no session, no directory that all hosts share, or no pyarrow.
            JobExecutionError: If the job fails.
        """
        from millstream.datastream.streams import results

        return results.to_spark(self, session, location, job_execution_name)

    def collect_arrow(self, job_execution_name: str | None = None) -> ArrowBatches:
        """Run the program and iterate over this stream's records as `pyarrow.RecordBatch`es, as they come.

        For results that are too large for one table, and for streams that do not end. Batches that the program has
        not taken yet wait in its memory, `millstream.collect.max-bytes` of them, and the job with them. To be used in
        a `with` statement, at whose end a job that runs is cancelled.

        Args:
            job_execution_name: Name of the job.

        Raises:
            ConfigurationError: If pyarrow is not installed.
        """
        from millstream.datastream.streams import results

        return results.collect_arrow(self, job_execution_name)

    def _collect(
        self, declare: Callable[[str], OperatorSpec], job_name: str | None
    ) -> CloseableIterator[Any]:
        """Run the program with a sink that collects; `declare` is given the name of what is collected."""
        collect_id = self._environment._next_collect_id()
        sink = self._sink("Collect", declare(collect_id))
        # As parallel as what it reads, so that what one subtask emits stays in order.
        parallel = {port.source.parallelism for port in self._ports}
        if len(parallel) == 1:
            sink._transformation.be_as_parallel_as(self._ports[0].source)
        else:
            sink._transformation.parallelism = 1
            sink._transformation.own_parallelism = True
        job = self._environment._launch(job_name)
        return CloseableIterator(job, job.collected(collect_id))

    def _sink(self, name: str, spec: OperatorSpec) -> DataStreamSink:
        return DataStreamSink(self._transform(name, spec))

    @abstractmethod
    def _transform(
        self, name: str, spec: OperatorSpec, output_type: TypeInformation | None = None
    ) -> StreamEnds[Any]:
        """Add an operator that reads this stream; returns its result."""


class DataStreamSink(OperatorSettings):
    """The end of a stream.

    Example:
        >>> from millstream.testing import MiniCluster
        >>> with MiniCluster() as cluster:
        ...     env = cluster.environment()
        ...     sink = env.from_collection(["tea", "cake"]).print().name("to the terminal").uid("print")
        ...     result = env.execute("shop")
    """

    def __init__(self, stream: StreamEnds[Any]) -> None:
        self._ports = stream._ports

    if not TYPE_CHECKING:  # to checkers, what is not there is not there

        def __getattr__(self, name: str) -> Any:
            from millstream.datastream.streams.data_stream import DataStream

            hint = "Nothing comes behind a sink. Keep the stream in a variable before it; it may have several sinks."
            return explain_missing(self, name, what="the sink", hints={}, elsewhere=[(DataStream, hint)])


class CloseableIterator(Generic[T]):
    """Records of a running job, as they come; closing it before its end cancels the job.

    Iterating raises what made the job fail.

    Example:
        >>> from millstream.testing import MiniCluster
        >>> with MiniCluster() as cluster:
        ...     numbers = cluster.environment().from_collection([1, 2, 3])
        ...     with numbers.execute_and_collect() as results:
        ...         results.next(), sum(results)
        (1, 5)
    """

    def __init__(self, job: RunningJob, records: Iterator[T]) -> None:
        self._job = job
        self._records = records
        self._ended = False
        self._given = 0

    def __iter__(self) -> Self:
        return self

    def __repr__(self) -> str:
        state = "ended" if self._ended else "open"
        return f"CloseableIterator(job {self._job.job_id}, {self._given} records so far, {state})"

    def _repr_html_(self) -> str:
        rows = [(self._job.job_id, self._given, "ended" if self._ended else "open")]
        return html_table("Records of a job", ("job", "records so far", "state"), rows)

    def __next__(self) -> T:
        if self._ended:
            raise StopIteration
        try:
            record = next(self._records)
        except Exception:
            self._ended = True
            raise
        self._given += 1
        return record

    def next(self) -> T:
        """Return the next record.

        Raises:
            StopIteration: If there is none.
        """
        return next(self)

    def close(self) -> None:
        """Cancel the job unless it has ended."""
        if not self._ended:
            self._ended = True
            self._job.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
