"""Process functions written into the loop over their records.

A generator is made and asked for each record, and each use of state is a call, where the function says no more than::

    largest = self.largest.value()
    if largest is None or value[2] > largest:
        self.largest.update(value[2])
        yield value[2]

Of a function that goes forward only (`bodies`) the loop is made that does the same. It is compiled in the function's
file, with the function's lines: tracebacks and breakpoints are where they were. What it yields is looked at as the
loops of `operators.calls` do it. Value state in memory is used as the dict that it is, as long as the function's
attribute is still that state::

    for value, _ms_key in _ms_records:
        largest = _ms_get0(_ms_key)
        ...

A function that may change its attributes on the way looks each time: `_ms_get0(_ms_key) if self.largest is _ms_state0
else _ms_select(_ms_key, self.largest).value()`.

Functions that may reach anything else find the current key and the timestamp as always.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import partial
from operator import length_hint
from types import MethodType
from typing import Any

from millstream.base.time import MIN_TIMESTAMP
from millstream.operators.calls import Emission, Process, Produced, taking
from millstream.operators.inlined.body_writer import BodyWriter
from millstream.operators.inlined.view_reads import Views
from millstream.operators.inlined.written_loops import WrittenLoop, method_definition
from millstream.operators.timer_service import KeyedContext
from millstream.operators.user_code import attach_element
from millstream.state.keyed import NO_KEY, KeyedStateBackend

__all__ = ["ProcessLoop", "process_loop"]


class ProcessLoop(WrittenLoop):
    """Does what calls of a process function for each record do.

    Args:
        process: The function, a bound method of record and context.
        definition: Its definition, which fits into a loop.
        backend: State of the operator.
        context: What the function gets beside a record.
        views: Broadcast states that it may read, by name.
    """

    def __init__(
        self,
        process: MethodType,
        definition: ast.FunctionDef,
        backend: KeyedStateBackend,
        context: KeyedContext,
        views: Views,
    ) -> None:
        super().__init__(process, definition, backend, views)
        self._context = context

    def run(
        self,
        portions: Iterable[tuple[list[Any], list[Any] | None]],
        timestamps: list[int] | None,
        emission: Emission,
    ) -> Produced:
        """Do what the function does for each record; return what it yielded and was not emitted.

        Args:
            portions: Records, and the key of each; None for keys where they are not needed.
            timestamps: Of all records; None if they have none.
            emission: Hands on what comes in large numbers of one record.
        """
        context = self._context
        context.stamp = MIN_TIMESTAMP
        made = Produced([], None if timestamps is None else [], [])
        given = {
            "_ms_append": made.results.append,
            "_ms_stamp_append": None if made.timestamps is None else made.timestamps.append,
            "_ms_tagged": made.tagged,
            "_ms_take": taking(self._function.__name__, context, made, emission),
        }
        stamps: tuple[Iterator[int], ...] = () if timestamps is None else (iter(timestamps),)
        for portion, keys in portions:
            remaining = iter(portion)
            beside = stamps if keys is None or not self.needs_key else (keys, *stamps)
            records = zip(remaining, *beside, strict=False) if beside else remaining
            loop = self._loop(_WRITE_UNSTAMPED if timestamps is None else _WRITE_STAMPED)
            try:
                loop(self._object, context, _ms_records=records, **given)
            except BaseException as error:
                raised = self._stopped(error)
                attach_element(raised, portion[len(portion) - length_hint(remaining) - 1])
                if raised is error:
                    raise
                raise raised from error
        self._backend.current_key = NO_KEY
        return made


_GIVEN = ("append", "records", "stamp_append", "tagged", "take")


def _write(writer: BodyWriter, *, stamped: bool) -> ast.FunctionDef:
    (value,) = writer.arguments
    stamp = None
    if stamped:
        stamp = f"{writer.context}.stamp" if writer.looks_around else "_ms_stamp"
    key = "_ms_key" if writer.needs_key else None
    targets = ", ".join(filter(None, (writer.variable(value), key, stamp)))
    setting = "_ms_backend.current_key = _ms_key;" if writer.looks_around else ""
    return writer.loop(f"for {targets} in _ms_records: {setting} pass", _GIVEN, stamp)


_WRITE_STAMPED = partial(_write, stamped=True)
_WRITE_UNSTAMPED = partial(_write, stamped=False)


def process_loop(
    process: Process, backend: KeyedStateBackend, context: KeyedContext, views: Views
) -> ProcessLoop | None:
    """Return what does the same as calls of a process function for each record; None where that cannot be told.

    Args:
        process: The function.
        backend: State of the operator.
        context: What the function gets beside a record.
        views: Broadcast states that it may read, by name.
    """
    definition = method_definition(process, 3)
    if definition is None:
        return None
    assert isinstance(process, MethodType)
    return ProcessLoop(process, definition, backend, context, views)
