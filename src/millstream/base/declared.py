"""What a program declares is what it is at that moment: what the program changes afterwards is not seen by the job.

As in PyFlink, which pickles a function in the call that takes it, so that loops can declare operators::

    for factor in (2, 3):
        stream = stream.map(lambda value: value * factor)    # by 2, then by 3

Python looks `factor` up when the function is called, in the enclosing function or the module; a job that took functions
as they are when it starts would multiply by 3 twice. Each operator has a copy of its own, also where two were given the
same object.
"""

from __future__ import annotations

import io
import pickle
from types import ModuleType
from typing import Any, TypeVar

from millstream.base.pickling import CodePickler

__all__ = ["as_declared"]

_Declared = TypeVar("_Declared")


def as_declared(declared: _Declared) -> _Declared:
    """Return a copy of a function, with its members and the variables that it refers to; classes stay what they are.

    What cannot be copied is returned as it is: it cannot travel to a slot either, and submitting the job says so.

    >>> factor = 2
    >>> double = as_declared(lambda value: value * factor)
    >>> factor = 3
    >>> double(5)
    10
    """
    file = io.BytesIO()
    pickler = _Pickler(file)
    try:
        pickler.dump(declared)
        file.seek(0)
        copy: _Declared = _Unpickler(file, pickler.kept).load()
    except Exception:  # noqa: BLE001 - any object may refuse in any way; the deployment names operator and reason
        return declared
    return copy


class _Pickler(CodePickler):
    """Leaves classes and modules out; they are the same objects in the copy.

    Attributes:
        kept: What was left out, by its number.
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.kept: list[Any] = []

    def persistent_id(self, obj: Any) -> int | None:
        if not isinstance(obj, (type, ModuleType)):
            return None
        self.kept.append(obj)
        return len(self.kept) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, kept: list[Any]) -> None:
        super().__init__(file)
        self._kept = kept

    def persistent_load(self, pid: int) -> Any:
        return self._kept[pid]
