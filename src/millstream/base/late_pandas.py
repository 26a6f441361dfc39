"""Keeps pyarrow from importing pandas before anybody uses pandas.

`pyarrow.array` of a list asks whether the list is a pandas object, and imports pandas to find out: a third of a
second in each process that never sees a frame. Here pyarrow is told that pandas is not there; when something does
import pandas, pyarrow looks again. Whoever holds a frame has imported pandas, so nothing is missed::

    pyarrow:  "no pandas" ─────────────────────────► "pandas is there"
                          import pandas (anybody) ──┘
                          to_pandas() (pyarrow)  ───┘
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

__all__ = ["import_pandas_late"]


class _ThenTellPyarrow(Loader):
    """Loads pandas as its own loader would; pyarrow then finds it."""

    def __init__(self, loader: Any, known: Any) -> None:
        self._loader = loader
        self._known = known

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        # Reading it has pyarrow import pandas, which is in sys.modules now.
        _ = self._known.pd


class _PandasFinder(MetaPathFinder):
    """Refuses pandas to one thread while `refused_to` names it; afterwards sees its first import, and is done."""

    def __init__(self, known: Any) -> None:
        self._known = known
        self.refused_to: int | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "pandas":
            return None
        if self.refused_to is not None:
            if self.refused_to == threading.get_ident():
                raise ModuleNotFoundError("pandas is imported when it is used", name=fullname)
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenTellPyarrow(spec.loader, self._known)
        return spec


def import_pandas_late() -> None:
    """Have pyarrow do without pandas until something imports pandas; once, before pyarrow makes its first array.

    Does nothing where pandas is imported already, or where a pyarrow has another way to know.
    """
    if "pandas" in sys.modules or any(isinstance(each, _PandasFinder) for each in sys.meta_path):
        return
    from pyarrow import lib

    known: Any = getattr(lib, "_pandas_api", None)
    if not hasattr(type(known), "have_pandas") or not hasattr(type(known), "pd"):
        return
    finder = _PandasFinder(known)
    finder.refused_to = threading.get_ident()
    sys.meta_path.insert(0, finder)
    there = known.have_pandas
    finder.refused_to = None
    if there or PathFinder.find_spec("pandas") is None:
        sys.meta_path.remove(finder)
