"""Generated loops for tuples and Rows of one length: going through a tuple's items one by one would cost twice as much.

A shape is a length and the class of each item, as seen in the first tuple or Row. An item of another class is looked up
among those that cannot change; a value of another length, or that is no tuple or Row, is not of the shape.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from sys import getrefcount
from typing import Any

from millstream.operators.value_kinds import ATOMIC
from millstream.types.row import Row

__all__ = ["all_of_shape", "are_own_rows", "map_to_rows", "map_to_shape", "row_shape_of", "shape_of"]

_LONGEST = 8

Shape = tuple[type, ...]


def shape_of(value: Any) -> Shape | None:
    """Return the shape of a tuple of what cannot change; None for all else, and for long tuples."""
    if type(value) is not tuple or len(value) > _LONGEST:
        return None
    kinds = tuple(map(type, value))
    return kinds if ATOMIC.issuperset(kinds) else None


def row_shape_of(value: Any) -> Shape | None:
    """Return the shape of a Row of what cannot change; None for all else, and for wide Rows."""
    return shape_of(value._values) if type(value) is Row else None


@cache
def map_to_shape(length: int) -> Callable[..., list[Any]]:
    """Return the loop `(function, values, shape, ATOMIC, otherwise) -> results`.

    It calls the function for each value; what is not of the shape is what `otherwise` makes of it.
    """
    return _compile(
        length,
        "function, remaining, shape, atomic, otherwise",
        """[
        value if {test} else otherwise(value)
        for given in remaining
        for value in [function(given)]
    ]""",
    )


@cache
def all_of_shape(length: int) -> Callable[..., bool]:
    """Return the loop `(values, shape, ATOMIC) -> whether all are of the shape`."""
    return _compile(length, "values, shape, atomic", "not [None for value in values if not ({test})]")


@cache
def map_to_rows(length: int) -> Callable[..., None]:
    """Return the loop `(function, remaining, shape, values, results, otherwise)`; it appends to the results.

    It calls the function for each value. What is no Row of the shape, or referred to by somebody else, is what
    `otherwise` makes of it, when the list of values no longer refers to the function's argument.
    """
    names, test = _test_of(length, "fields")
    return _made(
        length,
        f"""
def loop(function, remaining, shape, values, results, otherwise):
    {names}
    append = results.append
    for given in remaining:
        value = function(given)
        if type(value) is Row and getrefcount(value) <= most:
            fields = value._values
            if {test}:
                append(value)
                continue
            fields = None
        values[~remaining.__length_hint__()] = given = None
        append(otherwise(value))
""",
        {"Row": Row, "getrefcount": getrefcount, "atomic": ATOMIC, "most": _RESULT_REFS},
    )


@cache
def are_own_rows(length: int) -> Callable[..., bool]:
    """Return the loop `(values, shape, held)`: whether all are Rows of the shape to which nobody else refers.

    `held` tells how many references to each are known to be the pipeline's, beside the list's.
    """
    names, test = _test_of(length, "fields")
    return _made(
        length,
        f"""
def loop(values, shape, held):
    {names}
    refs = most + held
    for value in values:
        if type(value) is not Row or getrefcount(value) > refs:
            return False
        fields = value._values
        if not ({test}):
            return False
    return True
""",
        {"Row": Row, "getrefcount": getrefcount, "atomic": ATOMIC, "most": _LISTED_REFS},
    )


def _test_of(length: int, name: str) -> tuple[str, str]:
    """Return the statement that takes a shape to pieces, and the test whether a tuple of a name is of the shape."""
    kinds = [f"kind{place}" for place in range(length)]
    items = "".join(
        f" and (type({name}[{place}]) is {kind} or type({name}[{place}]) in atomic)"
        for place, kind in enumerate(kinds)
    )
    return ", ".join(kinds) + ", = shape" if kinds else "pass", f"len({name}) == {length}{items}"


def _compile(length: int, arguments: str, result: str) -> Callable[..., Any]:
    names, test = _test_of(length, "value")
    test = f"type(value) is tuple and {test}"
    source = f"def loop({arguments}):\n    {names}\n    return {result.format(test=test)}\n"
    return _made(length, source, {})


def _made(length: int, source: str, made: dict[str, Any]) -> Callable[..., Any]:
    exec(compile(source, f"{__file__}: {length} items", "exec"), made)
    loop: Callable[..., Any] = made["loop"]
    return loop


def _measure_result() -> int:
    """Return the count of a function's result that one variable holds."""
    make = list[Any]
    for _ in (1,):
        value = make()
        return getrefcount(value)
    raise AssertionError("a tuple without its item")


def _measure_listed() -> int:
    """Return the count of what a list and the variable of a loop over it hold."""
    values: list[Any] = [[], []]
    for value in values:
        return getrefcount(value)
    raise AssertionError("a list without its items")


_RESULT_REFS = _measure_result()
_LISTED_REFS = _measure_listed()
