"""Join functions written into the loop over the pairs of their records, as `process_loops` does for process functions.

::

    yield left[2] * right[2]

    for right, _ms_key, _ms_stamp, _ms_matches in _ms_records:
        _ms_lowest = _ms_stamp + _ms_from_ms; _ms_highest = _ms_stamp + _ms_to_ms
        for _ms_other, left in _ms_matches:
            if _ms_lowest <= _ms_other <= _ms_highest:
                _ms_result = left[2] * right[2]
                ...
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable
from functools import partial
from types import MethodType
from typing import Any

from millstream.operators.calls import Produced
from millstream.operators.inlined.body_writer import BodyWriter
from millstream.operators.inlined.written_loops import WrittenLoop, method_definition
from millstream.state.keyed import KeyedStateBackend

__all__ = ["PairLoop", "pair_loop"]

_GIVEN = ("append", "from_ms", "records", "stamp_append", "tagged", "to_ms")


class PairLoop(WrittenLoop):
    """Does what calls of a join function for each pair do.

    Args:
        process: The function, a bound method of left record, right record and context; a generator.
        definition: Its definition, which fits into a loop.
        backend: State of the operator.
        context: What the function gets beside a pair; has `own_ms` and `other_ms`.
    """

    def __init__(
        self, process: MethodType, definition: ast.FunctionDef, backend: KeyedStateBackend, context: Any
    ) -> None:
        super().__init__(process, definition, backend, {})
        self._context = context

    def run(
        self, records: Iterable[tuple[Any, ...]], bounds: tuple[int, int], made: Produced, *, is_left: bool
    ) -> None:
        """Do what the function does for each pair.

        Args:
            records: Key, time and value of each record of one side, and the records of the other side that may match.
            bounds: Least and greatest difference of a match's time to the record's.
            made: Gets the results.
            is_left: Whether the records are left ones.
        """
        loop = self._loop(_WRITE_LEFT if is_left else _WRITE_RIGHT)
        results, stamps, tagged = made
        assert stamps is not None
        from_ms, to_ms = bounds
        try:
            loop(
                self._object,
                self._context,
                _ms_append=results.append,
                _ms_from_ms=from_ms,
                _ms_records=records,
                _ms_stamp_append=stamps.append,
                _ms_tagged=tagged,
                _ms_to_ms=to_ms,
            )
        except StopIteration as error:
            raise self._stopped(error) from error


def _write(writer: BodyWriter, *, is_left: bool) -> ast.FunctionDef:
    left, right = map(writer.variable, writer.arguments)
    own, other = (left, right) if is_left else (right, left)
    text = f"""
for _ms_key, _ms_stamp, {own}, _ms_matches in _ms_records:
    _ms_lowest = _ms_stamp + _ms_from_ms
    _ms_highest = _ms_stamp + _ms_to_ms
    for _ms_other, {other} in _ms_matches:
        if _ms_lowest <= _ms_other <= _ms_highest:
"""
    if writer.looks_around:
        text += f"""
            _ms_backend.current_key = _ms_key
            {writer.context}.own_ms = _ms_stamp
            {writer.context}.other_ms = _ms_other
"""
    text += "            pass"
    return writer.loop(text, _GIVEN, "_ms_stamp if _ms_stamp > _ms_other else _ms_other")


_WRITE_LEFT = partial(_write, is_left=True)
_WRITE_RIGHT = partial(_write, is_left=False)


def pair_loop(process: Callable[..., Any], backend: KeyedStateBackend, context: Any) -> PairLoop | None:
    """Return what does the same as calls of a join function for each pair; None where that cannot be told.

    Args:
        process: The function, of left record, right record and context.
        backend: State of the operator.
        context: What the function gets beside a pair; has `own_ms` and `other_ms`.
    """
    definition = method_definition(process, 4)
    if definition is None or not inspect.isgeneratorfunction(process):
        return None
    assert isinstance(process, MethodType)
    return PairLoop(process, definition, backend, context)
