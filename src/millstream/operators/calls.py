"""Calling a user's process function for each record of a batch, and emitting what it yields."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

from millstream.base.time import MIN_TIMESTAMP
from millstream.common.output_tag import OutputTag
from millstream.operators.base import Operator
from millstream.operators.portions import LISTED, Pace, in_portions, is_brief
from millstream.operators.timer_service import KeyedContext, ProcessContext
from millstream.operators.user_code import attach_element, check_results, fit
from millstream.operators.values import ATOMIC, protect_produced, take_all
from millstream.spi.batch import Rows
from millstream.state.keyed import NO_KEY, KeyedStateBackend
from millstream.types.typeinfo import TypeInformation

__all__ = [
    "Emission",
    "Process",
    "Produced",
    "call_each",
    "call_each_keyed",
    "emit_produced",
    "emit_results",
    "taking",
]

Process = Callable[[Any, Any], Iterable[Any] | None]
"""A function of record (or timestamp) and context."""


class Produced(NamedTuple):
    """What a function yielded for the records of a batch.

    Attributes:
        results: Each protected.
        timestamps: Of the records that they were made of; None if those have none.
        tagged: Not empty if `(OutputTag, value)` is among the results.
    """

    results: list[Any]
    timestamps: list[int] | None
    tagged: list[bool]


class Emission:
    """Hands on portions of what an operator's function yields, before it has yielded all.

    Args:
        operator: Whose function it is.
        output_type: Type to check results against; None leaves them unchecked.
    """

    __slots__ = ("_operator", "_output_type", "_pace")

    def __init__(self, operator: Operator, output_type: TypeInformation | None) -> None:
        self._operator = operator
        self._output_type = output_type
        self._pace = Pace(operator.context.budget)

    def hand_on(self, context: Any, results: list[Any], stamps: list[int] | None, tagged: list[bool]) -> bool:
        """Emit what was taken of one record's results if it is time for it; return whether they come quickly."""
        quick = self._pace.is_quick()
        if self._pace.is_due(len(results)):
            if stamps is not None:
                stamps.extend(repeat(context.stamp, len(results) - len(stamps)))
            self.emit(results, stamps, tagged)
        return quick

    def emit(self, results: list[Any], stamps: list[int] | None, tagged: list[bool]) -> None:
        """Emit results and empty the lists; the epoch may end here."""
        portion = Produced(results[:], None if stamps is None else stamps[:], tagged[:])
        for taken in (results, stamps, tagged):
            if taken is not None:
                taken.clear()
        emit_produced(self._operator, portion, self._output_type)
        self._pace.pause()


def call_each(
    process: Process,
    context: ProcessContext,
    values: list[Any],
    timestamps: list[int] | None,
    emission: Emission,
) -> Produced:
    """Call `process` for each record; returns what it yielded and was not emitted, with the records' timestamps."""
    results: list[Any] = []
    append, atomic = results.append, ATOMIC
    tagged: list[bool] = []
    stamps: list[int] | None = None if timestamps is None else []
    brief, hand_on = is_brief(process), partial(emission.hand_on, context, results, stamps, tagged)
    value = produced = None
    try:
        for value, context.stamp in zip(values, timestamps or repeat(MIN_TIMESTAMP), strict=False):
            produced = process(value, context)
            if produced is not None:
                for result in (
                    produced if brief or type(produced) in LISTED else in_portions(produced, hand_on)
                ):
                    if type(result) is tuple:
                        for item in result:
                            if type(item) not in atomic:
                                break
                        else:
                            append(result)
                            continue
                        item = None  # it counts as a reference
                    elif type(result) in atomic:
                        append(result)
                        continue
                    append(protect_produced(result, produced, tagged))
                if stamps is not None:
                    missing = len(results) - len(stamps)
                    if missing == 1:
                        stamps.append(context.stamp)
                    elif missing:
                        stamps.extend(repeat(context.stamp, missing))
    except BaseException as error:
        attach_element(error, value)
        check_results(_name_of(process), produced, value)
        raise
    return Produced(results, stamps, tagged)


def call_each_keyed(
    process: Process,
    context: KeyedContext,
    state: KeyedStateBackend,
    keys: Iterable[Any],
    values: list[Any],
    timestamps: list[int] | None,
    emission: Emission,
) -> Produced:
    """Call `process` for each record under its key, as `call_each` does; there is no current key afterwards."""
    call = _call_unstamped if timestamps is None else _call_stamped
    made = call(process, context, state, keys, values, timestamps, emission)
    state.current_key = NO_KEY
    return made


# The two loops differ in the stamps only; one loop would cost the unstamped one a third of its speed.
def _call_unstamped(
    process: Process,
    context: Any,
    state: Any,
    keys: Iterable[Any],
    values: list[Any],
    timestamps: Any,
    emission: Emission,
) -> Produced:
    results: list[Any] = []
    append, atomic = results.append, ATOMIC
    tagged: list[bool] = []
    context.stamp = MIN_TIMESTAMP
    brief, hand_on = is_brief(process), partial(emission.hand_on, context, results, None, tagged)
    value = produced = None
    try:
        for value, state.current_key in zip(values, keys, strict=False):
            produced = process(value, context)
            if produced is not None:
                for result in (
                    produced if brief or type(produced) in LISTED else in_portions(produced, hand_on)
                ):
                    if type(result) is tuple:
                        for item in result:
                            if type(item) not in atomic:
                                break
                        else:
                            append(result)
                            continue
                        item = None  # it counts as a reference
                    elif type(result) in atomic:
                        append(result)
                        continue
                    append(protect_produced(result, produced, tagged))
    except BaseException as error:
        attach_element(error, value)
        check_results(_name_of(process), produced, value)
        raise
    return Produced(results, None, tagged)


def _call_stamped(
    process: Process,
    context: Any,
    state: Any,
    keys: Iterable[Any],
    values: list[Any],
    timestamps: Any,
    emission: Emission,
) -> Produced:
    results: list[Any] = []
    append, atomic = results.append, ATOMIC
    tagged: list[bool] = []
    stamps: list[int] = []
    brief, hand_on = is_brief(process), partial(emission.hand_on, context, results, stamps, tagged)
    value = produced = None
    try:
        for value, state.current_key, context.stamp in zip(values, keys, timestamps, strict=False):
            produced = process(value, context)
            if produced is not None:
                for result in (
                    produced if brief or type(produced) in LISTED else in_portions(produced, hand_on)
                ):
                    if type(result) is tuple:
                        for item in result:
                            if type(item) not in atomic:
                                break
                        else:
                            append(result)
                            continue
                        item = None  # it counts as a reference
                    elif type(result) in atomic:
                        append(result)
                        continue
                    append(protect_produced(result, produced, tagged))
                missing = len(results) - len(stamps)
                if missing == 1:
                    stamps.append(context.stamp)
                elif missing:
                    stamps.extend(repeat(context.stamp, missing))
    except BaseException as error:
        attach_element(error, value)
        check_results(_name_of(process), produced, value)
        raise
    return Produced(results, stamps, tagged)


def taking(
    name: str, context: ProcessContext | KeyedContext, made: Produced, emission: Emission
) -> Callable[[Any, Any], None]:
    """Return what takes the results that a function returned for a record, as `call_each` does.

    Args:
        name: Of the function.
        context: Of the record.
        made: Gets the results.
        emission: Hands on what comes in large numbers.
    """
    results, stamps, tagged = made
    hand_on = partial(emission.hand_on, context, results, stamps, tagged)

    def take(produced: Any, value: Any) -> None:
        if produced is None:
            return
        try:
            take_all(
                produced if type(produced) in LISTED else in_portions(produced, hand_on), results, tagged
            )
        except BaseException:
            check_results(name, produced, value)
            raise
        if stamps is not None:
            stamps.extend(repeat(context.stamp, len(results) - len(stamps)))

    return take


def _name_of(process: Process) -> str:
    return str(getattr(process, "__name__", "the function"))


def emit_produced(operator: Operator, produced: Produced, output_type: TypeInformation | None) -> None:
    """Emit what a process function yielded: `(OutputTag, value)` to side outputs, the rest to the main output."""
    results, timestamps, tagged = produced
    if tagged:
        results, timestamps = _emit_sides(operator, results, timestamps)
    if results:
        operator.output.emit(Rows(fit(results, output_type), timestamps))


def emit_results(
    operator: Operator, results: list[Any], timestamps: list[int] | None, output_type: TypeInformation | None
) -> None:
    """Emit results of which it is not known whether `(OutputTag, value)` is among them."""
    tagged = tuple in set(map(type, results)) and any(
        type(result) is tuple and len(result) == 2 and type(result[0]) is OutputTag for result in results
    )
    emit_produced(operator, Produced(results, timestamps, [True] if tagged else []), output_type)


def _emit_sides(
    operator: Operator, results: list[Any], timestamps: list[int] | None
) -> tuple[list[Any], list[int] | None]:
    main: list[Any] = []
    main_stamps: list[int] = []
    sides: dict[OutputTag, tuple[list[Any], list[int]]] = {}
    for result, stamp in zip(results, timestamps or repeat(0), strict=False):
        if type(result) is tuple and len(result) == 2 and type(result[0]) is OutputTag:
            values, stamps = sides.setdefault(result[0], ([], []))
            values.append(result[1])
        else:
            values, stamps = main, main_stamps
            main.append(result)
        stamps.append(stamp)
    for tag, (values, stamps) in sides.items():
        if tag.tag_id in operator.context.side_outputs:
            operator.output.emit_side(
                tag.tag_id, Rows(fit(values, tag.type_info), None if timestamps is None else stamps)
            )
    return main, None if timestamps is None else main_stamps
