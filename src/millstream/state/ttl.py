"""Time to live: state whose entries carry the time of their last access.

A value is stored as `(last access, value)`, a list as a list of such pairs, a map as a dict of such pairs; so
these states wrap those of any backend, and state without a time to live pays nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from millstream.base.time import to_milliseconds
from millstream.common.state import ListState, MapState, StateTtlConfig, ValueState
from millstream.common.state_ttl import StateVisibility, UpdateType
from millstream.state.kinds import StateKind

__all__ = [
    "ProcessingTime",
    "Sweeper",
    "TimeToLive",
    "TtlListState",
    "TtlMapState",
    "TtlValueState",
    "drop_expired",
]


class ProcessingTime(Protocol):
    """Who knows the processing time of the epoch."""

    now_ms: int


class TimeToLive:
    """A configuration, ready to be asked.

    Attributes:
        config: What was configured.
        renew_on_read: Whether reading renews the last access.
        show_expired: Whether expired entries are shown until they are cleaned up.
        sweeper: Looks at a few entries with each access; None if nothing has to.
    """

    __slots__ = ("_length_ms", "_time", "config", "renew_on_read", "show_expired", "sweeper")

    def __init__(self, config: StateTtlConfig, time: ProcessingTime) -> None:
        self.config = config
        self.renew_on_read = config.get_update_type() is UpdateType.OnReadAndWrite
        self.show_expired = config.get_state_visibility() is StateVisibility.ReturnExpiredIfNotCleanedUp
        self.sweeper: Sweeper | None = None
        self._length_ms = to_milliseconds(config.get_ttl())
        self._time = time

    def fits(self, config: StateTtlConfig) -> bool:
        """Return whether a configuration, made anew perhaps, means the same."""
        return config is self.config or _terms(config) == _terms(self.config)

    def now_ms(self) -> int:
        """Return the processing time."""
        return self._time.now_ms

    def oldest_ms(self) -> int:
        """Return the last access, epoch milliseconds, up to which entries are expired now."""
        return self._time.now_ms - self._length_ms

    def sweep(self) -> None:
        """Clean up a few entries, if that is configured; called after each access."""
        if self.sweeper is not None:
            self.sweeper.step()


def _terms(config: StateTtlConfig) -> tuple[Any, ...]:
    return to_milliseconds(config.get_ttl()), config.get_update_type(), config.get_state_visibility()


def drop_expired(kind: StateKind, entry: Any, life: TimeToLive) -> Any:
    """Return what is left of a key's entry; None if nothing is."""
    oldest_ms = life.oldest_ms()
    if kind is StateKind.LIST:
        return [element for element in entry if element[0] > oldest_ms] or None
    if kind is StateKind.MAP:
        return {key: timed for key, timed in entry.items() if timed[0] > oldest_ms} or None
    return entry if entry[0] > oldest_ms else None


class Sweeper:
    """Goes round the keys of a state in memory, a few with each access, and removes what is expired.

    Args:
        tables: Namespace -> key -> entry.
        kind: What an entry is.
        life: Tells what is expired.
        size: Number of keys for each access.
    """

    def __init__(
        self, tables: dict[Any, dict[Any, Any]], kind: StateKind, life: TimeToLive, size: int
    ) -> None:
        self._tables = tables
        self._kind = kind
        self._life = life
        self._size = size
        self._round: list[tuple[Any, Any]] = []

    def step(self) -> None:
        """Look at the next few keys; a round begins with a list of the keys there are."""
        if not self._round:
            self._round = [(namespace, key) for namespace, table in self._tables.items() for key in table]
        for _ in range(min(self._size, len(self._round))):
            namespace, key = self._round.pop()
            table = self._tables.get(namespace)
            entry = None if table is None else table.get(key)
            if table is None or entry is None:
                continue
            kept = drop_expired(self._kind, entry, self._life)
            if kept is None:
                del table[key]
            elif kept is not entry and len(kept) < len(entry):
                table[key] = kept


class TtlValueState(ValueState[Any]):
    """A value that expires.

    Args:
        timed: Holds (last access, value).
        life: Its time to live.
    """

    __slots__ = ("_life", "_timed")

    def __init__(self, timed: ValueState[Any], life: TimeToLive) -> None:
        self._timed = timed
        self._life = life

    def value(self) -> Any:
        """Return the value; an expired one is removed, and shown this once if that is configured."""
        life, timed = self._life, self._timed
        entry = timed.value()
        if entry is None:
            return None
        if entry[0] <= life.oldest_ms():
            timed.clear()
            return entry[1] if life.show_expired else None
        if life.renew_on_read:
            timed.update((life.now_ms(), entry[1]))
        life.sweep()
        return entry[1]

    def peek(self) -> Any:
        """Return the value for a write that builds on it: neither renewed nor removed."""
        entry = self._timed.value()
        if entry is None or (not self._life.show_expired and entry[0] <= self._life.oldest_ms()):
            return None
        return entry[1]

    def update(self, value: Any) -> None:
        """Set the value; None clears it."""
        self._timed.update(None if value is None else (self._life.now_ms(), value))
        self._life.sweep()

    def clear(self) -> None:
        """Remove the value."""
        self._timed.clear()


class TtlListState(ListState[Any]):
    """A list whose elements expire one by one.

    Args:
        timed: Holds (last access, element).
        life: Their time to live.
    """

    __slots__ = ("_life", "_timed")

    def __init__(self, timed: ListState[Any], life: TimeToLive) -> None:
        self._timed = timed
        self._life = life

    def get(self) -> list[Any]:
        """Return the elements; the list is removed when all of them are expired."""
        life = self._life
        entries = list(self._timed.get())
        oldest_ms = life.oldest_ms()
        living = [entry for entry in entries if entry[0] > oldest_ms]
        if not living:
            if entries:
                self._timed.clear()
        elif life.renew_on_read:
            now_ms = life.now_ms()
            if len(living) < len(entries) or any(entry[0] < now_ms for entry in living):
                self._timed.update([(now_ms, entry[1]) for entry in living])
        elif len(living) < len(entries) and not life.show_expired:
            self._timed.update(living)
        life.sweep()
        return [entry[1] for entry in (entries if life.show_expired else living)]

    def add(self, value: Any) -> None:
        """Add an element."""
        self._timed.add((self._life.now_ms(), value))
        self._life.sweep()

    def add_all(self, values: Iterable[Any]) -> None:
        """Add elements."""
        now_ms = self._life.now_ms()
        self._timed.add_all([(now_ms, value) for value in values])
        self._life.sweep()

    def update(self, values: Iterable[Any]) -> None:
        """Replace all elements."""
        now_ms = self._life.now_ms()
        self._timed.update([(now_ms, value) for value in values])
        self._life.sweep()

    def clear(self) -> None:
        """Remove all elements."""
        self._timed.clear()


class TtlMapState(MapState[Any, Any]):
    """A map whose entries expire one by one.

    Args:
        timed: Holds key -> (last access, value).
        life: Their time to live.
    """

    __slots__ = ("_life", "_timed")

    def __init__(self, timed: MapState[Any, Any], life: TimeToLive) -> None:
        self._timed = timed
        self._life = life

    def get(self, key: Any) -> Any:
        """Return the value of `key`; an expired one is removed, and shown this once if that is configured."""
        entry = self._read(key, self._timed.get(key))
        self._life.sweep()
        return None if entry is None else entry[1]

    def put(self, key: Any, value: Any) -> None:
        """Set the value of `key`."""
        self._timed.put(key, (self._life.now_ms(), value))
        self._life.sweep()

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        """Set the values of all keys of a dict."""
        now_ms = self._life.now_ms()
        self._timed.put_all({key: (now_ms, value) for key, value in dict_value.items()})
        self._life.sweep()

    def remove(self, key: Any) -> None:
        """Remove `key`."""
        self._timed.remove(key)
        self._life.sweep()

    def contains(self, key: Any) -> bool:
        """Return whether `key` is there; counts as a read."""
        entry = self._read(key, self._timed.get(key))
        self._life.sweep()
        return entry is not None

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Return keys with their values; entries count as read when they are reached."""
        return self._walk(self._timed.items())

    def keys(self) -> Iterator[Any]:
        """Return the keys."""
        return (key for key, _ in self.items())

    def values(self) -> Iterator[Any]:
        """Return the values."""
        return (value for _, value in self.items())

    def is_empty(self) -> bool:
        """Return whether nothing would be shown; neither renews nor removes."""
        if self._life.show_expired:
            return self._timed.is_empty()
        oldest_ms = self._life.oldest_ms()
        return not any(entry[0] > oldest_ms for entry in self._timed.values())

    def clear(self) -> None:
        """Remove all entries."""
        self._timed.clear()

    def _walk(self, entries: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        for key, entry in entries:
            read = self._read(key, entry)
            if read is not None:
                yield key, read[1]

    def _read(self, key: Any, entry: Any) -> Any:
        if entry is None:
            return None
        if entry[0] <= self._life.oldest_ms():
            self._timed.remove(key)
            return entry if self._life.show_expired else None
        if self._life.renew_on_read and entry[0] < self._life.now_ms():
            self._timed.put(key, (self._life.now_ms(), entry[1]))
        return entry
