"""The store under state on disk: sorted bytes in one LMDB environment, scratch space of one attempt.

Nothing is synced to disk: what has to survive is in checkpoints. Reads see the last `write`; a scan sees what
was there when it began.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import lmdb

from millstream.base.errors import StateAccessError

__all__ = ["DiskStore", "Scan"]

_FIRST_MAP_BYTES = 1 << 30
_COMMIT_RECORDS = 16_384
_COMMIT_BYTES = 8 << 20
_MAX_READERS = 1_024
_key_of = itemgetter(0)


class DiskStore:
    """Sorted keys with their records; the subtask's thread calls it.

    Args:
        directory: Exists, is empty, and is removed by `close`.
        map_bytes: Largest size of the store at first; it doubles when it is reached.
    """

    def __init__(self, directory: str, *, map_bytes: int = _FIRST_MAP_BYTES) -> None:
        self.directory = directory
        self._env = lmdb.open(
            directory,
            map_size=map_bytes,
            max_readers=_MAX_READERS,
            max_spare_txns=2,
            sync=False,
            metasync=False,
            readahead=False,
            meminit=False,
        )
        self._map_bytes = map_bytes
        self._scans: weakref.WeakSet[Scan] = weakref.WeakSet()
        self._reader = self._env.begin()
        self._closed = False

    def get(self, key: bytes) -> bytes | None:
        """Return the record of a key, None if there is none."""
        return self._reader.get(key)

    def count(self) -> int:
        """Return how many records there are."""
        return int(self._env.stat()["entries"])

    def scan(self, prefix: bytes) -> Scan:
        """Return the keys with that prefix and their records, in order, as they are now."""
        scan = Scan(self._env.begin(buffers=True), prefix, prefix)
        self._scans.add(scan)
        return scan

    def scan_from(self, start: bytes) -> Scan:
        """Return all keys from `start` on and their records, in order, as they are now."""
        scan = Scan(self._env.begin(buffers=True), start, b"")
        self._scans.add(scan)
        return scan

    def write(self, puts: list[tuple[bytes, bytes]], deletes: list[bytes], prefixes: list[bytes]) -> None:
        """Remove prefixes, then keys, then put records.

        Args:
            puts: Keys with their records.
            deletes: Keys.
            prefixes: Every key that begins so is removed.

        Raises:
            StateAccessError: If the disk is full or fails.
        """
        if not (puts or deletes or prefixes):
            return
        self._reader.abort()  # so that the pages that it sees may be used again
        try:
            for start in range(0, len(prefixes), _COMMIT_RECORDS):
                self._commit([], [], prefixes[start : start + _COMMIT_RECORDS])
            deletes.sort()
            for start in range(0, len(deletes), _COMMIT_RECORDS):
                self._commit([], deletes[start : start + _COMMIT_RECORDS], [])
            puts.sort(key=_key_of)
            for part in _parts(puts):
                self._commit(part, [], [])
        except lmdb.Error as error:
            raise StateAccessError(
                f"state could not be written to {self.directory}: {error}",
                hint="Give state.backend.rocksdb.localdir a directory with more room.",
            ) from error
        finally:
            self._reader = self._env.begin()

    def close(self) -> None:
        """Remove everything; nothing happens the second time."""
        if not self._closed:
            self._closed = True
            for scan in list(self._scans):
                scan.close()
            self._reader.abort()
            self._env.close()
            shutil.rmtree(self.directory)

    def _commit(self, puts: list[tuple[bytes, bytes]], deletes: list[bytes], prefixes: list[bytes]) -> None:
        while True:
            try:
                with self._env.begin(write=True, buffers=True) as txn, txn.cursor() as cursor:
                    for prefix in prefixes:
                        found = cursor.set_range(prefix)
                        while found and bytes(cursor.key()).startswith(prefix):
                            found = cursor.delete()
                    for key in deletes:
                        txn.delete(key)
                    if puts:
                        cursor.putmulti(puts)
                return
            except lmdb.MapFullError:
                self._grow()

    def _grow(self) -> None:
        """Double the largest size, while no transaction is open."""
        for scan in list(self._scans):
            scan.detach()
        self._map_bytes *= 2
        self._env.set_mapsize(self._map_bytes)


def _parts(puts: list[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    """Cut records so that the pages of one commit stay few: they are in memory until it ends."""
    part: list[tuple[bytes, bytes]] = []
    size = 0
    for put in puts:
        part.append(put)
        size += len(put[1])
        if len(part) >= _COMMIT_RECORDS or size >= _COMMIT_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


class Scan(Iterator[tuple[bytes, Any]]):
    """Keys and records in order, read as one goes; records are valid until the next one is taken."""

    def __init__(self, txn: lmdb.Transaction[memoryview], start: bytes, prefix: bytes) -> None:
        self._txn: lmdb.Transaction[memoryview] | None = txn
        self._prefix = prefix
        cursor = txn.cursor()
        found = cursor.set_range(start) if start else cursor.first()
        self._entries: Iterator[tuple[Any, Any]] = iter(cursor.iternext()) if found else iter(())

    def __next__(self) -> tuple[bytes, Any]:
        for raw, record in self._entries:
            key = bytes(raw)
            if key.startswith(self._prefix):
                return key, record
            break
        self.close()
        raise StopIteration

    def detach(self) -> None:
        """Read the rest into memory, so that no transaction is open."""
        if self._txn is not None:
            rest = [(key, bytes(record)) for key, record in self]
            self._entries = iter(rest)

    def close(self) -> None:
        """End the transaction; nothing follows."""
        if self._txn is not None:
            self._entries = iter(())
            self._txn.abort()
            self._txn = None
