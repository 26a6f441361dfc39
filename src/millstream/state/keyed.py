"""Keyed state: what operators see of a backend, and what all backends have in common.

The backends (`millstream.state.heap`, `millstream.state.disk`) give raw states of three kinds - value, list, map - and
everything else is built from them here: reducing and aggregating states fold into a value
(`millstream.state.folding`), state with a time to live wraps its entries with their last access
(`millstream.state.ttl`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass, replace
from typing import Any, cast

from millstream.base.errors import ConfigurationError
from millstream.common.state import (
    AggregatingStateDescriptor,
    ListState,
    MapState,
    MergingState,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueState,
)
from millstream.state.folding import FoldingAggregatingState, FoldingReducingState
from millstream.state.key_groups import key_group
from millstream.state.keys import canonical_key
from millstream.state.kinds import NO_KEY, StateKind, StateSchema, incompatible_state, kind_of
from millstream.state.snapshots import (
    GroupMemo,
    KeyedStateSnapshot,
    StateChanges,
    States,
    TimerSnapshot,
    TimersPatch,
)
from millstream.state.timers import TimerQueue
from millstream.state.touched import TouchedKeys
from millstream.state.ttl import (
    ProcessingTime,
    Sweeper,
    TimeToLive,
    TtlListState,
    TtlMapState,
    TtlValueState,
    drop_expired,
)
from millstream.types.forms import form_of, may_become

__all__ = ["NO_KEY", "DiskSpace", "KeyedStateBackend"]


class _StandingClock:
    """Processing time of a backend that was given none: state with a time to live then never expires."""

    now_ms = 0


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """Where an operator may put what it keeps.

    Attributes:
        directory: Removed with the backend.
        cache_bytes: How much it may keep in memory, about.
    """

    directory: str
    cache_bytes: int


class KeyedStateBackend(ABC):
    """State and timers of one keyed operator in one subtask; the subtask's thread calls it.

    Attributes:
        current_key: The key that state objects act on, in its canonical form; hot loops set it directly.
        event_timers: Event-time timers by key.
        processing_timers: Processing-time timers by key.
        tracking: Whether checkpoints may write what changed only, so that it has to be known.
        touched: Keys used since the last checkpoint, where the operator tells (see `track`); None where it need not.
        disk: Where operators may put what they keep themselves, if state is larger than memory; None if it is not.
        timer_key: Gives the key that a timer belongs to, for timers of more than a key (a key and a window).
        uid: The operator's uid, for messages; None if it has none.

    Args:
        operator: The operator's name, for messages.
        time: Processing time, for time to live.
        max_parallelism: Number of key groups.
        tracking: Whether to learn what changes between checkpoints.
    """

    current_key: Any
    event_timers: TimerQueue
    processing_timers: TimerQueue
    touched: TouchedKeys | None = None
    disk: DiskSpace | None = None
    uid: str | None = None

    def __init__(
        self,
        *,
        operator: str = "",
        time: ProcessingTime | None = None,
        max_parallelism: int = 128,
        tracking: bool = False,
    ) -> None:
        self.operator = operator
        self.tracking = tracking
        self.current_key = NO_KEY
        self.event_timers = TimerQueue(tracking=tracking)
        self.processing_timers = TimerQueue(tracking=tracking)
        self.timer_key: Callable[[Any], Any] = _itself
        self._time: ProcessingTime = time or _StandingClock()
        self._max_parallelism = max_parallelism
        self._schemas: dict[str, StateSchema] = {}
        self._lives: dict[str, TimeToLive] = {}
        self._restored: set[str] = set()
        # Types by name as descriptors have them: states are asked for again and again, also for each record.
        self._declared: dict[str, Any] = {}

    def set_current_key(self, key: Any) -> None:
        """Choose the key that state objects act on, as the user has it or canonical."""
        self.current_key = key if key is NO_KEY else canonical_key(key)

    def get_state(self, descriptor: StateDescriptor, namespace: Any = None) -> Any:
        """Return the state that a descriptor of any kind describes.

        Args:
            descriptor: Its name is the state's; the same name gives the same contents.
            namespace: Scope within the key, such as a window; hashable. None for the key as a whole.

        Returns:
            A ValueState, ListState, MapState, ReducingState or AggregatingState.

        Raises:
            ConfigurationError: If it describes no kind of state, or the name is taken by another kind.
            StateIncompatibleError: If the state was restored and is of another kind, or of a type that does not
                become the declared one.
        """
        kind = kind_of(descriptor, self.operator)
        timed = descriptor.ttl_config is not None
        self._register(descriptor.name, StateSchema(kind, timed=timed))
        if self._declared.get(descriptor.name, self) is not descriptor.type_info:
            self._declare(descriptor)
        life = self._life(descriptor) if timed else None
        if kind is StateKind.LIST:
            elements = self._list_state(descriptor.name, namespace)
            return elements if life is None else TtlListState(elements, life)
        if kind is StateKind.MAP:
            entries = self._map_state(descriptor.name, namespace)
            return entries if life is None else TtlMapState(entries, life)
        value = self._value_state(descriptor.name, namespace)
        if life is not None:
            value = TtlValueState(value, life)
        if kind is StateKind.REDUCING:
            return FoldingReducingState(value, cast(ReducingStateDescriptor, descriptor))
        if kind is StateKind.AGGREGATING:
            return FoldingAggregatingState(value, cast(AggregatingStateDescriptor, descriptor))
        return value

    def merge_namespaces(self, descriptor: StateDescriptor, target: Any, sources: Iterable[Any]) -> None:
        """Move the current key's contents of some namespaces into another, as when sessions merge.

        Args:
            descriptor: Of a list, reducing or aggregating state.
            target: Namespace that gets everything.
            sources: Namespaces that are empty afterwards; `target` may be among them.

        Raises:
            ConfigurationError: If states of that kind cannot be merged.
        """
        into = self.get_state(descriptor, target)
        if not isinstance(into, MergingState):
            raise ConfigurationError(
                f'state "{descriptor.name}" of operator "{self.operator}" cannot be merged, it is '
                f"{self._schemas[descriptor.name].describe()}",
                hint="Use list, reducing or aggregating state where windows merge.",
            )
        for source in sources:
            if source != target:
                part = self.get_state(descriptor, source)
                if isinstance(into, ListState):
                    into.add_all(list(part.get()))
                else:
                    into.merge(part)  # type: ignore[attr-defined]
                part.clear()

    def states(self) -> list[str]:
        """Return the names of the states that were declared or restored."""
        return list(self._schemas)

    def look_up(self, name: str, key: Any, namespace: Any) -> Any:
        """Return what a key has in a state, as a program sees it; None if it has nothing, or what it has is expired.

        Nothing is changed: neither the state, nor the time of its last access, nor what the next checkpoint writes.

        Args:
            name: Of a state that is known, see `states`.
            key: The key.
            namespace: The window or the like; None for the key as a whole.
        """
        schema = self._schemas[name]
        entry = self._peek(schema, name, key, namespace)
        life = self._lives.get(name)
        if entry is not None and life is not None:
            entry = drop_expired(schema.kind, entry, life)
        if entry is None or not schema.timed:
            return entry
        if schema.kind is StateKind.LIST:
            return [value for _, value in entry]
        if schema.kind is StateKind.MAP:
            return {each: value for each, (_, value) in entry.items()}
        return entry[1]

    def _peek(self, schema: StateSchema, name: str, key: Any, namespace: Any) -> Any:
        """Return what is kept for a key."""
        before = self.current_key  # a function may be in the middle of a record
        self.set_current_key(key)
        try:
            if schema.kind is StateKind.LIST:
                return list(self._list_state(name, namespace).get()) or None
            if schema.kind is StateKind.MAP:
                return dict(self._map_state(name, namespace).items()) or None
            if schema.kind is StateKind.TABLE:
                return self.table(name).get(self.current_key)
            return self._value_state(name, namespace).value()
        finally:
            self.current_key = before

    @abstractmethod
    def table(self, name: str) -> MutableMapping[Any, Any]:
        """Return the values of a state by canonical key, as a mapping: for operators' own hot loops."""

    @abstractmethod
    def clear_namespace(self, namespace: Any, key: Any) -> None:
        """Remove all that `key` has under `namespace`."""

    @abstractmethod
    def snapshot(self, key_groups: range | None = None, *, timers: bool = True) -> KeyedStateSnapshot:
        """Return all state and timers, by key group.

        It may refer to the live objects: pickle it before the next record is processed.

        Args:
            key_groups: Only of these; None for all.
            timers: Whether with the timers.
        """

    def track(self, keys: TouchedKeys | None = None) -> None:
        """Learn that the operator adds every key to `touched` before it uses its state.

        A checkpoint then writes what those keys have, if the backend cannot tell by itself.

        Args:
            keys: The operator's own set, for `touched`; None for a new one.
        """

    def patch(self) -> StateChanges | None:
        """Return what changed since `forget_changes` was called; None if only a snapshot can tell.

        It may refer to the live objects, as a snapshot may.
        """
        return None

    def patch_timers(self) -> dict[int, TimersPatch] | None:
        """Return what changed in the timers since `forget_changes` was called; None if only a snapshot can tell."""
        event, processing = self.event_timers.changes(), self.processing_timers.changes()
        if event is None or processing is None:
            return None
        if not self.event_timers.count() + self.processing_timers.count():
            return None  # nothing is written then, which says it all
        groups = GroupMemo(self._max_parallelism)
        patches: defaultdict[int, TimersPatch] = defaultdict(TimersPatch)
        for (gone, new), event_time in ((event, True), (processing, False)):
            for timers, is_gone in ((gone, True), (new, False)):
                for timer in timers:
                    patch = patches[groups[self.timer_key(timer[1])]]
                    patch.of(event_time=event_time, gone=is_gone).append(timer)
        return patches

    def forget_changes(self) -> None:
        """Take the entries that there are as what is known: they have been given for a checkpoint."""

    def forget_timer_changes(self) -> None:
        """Take the timers that there are as what is known."""
        self.event_timers.forget_changes()
        self.processing_timers.forget_changes()

    @property
    def schemas(self) -> dict[str, StateSchema]:
        """Kinds of the states, by name."""
        return dict(self._schemas)

    @abstractmethod
    def keys(self, name: str) -> Iterator[tuple[Any, Any]]:
        """Yield (namespace, key) of all that have something in a state, as they are kept; some may be expired."""

    @abstractmethod
    def entries_by_group(self) -> Iterator[tuple[int, States]]:
        """Yield all entries, some at a time: (key group, entries by state); a group may come several times.

        They may refer to the live objects, as a snapshot may.
        """

    def timers_by_group(self) -> dict[int, TimerSnapshot]:
        """Return all timers, by key group."""
        return self._snapshot_timers(None)

    def restore(self, snapshot: KeyedStateSnapshot, key_groups: range | None = None) -> None:
        """Add what a snapshot holds; may be called several times, with snapshots of different keys.

        Args:
            snapshot: Made by any backend.
            key_groups: Take only these; None for all.

        Raises:
            ConfigurationError: If a state is there already with another kind.
        """
        for name, schema in snapshot.schemas.items():
            self._register(name, schema)
            self._restored.add(name)
        for group, states in snapshot.groups.items():
            if key_groups is None or group in key_groups:
                for name, entries in states.items():
                    self._restore_entries(name, entries)
        for group, timers in snapshot.timers.items():
            if key_groups is None or group in key_groups:
                timers.restore(self.event_timers, self.processing_timers)

    def end_epoch(self, *, checkpoint: bool) -> None:
        """Learn that an epoch ends; called after every operator ended it."""

    def close(self) -> None:
        """Release what is held outside of this process' memory; called once."""

    @abstractmethod
    def _value_state(self, name: str, namespace: Any) -> ValueState[Any]: ...

    @abstractmethod
    def _list_state(self, name: str, namespace: Any) -> ListState[Any]: ...

    @abstractmethod
    def _map_state(self, name: str, namespace: Any) -> MapState[Any, Any]: ...

    @abstractmethod
    def _restore_entries(self, name: str, entries: list[tuple[Any, Any, Any]]) -> None: ...

    def _sweeper(self, name: str, life: TimeToLive) -> Sweeper | None:
        """Return what removes expired entries a few at a time; None if the backend does so on its own."""
        return None

    def _life(self, descriptor: StateDescriptor) -> TimeToLive | None:
        config = descriptor.ttl_config
        if config is None:
            return None
        life = self._lives.get(descriptor.name)
        if life is None or not life.fits(config):
            life = self._lives[descriptor.name] = TimeToLive(config, self._time)
            life.sweeper = self._sweeper(descriptor.name, life)
        return life

    def _register(self, name: str, schema: StateSchema) -> None:
        known = self._schemas.setdefault(name, schema)
        if known is not schema and known != schema:
            if name in self._restored:
                raise incompatible_state(
                    name, self.operator, self.uid, old=known.describe(), new=schema.describe()
                )
            raise ConfigurationError(
                f'state "{name}" of operator "{self.operator}" is {known.describe()} and was asked for as '
                f"{schema.describe()}",
                hint="Give each state of an operator a name of its own, and keep its kind.",
            )

    def _declare(self, descriptor: StateDescriptor) -> None:
        """Take note of a state's declared type, which the next checkpoint tells."""
        name = descriptor.name
        known = self._schemas[name]
        declared = replace(known, type_form=form_of(descriptor.type_info))
        if name in self._restored and not may_become(known.type_form, declared.type_form):
            raise incompatible_state(
                name, self.operator, self.uid, old=known.describe(), new=declared.describe()
            )
        self._schemas[name] = declared
        self._declared[name] = descriptor.type_info

    def _group_of(self, key: Any) -> int:
        return key_group(key, self._max_parallelism)

    def _snapshot_timers(self, key_groups: range | None) -> dict[int, TimerSnapshot]:
        by_group: defaultdict[int, TimerSnapshot] = defaultdict(TimerSnapshot)
        groups = GroupMemo(self._max_parallelism)
        for event_time, queue in ((True, self.event_timers), (False, self.processing_timers)):
            for timestamp, keys in queue.snapshot():
                for key in keys:
                    group = groups[self.timer_key(key)]
                    if key_groups is None or group in key_groups:
                        timers = by_group[group]
                        (timers.event if event_time else timers.processing).append((timestamp, key))
        return by_group


def _itself(key: Any) -> Any:
    return key
