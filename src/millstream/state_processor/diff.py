"""What differs between two checkpoints or savepoints, by operator, state and key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from millstream.state.keys import canonical_key, original_key
from millstream.state_processor.reader import SavepointReader, StateInfo

__all__ = ["StateChange", "diff_states"]

_ABSENT: Any = object()
_BUILT_IN = frozenset({bool, bytes, dict, float, int, list, set, str, tuple})


@dataclass(frozen=True, slots=True)
class StateChange:
    """One difference.

    Attributes:
        operator: The operator's uid, or its id.
        state: The state's name; "timers" for timers.
        change: "added", "removed" or "changed".
        key: The key; for operator state the place in a list, or the key of a broadcast map.
        namespace: The window or the like.
        before: The value in the first; None if it was added.
        after: The value in the second; None if it was removed.

    Example:
        >>> import tempfile
        >>> from millstream.common.state import ValueStateDescriptor
        >>> from millstream.state_processor import KeyedBootstrap, SavepointReader, SavepointWriter, diff_states
        >>> def written(path, balance):
        ...     states = {"balance": (ValueStateDescriptor("balance"), "balance")}
        ...     rows = KeyedBootstrap([{"id": 1, "balance": balance}], "id", states)
        ...     return SavepointReader.read(SavepointWriter.new(128).with_operator("accounts", rows).write(path))
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     old, new = written(f"{directory}/old", 10), written(f"{directory}/new", 7)
        ...     for change in diff_states(old, new):
        ...         print(change.operator, change.state, change.key, change.change, change.before, change.after)
        accounts balance 1 changed 10 7
    """

    operator: str
    state: str
    change: str
    key: Any
    namespace: Any
    before: Any
    after: Any


def diff_states(
    before: SavepointReader, after: SavepointReader, uid: str | None = None
) -> Iterator[StateChange]:
    """Yield the differences, by operator and state.

    Operators are matched by their ids, which a uid keeps the same.

    Args:
        before: The first.
        after: The second.
        uid: Of one operator only; None for all.

    Raises:
        ConfigurationError: If neither has the operator.
    """
    if uid is None:
        ids = dict.fromkeys(each.operator_id for reader in (before, after) for each in reader.operators())
    else:
        holder = (
            after
            if any(uid in (each.uid, each.name, each.operator_id) for each in after.operators())
            else before
        )
        ids = dict.fromkeys([holder.operator(uid).operator_id])
    for operator_id in ids:
        yield from _diff_operator(before, after, operator_id)


def _diff_operator(
    before: SavepointReader, after: SavepointReader, operator_id: str
) -> Iterator[StateChange]:
    known = [
        each for reader in (after, before) for each in reader.operators() if each.operator_id == operator_id
    ]
    label = known[0].label
    old, new = _contents(before, operator_id), _contents(after, operator_id)
    for state in dict.fromkeys([*old, *new]):
        yield from _diff_entries(label, state, old.get(state, {}), new.get(state, {}))


def _diff_entries(
    label: str, state: str, old: dict[tuple[Any, Any], Any], new: dict[tuple[Any, Any], Any]
) -> Iterator[StateChange]:
    for (key, namespace), value in old.items():
        now = new.get((key, namespace), _ABSENT)
        if now is _ABSENT:
            yield StateChange(label, state, "removed", original_key(key), namespace, value, None)
        elif not _same(value, now):
            yield StateChange(label, state, "changed", original_key(key), namespace, value, now)
    for (key, namespace), value in new.items():
        if (key, namespace) not in old:
            yield StateChange(label, state, "added", original_key(key), namespace, None, value)


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are equal; of objects without an `==` of their own whether their attributes are."""
    if one == other:
        return True
    kind = type(one)
    if kind.__qualname__ != type(other).__qualname__ or kind.__dict__.get("__eq__") or kind in _BUILT_IN:
        return False
    return bool(getattr(one, "__dict__", _ABSENT) == getattr(other, "__dict__", None))


def _contents(reader: SavepointReader, operator_id: str) -> dict[str, dict[tuple[Any, Any], Any]]:
    """Return all state of an operator by name and by (key, namespace); empty if it is not there."""
    if all(each.operator_id != operator_id for each in reader.operators()):
        return {}
    contents: dict[str, dict[tuple[Any, Any], Any]] = {}
    for info in reader.states(operator_id):
        contents[info.name] = _entries(reader, operator_id, info)
    timers = {
        (
            canonical_key(timer.key),
            (timer.namespace, timer.timestamp_ms, "event" if timer.event_time else "processing"),
        ): True
        for timer in reader.timers(operator_id)
    }
    return {**contents, "timers": timers} if timers else contents


def _entries(reader: SavepointReader, operator_id: str, info: StateInfo) -> dict[tuple[Any, Any], Any]:
    if info.keys is not None:
        return {
            (canonical_key(key), namespace): value
            for key, namespace, value in reader.keyed_state(operator_id, info.name)
        }
    elements = reader.operator_state(operator_id, info.name).elements
    if isinstance(elements, dict):
        return {(key, None): value for key, value in elements.items()}
    return {(place, None): element for place, element in enumerate(elements)}
