"""Classes of a program's main module in its state: the program that restores them has its own of the same name.

Values of such classes are pickled with their class, as no other process could import it. In the state of a
checkpoint that would bring back the class as it was when the checkpoint was made, beside the present program's::

    program, first run    class Reading        ─► state file: values of Reading, and Reading itself
    program, second run   class Reading (new)  ─► deployment names it ─► values become ones of the new Reading

So a deployment carries the classes of the main module that it uses, and those that hold data; `load_state`
takes them, by qualified name, in place of what is in a file. A class that the program no longer has comes from
the file.
"""

from __future__ import annotations

import dataclasses
import io
import pickle
import sys
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from typing import Any

from millstream.base.errors import MillstreamError, StateIncompatibleError
from millstream.base.pickling import CodePickler, dump_by_value

__all__ = [
    "MAIN",
    "MainRecorder",
    "dump_with_main_classes",
    "load_state",
    "register_main_classes",
    "registered_main_classes",
]

MAIN = "__main__"
_classes: dict[str, type] = {}


def dump_with_main_classes(content: Any) -> bytes:
    """Pickle a pair: something, and a list of the main module's classes in it or fit to hold data."""
    buffer = io.BytesIO()
    pickler = MainRecorder(buffer, protocol=5)
    # The second half is pickled last, so it holds all that the pickler met in the first.
    pickler.dump((content, pickler.classes))
    return buffer.getvalue()


def register_main_classes(classes: Iterable[type]) -> None:
    """Learn the main module's classes of the program that runs; later ones take the place of earlier ones."""
    _classes.update((each.__qualname__, each) for each in classes)


def registered_main_classes() -> list[type]:
    """Return what was registered, for another process that reads and writes state of the program."""
    return list(_classes.values())


def load_state(data: bytes) -> Any:
    """Unpickle what a state file holds, with the present program's classes.

    Raises:
        StateIncompatibleError: If a class is not there any more, or takes a value of before no more; names it.
    """
    loader = _Loader(io.BytesIO(data))
    try:
        return loader.load()
    except (MillstreamError, MemoryError):
        raise
    except Exception as error:
        last = "" if loader.last_class is None else f", the class looked up last was {loader.last_class}"
        raise StateIncompatibleError(
            f"a value in the state cannot be made again: {type(error).__name__}: {error}",
            detail=f"Values are unpickled with the program's classes{last}.",
            hint="Give fields that were added a default, named tuples theirs at the end only, or the class a "
            "__setstate__.",
        ) from error


class MainRecorder(CodePickler):
    """Pickles, and notes the main module's classes.

    Attributes:
        classes: Those that it met, and those fit to hold data.
    """

    def __init__(self, file: io.BytesIO, protocol: int) -> None:
        super().__init__(file, protocol=protocol)
        self.classes = [each for each in list(vars(sys.modules[MAIN]).values()) if _holds_data(each)]

    def reducer_override(self, obj: Any) -> Any:
        """Note a class, and pickle as ever."""
        if isinstance(obj, type) and obj.__module__ == MAIN and obj not in self.classes:
            self.classes.append(obj)
        return super().reducer_override(obj)


def _holds_data(found: Any) -> bool:
    if not isinstance(found, type) or found.__module__ != MAIN:
        return False
    if not (dataclasses.is_dataclass(found) or issubclass(found, (Enum, tuple))):
        return False
    try:
        dump_by_value(found)
    except Exception:  # noqa: BLE001 - a class may refer to anything; values of it cannot be in state then
        return False
    return True


class _Loader(pickle.Unpickler):
    last_class: str | None = None

    def find_class(self, module: str, name: str) -> Any:
        self.last_class = f"{module}.{name}"
        try:
            return self._find(module, name)
        except (AttributeError, ImportError) as error:
            raise StateIncompatibleError(
                f'class "{name}" of module "{module}" is in the state and not in the program: {error}',
                hint="Keep classes whose values are in state under their name and in their module; from a module "
                "that is gone, let a module of its name import the class from where it is now.",
            ) from error

    def _find(self, module: str, name: str) -> Any:
        if module == MAIN and name in _classes and not hasattr(sys.modules[MAIN], name.partition(".")[0]):
            return _classes[name]
        found = super().find_class(module, name)
        if module.startswith("cloudpickle."):
            if name == "_make_skeleton_class":
                return lambda *arguments: (
                    _own(arguments[3].get("__module__"), arguments[1]) or found(*arguments)
                )
            if name == "_make_skeleton_enum":
                return lambda *arguments: _own(arguments[4], arguments[1]) or found(*arguments)
            if name == "_class_setstate":
                return partial(_fill_in, found)
        return found


def _own(module: str | None, name: str) -> type | None:
    """Return the program's class of a name; None if it has none, or several in different places."""
    named = [each for each in _classes.values() if each.__name__ == name] if module == MAIN else []
    return named[0] if len(named) == 1 else None


def _fill_in(set_state: Callable[..., type], restored: type, state: Any) -> type:
    """Give a class what was pickled of it; the program's own classes stay as they are."""
    return restored if any(each is restored for each in _classes.values()) else set_state(restored, state)
