"""Finds the variables of a user's functions that a restart loses, and that wrong results come from.

What a function keeps in itself (`self.count`, a variable of an enclosing function, a global of the program) lives as
long as its slot. Not each such variable matters, a cache may be empty again. So what is only suspected is not told::

    attempt 0        opened: count = 0     checkpoint 3: count = 7     lost
    attempt 1        opened from 3: count = 0, and not 7               suspected

    the same seed once more, with count = 7 put back: results are right       told

The scenario is replayed with the suspects put back, and they are left out one by one while results stay right.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

from millstream.common.functions import Function
from millstream.runtime.slot.tasks import SlotTasks
from millstream.types.row import Row

__all__ = ["Members", "Variable", "find_culprits"]

_DEEPEST = 4
_MOST_SUSPECTS = 8
_PLAIN = (
    int,
    float,
    complex,
    str,
    bytes,
    bytearray,
    bool,
    type(None),
    Decimal,
    date,
    datetime,
    time,
    timedelta,
    Enum,
)


@dataclass(frozen=True, slots=True, order=True)
class Variable:
    """Something in which a function keeps what it knows.

    Attributes:
        operator: Name of the operator.
        holder: Class of the function, or name of a plain one.
        name: Of the variable.
        kind: What it is: "attribute", "variable" of an enclosing function, or "global".
    """

    operator: str
    holder: str
    name: str
    kind: str

    def __str__(self) -> str:
        of = (
            f'"{self.holder}.{self.name}"'
            if self.kind == "attribute"
            else f'"{self.name}" of "{self.holder}"'
        )
        return f'{self.kind} {of} in operator "{self.operator}"'


@dataclass(frozen=True, slots=True)
class _Place:
    variable: Variable
    get: Callable[[], Any]
    set: Callable[[Any], None]


_Key = tuple[Variable, int]


class Members:
    """What the functions of one simulated run keep in themselves.

    Args:
        put_back: Variables that get back what they had at the checkpoint an attempt begins from.

    Attributes:
        suspects: Variables that had changed at a checkpoint and were not as then when an attempt began from it.
    """

    def __init__(self, put_back: Set[Variable] = frozenset()) -> None:
        self._put_back = put_back
        self._opened: dict[_Key, Any] = {}
        self._saved: dict[tuple[str, int], dict[_Key, Any]] = {}
        self.suspects: set[Variable] = set()

    def opened(self, slots: Sequence[SlotTasks], restored: tuple[str, int] | None) -> None:
        """Look at functions that were opened.

        Args:
            slots: All slots.
            restored: Location and id of the checkpoint that they begin from; None without one.
        """
        places = dict(_places(slots))
        if restored is None:
            self._opened = _values(places)
            return
        saved = self._saved.get(restored, {})
        for key, place in places.items():
            if key not in saved or _equal(saved[key], place.get()):
                continue
            if key in self._opened and _equal(saved[key], self._opened[key]):
                continue  # it had not changed
            self.suspects.add(place.variable)
            if place.variable in self._put_back:
                place.set(copy.deepcopy(saved[key]))

    def checkpoint(self, slots: Sequence[SlotTasks], taken: tuple[str, int]) -> None:
        """Remember what functions have when a checkpoint is taken: its location and id."""
        self._saved[taken] = _values(dict(_places(slots)))


def find_culprits(
    suspects: Set[Variable], is_right_with: Callable[[Set[Variable]], bool]
) -> tuple[Variable, ...]:
    """Return the fewest suspects that make results right when they are put back; none if all together do not.

    Args:
        suspects: What may be to blame.
        is_right_with: Replays the run with variables put back.
    """
    if not suspects or len(suspects) > _MOST_SUSPECTS or not is_right_with(suspects):
        return ()
    culprits = set(suspects)
    for each in sorted(suspects):
        if len(culprits) > 1 and is_right_with(culprits - {each}):
            culprits.discard(each)
    return tuple(sorted(culprits))


def _values(places: dict[_Key, _Place]) -> dict[_Key, Any]:
    return {key: copy.deepcopy(place.get()) for key, place in places.items()}


def _places(slots: Sequence[SlotTasks]) -> Iterator[tuple[_Key, _Place]]:
    """Return the variables with plain values of all functions in all slots."""
    for tasks in slots:
        for subtask in tasks._subtasks():
            for node, operator in subtask.operators:
                seen: set[int] = set()
                for found in _user_objects(operator, seen, 0):
                    for place in _variables(node.name, found):
                        if _is_plain(place.get(), 0):
                            yield (place.variable, tasks.slot), place


def _user_objects(value: Any, seen: set[int], depth: int) -> Iterator[Any]:
    """Return the functions, plain ones too, that an operator has."""
    if id(value) in seen or depth > _DEEPEST:
        return
    seen.add(id(value))
    if isinstance(value, MethodType):
        yield from _user_objects(value.__self__, seen, depth)
    elif _is_users_function(value):
        yield value
    else:
        for each in _inside(value):
            yield from _user_objects(each, seen, depth + 1)


def _is_users_function(value: Any) -> bool:
    if isinstance(value, FunctionType):
        return _is_of_user(value.__module__)
    return isinstance(value, Function) and _is_of_user(type(value).__module__)


def _inside(value: Any) -> Iterable[Any]:
    """Return what something of ours refers to."""
    if isinstance(value, FunctionType):
        return [_content(cell) for cell in value.__closure__ or ()]
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, partial):
        return [value.func, *value.args]
    if type(value).__module__.startswith(("millstream.operators", "millstream.common")):
        return [getattr(value, name) for name in _fields_of(value) if hasattr(value, name)]
    return ()


def _fields_of(value: Any) -> list[str]:
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return [*getattr(value, "__dict__", ()), *slots]


def _is_of_user(module: str | None) -> bool:
    return (
        module is not None and not module.startswith(("millstream.", "cloudpickle")) and module != "functools"
    )


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None


def _variables(operator: str, found: Any) -> Iterator[_Place]:
    if not isinstance(found, FunctionType):
        holder = type(found).__qualname__
        for name in list(vars(found)):
            variable = Variable(operator, holder, name, "attribute")
            yield _Place(variable, partial(getattr, found, name, None), partial(setattr, found, name))
        return
    holder = found.__qualname__
    for name, cell in zip(found.__code__.co_freevars, found.__closure__ or (), strict=True):
        variable = Variable(operator, holder, name, "variable")
        yield _Place(variable, partial(_content, cell), partial(setattr, cell, "cell_contents"))
    namespace = found.__globals__
    for name in sorted(set(_names(found.__code__)) & namespace.keys()):
        variable = Variable(operator, holder, name, "global")
        yield _Place(variable, partial(namespace.get, name), partial(namespace.__setitem__, name))


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_plain(value: Any, depth: int) -> bool:
    """Return whether a value is data, which can be copied and compared."""
    if isinstance(value, _PLAIN):
        return True
    if depth > _DEEPEST:
        return False
    if isinstance(value, dict):
        return all(_is_plain(key, depth + 1) and _is_plain(each, depth + 1) for key, each in value.items())
    if isinstance(value, (list, tuple, set, frozenset, deque, Row)):
        return all(_is_plain(each, depth + 1) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        return all(_is_plain(getattr(value, each.name, None), depth + 1) for each in fields(value))
    return False


def _equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)
