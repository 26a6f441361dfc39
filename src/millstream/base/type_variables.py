"""Type variables of streams and functions: `DataStream[int]`, `MapFunction[int, str]`.

Only type checkers know their defaults: what is left out in brackets, or stands without brackets, is anything. So
programs without types are checked as before. Where a variable is read only, or written only, it has a variance:
a function that takes any number is one that takes ints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar
else:
    from typing import TypeVar as _TypeVar

    def TypeVar(name, *, default=None, **variance):
        return _TypeVar(name, **variance)


__all__ = ["ACC", "IN", "IN1", "IN2", "KEY", "OUT", "K", "R", "S", "T", "T1", "T2", "V", "W"]

T = TypeVar("T", covariant=True, default=Any)
"""Records of a stream."""
T1 = TypeVar("T1", covariant=True, default=Any)
"""Records of the first of two streams."""
T2 = TypeVar("T2", covariant=True, default=Any)
"""Records of the second of two streams."""
KEY = TypeVar("KEY", default=Any)
"""Keys of a stream."""
V = TypeVar("V", default=Any)
"""Records that are combined to one of the same type."""
ACC = TypeVar("ACC", default=Any)
"""Accumulators."""
IN = TypeVar("IN", contravariant=True, default=Any)
"""What a function takes."""
IN1 = TypeVar("IN1", contravariant=True, default=Any)
"""What a function takes of the first of two streams."""
IN2 = TypeVar("IN2", contravariant=True, default=Any)
"""What a function takes of the second of two streams."""
OUT = TypeVar("OUT", covariant=True, default=Any)
"""What a function gives."""
K = TypeVar("K", contravariant=True, default=Any)
"""Keys that a function takes."""
W = TypeVar("W", contravariant=True, default=Any)
"""Windows that a function takes."""
R = TypeVar("R")
"""Results of one call."""
S = TypeVar("S")
"""Something else of one call."""
