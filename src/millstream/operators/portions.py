"""Many results of one record are handed on in portions: memory does not grow with them, and none of them waits.

What a function yields for one record may be endless. Every so many results they are emitted, and the subtask may be
suspended there (`operators.budget`): the epoch ends, what was emitted travels on, and the function goes on in the next.

Most functions yield a few times and have no loop; their code says so, and they pay nothing.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from types import CodeType
from typing import Any

__all__ = ["LISTED", "PORTION", "in_portions", "is_brief"]

PORTION = 8_192
"""Results of one record after which they are handed on."""

LISTED = frozenset({list, tuple})
"""What functions return that is in memory already: portions would save nothing."""


def is_brief(function: Callable[..., Any]) -> bool:
    """Return whether a function is seen to yield a few results only: it is a generator without any loop.

    >>> def one(value): yield value
    >>> def many(value): yield from range(value)
    >>> is_brief(one), is_brief(many), is_brief(str.split)
    (True, False, False)
    """
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return isinstance(code, CodeType) and _is_brief(code)


@lru_cache(maxsize=1_024)
def _is_brief(code: CodeType) -> bool:
    if not code.co_flags & inspect.CO_GENERATOR:
        return False
    return not any("BACKWARD" in step.opname for step in dis.get_instructions(code))


def in_portions(produced: Iterable[Any], hand_on: Callable[[], bool]) -> Iterator[Any]:
    """Return what a function produced for one record, with a call of `hand_on` behind each portion.

    Args:
        produced: What it returned, or its generator.
        hand_on: Emits what has been taken if that is a whole portion, and returns whether it was.
    """
    remaining = iter(produced)
    while True:
        yield from islice(remaining, PORTION)
        if not hand_on():
            return
