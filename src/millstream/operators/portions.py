"""Many results of one record are handed on in portions: memory does not grow with them, and none of them waits.

What a function yields for one record may be endless. Every so many results they are emitted, and the subtask may be
suspended there (`operators.budget`): the epoch ends, what was emitted travels on, and the function goes on in the next.

What takes long is looked at after few results, so that a function which waits for each of them - one that asks a
server again and again - does not keep them until there are thousands.

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

from millstream.operators.budget import WorkBudget

__all__ = ["LISTED", "PORTION", "Pace", "in_portions", "is_brief"]

PORTION = 8_192
"""Results of one record after which they are handed on."""

_FIRST = 8
_QUICK_S = 0.01

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
    """Return what a function produced for one record, with a call of `hand_on` every so many results.

    The first calls come after few results, for each of them may take long; a function that is fast is asked about more
    and more of them.

    Args:
        produced: What it returned, or its generator.
        hand_on: Emits what has been taken if it is a whole portion or time is up; returns whether this was quick.
    """
    remaining = iter(produced)
    size = _FIRST
    while True:
        yield from islice(remaining, size)
        for result in remaining:
            yield result
            break
        else:
            return
        size = min(size * 4, PORTION) if hand_on() else 1


class Pace:
    """Says when what has been taken of a function's results is to be handed on; one for each operator.

    Args:
        budget: Of the subtask.
    """

    __slots__ = ("_budget", "_looked")

    def __init__(self, budget: WorkBudget) -> None:
        self._budget = budget
        self._looked = 0.0

    def is_quick(self) -> bool:
        """Return whether little time has passed since this was asked last."""
        now = self._budget.now()
        since, self._looked = now - self._looked, now
        return since < _QUICK_S

    def is_due(self, gathered: int) -> bool:
        """Return whether results are a whole portion, or none may wait any longer."""
        return gathered >= PORTION or self._budget.may_leave()

    def pause(self) -> None:
        """Let the epoch end here, if its time or space is up."""
        self._budget.reach_safe_point()
