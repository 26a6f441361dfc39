"""The loops of `map`, with the look at each result written into them.

A function mostly gives one shape of results: a number, or a tuple of a string and two numbers. The loop is chosen by
the first result, and what has another shape takes the long way; those for tuples and Rows are generated
(`tuple_shapes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from millstream.operators.tuple_shapes import map_to_rows, map_to_shape, row_shape_of, shape_of
from millstream.operators.user_code import attach_element, stopped_early
from millstream.operators.values import ATOMIC, protect

__all__ = ["map_protected"]

Function = Callable[[Any], Any]
Remaining = Iterator[Any]


def map_protected(function: Function, values: list[Any]) -> list[Any]:
    """Return `function` of each value, each result protected before the next call; uses `values` up.

    Raises:
        BaseException: What the function raised, with the element noted on it; RuntimeError for a StopIteration.
    """
    remaining = iter(values)
    value = None
    try:
        for value in remaining:
            first = function(value)
            values[0] = None
            shape = shape_of(first)
            if shape is not None:
                return [first, *map_to_shape(len(shape))(function, remaining, shape, ATOMIC, protect)]
            if type(first) in ATOMIC:
                return [first, *_map_atoms(function, remaining, type(first))]
            value = None
            results = [protect(first)]
            shape = row_shape_of(first)
            del first
            if shape is not None:
                map_to_rows(len(shape))(function, remaining, shape, values, results, protect)
            else:
                _map_objects(function, remaining, values, results)
            return results
    except StopIteration as error:
        stopped = stopped_early()
        attach_element(stopped, _last_taken(values, remaining))
        raise stopped from error
    except BaseException as error:
        attach_element(error, _last_taken(values, remaining))
        raise
    return []


def _last_taken(values: list[Any], remaining: Remaining) -> Any:
    return values[~remaining.__length_hint__()]  # type: ignore[attr-defined]


def _map_atoms(function: Function, remaining: Remaining, kind: type) -> list[Any]:
    """Map to numbers, strings and the like."""
    return [
        result if type(result) is kind or type(result) in ATOMIC else protect(result)
        for value in remaining
        for result in [function(value)]
    ]


def _map_objects(function: Function, remaining: Remaining, values: list[Any], results: list[Any]) -> None:
    """Map to anything."""
    append = results.append
    for value in remaining:
        result = function(value)
        if type(result) in ATOMIC:
            append(result)
            continue
        # The input goes first: what was in it may be in the result, and be referred to by nothing else.
        values[~remaining.__length_hint__()] = value = None  # type: ignore[attr-defined]
        append(protect(result))
