"""Rolling reduce of keyed streams: one result for each record, what was reduced so far for its key.

In batch mode each key gives its last result only, at the end of the input, with the timestamp of the key's last
record (Flink gives it the largest there is, which no window holds).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import islice
from operator import itemgetter, length_hint
from typing import Any

from millstream.base.errors import TypeMismatchError, shorten
from millstream.base.time import MAX_TIMESTAMP
from millstream.common.functions import ReduceFunction
from millstream.operators.base import Operator, OperatorSpec
from millstream.operators.functions_adapter import as_reduce, close_function, open_function
from millstream.operators.inlined.expressions import reduce_loop
from millstream.operators.keys import key_portions, keys_of
from millstream.operators.plain_functions import changes_nothing
from millstream.operators.runtime_context import OperatorRuntimeContext
from millstream.operators.user_code import attach_element, fit
from millstream.operators.values import ATOMIC, all_immutable, copies, copy_of
from millstream.spi.batch import Rows
from millstream.state.keyed import NO_KEY
from millstream.types.row import Row, replace_field
from millstream.types.typeinfo import TypeInformation

__all__ = ["Aggregation", "ReduceSpec", "RollingAggregate"]

_STATE = "reduced"
_STAMPS = "reduced-at"
_BATCH_RECORDS = 50_000
_MISSING: Any = object()


@dataclass(frozen=True)
class ReduceSpec(OperatorSpec):
    """Declares a rolling reduce.

    Attributes:
        function: A ReduceFunction or a callable of what was reduced so far and the next record.
        key_selector: Gives a record's key.
        output_type: Checked for each result; None leaves results as they are.
    """

    function: ReduceFunction | Callable[[Any, Any], Any]
    key_selector: Callable[[Any], Any]
    output_type: TypeInformation | None = None
    is_keyed = True
    acts_on_time = False

    def build(self) -> Operator:
        """Make the running half."""
        return ReduceOperator(self)


class ReduceOperator(Operator):
    """Runs a rolling reduce; state is one value for each key."""

    def __init__(self, spec: ReduceSpec) -> None:
        self._function = spec.function
        function = spec.function
        self._reduce = function.reducer() if isinstance(function, RollingAggregate) else as_reduce(function)
        self._key_selector = spec.key_selector
        self._output_type = spec.output_type

    def open(self) -> None:
        """Open the function."""
        state = self.context.keyed_state
        assert state is not None, "a keyed operator without keyed state"
        state.track()
        self._state = state
        self._table = state.table(_STATE)
        self._stamps = state.table(_STAMPS)
        open_function(self._function, OperatorRuntimeContext(self.context))
        ours = isinstance(self._function, RollingAggregate)
        # Only such functions can have asked for state.
        self._has_state = isinstance(self._function, ReduceFunction) and not ours
        self._changes_nothing = ours or changes_nothing(self._reduce)
        plain = self._changes_nothing and not self._has_state
        self._loop = reduce_loop(self._reduce) if plain else None

    def process(self, batch: Rows) -> None:
        """Reduce a batch, record by record."""
        values, timestamps = batch.values, batch.timestamps
        results = self._reduce_batch(values)
        if not self.context.batch:
            self.output.emit(Rows(fit(results, self._output_type), timestamps))
        elif timestamps is not None:
            self._stamps.update(zip(keys_of(self._key_selector, values), timestamps, strict=True))

    def _reduce_batch(self, values: list[Any]) -> list[Any]:
        reduce = self._reduce_trusting if self._changes_nothing else self._reduce_looking
        if self._loop is not None:
            reduce = partial(self._reduce_in_loop, self._loop)
        results: list[Any] = []
        for portion, keys in key_portions(self._key_selector, values, self._state.touched):
            results += reduce(portion, self._selecting(keys) if self._has_state else keys)
        return results

    def _reduce_in_loop(self, loop: Callable[..., bool], values: list[Any], keys: Iterable[Any]) -> list[Any]:
        """Reduce by a loop that has the function in it."""
        results: list[Any] = []
        firsts: list[Any] = []
        remaining = iter(values)
        try:
            records = zip(remaining, keys, strict=False)
            sure = loop(records, self._table.get, self._table, results.append, firsts.append)
        except BaseException as error:
            attach_element(error, values[len(values) - length_hint(remaining) - 1])
            raise
        if (sure and all_immutable(firsts)) or all_immutable(results):
            return results
        return copies(results)

    # The two loops differ in the look only; one loop would cost the trusting one a fifth of its speed.
    def _reduce_trusting(self, values: list[Any], keys: Iterable[Any]) -> list[Any]:
        """Reduce by a function of which no call changes what an earlier one has returned."""
        reduce, table = self._reduce, self._table
        results: list[Any] = []
        append, find = results.append, table.get
        value = None
        try:
            for value, key in zip(values, keys, strict=True):
                so_far = find(key, _MISSING)
                table[key] = result = value if so_far is _MISSING else reduce(so_far, value)
                append(result)
        except BaseException as error:
            attach_element(error, value)
            raise
        return results if all_immutable(results) else copies(results)

    def _reduce_looking(self, values: list[Any], keys: Iterable[Any]) -> list[Any]:
        """Reduce, with a look at each result before the next call may change it."""
        reduce, table = self._reduce, self._table
        results: list[Any] = []
        append, find = results.append, table.get
        value = None
        try:
            for value, key in zip(values, keys, strict=True):
                so_far = find(key, _MISSING)
                table[key] = result = value if so_far is _MISSING else reduce(so_far, value)
                if type(result) is tuple:
                    for item in result:
                        if type(item) not in ATOMIC:
                            break
                    else:
                        append(result)
                        continue
                elif type(result) in ATOMIC:
                    append(result)
                    continue
                append(copy_of(result))
        except BaseException as error:
            attach_element(error, value)
            raise
        return results

    def _selecting(self, keys: Iterable[Any]) -> Iterator[Any]:
        """Yield keys, each as the current one: state that the function has is that of the record's key."""
        state = self._state
        for state.current_key in keys:
            yield state.current_key
        state.current_key = NO_KEY

    def process_watermark(self, timestamp_ms: int) -> None:
        """Hand the watermark on; in batch mode the results before the final one."""
        if timestamp_ms == MAX_TIMESTAMP and self.context.batch:
            self._emit_last()
        super().process_watermark(timestamp_ms)

    def _emit_last(self) -> None:
        stamps = self._stamps
        unstamped = (result for key, result in self._table.items() if key not in stamps)
        while results := list(islice(unstamped, _BATCH_RECORDS)):
            self.output.emit(Rows(fit(copies(results), self._output_type)))
        stamped = ((result, stamps[key]) for key, result in self._table.items() if key in stamps)
        while pairs := list(islice(stamped, _BATCH_RECORDS)):
            values, timestamps = map(list, zip(*pairs, strict=True))
            self.output.emit(Rows(fit(copies(values), self._output_type), timestamps))

    def close(self) -> None:
        """Close the function."""
        close_function(self._function)


class Aggregation(Enum):
    """The rolling aggregations; the value is the method's name."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"
    MIN_BY = "min_by"
    MAX_BY = "max_by"


class RollingAggregate(ReduceFunction):
    """Aggregates one field.

    `sum`, `min` and `max` keep the other fields of the first record; `min_by` and `max_by` keep a whole
    record, the earlier one on ties. Never changes its arguments.

    Args:
        aggregation: What to do.
        position: Index of the field, or its name in rows and named tuples. Records without fields (numbers,
            strings) are aggregated themselves, at position 0.

    Raises:
        TypeMismatchError: If the position is neither an index nor a name.
    """

    def __init__(self, aggregation: Aggregation, position: int | str = 0) -> None:
        if isinstance(position, bool) or not isinstance(position, (int, str)):
            raise TypeMismatchError(
                f"{aggregation.value} was given {shorten(position)} as a position",
                detail="A position is the index of a field or its name.",
            )
        self._aggregation = aggregation
        self._position = position
        self._combine = _COMBINE[aggregation]
        self._whole = aggregation in (Aggregation.MIN_BY, Aggregation.MAX_BY)

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Return what was aggregated so far with the next record added."""
        if not isinstance(value2, (tuple, Row, list)):
            self._check_plain(value2)
            return self._combine(value1, value2)
        first, second = self._field(value1), self._field(value2)
        combined = self._combine(first, second)
        if self._whole:
            return value1 if combined is first else value2
        return self._replace(value1, combined)

    def reducer(self) -> Callable[[Any, Any], Any]:
        """Return what does the same as `reduce`, and what is mostly reduced, tuples, at once."""
        at, combine, whole, reduce = self._position, self._combine, self._whole, self.reduce
        if isinstance(at, str) or at < 0:
            return reduce
        behind = at + 1

        def reduce_tuples(value1: Any, value2: Any) -> Any:
            if not (type(value1) is type(value2) is tuple):
                return reduce(value1, value2)
            try:
                first, second = value1[at], value2[at]
            except IndexError:
                return reduce(value1, value2)  # it says what is wrong
            combined = combine(first, second)
            if whole:
                return value1 if combined is first else value2
            return value1[:at] + (combined,) + value1[behind:]  # noqa: RUF005 - faster than unpacking

        return reduce_tuples

    @property
    def adds_up(self) -> bool:
        """Whether it is a sum."""
        return self._aggregation is Aggregation.SUM

    def goes_in_any_order(self, values: list[Any]) -> bool:
        """Return whether records come to the same in any order of adding them.

        That is known if they are all of one type, with whole numbers (or texts, of which there is no sum) in the field.

        Args:
            values: At least one.
        """
        kind = type(values[0])
        if set(map(type, values)) != {kind}:
            return False
        if not _has_fields(kind) and self._position != 0:
            return False
        try:
            types = set(map(type, self._fields(values)))
        except (IndexError, KeyError, ValueError):
            return False  # `reduce` says what is wrong
        return types == {int} or (types == {str} and not self.adds_up)

    def of_many(self, values: list[Any]) -> Any:
        """Return what records come to, one after the other; they go in any order.

        Args:
            values: At least one.
        """
        fields = self._fields(values)
        result = _OF_MANY[self._aggregation](fields)
        if self._whole:
            return values[fields.index(result)]
        return self._replace(values[0], result) if _has_fields(type(values[0])) else result

    def _fields(self, values: list[Any]) -> list[Any]:
        """Return what is aggregated of records of one type."""
        first = values[0]
        return list(map(itemgetter(self._index(first)), values)) if _has_fields(type(first)) else values

    def _field(self, value: Any) -> Any:
        try:
            return value[self._index(value)]
        except (IndexError, KeyError, ValueError) as error:
            raise TypeMismatchError(
                f"{self._aggregation.value} wants field {self._position!r} of {shorten(value)}"
            ) from error

    def _index(self, value: Any) -> int | str:
        if isinstance(self._position, str) and isinstance(value, (tuple, list)):
            names: tuple[str, ...] = getattr(value, "_fields", ())
            return names.index(self._position)
        return self._position

    def _replace(self, value: Any, field: Any) -> Any:
        index = self._index(value)
        if isinstance(value, Row):
            return replace_field(value, index, field)
        fields = list(value)
        fields[index] = field  # type: ignore[index]
        if isinstance(value, list):
            return fields
        return tuple(fields) if type(value) is tuple else type(value)._make(fields)

    def _check_plain(self, value: Any) -> None:
        if self._position != 0:
            raise TypeMismatchError(
                f"{self._aggregation.value} wants field {self._position!r} of {shorten(value)}",
                detail="Such a record has no fields.",
                hint="Leave the position out to aggregate the records themselves.",
            )


def _has_fields(kind: type) -> bool:
    return issubclass(kind, (tuple, Row, list))


def _least(first: Any, second: Any) -> Any:
    return second if second < first else first


def _greatest(first: Any, second: Any) -> Any:
    return second if second > first else first


_OF_MANY: dict[Aggregation, Callable[[list[Any]], Any]] = {
    Aggregation.SUM: sum,
    Aggregation.MIN: min,
    Aggregation.MAX: max,
    Aggregation.MIN_BY: min,
    Aggregation.MAX_BY: max,
}

_COMBINE: dict[Aggregation, Callable[[Any, Any], Any]] = {
    Aggregation.SUM: operator.add,
    Aggregation.MIN: _least,
    Aggregation.MAX: _greatest,
    Aggregation.MIN_BY: _least,
    Aggregation.MAX_BY: _greatest,
}
