"""Write-back caches of state on disk: one table for each state and namespace, by kind.

A table holds decoded objects in two generations. What is used moves to the young one; when the memory is used
up, everything changed is written and the old generation is dropped (`DiskKeyedStateBackend`). So a cache costs
two dicts and no list of uses, and keeps what was used lately.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, MutableMapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from millstream.state.key_decoding import decode_key, encode_user_key, is_decodable
from millstream.state.key_encoding import encode_exactly
from millstream.state.key_groups import key_group
from millstream.state.kinds import NO_KEY, no_key_error

if TYPE_CHECKING:
    from millstream.state.disk import DiskKeyedStateBackend

__all__ = ["ABSENT", "Changes", "DiskListTable", "DiskMapTable", "DiskTable", "DiskValueTable", "TableView"]

_LONGEST_PREFIX = 400
_LONGEST_KEY = 500
_HEAD_BYTES = 4
_DIGEST_TAG = 0xFF
_DIGESTED = b"\xff"
_DIGEST_BYTES = 32
_OBJECT_BYTES = 350
_SAMPLE_EVERY = 256
_COMPACT_CHUNKS = 16


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()
"""Stands in caches for what is known not to be there."""
_MISSING = _Absent()
_EXACT = frozenset({int, str, bytes})


class Changes:
    """What is to be written.

    Attributes:
        puts: Keys and records.
        deletes: Keys.
        prefixes: Everything under them goes first.
    """

    __slots__ = ("deletes", "prefixes", "puts")

    def __init__(self) -> None:
        self.puts: list[tuple[bytes, bytes]] = []
        self.deletes: list[bytes] = []
        self.prefixes: list[bytes] = []


class DiskTable(ABC):
    """One state in one namespace.

    Args:
        backend: Where it belongs.
        name: The state's name.
        number: The state's number, part of its keys on disk.
        namespace: The namespace.
    """

    def __init__(self, backend: DiskKeyedStateBackend, name: str, number: int, namespace: Any) -> None:
        self.backend = backend
        self.name = name
        self.namespace = namespace
        self._number = number.to_bytes(2, "big")
        self._namespace_bytes = encode_user_key(namespace)
        self._namespace_is_exact = is_decodable(namespace)
        self._prefixes: dict[Any, bytes] = {}
        self._record_bytes = 0.0
        self._cost_bytes = _OBJECT_BYTES
        self._admitted = 0

    def prefix(self, key: Any) -> bytes:
        """Return with what the keys on disk of a key begin."""
        prefix = self._prefixes.get(key)
        if prefix is None:
            encoded = encode_exactly(key)
            group = key_group(key, self.backend.max_parallelism).to_bytes(2, "big")
            tail = encoded + self._namespace_bytes
            if len(tail) > _LONGEST_PREFIX:
                tail = _DIGESTED + blake2b(tail, digest_size=_DIGEST_BYTES).digest()
            prefix = self._prefixes[key] = group + self._number + tail
        return prefix

    def admit(self, key: Any) -> None:
        """Make room for one more object of a key; may write and drop others.

        Raises:
            StateAccessError: If there is no current key.
        """
        if key is NO_KEY:
            raise no_key_error(self.name, self.backend.operator)
        self.backend.charge(self, self._cost_bytes)

    def encode(self, key: Any, user_key: Any, value: Any, disk_key: bytes) -> bytes:
        """Return the record of a value; with the keys in it if they cannot be told from its key on disk.

        A byte that looks like a digest's tag but is not costs a longer record, nothing more.
        """
        exact = (
            self._namespace_is_exact
            and (type(key) in _EXACT or is_decodable(key))
            and (user_key is None or type(user_key) in _EXACT or is_decodable(user_key))
            and disk_key[_HEAD_BYTES] != _DIGEST_TAG
            and (user_key is None or disk_key[-_DIGEST_BYTES - 1 : -_DIGEST_BYTES] != _DIGESTED)
        )
        keys = (key, self.namespace, user_key)
        return self.backend.codec.encode(self.name, value, keys, with_keys=not exact)

    def load(self, disk_key: bytes) -> Any:
        """Return the value of a record on disk, ABSENT if there is none."""
        record = self.backend.store.get(disk_key)
        if record is None:
            return ABSENT
        if self._admitted % _SAMPLE_EVERY == 0:
            self._note_size(len(record))
        self._admitted += 1
        return self.backend.codec.decode(record)

    def _sample(self, key: Any, value: Any) -> None:
        """Learn the size of values that were never written: of the first, and of one in some hundred."""
        if self._admitted % _SAMPLE_EVERY == 0:
            keys = (key, self.namespace, None)
            self._note_size(len(self.backend.codec.encode(self.name, value, keys, with_keys=False)))
        self._admitted += 1

    def _note_size(self, record_bytes: int) -> None:
        known = self._record_bytes
        self._record_bytes = known + (record_bytes - known) / 16 if known else record_bytes
        self._cost_bytes = int(_OBJECT_BYTES + 2 * self._record_bytes)

    def forget_prefixes(self) -> None:
        """Free what was noted of keys that were looked up once."""
        self._prefixes = {}

    @abstractmethod
    def changed_keys(self) -> Collection[Any]:
        """Return the keys of which `collect` would write something."""

    @abstractmethod
    def entry(self, key: Any) -> Any:
        """Return what a key has on disk, put together, past the cache; ABSENT if nothing. Called behind a flush."""

    @abstractmethod
    def clear(self, key: Any) -> None:
        """Remove what a key has."""

    @abstractmethod
    def collect(self, changes: Changes) -> None:
        """Add what changed since the last time; afterwards nothing is changed."""

    @abstractmethod
    def rotate(self) -> bool:
        """Drop the old generation, after `collect`; return whether anything is left."""


class DiskValueTable(DiskTable):
    """Key -> value.

    Attributes:
        young: Values used since the last rotation; `absent` for those known not to be there.
        dirty: Keys whose value changed.
        absent: None, or ABSENT where None is a value like any other.
    """

    def __init__(
        self, backend: DiskKeyedStateBackend, name: str, number: int, namespace: Any, absent: Any = None
    ) -> None:
        super().__init__(backend, name, number, namespace)
        self.young: dict[Any, Any] = {}
        self.dirty: set[Any] = set()
        self.absent = absent
        self._old: dict[Any, Any] = {}

    def fetch(self, key: Any) -> Any:
        """Return the value of a key that is not in the young generation."""
        self.admit(key)
        value = self._old.pop(key, _MISSING)
        if value is _MISSING:
            value = self.load(self.prefix(key))
            if value is ABSENT:
                value = self.absent
        self.young[key] = value
        return value

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key."""
        if key not in self.young:
            self.admit(key)
            self._old.pop(key, None)
            self._sample(key, value)
        self.young[key] = value
        self.dirty.add(key)

    def changed_keys(self) -> set[Any]:
        """Return the keys whose value changed."""
        return self.dirty

    def entry(self, key: Any) -> Any:
        """Return the value that a key has on disk."""
        return self.load(self.prefix(key))

    def clear(self, key: Any) -> None:
        """Remove the value of a key."""
        self.put(key, self.absent)

    def collect(self, changes: Changes) -> None:
        """Add the values that changed."""
        young, absent, prefix, prefixes = self.young, self.absent, self.prefix, self._prefixes
        dumps, plain = self.backend.codec.dump, self._namespace_is_exact
        put = changes.puts.append
        for key in self.dirty:
            value = young[key]
            disk_key = prefixes.get(key) or prefix(key)
            if value is absent:
                changes.deletes.append(disk_key)
            elif plain and type(key) in _EXACT and disk_key[_HEAD_BYTES] != _DIGEST_TAG:
                put((disk_key, dumps(self.name, key, value)))
            else:
                put((disk_key, self.encode(key, None, value, disk_key)))
        self.dirty = set()

    def rotate(self) -> bool:
        """Let the young generation be the old one."""
        self._old, self.young = self.young, {}
        self._prefixes = {}
        return bool(self._old)


class _Elements:
    """The list of one key: what is on disk, if it was read, and what is to be added to it."""

    __slots__ = ("added", "cleared", "read")

    def __init__(self) -> None:
        self.read: list[Any] | None = None
        self.added: list[Any] = []
        self.cleared = False


class DiskListTable(DiskTable):
    """Key -> list; on disk in chunks, so that adding reads nothing."""

    def __init__(self, backend: DiskKeyedStateBackend, name: str, number: int, namespace: Any) -> None:
        super().__init__(backend, name, number, namespace)
        self._lists: dict[Any, _Elements] = {}
        self._dirty: set[Any] = set()

    def add(self, key: Any, values: list[Any]) -> None:
        """Add elements."""
        for value in values:
            self.admit(key)
            self._sample(key, value)
        elements = self._lists.get(key)
        if elements is None:
            elements = self._lists[key] = _Elements()
        elements.added.extend(values)
        self._dirty.add(key)

    def get(self, key: Any) -> list[Any]:
        """Return a new list of the elements."""
        self.admit(key)
        elements = self._lists.get(key)
        if elements is None:
            elements = self._lists[key] = _Elements()
        if elements.read is None:
            elements.read = [] if elements.cleared else self._read(key, elements)
        values = elements.read + elements.added
        self.backend.charge(self, int(len(elements.read) * 2 * self._record_bytes))
        return values

    def replace(self, key: Any, values: list[Any]) -> None:
        """Replace all elements."""
        self.clear(key)
        if values:
            self.add(key, values)

    def changed_keys(self) -> set[Any]:
        """Return the keys whose list changed."""
        return self._dirty

    def entry(self, key: Any) -> Any:
        """Return the list that a key has on disk."""
        decode = self.backend.codec.decode
        chunks = [decode(record) for _, record in self.backend.store.scan(self.prefix(key))]
        return [value for chunk in chunks for value in chunk] if chunks else ABSENT

    def clear(self, key: Any) -> None:
        """Remove all elements."""
        self.admit(key)
        elements = self._lists[key] = _Elements()
        elements.cleared = True
        self._dirty.add(key)

    def _read(self, key: Any, elements: _Elements) -> list[Any]:
        decode = self.backend.codec.decode
        chunks = [decode(record) for _, record in self.backend.store.scan(self.prefix(key))]
        values = [value for chunk in chunks for value in chunk]
        if len(chunks) < _COMPACT_CHUNKS:
            return values
        elements.cleared = True
        elements.added = values + elements.added
        self._dirty.add(key)
        return []

    def collect(self, changes: Changes) -> None:
        """Add one chunk for each list that got elements."""
        for key in self._dirty:
            elements = self._lists[key]
            prefix = self.prefix(key)
            if elements.cleared:
                changes.prefixes.append(prefix)
                elements.read = []
                elements.cleared = False
            if elements.added:
                disk_key = prefix + self.backend.next_chunk()
                changes.puts.append((disk_key, self.encode(key, None, elements.added, disk_key)))
                if elements.read is not None:
                    elements.read.extend(elements.added)
                elements.added = []
        self._dirty = set()

    def rotate(self) -> bool:
        """Drop all lists: a chunk is read in one go."""
        self._lists = {}
        self._prefixes = {}
        return False


class DiskMapTable(DiskTable):
    """Key -> user key -> value; a record for each user key."""

    def __init__(self, backend: DiskKeyedStateBackend, name: str, number: int, namespace: Any) -> None:
        super().__init__(backend, name, number, namespace)
        self._young: dict[Any, dict[Any, Any]] = {}
        self._old: dict[Any, dict[Any, Any]] = {}
        self._dirty: dict[Any, set[Any]] = {}
        self._cleared: set[Any] = set()

    def get(self, key: Any, user_key: Any) -> Any:
        """Return the value of a user key, ABSENT if there is none."""
        mapping = self._young.get(key)
        if mapping is not None:
            value = mapping.get(user_key, _MISSING)
            if value is not _MISSING:
                return value
        self.admit(key)
        old = self._old.get(key)
        value = _MISSING if old is None else old.pop(user_key, _MISSING)
        if value is _MISSING:
            value = ABSENT if key in self._cleared else self.load(self._disk_key(key, user_key))
        self._young.setdefault(key, {})[user_key] = value
        return value

    def put(self, key: Any, user_key: Any, value: Any) -> None:
        """Set the value of a user key; ABSENT removes it."""
        mapping = self._young.get(key)
        if mapping is None or user_key not in mapping:
            self.admit(key)
            self._sample(key, None if value is ABSENT else value)
            old = self._old.get(key)
            if old is not None:
                old.pop(user_key, None)
            mapping = self._young.setdefault(key, {})
        mapping[user_key] = value
        dirty = self._dirty.get(key)
        if dirty is None:
            self._dirty[key] = {user_key}
        else:
            dirty.add(user_key)

    def changed_keys(self) -> set[Any]:
        """Return the keys whose map changed."""
        return self._cleared.union(self._dirty)

    def entry(self, key: Any) -> Any:
        """Return the map that a key has on disk."""
        prefix = self.prefix(key)
        codec = self.backend.codec
        found: dict[Any, Any] = {}
        for disk_key, record in self.backend.store.scan(prefix):
            keys = codec.decode_keys(record)
            user_key = decode_key(disk_key, len(prefix))[0] if keys is None else keys[2]
            found[user_key] = codec.decode(record)
        return found or ABSENT

    def clear(self, key: Any) -> None:
        """Remove all user keys."""
        self.admit(key)
        self._young.pop(key, None)
        self._old.pop(key, None)
        self._dirty.pop(key, None)
        self._cleared.add(key)

    def items(self, key: Any) -> Iterator[tuple[Any, Any]]:
        """Return user keys with functions that give their values, by canonical bytes, as they are now."""
        self.admit(key)
        young = self._young.get(key, {})
        changed = sorted(
            (
                (self._disk_key(key, user_key), user_key, young[user_key])
                for user_key in self._dirty.get(key, ())
            ),
            key=_disk_key_of,
        )
        records = iter(()) if key in self._cleared else self.backend.store.scan(self.prefix(key))
        return self._merge(records, changed, len(self.prefix(key)))

    def _merge(
        self, records: Iterator[tuple[bytes, Any]], changed: list[tuple[bytes, Any, Any]], skip: int
    ) -> Iterator[tuple[Any, Any]]:
        codec = self.backend.codec
        position = 0
        for disk_key, record in records:
            while position < len(changed) and changed[position][0] < disk_key:
                if changed[position][2] is not ABSENT:
                    yield changed[position][1], _Given(changed[position][2])
                position += 1
            if position < len(changed) and changed[position][0] == disk_key:
                continue
            keys = codec.decode_keys(record)
            user_key = decode_key(disk_key, skip)[0] if keys is None else keys[2]
            yield user_key, _Stored(codec.decode, record)
        for _, user_key, value in changed[position:]:
            if value is not ABSENT:
                yield user_key, _Given(value)

    def collect(self, changes: Changes) -> None:
        """Add the user keys that changed."""
        changes.prefixes.extend(map(self.prefix, self._cleared))
        for key, user_keys in self._dirty.items():
            mapping = self._young[key]
            for user_key in user_keys:
                disk_key = self._disk_key(key, user_key)
                value = mapping[user_key]
                if value is ABSENT:
                    changes.deletes.append(disk_key)
                else:
                    changes.puts.append((disk_key, self.encode(key, user_key, value, disk_key)))
        self._dirty = {}
        self._cleared = set()

    def rotate(self) -> bool:
        """Let the young generation be the old one."""
        self._old, self._young = self._young, {}
        self._prefixes = {}
        return bool(self._old)

    def _disk_key(self, key: Any, user_key: Any) -> bytes:
        prefix = self.prefix(key)
        encoded = encode_user_key(user_key)
        if len(prefix) + len(encoded) > _LONGEST_KEY:
            encoded = _DIGESTED + blake2b(encoded, digest_size=_DIGEST_BYTES).digest()
        return prefix + encoded


def _disk_key_of(change: tuple[bytes, Any, Any]) -> bytes:
    return change[0]


class _Given:
    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __call__(self) -> Any:
        return self._value


class _Stored:
    __slots__ = ("_decode", "_record")

    def __init__(self, decode: Any, record: Any) -> None:
        self._decode = decode
        self._record = record

    def __call__(self) -> Any:
        return self._decode(self._record)


class TableView(MutableMapping[Any, Any]):
    """A value table as a mapping, for operators' own loops; None is a value like any other."""

    def __init__(self, table: DiskValueTable) -> None:
        self._table = table

    def __getitem__(self, key: Any) -> Any:
        value = self._table.young.get(key, _MISSING)
        if value is _MISSING:
            value = self._table.fetch(key)
        if value is ABSENT:
            raise KeyError(key)
        return value

    def __contains__(self, key: Any) -> bool:
        value = self._table.young.get(key, _MISSING)
        return (self._table.fetch(key) if value is _MISSING else value) is not ABSENT

    def __setitem__(self, key: Any, value: Any) -> None:
        self._table.put(key, value)

    def __delitem__(self, key: Any) -> None:
        if key not in self:
            raise KeyError(key)
        self._table.clear(key)

    def __iter__(self) -> Iterator[Any]:
        return (key for _, key, _ in self._table.backend.entries(self._table.name))

    def __len__(self) -> int:
        return sum(1 for _ in self)
