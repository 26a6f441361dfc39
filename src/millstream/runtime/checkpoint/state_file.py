"""The file that holds the state of all operators of one slot as of a checkpoint. `docs/checkpoint-format.md` is its
specification.

::

    magic "MSSTATE1" | chunk | chunk | … | index (JSON) | length of the index | CRC of the index | magic "MSEND001"

A chunk is one pickled object. The index says what each is, which operator and key group it belongs to, where it
lies and its CRC, so a restore unpickles what it needs and nothing else.
"""

from __future__ import annotations

import json
import pickle
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import cloudpickle

from millstream.common.errors import CheckpointDamagedError, NotSerializableError, shorten
from millstream.runtime.checkpoint.main_classes import load_state

__all__ = ["Chunk", "ChunkKind", "StateFileReader", "StateFileWriter"]

_MAGIC = b"MSSTATE1"
_END = b"MSEND001"
_TAIL = struct.Struct(">QI8s")


class ChunkKind(Enum):
    """What a chunk holds."""

    KEYED = "keyed"
    """Entries of keyed state of one key group: state name -> [(namespace, key, entry)]."""
    PATCHED = "patched"
    """In a delta: keyed state is not here as a whole, but as patches to what the files before hold; with the
    namespaces that are gone, state name -> [namespace], or None."""
    PATCH = "patch"
    """What changed in keyed state of one key group, a `KeyedStatePatch`."""
    ENTRIES = "entries"
    """What the operator itself keeps by key, in one key group: in the form of KEYED."""
    ENTRIES_PATCHED = "entries-patched"
    """As PATCHED, of ENTRIES."""
    ENTRIES_PATCH = "entries-patch"
    """As PATCH, of ENTRIES."""
    TIMERS = "timers"
    """Timers of one key group: (event, processing), each [(timestamp, key)]."""
    SCHEMAS = "schemas"
    """Kinds of the keyed states, by name."""
    OPERATOR = "operator"
    """Operator state: what `OperatorStateBackend.snapshot` gave."""
    OWN = "own"
    """What the operator itself keeps beside: what `Operator.snapshot_state` gave."""
    WATERMARKS = "watermarks"
    """How far event time has come: the operator's watermark, and those of its inputs."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One entry of the index.

    Attributes:
        operator_id: The operator it belongs to.
        kind: What it holds.
        key_group: The key group it belongs to; None for all.
        offset: Where it begins in the file.
        length: Its size in bytes.
        crc: CRC-32 of its bytes.
    """

    operator_id: str
    kind: ChunkKind
    key_group: int | None
    offset: int
    length: int
    crc: int


class StateFileWriter:
    """Builds a file in memory."""

    def __init__(self) -> None:
        self._parts = [_MAGIC]
        self._size = len(_MAGIC)
        self._index: list[list[Any]] = []

    def add(self, operator_id: str, kind: ChunkKind, content: Any, key_group: int | None = None) -> None:
        """Add a chunk.

        Raises:
            NotSerializableError: If something in it cannot be pickled.
        """
        data = _pickle(content)
        self._index.append([operator_id, kind.value, key_group, self._size, len(data), zlib.crc32(data)])
        self._parts.append(data)
        self._size += len(data)

    def finish(self) -> bytes:
        """Return the file's contents."""
        index = json.dumps({"version": 1, "chunks": self._index}, separators=(",", ":")).encode()
        return b"".join([*self._parts, index, _TAIL.pack(len(index), zlib.crc32(index), _END)])


def _pickle(content: Any) -> bytes:
    try:
        return pickle.dumps(content, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        try:
            return bytes(cloudpickle.dumps(content, protocol=5))
        except Exception as error:
            raise NotSerializableError(
                f"state cannot be pickled: {error}",
                detail=f"In: {shorten(content)}",
                hint="Keep plain data in state; open connections, locks and files in open().",
            ) from error


class StateFileReader:
    """Reads a file that is in memory.

    Args:
        data: Its contents.
        where: Its place, for messages.

    Raises:
        CheckpointDamagedError: If it is no state file, or damaged.
    """

    def __init__(self, data: bytes, where: str) -> None:
        self._data = data
        self._where = where
        if data[: len(_MAGIC)] != _MAGIC or len(data) < len(_MAGIC) + _TAIL.size:
            raise CheckpointDamagedError(f'"{where}" is not a state file')
        length, crc, end = _TAIL.unpack(data[-_TAIL.size :])
        index = data[-_TAIL.size - length : -_TAIL.size]
        if end != _END or zlib.crc32(index) != crc:
            raise CheckpointDamagedError(f'the index of state file "{where}" is damaged')
        self.chunks = [
            Chunk(operator_id, ChunkKind(kind), *rest)
            for operator_id, kind, *rest in json.loads(index)["chunks"]
        ]

    def read(
        self, operator_id: str, kind: ChunkKind, key_groups: range | None = None
    ) -> Iterator[tuple[int | None, Any]]:
        """Yield (key group, content) of an operator's chunks of a kind that belong to some key groups (None: any).

        Raises:
            CheckpointDamagedError: If a chunk was altered.
        """
        for chunk in self.chunks:
            wanted = key_groups is None or chunk.key_group is None or chunk.key_group in key_groups
            if chunk.operator_id == operator_id and chunk.kind is kind and wanted:
                yield chunk.key_group, self._load(chunk)

    def _load(self, chunk: Chunk) -> Any:
        data = self._data[chunk.offset : chunk.offset + chunk.length]
        if zlib.crc32(data) != chunk.crc:
            raise CheckpointDamagedError(
                f'state file "{self._where}" was altered in its part "{chunk.kind.value}" '
                f"of key group {chunk.key_group}"
            )
        return load_state(data)
