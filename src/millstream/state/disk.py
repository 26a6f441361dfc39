"""Keyed state on disk: any size, behind a bounded cache of objects.

Keys on disk: key group | state | key | namespace | user key, all order-preserving, so a key's map is a range
and a key group too. Values are pickled when they are written: at a checkpoint, and when the cache is full.
Timers stay in memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from millstream.common.state import ListState, MapState, ValueState
from millstream.state.disk_store import DiskStore
from millstream.state.disk_tables import (
    ABSENT,
    Changes,
    DiskListTable,
    DiskMapTable,
    DiskTable,
    DiskValueTable,
    TableView,
)
from millstream.state.key_decoding import decode_key
from millstream.state.keyed import DiskSpace, KeyedStateBackend
from millstream.state.kinds import NO_KEY, StateKind, StateSchema, no_key_error
from millstream.state.records import RecordCodec
from millstream.state.snapshots import KeyedStateSnapshot, StateChanges, States
from millstream.state.touched import pays
from millstream.state.ttl import ProcessingTime, drop_expired

__all__ = ["DiskKeyedStateBackend"]

_SWEPT_RECORDS = 4_096
_READ_ENTRIES = 8_192
_GROUP_BYTES = 2
_HEAD_BYTES = 4
_TABLE_SCHEMA = StateSchema(StateKind.TABLE)


class DiskKeyedStateBackend(KeyedStateBackend):
    """State in an LMDB environment of its own.

    What `update` and `put` were given is written later: an object that is changed in place afterwards, without
    another `update`, may or may not be written with the change, as with Flink's RocksDB.

    Args:
        directory: Exists and is empty; removed by `close`.
        cache_bytes: Memory for objects used lately, about.
        operator: The operator's name, for messages.
        time: Processing time, for time to live.
        max_parallelism: Number of key groups.
        tracking: Whether to learn what changes between checkpoints.
    """

    def __init__(
        self,
        directory: str,
        *,
        cache_bytes: int = 128 << 20,
        operator: str = "",
        time: ProcessingTime | None = None,
        max_parallelism: int = 128,
        tracking: bool = False,
    ) -> None:
        super().__init__(operator=operator, time=time, max_parallelism=max_parallelism, tracking=tracking)
        self.max_parallelism = max_parallelism
        self.store = DiskStore(directory)
        self.disk = DiskSpace(directory, cache_bytes)
        self.codec = RecordCodec(operator)
        self._generation_bytes = cache_bytes // 2
        self._charged_bytes = 0
        self._chunks = 0
        self._names: list[str] = []
        self._namespaced: set[str] = set()
        self._tables: weakref.WeakValueDictionary[tuple[str, Any], DiskTable] = weakref.WeakValueDictionary()
        self._live: set[DiskTable] = set()
        self._swept_to = b""
        self._written: dict[tuple[str, Any], set[Any]] | None = {} if tracking else None
        self._written_count = 0

    def charge(self, table: DiskTable, size_bytes: int) -> None:
        """Take memory for an object; when it is used up, write what changed and drop what is old."""
        self._charged_bytes += size_bytes
        if self._charged_bytes > self._generation_bytes:
            self._rotate()
        self._live.add(table)

    def next_chunk(self) -> bytes:
        """Return a key for a chunk of a list, after all earlier ones."""
        self._chunks += 1
        return self._chunks.to_bytes(8, "big")

    def flush(self) -> None:
        """Write what changed.

        Raises:
            NotSerializableError: If a value cannot be pickled; names state, operator and key.
            StateAccessError: If the disk is full.
        """
        changes = Changes()
        for table in self._live:
            if self._written is not None:
                self._note_written(self._written, table)
            table.collect(changes)
        self.store.write(changes.puts, changes.deletes, changes.prefixes)
        if not pays(self._written_count, self.store.count()):
            self._written = None  # everything will be written, so that which keys it were takes no memory

    def _note_written(self, written: dict[tuple[str, Any], set[Any]], table: DiskTable) -> None:
        """Note the keys that are about to be written."""
        keys = table.changed_keys()
        if keys:
            noted = written.setdefault((table.name, table.namespace), set())
            before = len(noted)
            noted.update(keys)
            self._written_count += len(noted) - before

    def patch(self) -> StateChanges | None:
        """Return what the keys have that were written since; None if they are most of what is there."""
        self.flush()
        if self._written is None:
            return None
        changes = StateChanges(self.max_parallelism)
        for (name, namespace), keys in self._written.items():
            table: DiskTable = self._table(name, namespace)
            for key in keys:
                entry = table.entry(key)
                if entry is ABSENT:
                    changes.remove(name, namespace, key)
                else:
                    changes.put(name, namespace, key, entry)
            table.forget_prefixes()
        return changes

    def forget_changes(self) -> None:
        """Take what is there now as what is known."""
        self.flush()
        self._written = {} if self.tracking else None
        self._written_count = 0

    def table(self, name: str) -> TableView:
        """Return the values of a state by key, as a mapping."""
        self._register(name, _TABLE_SCHEMA)
        table = self._table(name, None)
        assert isinstance(table, DiskValueTable)
        return TableView(table)

    def clear_namespace(self, namespace: Any, key: Any) -> None:
        """Remove all that `key` has under `namespace`."""
        for name in self._names if namespace is None else self._namespaced:
            self._table(name, namespace).clear(key)

    def end_epoch(self, *, checkpoint: bool) -> None:
        """Write what changed if the epoch ends with a checkpoint."""
        if checkpoint:
            self.flush()

    def snapshot(self, key_groups: range | None = None, *, timers: bool = True) -> KeyedStateSnapshot:
        """Return all state and timers, by key group, read from disk into memory: ask for a few groups at a time."""
        waiting = self._snapshot_timers(key_groups) if timers else {}
        snapshot = KeyedStateSnapshot(dict(self._schemas), timers=waiting)
        self.flush()
        for group in range(self.max_parallelism) if key_groups is None else key_groups:
            for name in self._names:
                for namespace, key, entry in self._kept(group, name):
                    snapshot.add(group, name, namespace, key, entry)
        return snapshot

    def keys(self, name: str) -> Iterator[tuple[Any, Any]]:
        """Yield (namespace, key) of a state, by key group and key."""
        for namespace, key, _ in self.entries(name):
            yield namespace, key

    def entries_by_group(self) -> Iterator[tuple[int, States]]:
        """Yield all entries, some at a time, read from disk."""
        self.flush()
        for group in range(self.max_parallelism):
            for name in self._names:
                kept = self._kept(group, name)
                while entries := list(islice(kept, _READ_ENTRIES)):
                    yield group, {name: entries}

    def _kept(self, group: int, name: str) -> Iterator[tuple[Any, Any, Any]]:
        """Yield (namespace, key, entry) of what belongs into a snapshot: without what is expired, if so configured."""
        life = self._lives.get(name)
        if life is None or not life.config.get_cleanup_strategies().in_full_snapshot():
            yield from self._entries(group, name)
            return
        for namespace, key, entry in self._entries(group, name):
            kept = drop_expired(self._schemas[name].kind, entry, life)
            if kept is not None:
                yield namespace, key, kept

    def entries(self, name: str) -> Iterator[tuple[Any, Any, Any]]:
        """Return (namespace, key, entry) of a state, by key group and key."""
        self.flush()
        for group in range(self.max_parallelism):
            yield from self._entries(group, name)

    def close(self) -> None:
        """Remove everything from disk; nothing happens the second time."""
        self._live.clear()
        self.store.close()

    def _entries(self, group: int, name: str) -> Iterator[tuple[Any, Any, Any]]:
        """Return (namespace, key, entry) of one state in one key group, records of a key put together."""
        kind = self._schemas[name].kind
        head = group.to_bytes(_GROUP_BYTES, "big") + self._number(name).to_bytes(2, "big")
        current: tuple[Any, Any] | None = None
        entry: Any = None
        for disk_key, record in self.store.scan(head):
            key, namespace, user_key = self._keys_of(kind, disk_key, record)
            value = self.codec.decode(record)
            if kind not in (StateKind.LIST, StateKind.MAP):
                yield namespace, key, value
                continue
            if current != (namespace, key):
                if current is not None:
                    yield (*current, entry)
                current = (namespace, key)
                entry = [] if kind is StateKind.LIST else {}
            if kind is StateKind.LIST:
                entry.extend(value)
            else:
                entry[user_key] = value
        if current is not None:
            yield (*current, entry)

    def _keys_of(self, kind: StateKind, disk_key: bytes, record: Any) -> tuple[Any, Any, Any]:
        keys = self.codec.decode_keys(record)
        if keys is not None:
            return keys
        key, end = decode_key(disk_key, _HEAD_BYTES)
        namespace, end = decode_key(disk_key, end)
        return key, namespace, decode_key(disk_key, end)[0] if kind is StateKind.MAP else None

    def _restore_entries(self, name: str, entries: list[tuple[Any, Any, Any]]) -> None:
        for namespace, key, entry in entries:
            table = self._table(name, namespace)
            if isinstance(table, DiskListTable):
                table.replace(key, entry)
            elif isinstance(table, DiskMapTable):
                for user_key, value in entry.items():
                    table.put(key, user_key, value)
            else:
                assert isinstance(table, DiskValueTable)
                table.put(key, entry)

    def _value_state(self, name: str, namespace: Any) -> ValueState[Any]:
        return _DiskValueState(self, self._table(name, namespace))

    def _list_state(self, name: str, namespace: Any) -> ListState[Any]:
        return _DiskListState(self, self._table(name, namespace))

    def _map_state(self, name: str, namespace: Any) -> MapState[Any, Any]:
        return _DiskMapState(self, self._table(name, namespace))

    def _number(self, name: str) -> int:
        try:
            return self._names.index(name)
        except ValueError:
            self._names.append(name)
            return len(self._names) - 1

    def _table(self, name: str, namespace: Any) -> Any:
        table = self._tables.get((name, namespace))
        if table is None:
            kind = self._schemas[name].kind
            table = _TABLES[kind](self, name, self._number(name), namespace)
            if kind is StateKind.TABLE and isinstance(table, DiskValueTable):
                table.absent = ABSENT
            self._tables[name, namespace] = table
            if namespace is not None:
                self._namespaced.add(name)
        return table

    def _rotate(self) -> None:
        self.flush()
        self._charged_bytes = 0
        self._live = {table for table in self._live if table.rotate()}
        self._sweep()

    def _sweep(self) -> None:
        """Remove expired entries from the next stretch of the disk: what RocksDB's compaction filter does."""
        expiring = {
            self._number(name): name
            for name, life in self._lives.items()
            if life.config.get_cleanup_strategies().get_rocksdb_compact_filter_cleanup_strategy() is not None
        }
        if not expiring:
            return
        puts: list[tuple[bytes, bytes]] = []
        deletes: list[bytes] = []
        scan = self.store.scan_from(self._swept_to)
        self._swept_to = b""
        for seen, (disk_key, record) in enumerate(scan):
            if seen == _SWEPT_RECORDS:
                self._swept_to = disk_key
                break
            name = expiring.get(int.from_bytes(disk_key[_GROUP_BYTES:_HEAD_BYTES], "big"))
            if name is not None:
                self._sweep_record(name, disk_key, record, puts, deletes)
        scan.close()
        self.store.write(puts, deletes, [])

    def _sweep_record(
        self, name: str, disk_key: bytes, record: Any, puts: list[tuple[bytes, bytes]], deletes: list[bytes]
    ) -> None:
        kind = self._schemas[name].kind
        value = self.codec.decode(record)
        # A record of a map is one of its entries: a pair of last access and value, as in value state.
        kept = drop_expired(kind if kind is StateKind.LIST else StateKind.VALUE, value, self._lives[name])
        if kept is None:
            deletes.append(disk_key)
        elif kind is StateKind.LIST and len(kept) < len(value):
            keys = self.codec.decode_keys(record)
            with_keys = keys is not None
            puts.append(
                (disk_key, self.codec.encode(name, kept, keys or (None, None, None), with_keys=with_keys))
            )


_TABLES: dict[StateKind, type[DiskValueTable | DiskListTable | DiskMapTable]] = {
    StateKind.VALUE: DiskValueTable,
    StateKind.REDUCING: DiskValueTable,
    StateKind.AGGREGATING: DiskValueTable,
    StateKind.TABLE: DiskValueTable,
    StateKind.LIST: DiskListTable,
    StateKind.MAP: DiskMapTable,
}
_MISSING = object()


class _DiskValueState(ValueState[Any]):
    __slots__ = ("_backend", "_table")

    def __init__(self, backend: DiskKeyedStateBackend, table: DiskValueTable) -> None:
        self._backend = backend
        self._table = table

    def value(self) -> Any:
        key = self._backend.current_key
        value = self._table.young.get(key, _MISSING)
        return self._table.fetch(key) if value is _MISSING else value

    def update(self, value: Any) -> None:
        key = self._backend.current_key
        table = self._table
        if key in table.young:
            table.young[key] = value
            table.dirty.add(key)
        else:
            table.put(key, value)

    def clear(self) -> None:
        self._table.clear(self._backend.current_key)


class _DiskListState(ListState[Any]):
    __slots__ = ("_backend", "_table")

    def __init__(self, backend: DiskKeyedStateBackend, table: DiskListTable) -> None:
        self._backend = backend
        self._table = table

    def get(self) -> list[Any]:
        return self._table.get(self._backend.current_key)

    def add(self, value: Any) -> None:
        self._table.add(self._backend.current_key, [value])

    def add_all(self, values: Iterable[Any]) -> None:
        added = list(values)
        if added:
            self._table.add(self._backend.current_key, added)

    def update(self, values: Iterable[Any]) -> None:
        self._table.replace(self._backend.current_key, list(values))

    def clear(self) -> None:
        self._table.clear(self._backend.current_key)


class _DiskMapState(MapState[Any, Any]):
    __slots__ = ("_backend", "_table")

    def __init__(self, backend: DiskKeyedStateBackend, table: DiskMapTable) -> None:
        self._backend = backend
        self._table = table

    def _key(self) -> Any:
        key = self._backend.current_key
        if key is NO_KEY:
            raise no_key_error(self._table.name, self._backend.operator)
        return key

    def get(self, key: Any) -> Any:
        value = self._table.get(self._backend.current_key, key)
        return None if value is ABSENT else value

    def put(self, key: Any, value: Any) -> None:
        self._table.put(self._backend.current_key, key, value)

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        current = self._key()
        for key, value in dict_value.items():
            self._table.put(current, key, value)

    def remove(self, key: Any) -> None:
        self._table.put(self._backend.current_key, key, ABSENT)

    def contains(self, key: Any) -> bool:
        return self._table.get(self._backend.current_key, key) is not ABSENT

    def items(self) -> Iterator[tuple[Any, Any]]:
        return ((key, value()) for key, value in self._table.items(self._key()))

    def keys(self) -> Iterator[Any]:
        return (key for key, _ in self._table.items(self._key()))

    def values(self) -> Iterator[Any]:
        return (value() for _, value in self._table.items(self._key()))

    def is_empty(self) -> bool:
        return next(iter(self._table.items(self._key())), None) is None

    def clear(self) -> None:
        self._table.clear(self._backend.current_key)
