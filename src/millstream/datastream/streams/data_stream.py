"""Streams (PyFlink's `DataStream`); what they end in is in `stream_ends.py`.

A stream holds no data and no logic: it names the outputs of transformations that the next operator is to
read, its **ports**. An operator's result has one port, a union several; `rebalance()`, `key_by()` and so on
change how the ports' records are dealt::

    stream.map(f)   DataStream,  port: map
    .key_by(g)      KeyedStream, port: map, by key groups
    .process(h)     DataStream,  port: process, whose transformation has the edge "map, by key groups"

The kinds of streams that are made from this one are imported where they are made: they all build on this
module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, Self, overload

from millstream.base.declared import as_declared
from millstream.base.errors import (
    ConfigurationError,
    JobDefinitionError,
    TypeMismatchError,
)
from millstream.base.missing import explain_missing
from millstream.base.type_variables import R, T
from millstream.common.functions import (
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
)
from millstream.common.output_tag import OutputTag
from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.config.execution_config import ExecutionConfig
from millstream.datastream.streams.missing import OF_STREAMS, TO_KEYS
from millstream.datastream.streams.settings import Port, check_type
from millstream.datastream.streams.stream_ends import CloseableIterator, DataStreamSink, StreamEnds
from millstream.graph.transformation import ChainingStrategy, Edge
from millstream.operators.base import OperatorSpec
from millstream.operators.fields import FieldSelector
from millstream.operators.functions_adapter import as_filter, as_flat_map, as_key_selector, as_map
from millstream.operators.keys import typed_selector
from millstream.operators.partitioners import (
    Broadcast,
    CustomPartitioning,
    Forward,
    Global,
    KeyGroups,
    Partitioning,
    Rebalance,
    Rescale,
    Shuffle,
)
from millstream.operators.process import ProcessSpec
from millstream.operators.simple import FilterSpec, FlatMapSpec, MapSpec
from millstream.operators.sink import SinkSpec
from millstream.operators.watermarks import WatermarksSpec
from millstream.operators.windowing.assigner import WindowAssigner
from millstream.operators.windowing.count_assigners import count_windows
from millstream.types.typeinfo import TupleTypeInfo, TypeInformation, Types

if TYPE_CHECKING:
    from millstream.common.state import MapStateDescriptor
    from millstream.datastream.stream_execution_environment import StreamExecutionEnvironment
    from millstream.datastream.streams.all_windowed_stream import AllWindowedStream
    from millstream.datastream.streams.broadcast_stream import BroadcastConnectedStream, BroadcastStream
    from millstream.datastream.streams.cached_data_stream import CachedDataStream
    from millstream.datastream.streams.connected_streams import ConnectedStreams
    from millstream.datastream.streams.iterative_stream import IterativeStream
    from millstream.datastream.streams.joined_streams import CoGroupedStreams, JoinedStreams
    from millstream.datastream.streams.keyed_stream import KeyedStream

__all__ = ["CloseableIterator", "DataStream", "DataStreamSink", "check_strategy", "check_stream", "transform"]


class DataStream(StreamEnds[T], Generic[T]):
    """A stream of records.

    Args:
        environment: The environment it belongs to.
        ports: What it reads.
        type_info: Type of its records; None if it was not declared.

    Example:
        >>> from millstream.testing import MiniCluster
        >>> with MiniCluster() as cluster:
        ...     lines = cluster.environment().from_collection(["to be", "or not to be"])
        ...     words = lines.flat_map(str.split).filter(lambda word: word != "or")
        ...     cluster.collect(words.map(str.upper))
        ['TO', 'BE', 'NOT', 'TO', 'BE']
    """

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
        ports: tuple[Port, ...],
        type_info: TypeInformation | None = None,
    ) -> None:
        self._environment = environment
        self._ports = ports
        self._type_info = type_info

    def get_name(self) -> str:
        """Return the operator's name."""
        return self._transformation.name

    def get_type(self) -> TypeInformation:
        """Return the type of the records; PICKLED_BYTE_ARRAY, anything, if none was declared."""
        return self._type_info or Types.PICKLED_BYTE_ARRAY()

    def get_parallelism(self) -> int:
        """Return the operator's parallelism."""
        own = self._transformation.parallelism
        return self._environment.get_parallelism() if own is None else own

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment the stream belongs to."""
        return self._environment

    def get_execution_config(self) -> ExecutionConfig:
        """Return the environment's execution config."""
        return self._environment.get_config()

    def force_non_parallel(self) -> Self:
        """Fix the operator's parallelism at 1."""
        transformation = self._transformation
        transformation.parallelism = transformation.max_parallelism = 1
        transformation.fixed_parallelism = True
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Keep a timeout, accepted for compatibility: epochs decide how long records wait."""
        self._transformation.buffer_timeout_ms = timeout_millis
        return self

    def start_new_chain(self) -> Self:
        """Begin a chain with this operator: it is not chained to the one before."""
        self._transformation.chaining = ChainingStrategy.HEAD
        return self

    def _described(self) -> list[str]:
        declared = [] if self._type_info is None else [self._type_info.describe()]
        return [*super()._described(), *declared]

    # Operators

    def map(
        self, func: MapFunction[T, R] | Callable[[T], R], output_type: TypeInformation | None = None
    ) -> DataStream[R]:
        """Make one record of each.

        Raises:
            TypeMismatchError: If `func` is neither a MapFunction nor a callable.
        """
        as_map(func)
        return self._transform("Map", MapSpec(func, output_type), output_type)

    def flat_map(
        self,
        func: FlatMapFunction[T, R] | Callable[[T], Iterable[R] | None],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Make any number of records of each.

        Raises:
            TypeMismatchError: If `func` is neither a FlatMapFunction nor a callable.
        """
        as_flat_map(func)
        return self._transform("Flat Map", FlatMapSpec(func, output_type), output_type)

    def filter(self, func: FilterFunction[T] | Callable[[T], Any]) -> DataStream[T]:
        """Keep the records that `func` is true for.

        Raises:
            TypeMismatchError: If `func` is neither a FilterFunction nor a callable.
        """
        as_filter(func)
        return self._transform("Filter", FilterSpec(func), self._type_info)

    def map_batches(self, func: Callable[[Any], Any], *, timestamp: str | None = None) -> DataStream[Any]:
        """Make a batch of each batch, in columns; PyFlink has none.

        Args:
            func: Takes a batch in the form that its parameter is annotated with - `pyarrow.RecordBatch`, which is
                given without annotation too, `pyarrow.Table`, `pandas.DataFrame`, `polars.DataFrame` or a dict of
                numpy arrays - and returns one in any of these forms, or None for nothing. If it is a Function as
                well, it is opened and closed. How many rows a batch has is not known.
            timestamp: Name of the field of the results that is their timestamp, epoch milliseconds or of a timestamp
                type. Without it, results keep the timestamps of the rows if they are as many, else each has the
                largest one of the batch.

        Raises:
            TypeMismatchError: If it is no function, or its annotation stands for no form of a batch.
            ConfigurationError: If pyarrow is not installed.
        """
        from millstream.datastream.streams.columns import map_batches

        return map_batches(self, func, timestamp)

    def filter_batches(self, func: Callable[[Any], Any]) -> DataStream[T]:
        """Keep the rows of each batch that `func` is true for; PyFlink has none.

        Args:
            func: Takes a batch as `map_batches` gives it, and returns one boolean for each row, as an array or series.

        Raises:
            TypeMismatchError: If it is no function, or its annotation stands for no form of a batch.
            ConfigurationError: If pyarrow is not installed.
        """
        from millstream.datastream.streams.columns import filter_batches

        return filter_batches(self, func)

    def process(
        self, func: ProcessFunction[T, R], output_type: TypeInformation | None = None
    ) -> DataStream[R]:
        """Process each record with access to time and side outputs.

        Raises:
            TypeMismatchError: If `func` is not a ProcessFunction.
        """
        if not isinstance(func, ProcessFunction):
            hint = "Call key_by(...) before process(...)." if isinstance(func, KeyedProcessFunction) else None
            raise TypeMismatchError(
                f"process was given a {type(func).__name__}, not a ProcessFunction", hint=hint
            )
        return self._transform("Process", ProcessSpec(func, output_type), output_type)

    def project(self, *field_indexes: int) -> DataStream:
        """Keep some fields of tuples, in the order given.

        Raises:
            ConfigurationError: If the stream is not declared to hold tuples, or has no such field.
        """
        declared = self._type_info
        if not isinstance(declared, TupleTypeInfo):
            raise ConfigurationError(
                f"project was called on a stream of {self.get_type().describe()}",
                hint="Declare tuples before it: map(f, Types.TUPLE([...])).",
            )
        fields = declared.get_field_types()
        if not field_indexes or not all(0 <= index < len(fields) for index in field_indexes):
            raise ConfigurationError(
                f"project was given fields {list(field_indexes)}",
                detail=f"The tuples have {len(fields)} fields.",
            )
        kind = Types.TUPLE([fields[index] for index in field_indexes])
        return self._transform("Projection", MapSpec(_Projection(field_indexes), None), kind)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream[T]:
        """Give records timestamps, and the stream watermarks.

        Raises:
            TypeMismatchError: If it is not a WatermarkStrategy.
        """
        check_strategy(watermark_strategy)
        return self._transform("Timestamps/Watermarks", WatermarksSpec(watermark_strategy), self._type_info)

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """Return what the operator emits to a side output.

        Raises:
            TypeMismatchError: If it is not an OutputTag.
        """
        if not isinstance(output_tag, OutputTag):
            raise TypeMismatchError(f"get_side_output was given {output_tag!r}, not an OutputTag")
        port = Port(self._transformation, side_output=output_tag.tag_id)
        return DataStream(self._environment, (port,), output_tag.type_info)

    # Partitioning

    @overload
    def key_by(
        self, key_selector: KeySelector[T, R] | Callable[[T], R], key_type: TypeInformation | None = None
    ) -> KeyedStream[T, R]: ...

    @overload
    def key_by(self, key_selector: str, key_type: TypeInformation | None = None) -> KeyedStream[T, Any]: ...

    @overload
    def key_by(
        self, key_selector: str, key_type: str, *more_fields: str
    ) -> KeyedStream[T, tuple[Any, ...]]: ...

    def key_by(
        self,
        key_selector: KeySelector[T, R] | Callable[[T], R] | str,
        key_type: TypeInformation | str | None = None,
        *more_fields: str,
    ) -> KeyedStream[T, Any]:
        """Deal records by key: all of one key to the same subtask.

        Fields by name, `key_by("user")` or `key_by("shop", "user")`, are the key columns of what works on whole
        columns (`aggregate`, `process_batches`).

        Args:
            key_selector: Gives a record's key; or the name of the field that is the key.
            key_type: Type of the keys; or the name of a second field, the key then is a tuple.
            more_fields: Names of further fields.

        Raises:
            TypeMismatchError: If it is neither a KeySelector nor a callable nor the names of fields, or the declared
                type of the records has no such field.
        """
        from millstream.datastream.streams.keyed_stream import KeyedStream

        if isinstance(key_selector, str):
            fields = [key_selector, *more_fields]
            if isinstance(key_type, str):
                fields.insert(1, key_type)
                key_type = None
            key_selector = self._field_selector(fields)
        elif isinstance(key_type, str) or more_fields:
            raise TypeMismatchError(
                "key_by was given a function and names of fields", detail="It takes one or the other."
            )
        check_type(key_type)
        selector = typed_selector(as_key_selector(key_selector), key_type)
        return KeyedStream(self._partition(KeyGroups(selector, key_type)), selector, key_type)

    def _field_selector(self, fields: list[Any]) -> FieldSelector:
        from millstream.datastream.streams.columns import check_fields, field_names

        wrong = [field for field in fields if not isinstance(field, str)]
        if wrong:
            raise TypeMismatchError(f"key_by was given {wrong[0]!r} as the name of a field")
        names = field_names(self)
        check_fields("key_by", fields, names)
        return FieldSelector(fields, names)

    def window_all(self, window_assigner: WindowAssigner) -> AllWindowedStream[T]:
        """Cut all records into windows, whatever their keys; the operator's parallelism is 1.

        Raises:
            TypeMismatchError: If it is not a WindowAssigner.
        """
        from millstream.datastream.streams.all_windowed_stream import AllWindowedStream

        return AllWindowedStream(self, window_assigner)

    def count_window_all(self, size: int, slide: int = 0) -> AllWindowedStream[T]:
        """Cut all records into windows of `size` records, a new one every `slide` (Java Flink's).

        Raises:
            ConfigurationError: If a number is not positive.
        """
        return self.window_all(count_windows(size, slide))

    def union(self, *streams: DataStream[T]) -> DataStream[T]:
        """Return the records of this stream and others, of the same type; a stream may come twice.

        The result is declared to be of that type if all are; undeclared streams fit any type. Its watermark is
        the lowest of all.

        Raises:
            TypeMismatchError: If two streams are declared to be of different types.
            JobDefinitionError: If a stream belongs to another environment.
        """
        ports = list(self._ports)
        for stream in streams:
            check_stream("union", stream, self._environment)
            ports.extend(stream._ports)
        types = [stream._type_info for stream in (self, *streams)]
        declared = [each for each in types if each is not None]
        for other in declared[1:]:
            if other != declared[0]:
                raise TypeMismatchError(
                    f"a union of streams of {declared[0].describe()} and {other.describe()}",
                    detail="All streams of a union have one type.",
                    hint="Map them to the same type first.",
                )
        return DataStream(self._environment, tuple(ports), None if None in types else declared[0])

    @overload
    def connect(self, ds: DataStream[R]) -> ConnectedStreams[T, R]: ...

    @overload
    def connect(self, ds: BroadcastStream[R]) -> BroadcastConnectedStream[T, R]: ...

    def connect(
        self, ds: DataStream[R] | BroadcastStream[R]
    ) -> ConnectedStreams[T, R] | BroadcastConnectedStream[T, R]:
        """Put this stream and another, of any type, under one function; with a broadcast one, and its state.

        Raises:
            TypeMismatchError: If it is no stream.
            JobDefinitionError: If it belongs to another environment.
        """
        from millstream.datastream.streams.broadcast_stream import BroadcastConnectedStream, BroadcastStream
        from millstream.datastream.streams.connected_streams import ConnectedStreams

        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        return ConnectedStreams(self, ds)

    def join(self, other_stream: DataStream[R]) -> JoinedStreams[T, R]:
        """Join this stream with another in windows: `a.join(b).where(k1).equal_to(k2).window(w).apply(f)`.

        Raises:
            TypeMismatchError: If it is no stream.
            JobDefinitionError: If it belongs to another environment.
        """
        from millstream.datastream.streams.joined_streams import JoinedStreams

        return JoinedStreams(self, other_stream)

    def co_group(self, other_stream: DataStream[R]) -> CoGroupedStreams[T, R]:
        """Group this stream and another in windows: `a.co_group(b).where(k1).equal_to(k2).window(w).apply(f)`.

        Raises:
            TypeMismatchError: If it is no stream.
            JobDefinitionError: If it belongs to another environment.
        """
        from millstream.datastream.streams.joined_streams import CoGroupedStreams

        return CoGroupedStreams(self, other_stream)

    def rebalance(self) -> DataStream[T]:
        """Deal records in turn to all subtasks of the next operator."""
        return self._repartition(Rebalance())

    def rescale(self) -> DataStream[T]:
        """Deal records in turn to each sender's own share of the next operator's subtasks."""
        return self._repartition(Rescale())

    def shuffle(self) -> DataStream[T]:
        """Deal records at random, evenly."""
        return self._repartition(Shuffle())

    def forward(self) -> DataStream[T]:
        """Hand records to the subtask of the same index; both sides need the same parallelism."""
        return self._repartition(Forward())

    def global_(self) -> DataStream[T]:
        """Hand all records to the first subtask."""
        return self._repartition(Global())

    @overload
    def broadcast(self) -> DataStream[T]: ...

    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream[T]: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream[T] | BroadcastStream[T]:
        """Hand every record to every subtask; with descriptors of broadcast states, for `connect`.

        Raises:
            TypeMismatchError: If an argument is not a MapStateDescriptor.
            ConfigurationError: If two descriptors have the same name.
        """
        from millstream.datastream.streams.broadcast_stream import BroadcastStream

        stream = self._repartition(Broadcast())
        if broadcast_state_descriptor is None:
            return stream
        return BroadcastStream(stream, [broadcast_state_descriptor, *other_broadcast_state_descriptors])

    def partition_custom(
        self,
        partitioner: Partitioner | Callable[[R, int], int],
        key_selector: KeySelector[T, R] | Callable[[T], R],
    ) -> DataStream[T]:
        """Have `partitioner` choose the subtask for each record's key.

        Raises:
            TypeMismatchError: If an argument is neither of its class nor a callable.
        """
        if not isinstance(partitioner, Partitioner) and (
            isinstance(partitioner, Function) or not callable(partitioner)
        ):
            raise TypeMismatchError(f"a {type(partitioner).__name__} is not a Partitioner")
        return self._repartition(CustomPartitioning(as_declared(partitioner), as_key_selector(key_selector)))

    # Loops and caches

    def iterate(self, max_wait_time_ms: int = 0) -> IterativeStream[T]:
        """Begin a loop: the stream returned gives these records, and those that its `close_with` sends back.

        Args:
            max_wait_time_ms: Accepted for compatibility; a loop ends when its input has ended and nothing goes
                round any more.
        """
        from millstream.datastream.streams.iterative_stream import iterate

        return iterate(self)

    def cache(self) -> CachedDataStream[T]:
        """Have the stream computed once: the first job that reads it keeps its records for later ones.

        Raises:
            JobDefinitionError: If the stream does not end.
        """
        from millstream.datastream.streams.cached_data_stream import cache

        return cache(self)

    # Internals

    if not TYPE_CHECKING:  # to checkers, what is not there is not there

        def __getattr__(self, name: str) -> Any:
            from millstream.datastream.streams.keyed_stream import KeyedStream

            return explain_missing(
                self, name, what="the stream", hints=OF_STREAMS, elsewhere=[(KeyedStream, TO_KEYS)]
            )

    def _transform(
        self, name: str, spec: OperatorSpec, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Add an operator that reads this stream; returns its result."""
        return transform(name, spec, [self], output_type)

    def _transform_with(self, name: str, spec: OperatorSpec, other: DataStream) -> DataStream:
        """Add an operator that reads this stream and another; returns its result."""
        return transform(name, spec, [self, other])

    def _partition(self, partitioning: Partitioning) -> DataStream[T]:
        ports = tuple(replace(port, partitioning=partitioning) for port in self._ports)
        return DataStream(self._environment, ports, self._type_info)

    def _repartition(self, partitioning: Partitioning) -> DataStream:
        """Deal records as the program asks for; keyed streams refuse."""
        return self._partition(partitioning)


def transform(
    name: str, spec: OperatorSpec, inputs: Sequence[DataStream], output_type: TypeInformation | None = None
) -> DataStream:
    """Add an operator that reads several streams, each as one of its inputs; returns its result.

    Raises:
        TypeMismatchError: If `output_type` is no type.
        JobDefinitionError: If the streams belong to different environments.
    """
    check_type(output_type)
    environment = inputs[0]._environment
    if any(stream._environment is not environment for stream in inputs):
        raise JobDefinitionError(f"{name} was given streams of different environments")
    edges = [
        Edge(port.source, port.partitioning, port.side_output, index)
        for index, stream in enumerate(inputs)
        for port in stream._ports
    ]
    # A sink's other half runs here and may refer to what the program has.
    declared = spec if isinstance(spec, SinkSpec) else as_declared(spec)
    transformation = environment._add_transformation(name, declared, edges)
    return DataStream(environment, (Port(transformation),), output_type)


def check_stream(operation: str, stream: object, environment: StreamExecutionEnvironment) -> None:
    """Check an argument.

    Raises:
        TypeMismatchError: If it is no stream.
        JobDefinitionError: If it belongs to another environment.
    """
    if not isinstance(stream, DataStream):
        raise TypeMismatchError(f"{operation} was given a {type(stream).__name__}, not a DataStream")
    if stream._environment is not environment:
        raise JobDefinitionError(f"{operation} of streams of different environments is not possible")


class _Projection:
    """Keeps some fields of a tuple."""

    def __init__(self, indexes: tuple[int, ...]) -> None:
        self._indexes = indexes
        self._get = itemgetter(*indexes)

    def __call__(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        return self._get(value) if len(self._indexes) > 1 else (self._get(value),)


def check_strategy(watermark_strategy: object) -> None:
    """Check an argument.

    Raises:
        TypeMismatchError: If it is not a WatermarkStrategy.
    """
    if not isinstance(watermark_strategy, WatermarkStrategy):
        raise TypeMismatchError(
            f"a {type(watermark_strategy).__name__} was given as watermark strategy",
            hint="WatermarkStrategy.no_watermarks() gives none.",
        )
