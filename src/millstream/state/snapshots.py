"""What a keyed backend gives at a checkpoint and takes at a restore: entries and timers by key group.

The form is the same for every backend, so a snapshot of one can be restored into another, and ranges of key
groups can be put together as parallelism demands. What operators themselves keep by key has this form too.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any, Self

from millstream.state.key_groups import key_group
from millstream.state.kinds import StateSchema
from millstream.state.timers import TimerQueue

__all__ = [
    "Entries",
    "EntriesByGroup",
    "GroupMemo",
    "KeyedStatePatch",
    "KeyedStateSnapshot",
    "Merged",
    "PackedEntries",
    "StateChanges",
    "States",
    "TimerSnapshot",
    "TimersPatch",
    "patch_packed",
]


@dataclass(slots=True)
class TimerSnapshot:
    """Timers of one key group.

    Attributes:
        event: (timestamp in epoch milliseconds, key), by timestamp, then by registration.
        processing: The same in processing time.
    """

    event: list[tuple[int, Any]] = field(default_factory=list)
    processing: list[tuple[int, Any]] = field(default_factory=list)

    def restore(self, event_timers: TimerQueue, processing_timers: TimerQueue) -> None:
        """Register them again."""
        for timestamp_ms, key in self.event:
            event_timers.register(timestamp_ms, key)
        for timestamp_ms, key in self.processing:
            processing_timers.register(timestamp_ms, key)


@dataclass(slots=True)
class TimersPatch:
    """What changed in the timers of one key group since a checkpoint.

    Attributes:
        event_gone: (timestamp, key) that fired, or were deleted.
        event: (timestamp, key) that were registered, in that order.
        processing_gone: The same in processing time.
        processing: The same in processing time.
    """

    event_gone: list[tuple[int, Any]] = field(default_factory=list)
    event: list[tuple[int, Any]] = field(default_factory=list)
    processing_gone: list[tuple[int, Any]] = field(default_factory=list)
    processing: list[tuple[int, Any]] = field(default_factory=list)

    def of(self, *, event_time: bool, gone: bool) -> list[tuple[int, Any]]:
        """Return one of the lists."""
        if event_time:
            return self.event_gone if gone else self.event
        return self.processing_gone if gone else self.processing

    def apply(self, timers: TimerSnapshot) -> TimerSnapshot:
        """Return the timers as they are, from what they were before."""
        return TimerSnapshot(
            _changed(timers.event, self.event_gone, self.event),
            _changed(timers.processing, self.processing_gone, self.processing),
        )


def _changed(
    before: list[tuple[int, Any]], gone: list[tuple[int, Any]], registered: list[tuple[int, Any]]
) -> list[tuple[int, Any]]:
    kept = dict.fromkeys(before)
    for timer in gone:
        kept.pop(timer, None)
    for timer in registered:  # one that was there, and was deleted in between, is the last again
        kept.pop(timer, None)
        kept[timer] = None
    return sorted(kept, key=itemgetter(0))


@dataclass(slots=True)
class KeyedStateSnapshot:
    """State of one keyed operator in one subtask, or of some of its key groups.

    Attributes:
        schemas: Kinds of the states, by name.
        groups: Key group -> state name -> [(namespace, key, entry)]; an entry is a value, a list or a dict,
            with state that expires each value is a pair (last access, value).
        timers: Timers by key group.
    """

    schemas: dict[str, StateSchema]
    groups: dict[int, dict[str, list[tuple[Any, Any, Any]]]] = field(default_factory=dict)
    timers: dict[int, TimerSnapshot] = field(default_factory=dict)

    def add(self, group: int, name: str, namespace: Any, key: Any, entry: Any) -> None:
        """Add what a key has in one state."""
        self.groups.setdefault(group, {}).setdefault(name, []).append((namespace, key, entry))


class GroupMemo(dict[Any, int]):
    """Key groups of the keys of one snapshot: states share most keys.

    Args:
        max_parallelism: Number of key groups.
    """

    def __init__(self, max_parallelism: int) -> None:
        super().__init__()
        self._max_parallelism = max_parallelism

    def __missing__(self, key: Any) -> int:
        group = self[key] = key_group(key, self._max_parallelism)
        return group


Entries = list[tuple[Any, Any, Any]]
"""(namespace, key, entry)."""

States = dict[str, Entries]
"""Entries of one key group, by state name."""

_GATHERED = 1 << 18
"""Each time that so many are given, who restores some key groups reads one more range of the file."""


class EntriesByGroup:
    """Sorts entries by key group, some hundred thousand at a time: all of them would be as many tuples more.

    Args:
        max_parallelism: Number of key groups.
        remembers: Whether keys come again, under other names or namespaces.
    """

    def __init__(self, max_parallelism: int, *, remembers: bool = True) -> None:
        self._group_of: Callable[[Any], int] = (
            GroupMemo(max_parallelism).__getitem__
            if remembers
            else partial(key_group, max_parallelism=max_parallelism)
        )
        self._groups: dict[int, States] = {}
        self._gathered = 0

    def add_all(
        self, name: str, namespace: Any, held: Iterable[tuple[Any, Any]]
    ) -> Iterator[tuple[int, States]]:
        """Add (key, entry) of one state and namespace; yield (key group, entries by state) of what is complete.

        Args:
            name: The state's.
            namespace: The namespace.
            held: What there is. It is gone through as the result is.
        """
        group_of = self._group_of
        lists: dict[int, Entries] = {}
        for key, entry in held:
            group = group_of(key)
            entries = lists.get(group)
            if entries is None:
                entries = lists[group] = self._groups.setdefault(group, {}).setdefault(name, [])
            entries.append((namespace, key, entry))
            self._gathered += 1
            if self._gathered >= _GATHERED:
                yield from self.rest()
                lists = {}

    def rest(self) -> Iterator[tuple[int, States]]:
        """Yield what has been added and not been given yet, by key group."""
        groups, self._groups, self._gathered = self._groups, {}, 0
        for group in sorted(groups):
            yield group, groups.pop(group)


class PackedEntries(Sequence[tuple[Any, Any, Any]]):
    """Entries of one state that are made one by one only if somebody wants them so."""

    @abstractmethod
    def patched(self, whole: Sequence[Self], patches: Sequence[tuple[Sequence[Any], Sequence[Self]]]) -> Self:
        """Return what entries of this kind become.

        Args:
            whole: What there was; no key is in two of them.
            patches: One after the other: keys that are gone, and entries that are set anew.
        """


Merged = dict[str, dict[Any, dict[Any, Any]]]
"""Entries of one key group while patches are applied: state name -> namespace -> key -> entry."""


@dataclass(slots=True)
class KeyedStatePatch:
    """What changed in contents by key since a checkpoint, for one key group.

    Attributes:
        changed: State name -> [(namespace, key, entry)]: set anew.
        removed: State name -> [(namespace, key)]: gone.
        cleared: State name -> [key]: everything that they had, in every namespace, goes before anything is set.
    """

    changed: dict[str, Entries] = field(default_factory=dict)
    removed: dict[str, list[tuple[Any, Any]]] = field(default_factory=dict)
    cleared: dict[str, list[Any]] = field(default_factory=dict)

    def apply(self, states: Merged) -> None:
        """Change entries as they were before into what they are."""
        for name, keys in self.cleared.items():
            gone = set(keys)
            for held in states.get(name, {}).values():
                for key in gone if len(gone) < len(held) else [key for key in held if key in gone]:
                    held.pop(key, None)
        for name, places in self.removed.items():
            namespaces = states.get(name, {})
            for namespace, key in places:
                namespaces.get(namespace, {}).pop(key, None)
        for name, entries in self.changed.items():
            namespaces = states.setdefault(name, {})
            for namespace, key, entry in entries:
                namespaces.setdefault(namespace, {})[key] = entry


def patch_packed(whole: Sequence[States], patches: Sequence[KeyedStatePatch]) -> States | None:
    """Return what entries of one key group become without making them; None if not all of them are packed.

    Args:
        whole: What there was.
        patches: What changed, in order.
    """
    names = dict.fromkeys(name for part in (*whole, *(patch.changed for patch in patches)) for name in part)
    states: dict[str, Any] = {}
    for name in names:
        parts = [part[name] for part in whole if name in part]
        changes = [
            (
                [key for _, key in patch.removed.get(name, ())],
                [patch.changed[name]] if name in patch.changed else [],
            )
            for patch in patches
        ]
        every = [*parts, *(entries for _, set_anew in changes for entries in set_anew)]
        if not all(isinstance(each, PackedEntries) for each in every):
            return None
        if any(patch.cleared for patch in patches):
            return None
        first: Any = every[0]
        states[name] = first.patched(parts, changes)
    return states


class StateChanges:
    """What changed in contents by key since a checkpoint.

    Args:
        max_parallelism: Number of key groups.

    Attributes:
        patches: By key group.
        dropped: State name -> namespaces that are gone with all that was in them, before anything is set anew.
    """

    def __init__(self, max_parallelism: int) -> None:
        self.patches: dict[int, KeyedStatePatch] = {}
        self.dropped: dict[str, list[Any]] = {}
        self._groups = GroupMemo(max_parallelism)

    def put(self, name: str, namespace: Any, key: Any, entry: Any) -> None:
        """Add what a key has now."""
        self._patch(key).changed.setdefault(name, []).append((namespace, key, entry))

    def remove(self, name: str, namespace: Any, key: Any) -> None:
        """Add that a key has nothing any more in a namespace."""
        self._patch(key).removed.setdefault(name, []).append((namespace, key))

    def clear(self, name: str, key: Any) -> None:
        """Add that a key has nothing any more but what is put."""
        self._patch(key).cleared.setdefault(name, []).append(key)

    def _patch(self, key: Any) -> KeyedStatePatch:
        group = self._groups[key]
        patch = self.patches.get(group)
        if patch is None:
            patch = self.patches[group] = KeyedStatePatch()
        return patch
