"""Generated loops for tuples of one length: going through a tuple's items one by one would cost twice as much.

A shape is a length and the class of each item, as seen in the first tuple. An item of another class is looked up among
those that cannot change; a value of another length, or that is no tuple, is not of the shape.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from millstream.operators.value_kinds import ATOMIC

__all__ = ["map_to_shape", "shape_of", "all_of_shape"]

_LONGEST = 8

Shape = tuple[type, ...]


def shape_of(value: Any) -> Shape | None:
    """Return the shape of a tuple of what cannot change; None for all else, and for long tuples."""
    if type(value) is not tuple or len(value) > _LONGEST:
        return None
    kinds = tuple(map(type, value))
    return kinds if ATOMIC.issuperset(kinds) else None


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


def _compile(length: int, arguments: str, result: str) -> Callable[..., Any]:
    names = [f"kind{place}" for place in range(length)]
    items = "".join(
        f" and (type(value[{place}]) is {name} or type(value[{place}]) in atomic)"
        for place, name in enumerate(names)
    )
    test = f"type(value) is tuple and len(value) == {length}{items}"
    unpack = ", ".join(names) + ", = shape" if names else ""
    source = f"def loop({arguments}):\n    {unpack}\n    return {result.format(test=test)}\n"
    made: dict[str, Any] = {}
    exec(compile(source, f"{__file__}: tuples of {length}", "exec"), made)
    loop: Callable[..., Any] = made["loop"]
    return loop
