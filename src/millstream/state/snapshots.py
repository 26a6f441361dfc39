"""What a keyed backend gives at a checkpoint and takes at a restore: entries and timers by key group.

The form is the same for every backend, so a snapshot of one can be restored into another, and ranges of key
groups can be put together as parallelism demands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from millstream.state.kinds import StateSchema
from millstream.state.timers import TimerQueue

__all__ = ["KeyedStatePatch", "KeyedStateSnapshot", "TimerSnapshot"]


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


@dataclass(slots=True)
class KeyedStatePatch:
    """What changed in keyed state since a checkpoint, for one key group.

    Attributes:
        entries: State name -> [(key, entry)]: set anew.
        removed: State name -> [key]: gone.
    """

    entries: dict[str, list[tuple[Any, Any]]] = field(default_factory=dict)
    removed: dict[str, list[Any]] = field(default_factory=dict)

    def apply(self, states: dict[str, dict[tuple[Any, Any], Any]]) -> None:
        """Change entries, by state name and by (namespace, key), as they were before into what they are."""
        for name, gone in self.removed.items():
            held = states.get(name, {})
            for key in gone:
                held.pop((None, key), None)
        for name, entries in self.entries.items():
            states.setdefault(name, {}).update(((None, key), entry) for key, entry in entries)
