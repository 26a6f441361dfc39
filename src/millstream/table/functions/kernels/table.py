"""All kernels by the name of their function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.base.errors import NotSupportedError
from millstream.table.expressions.rex import Call
from millstream.table.functions.kernels import (
    arithmetic,
    bitmaps,
    casts,
    collections,
    date_formats,
    encodings,
    json,
    logic,
    numbers,
    regexes,
    strings,
    times,
    typeof,
)
from millstream.table.functions.kernels.values import Factory, Kernel, Setting

__all__ = ["find_kernel", "has_kernel"]

_KERNELS: dict[str, Factory] = {}
_MODULES = (
    arithmetic,
    bitmaps,
    casts,
    collections,
    date_formats,
    encodings,
    json,
    logic,
    numbers,
    regexes,
    strings,
    times,
    typeof,
)
for _module in _MODULES:
    for _name, _factory in _module.KERNELS.items():
        assert _name not in _KERNELS, f"kernel {_name} is there twice"
        _KERNELS[_name] = _factory


def has_kernel(name: str) -> bool:
    """Whether a function can be computed over columns."""
    return name in _KERNELS


def find_kernel(call: Call, setting: Setting) -> tuple[Kernel, Callable[[], Any] | None]:
    """Return what computes a call, and what closes it if that is needed.

    Raises:
        NotSupportedError: If nothing computes it.
    """
    if call.user_function is not None:
        kernel, close = call.user_function.column_kernel(call, setting)
        return kernel, close
    factory = _KERNELS.get(call.function)
    if factory is None:
        raise NotSupportedError(
            f'function "{call.function}" is not computed for columns',
            detail="It belongs to a clause of its own, such as a window or an aggregation.",
        )
    return factory(call), None
