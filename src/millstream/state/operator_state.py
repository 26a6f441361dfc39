"""Operator state: lists and maps that belong to a subtask rather than to a key.

After a restore at another parallelism the elements of a list are dealt out anew, a union list is given whole
to every subtask, and a broadcast map too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.common.state import (
    BroadcastState,
    ListState,
    ListStateDescriptor,
    MapStateDescriptor,
    OperatorStateStore,
)
from millstream.state.kinds import check_descriptor, incompatible_state
from millstream.types.forms import TypeForm, describe_form, form_of, may_become

__all__ = ["OperatorStateBackend", "OperatorStateMode", "OperatorStateSnapshot", "redistribute"]


class OperatorStateMode(Enum):
    """How an operator state is dealt out at a restore; the value is how messages name it."""

    SPLIT = "list"
    UNION = "union list"
    BROADCAST = "broadcast"


@dataclass(slots=True)
class OperatorStateSnapshot:
    """Operator state of one subtask.

    Attributes:
        modes: How each state is dealt out, by name.
        lists: Elements of the lists, by name.
        maps: Broadcast maps, by name.
        types: Declared types, of the lists and maps as a whole, of the states that have one, by name.
    """

    modes: dict[str, OperatorStateMode] = field(default_factory=dict)
    lists: dict[str, list[Any]] = field(default_factory=dict)
    maps: dict[str, dict[Any, Any]] = field(default_factory=dict)
    types: dict[str, TypeForm] = field(default_factory=dict)

    def describe(self, name: str) -> str:
        """Return what a state is, for messages.

        >>> OperatorStateSnapshot({"n": OperatorStateMode.UNION}, types={"n": ["LIST", "LONG"]}).describe("n")
        'union list state of LIST<LONG>'
        """
        return _describe(self.modes[name], self.types.get(name))


def _describe(mode: OperatorStateMode, form: TypeForm | None) -> str:
    return f"{mode.value} state" + ("" if form is None else f" of {describe_form(form)}")


def redistribute(snapshots: Sequence[OperatorStateSnapshot], parallelism: int) -> list[OperatorStateSnapshot]:
    """Deal out the operator state of all old subtasks to the new ones.

    Lists: unchanged if parallelism is; otherwise all elements, in the order of the old subtasks, in runs of
    nearly equal length; the run that is one longer moves on from state to state. Union lists: everybody gets
    all. Broadcast maps: everybody gets one old subtask's, which all hold the same.

    Args:
        snapshots: Of the old subtasks, in order of their index.
        parallelism: Number of new subtasks.

    Returns:
        One for each new subtask.

    Raises:
        ConfigurationError: If the snapshots disagree on how a state is dealt out.

    Example:
        >>> old = OperatorStateSnapshot({"n": OperatorStateMode.SPLIT}, {"n": [1, 2, 3]})
        >>> [new.lists["n"] for new in redistribute([old], 2)]
        [[1, 2], [3]]
    """
    modes: dict[str, OperatorStateMode] = {}
    for snapshot in snapshots:
        for name, mode in snapshot.modes.items():
            if modes.setdefault(name, mode) is not mode:
                raise ConfigurationError(
                    f'operator state "{name}" was both {modes[name].value} and {mode.value} state'
                )
    types = {name: form for snapshot in snapshots for name, form in snapshot.types.items()}
    dealt = [OperatorStateSnapshot(dict(modes), types=dict(types)) for _ in range(parallelism)]
    first = 0
    for name, mode in sorted(modes.items()):
        if mode is OperatorStateMode.BROADCAST:
            _deal_map(name, snapshots, dealt)
        elif mode is OperatorStateMode.UNION:
            union = [element for snapshot in snapshots for element in snapshot.lists.get(name, [])]
            for new in dealt:
                new.lists[name] = list(union)
        elif parallelism == len(snapshots):
            for old, new in zip(snapshots, dealt, strict=True):
                new.lists[name] = list(old.lists.get(name, []))
        else:
            first = _deal_list(name, snapshots, dealt, first)
    return dealt


def _deal_map(
    name: str, snapshots: Sequence[OperatorStateSnapshot], dealt: list[OperatorStateSnapshot]
) -> None:
    holders = [snapshot.maps[name] for snapshot in snapshots if name in snapshot.maps]
    for index, new in enumerate(dealt):
        new.maps[name] = dict(holders[index % len(holders)])


def _deal_list(
    name: str, snapshots: Sequence[OperatorStateSnapshot], dealt: list[OperatorStateSnapshot], first: int
) -> int:
    """Deal out one list; returns who gets the next state's longer run."""
    elements = [element for snapshot in snapshots for element in snapshot.lists.get(name, [])]
    short, longer = divmod(len(elements), len(dealt))
    start = 0
    for turn in range(len(dealt)):
        end = start + short + (1 if turn < longer else 0)
        dealt[(first + turn) % len(dealt)].lists[name] = elements[start:end]
        start = end
    return (first + longer) % len(dealt)


class OperatorStateBackend(OperatorStateStore):
    """Operator state of one operator in one subtask; the subtask's thread calls it.

    Attributes:
        restored_checkpoint_id: The checkpoint that it was restored from; None if it began empty.
        uid: The operator's uid, for messages; None if it has none.

    Args:
        operator: The operator's name, for messages.
    """

    uid: str | None = None

    def __init__(self, operator: str = "") -> None:
        self.operator = operator
        self.restored_checkpoint_id: int | None = None
        self._modes: dict[str, OperatorStateMode] = {}
        self._lists: dict[str, list[Any]] = {}
        self._maps: dict[str, dict[Any, Any]] = {}
        self._types: dict[str, TypeForm] = {}
        self._restored: set[str] = set()
        self._before_snapshot: list[Callable[[int, int], None]] = []
        self._after_completion: list[Callable[[int], None]] = []

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return the list of that name; elements are dealt out anew after rescaling.

        Raises:
            ConfigurationError: If it is no ListStateDescriptor, has a time to live, or the name is taken by
                another kind.
        """
        return self._list(state_descriptor, OperatorStateMode.SPLIT, "get_list_state")

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return the list of that name; after a restore it holds the elements of all subtasks.

        Raises:
            ConfigurationError: As `get_list_state`.
        """
        return self._list(state_descriptor, OperatorStateMode.UNION, "get_union_list_state")

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Return the map of that name, of which every subtask holds the same.

        Raises:
            ConfigurationError: If it is no MapStateDescriptor, has a time to live, or the name is taken by
                another kind.
        """
        check_descriptor(state_descriptor, MapStateDescriptor, "get_broadcast_state", self.operator)
        self._register(state_descriptor, OperatorStateMode.BROADCAST)
        return _BroadcastState(self._maps.setdefault(state_descriptor.name, {}))

    def broadcast_entries(self, name: str) -> dict[Any, Any]:
        """Return what is in a broadcast state that was asked for: the same dict for as long as the operator lives."""
        return self._maps[name]

    def on_snapshot(self, action: Callable[[int, int], None]) -> None:
        """Have `action(checkpoint_id, timestamp_ms)` called before each snapshot."""
        self._before_snapshot.append(action)

    def prepare_snapshot(self, checkpoint_id: int, timestamp_ms: int) -> None:
        """Let functions put what they hold into their state; called when a checkpoint ends an epoch."""
        for action in self._before_snapshot:
            action(checkpoint_id, timestamp_ms)

    def on_complete(self, action: Callable[[int], None]) -> None:
        """Have `action(checkpoint_id)` called when a checkpoint is complete."""
        self._after_completion.append(action)

    def notify_complete(self, checkpoint_id: int) -> None:
        """Tell functions that a checkpoint is complete: it will be there after a failure."""
        for action in self._after_completion:
            action(checkpoint_id)

    def snapshot(self) -> OperatorStateSnapshot:
        """Return all that is there; elements are the live objects, so pickle it before the next record."""
        return OperatorStateSnapshot(
            dict(self._modes),
            {name: list(elements) for name, elements in self._lists.items()},
            {name: dict(mapping) for name, mapping in self._maps.items()},
            dict(self._types),
        )

    def restore(self, snapshot: OperatorStateSnapshot, *, checkpoint_id: int | None = None) -> None:
        """Take over what `redistribute` gave this subtask; called before functions are opened.

        Args:
            snapshot: What the subtask gets; added to what is there.
            checkpoint_id: The checkpoint that it comes from.
        """
        self.restored_checkpoint_id = checkpoint_id
        self._modes.update(snapshot.modes)
        self._types.update(snapshot.types)
        self._restored.update(snapshot.modes)
        for name, elements in snapshot.lists.items():
            self._lists.setdefault(name, []).extend(elements)
        for name, mapping in snapshot.maps.items():
            self._maps.setdefault(name, {}).update(mapping)

    def _list(self, descriptor: ListStateDescriptor, mode: OperatorStateMode, getter: str) -> ListState[Any]:
        check_descriptor(descriptor, ListStateDescriptor, getter, self.operator)
        self._register(descriptor, mode)
        return _OperatorListState(self._lists.setdefault(descriptor.name, []))

    def _register(
        self, descriptor: ListStateDescriptor | MapStateDescriptor, mode: OperatorStateMode
    ) -> None:
        if descriptor.ttl_config is not None:
            raise ConfigurationError(
                f'operator state "{descriptor.name}" of operator "{self.operator}" has a time to live',
                detail="Only keyed state expires.",
            )
        name = descriptor.name
        known = self._modes.setdefault(name, mode)
        before, form = self._types.get(name), form_of(descriptor.type_info)
        if name in self._restored and (known is not mode or not may_become(before, form)):
            old, new = _describe(known, before), _describe(mode, form)
            raise incompatible_state(name, self.operator, self.uid, old=old, new=new)
        if known is not mode:
            raise ConfigurationError(
                f'operator state "{name}" of operator "{self.operator}" is {known.value} state and '
                f"was asked for as {mode.value} state",
                hint="Give each state of an operator a name of its own.",
            )
        if form is None:
            self._types.pop(name, None)
        else:
            self._types[name] = form


class _OperatorListState(ListState[Any]):
    def __init__(self, elements: list[Any]) -> None:
        self._elements = elements

    def get(self) -> list[Any]:
        return self._elements.copy()

    def add(self, value: Any) -> None:
        self._elements.append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        self._elements.extend(values)

    def update(self, values: Iterable[Any]) -> None:
        self._elements[:] = list(values)

    def clear(self) -> None:
        self._elements.clear()


class _BroadcastState(BroadcastState[Any, Any]):
    def __init__(self, mapping: dict[Any, Any]) -> None:
        self._mapping = mapping

    def get(self, key: Any) -> Any:
        return self._mapping.get(key)

    def contains(self, key: Any) -> bool:
        return key in self._mapping

    def items(self) -> list[tuple[Any, Any]]:
        return list(self._mapping.items())

    def keys(self) -> list[Any]:
        return list(self._mapping)

    def values(self) -> list[Any]:
        return list(self._mapping.values())

    def is_empty(self) -> bool:
        return not self._mapping

    def put(self, key: Any, value: Any) -> None:
        self._mapping[key] = value

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        self._mapping.update(dict_value)

    def remove(self, key: Any) -> None:
        self._mapping.pop(key, None)

    def clear(self) -> None:
        self._mapping.clear()
