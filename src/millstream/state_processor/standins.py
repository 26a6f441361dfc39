"""Unpickling where classes are missing: what is of such a class is represented by a `StandIn`.

A checkpoint refers to the program's classes by module and name. Whoever looks into it may have a part of them
only, or none; the rest must be readable all the same. Three tries, each of which trusts less::

    all classes as they are ─► missing ones stand in ─► all of the program's stand in ─► the whole chunk stands in
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from types import ModuleType
from typing import Any, ClassVar

from millstream.base.errors import StateIncompatibleError
from millstream.files.stores import StoredFile
from millstream.runtime.checkpoint.state_file import Chunk, ChunkKind, StateFileReader
from millstream.state.operator_state import OperatorStateMode, OperatorStateSnapshot
from millstream.state.snapshots import KeyedStatePatch, TimerSnapshot, TimersPatch

__all__ = ["UNREADABLE", "Modules", "StandIn", "TolerantStateFile", "load_tolerantly"]

UNREADABLE = "(unreadable)"
"""The name of a state that a part that cannot be read belongs to: its real name is in that part."""

Modules = Mapping[str, ModuleType]
"""Modules that are used in place of those of some names, such as a program in place of `__main__`."""

_OURS = frozenset({"builtins", "collections", "copyreg", "datetime", "decimal", "enum", "millstream", "uuid"})
"""Packages whose classes are always there."""


class StandIn:
    """A value whose class is not here, or cannot be made: its type, and what it was pickled with.

    Two of the same type and contents are equal.

    Attributes:
        type_name: Module and qualified name of its class.
        arguments: What it was made of.
        state: Its attributes or whatever it was pickled with; None if nothing.
        items: What was added to it, for lists and dicts.

    Example:
        >>> from millstream.state_processor.standins import load_tolerantly
        >>> pickled = b"ccards\\nStats\\n(I3\\ntR."  # pickle of cards.Stats(3); there is no module "cards" here
        >>> value = load_tolerantly(pickled)
        >>> value.type_name, value.arguments
        ('cards.Stats', (3,))
    """

    type_name: ClassVar[str] = "?"

    def __new__(cls, *args: Any, **kwargs: Any) -> StandIn:
        """Make one, whatever the arguments."""
        self = object.__new__(cls)
        self.arguments = args + tuple(sorted(kwargs.items()))
        self.state = None
        self.items = []
        return self

    arguments: tuple[Any, ...]
    state: Any
    items: list[Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: `__new__` has it all."""

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def append(self, item: Any) -> None:
        """Take an element of a list."""
        self.items.append(item)

    def extend(self, items: Any) -> None:
        """Take elements of a list."""
        self.items.extend(items)

    def add(self, item: Any) -> None:
        """Take an element of a set."""
        self.items.append(item)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items.append((key, value))

    def _contents(self) -> tuple[Any, ...]:
        return self.type_name, self.arguments, self.state, self.items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StandIn) and self._contents() == other._contents()

    def __hash__(self) -> int:
        return hash(repr(self._contents()))

    @property
    def size(self) -> int:
        """About how many bytes it takes in the checkpoint."""
        return len(_dump_contents(self))

    def __repr__(self) -> str:
        return f"<{self.type_name}, {self.size} bytes>"


class _Pickler(pickle.Pickler):
    """Pickles what a stand-in holds, for its size only."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, StandIn):
            return _rebuild, (value.arguments, value.state, value.items)
        return NotImplemented


def _rebuild(*_contents: Any) -> None:
    raise AssertionError("stand-ins are pickled for their size only")


def _dump_contents(value: StandIn) -> bytes:
    stream = io.BytesIO()
    try:
        _Pickler(stream, protocol=5).dump((value.arguments, value.state, value.items))
    except (pickle.PicklingError, TypeError, AttributeError):
        return repr((value.arguments, value.state)).encode()
    return stream.getvalue()


class _Unreadable(StandIn):
    """A whole object of which nothing can be read."""

    bytes_count: int = 0

    @property
    def size(self) -> int:
        """How many bytes it takes in the checkpoint."""
        return self.bytes_count


def _stand_in_class(module: str, name: str) -> type[StandIn]:
    return type(name.rpartition(".")[2], (StandIn,), {"type_name": f"{module}.{name}"})


def _attribute(owner: Any, name: str) -> Any:
    """Return an attribute; of a class that stands in, such as a member of an enum, a stand-in."""
    if isinstance(owner, type) and issubclass(owner, StandIn):
        return owner(name)
    return getattr(owner, name)


class _Unpickler(pickle.Unpickler):
    """Unpickles with stand-ins.

    Args:
        data: What was pickled.
        modules: In place of modules of those names.
        trusting: Whether the program's classes are used where they are there.
    """

    def __init__(self, data: bytes, modules: Modules, *, trusting: bool) -> None:
        super().__init__(io.BytesIO(data))
        self._modules = modules
        self._trusting = trusting
        self._made: dict[tuple[str, str], type[StandIn]] = {}

    def find_class(self, module: str, name: str) -> Any:
        """Return the class, or one that stands in."""
        if (module, name) == ("builtins", "getattr"):
            return _attribute
        if not self._trusting and module.partition(".")[0] not in _OURS:
            return self._stand_in(module, name)
        replaced = self._modules.get(module)
        try:
            return super().find_class(module, name) if replaced is None else _lookup(replaced, name)
        except (ImportError, AttributeError):
            return self._stand_in(module, name)

    def _stand_in(self, module: str, name: str) -> type[StandIn]:
        made = self._made.get((module, name))
        if made is None:
            made = self._made[module, name] = _stand_in_class(module, name)
        return made


def _lookup(module: ModuleType, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part)
    return found


def load_tolerantly(data: bytes, modules: Modules | None = None) -> Any:
    """Unpickle; what cannot be made is a `StandIn`, and never an error.

    Args:
        data: What was pickled.
        modules: In place of modules of those names.
    """
    for trusting in (True, False):
        try:
            return _Unpickler(data, modules or {}, trusting=trusting).load()
        except Exception:  # noqa: BLE001 - a user's class may raise anything when it is made
            continue
    unreadable = type("Unreadable", (_Unreadable,), {"type_name": "unreadable"})()
    unreadable.bytes_count = len(data)
    return unreadable


class TolerantStateFile(StateFileReader):
    """Reads a state file as `load_tolerantly` does.

    Args:
        data: Its contents, or where they are.
        where: Its place, for messages.
        modules: In place of modules of those names.
        strict: Whether classes that are missing are an error all the same.
    """

    def __init__(
        self, data: bytes | StoredFile, where: str, modules: Modules, *, strict: bool = False
    ) -> None:
        super().__init__(data, where)
        self._modules = modules
        self._strict = strict

    def _load(self, chunk: Chunk) -> Any:
        if self._strict:
            return self._load_strictly(chunk)
        content = load_tolerantly(self.raw(chunk), self._modules)
        return _in_place_of(chunk.kind, content) if isinstance(content, StandIn) else content

    def _load_strictly(self, chunk: Chunk) -> Any:
        try:
            return super()._load(chunk)
        except StateIncompatibleError as error:
            if not isinstance(error.__cause__, (ImportError, AttributeError)):
                raise
            raise StateIncompatibleError(
                f'state in "{self._where}" is of a class that is not here: {error.message}',
                hint="Import the program's modules, or give their directories as python_path.",
            ) from error


def _in_place_of(kind: ChunkKind, unreadable: StandIn) -> Any:
    """Return contents as they are of that kind, with what cannot be read as their only element."""
    if kind in (ChunkKind.KEYED, ChunkKind.ENTRIES):
        return {UNREADABLE: [(None, unreadable, unreadable)]}
    if kind in (ChunkKind.PATCH, ChunkKind.ENTRIES_PATCH):
        return KeyedStatePatch(changed={UNREADABLE: [(None, unreadable, unreadable)]})
    if kind in (ChunkKind.PATCHED, ChunkKind.ENTRIES_PATCHED, ChunkKind.TIMERS_PATCHED):
        return None
    if kind is ChunkKind.TIMERS:
        return TimerSnapshot(event=[(0, unreadable)])
    if kind is ChunkKind.TIMERS_PATCH:
        return TimersPatch(event=[(0, unreadable)])
    if kind is ChunkKind.OPERATOR:
        return OperatorStateSnapshot({UNREADABLE: OperatorStateMode.SPLIT}, {UNREADABLE: [unreadable]})
    return unreadable
