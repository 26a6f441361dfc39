"""What streams have for whole columns: functions of batches, and aggregates by expression.

This module is imported where a program uses them: jobs without columns do not load pyarrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from millstream.base.errors import ConfigurationError, NotSupportedError, TypeMismatchError, shorten
from millstream.common.batch_functions import KeyedBatchFunction
from millstream.common.functions import MapFunction
from millstream.operators.columnar.aggregates import Aggregate
from millstream.operators.columnar.forms import form_of
from millstream.operators.fields import FieldSelector
from millstream.operators.keys import TypedSelector
from millstream.operators.windowing.assigners import (
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowStagger,
)
from millstream.operators.windowing.count_assigners import CountTumblingWindowAssigner
from millstream.types.arrow_types import load_arrow
from millstream.types.composite import RowTypeInfo, TupleTypeInfo

if TYPE_CHECKING:
    from millstream.datastream.streams.data_stream import DataStream
    from millstream.datastream.streams.keyed_stream import KeyedStream
    from millstream.datastream.streams.windowed_stream import BaseWindowedStream
    from millstream.operators.base import OperatorSpec
    from millstream.operators.columnar.slices import SliceGrid
    from millstream.operators.columnar.windows import SessionGap
    from millstream.operators.windowing.assigner import WindowAssigner

__all__ = [
    "aggregate_keys",
    "aggregate_windows",
    "check_fields",
    "field_names",
    "filter_batches",
    "map_batches",
    "process_batches",
]

_BOUNDS, _COUNTED = ("window_start", "window_end"), ("window_id",)
"""Columns of the results of windows by time, and by count, beside keys and aggregates."""
_HINT = "Give aggregate() an AggregateFunction."


def field_names(stream: DataStream) -> tuple[str, ...] | None:
    """Return the names of the fields of a stream's records, if its type declares them."""
    declared = stream._type_info
    if isinstance(declared, RowTypeInfo):
        return tuple(declared.get_field_names())
    if isinstance(declared, TupleTypeInfo):
        return tuple(f"f{place}" for place in range(len(declared.get_field_types())))
    return None


def check_fields(what: str, wanted: Iterable[str], fields: tuple[str, ...] | None) -> None:
    """Check that records have fields, as far as their type is declared.

    Args:
        what: Who wants them, for the message.
        wanted: Their names.
        fields: What `field_names` gave.

    Raises:
        TypeMismatchError: If they have not.
    """
    missing = [] if fields is None else [field for field in wanted if field not in fields]
    if missing:
        raise TypeMismatchError(
            f"{what} names the field {missing[0]!r}, which the records do not have",
            detail=f"They have: {', '.join(fields or ())}.",
        )


def map_batches(stream: DataStream, function: Callable[[Any], Any], timestamp: str | None) -> DataStream:
    """Add a map of batches."""
    _check_function("map_batches", function)
    _check_timestamp("map_batches", timestamp)
    from millstream.operators.columnar.functions import MapBatchesSpec

    spec = MapBatchesSpec(function, form_of(function), timestamp, field_names(stream))
    return stream._transform("Map Batches", spec)


def filter_batches(stream: DataStream, function: Callable[[Any], Any]) -> DataStream:
    """Add a filter of batches."""
    _check_function("filter_batches", function)
    from millstream.operators.columnar.functions import FilterBatchesSpec

    spec = FilterBatchesSpec(function, form_of(function), field_names(stream))
    return stream._transform("Filter Batches", spec, stream._type_info)


def process_batches(stream: KeyedStream, function: KeyedBatchFunction, timestamp: str | None) -> DataStream:
    """Add a function of batches with keyed state."""
    if not isinstance(function, KeyedBatchFunction):
        is_class = isinstance(function, type) and issubclass(function, KeyedBatchFunction)
        raise TypeMismatchError(
            f"process_batches was given {shorten(function)}, not a KeyedBatchFunction",
            hint=f"Give it an object of the class: {function.__name__}()."
            if is_class
            else "Derive a class from KeyedBatchFunction, with a method process_batch(self, batch, ctx).",
        )
    keys = _key_fields(stream, "process_batches")
    _check_timestamp("process_batches", timestamp)
    load_arrow("columns")
    from millstream.operators.columnar.functions import ProcessBatchesSpec

    form = form_of(function.process_batch, "a context")
    spec = ProcessBatchesSpec(function, keys, form, timestamp, field_names(stream))
    return stream._transform("Process Batches", spec)


def aggregate_keys(stream: KeyedStream, aggregates: Mapping[str, Aggregate]) -> DataStream:
    """Add running aggregates."""
    keys = _key_fields(stream, "aggregate")
    if not aggregates:
        raise TypeMismatchError(
            "aggregate was given nothing to compute",
            hint="Give it aggregates by expression: aggregate(n=count()).",
        )
    declared = _declared(aggregates, keys, field_names(stream))
    load_arrow("columns")
    from millstream.operators.columnar.aggregate import ColumnAggregateSpec

    result = stream._transform("Aggregate", ColumnAggregateSpec(keys, declared, field_names(stream)))
    return result.set_description(f"Aggregate({_described(declared)})")


def aggregate_windows(
    windowed: BaseWindowedStream, aggregates: Mapping[str, Aggregate], *, of_each_key: bool
) -> DataStream:
    """Add aggregates over windows, of the records of each key or of all."""
    stream, assigner = windowed._keyed_stream, windowed._window_assigner
    keys = _key_fields(stream, "aggregate") if of_each_key else ()
    bounds = _COUNTED if type(assigner) is CountTumblingWindowAssigner else _BOUNDS
    declared = _declared(aggregates, (*keys, *bounds), field_names(stream))
    if windowed._trigger is not None or windowed._evictor is not None:
        raise NotSupportedError(
            "aggregates by expression were asked of windows with a trigger or an evictor",
            hint=_HINT,
        )
    load_arrow("columns")
    result = stream._transform(type(assigner).__name__, _window_spec(windowed, keys, declared))
    return result.set_description(f"{windowed._kind}({assigner!r}, {_described(declared)})")


def _window_spec(
    windowed: BaseWindowedStream, keys: tuple[str, ...], declared: tuple[tuple[str, Aggregate], ...]
) -> OperatorSpec:
    from millstream.operators.columnar.count_windows import ColumnCountWindowSpec
    from millstream.operators.columnar.windows import ColumnWindowSpec

    assigner, names = windowed._window_assigner, field_names(windowed._keyed_stream)
    if type(assigner) is CountTumblingWindowAssigner:
        return ColumnCountWindowSpec(keys, declared, assigner.window_size, names)
    return ColumnWindowSpec(
        keys,
        declared,
        _windows_of(assigner),
        event_time=assigner.is_event_time(),
        allowed_lateness_ms=windowed._allowed_lateness_ms,
        late_tag_id=None if windowed._late_tag is None else windowed._late_tag.tag_id,
        names=names,
    )


def _check_function(method: str, function: object) -> None:
    if isinstance(function, type):
        raise TypeMismatchError(
            f"{method} was given the class {function.__qualname__}, not a function of a batch",
            hint=f"Give it an object of the class: {function.__name__}().",
        )
    if not callable(function):
        hint = "map(...) takes a MapFunction." if isinstance(function, MapFunction) else None
        raise TypeMismatchError(
            f"{method} was given {shorten(function)}, not a function of a batch",
            detail="It is called with a batch; an object is, if its class has __call__.",
            hint=hint,
        )
    load_arrow("columns")


def _check_timestamp(method: str, timestamp: object) -> None:
    if not isinstance(timestamp, (str, type(None))):
        raise TypeMismatchError(
            f"{method} was given {shorten(timestamp)} as timestamp",
            detail="It is the name of a column of the results.",
        )


def _key_fields(stream: KeyedStream, method: str) -> tuple[str, ...]:
    selector = stream._key_selector
    if isinstance(selector, TypedSelector):
        selector = selector.select
    if not isinstance(selector, FieldSelector):
        raise ConfigurationError(
            f"{method} on columns was called on a stream whose key is a function's result",
            detail="Key columns are known by name.",
            hint='Give key_by the names of the fields: key_by("user") or key_by("shop", "user").',
        )
    return selector.fields


def _declared(
    aggregates: Mapping[str, Aggregate], taken: tuple[str, ...], fields: tuple[str, ...] | None
) -> tuple[tuple[str, Aggregate], ...]:
    for name, aggregate in aggregates.items():
        if not isinstance(aggregate, Aggregate):
            raise TypeMismatchError(
                f"aggregate was given {shorten(aggregate)} as {name!r}, not an aggregate",
                hint=f"Call one of the functions of millstream.datastream.expressions: {name}=sum_('price').",
            )
        if name in taken:
            raise ConfigurationError(
                f"the aggregate {name!r} has the name of another column of the results",
                detail=f"Beside the aggregates they have: {', '.join(taken)}.",
                hint="Give it another name.",
            )
        if aggregate.field is not None:
            check_fields(f"{name}={aggregate}", [aggregate.field], fields)
    return tuple(aggregates.items())


def _described(aggregates: tuple[tuple[str, Aggregate], ...]) -> str:
    return ", ".join(f"{name}={aggregate}" for name, aggregate in aggregates)


def _windows_of(assigner: WindowAssigner) -> SliceGrid | SessionGap:
    from millstream.operators.columnar.slices import SliceGrid
    from millstream.operators.columnar.windows import SessionGap

    windows: Any = assigner
    if type(assigner) in (SlidingEventTimeWindows, SlidingProcessingTimeWindows):
        return SliceGrid(windows.size, windows.slide, windows.offset)
    if type(assigner) in (TumblingEventTimeWindows, TumblingProcessingTimeWindows):
        if windows.stagger is WindowStagger.ALIGNED:
            return SliceGrid(windows.size, windows.size, windows.offset)
    elif type(assigner) in (EventTimeSessionWindows, ProcessingTimeSessionWindows):
        return SessionGap(windows.session_gap)
    raise NotSupportedError(
        f"aggregates by expression were asked of {assigner!r}",
        detail="They are there for tumbling windows that are aligned, sliding windows, sessions with a fixed gap, and "
        "count windows side by side.",
        hint=_HINT,
    )
