"""The loops of `map`, with the look at each result written into them.

A function mostly gives one shape of results: a number, or a tuple of a string and two numbers. The loop is chosen by
the first result, and what has another shape takes the long way. The loops for tuples are generated, one for each
length, as going through a tuple's items one by one would cost twice as much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from millstream.operators.user_code import attach_element
from millstream.operators.values import ATOMIC, protect

__all__ = ["map_protected"]

_LONGEST = 8

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
            shape = type(first)
            if shape is tuple and len(first) <= _LONGEST and ATOMIC.issuperset(map(type, first)):
                kinds = tuple(map(type, first))
                return [first, *_tuple_loop(len(first))(function, remaining, kinds, ATOMIC, protect)]
            if shape in ATOMIC:
                return [first, *_map_atoms(function, remaining, shape)]
            value = None
            results = [protect(first)]
            del first
            _map_objects(function, remaining, values, results)
            return results
    except StopIteration as error:
        stopped = RuntimeError("the function raised StopIteration, as next() does at the end of an iterator")
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


@cache
def _tuple_loop(length: int) -> Callable[..., list[Any]]:
    """Return the loop for tuples of a length: of function, values, classes of the items, ATOMIC and `protect`."""
    names = [f"kind{place}" for place in range(length)]
    items = "".join(
        f" and (type(result[{place}]) is {name} or type(result[{place}]) in atomic)"
        for place, name in enumerate(names)
    )
    source = f"""
def loop(function, remaining, kinds, atomic, protect):
    {", ".join(names) + ", = kinds" if names else ""}
    return [
        result if type(result) is tuple and len(result) == {length}{items} else protect(result)
        for value in remaining
        for result in [function(value)]
    ]
"""
    made: dict[str, Any] = {}
    exec(compile(source, f"{__file__}: tuples of {length}", "exec"), made)
    loop: Callable[..., list[Any]] = made["loop"]
    return loop
