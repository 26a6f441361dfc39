"""The file that holds the state of all operators of one slot as of a checkpoint. `docs/checkpoint-format.md` is its
specification.

::

    magic "MSSTATE1" | chunk | chunk | … | index (JSON) | length of the index | CRC of the index | magic "MSEND001"

A chunk is one pickled object. The index says what each is, which operator and key group it belongs to, where it
lies and its CRC, so a restore unpickles what it needs and nothing else.
"""

from __future__ import annotations

import json
import struct
import tempfile
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from millstream.base.errors import (
    CheckpointDamagedError,
    CheckpointStorageError,
    NotSerializableError,
    shorten,
)
from millstream.base.pickling import dump_lasting
from millstream.files.stores import Checksum, FileRef, FileStore, PartlyRead, StoredFile
from millstream.runtime.program.main_classes import load_state
from millstream.spi.state_store import ChunkKind, StateChunk

__all__ = ["Chunk", "ChunkKind", "StateFileReader", "StateFileWriter"]

_MAGIC = b"MSSTATE1"
_END = b"MSEND001"
_TAIL = struct.Struct(">QI8s")

_WHOLE_BYTES = 1 << 20
"""Files up to this size are read as a whole."""
_END_BYTES = 1 << 16
"""How much of a larger one's end is read at first: mostly all of its index."""
_RUN_BYTES = 1 << 24
"""How much is read at once, except for larger chunks."""
_GAP_BYTES = 1 << 16
"""As much between two chunks is read along with them."""
_IN_MEMORY_BYTES = 4 << 20
"""A file that is larger while it is made is on disk."""
_PART_BYTES = 4 << 20
"""How much of it is written to its store at once."""


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
    """Builds a file; one that is large lies on this host's disk until it is written to its store.

    Attributes:
        size: Of what was added so far, in bytes.
    """

    def __init__(self) -> None:
        self._spool = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115 - it goes with the writer
        self._checksum = Checksum()
        self._index: list[list[Any]] = []
        self._reading = threading.Lock()
        self._ended = False
        self.size = 0
        self._append(_MAGIC)

    def add(self, operator_id: str, kind: ChunkKind, content: Any, key_group: int | None = None) -> None:
        """Add a chunk.

        Raises:
            NotSerializableError: If something in it cannot be pickled.
            CheckpointStorageError: If this host has no room for it.
        """
        self.add_pickled(operator_id, kind, _pickle(content), key_group)

    def add_all(self, operator_id: str, chunks: Iterable[StateChunk]) -> None:
        """Add what a store gives, each chunk before the next is asked for; raises as `add`."""
        for kind, content, key_group in chunks:
            self.add(operator_id, kind, content, key_group)

    def add_pickled(
        self, operator_id: str, kind: ChunkKind, data: bytes, key_group: int | None = None
    ) -> None:
        """Add a chunk as another file has it.

        Raises:
            CheckpointStorageError: If this host has no room for it.
        """
        self._index.append([operator_id, kind.value, key_group, self.size, len(data), zlib.crc32(data)])
        self._append(data)

    def _append(self, data: bytes) -> None:
        try:
            self._spool.write(data)
        except OSError as error:
            raise CheckpointStorageError(
                f"state cannot be kept for a checkpoint in {tempfile.gettempdir()}: {error.strerror or error}",
                detail=f"{self.size} bytes of it were there. They lie there until they are in the checkpoint.",
                hint="Make room, or name another directory in TMPDIR.",
            ) from error
        self._checksum.add(data)
        self.size += len(data)

    def write_to(self, store: FileStore, path: str) -> FileRef:
        """Write the file to a store; nothing can be added afterwards, and it can be written again.

        Raises:
            CheckpointStorageError: If it cannot be written.
        """
        self._end()
        return store.write_parts(path, self._parts, FileRef(path, self.size, self._checksum.text()))

    def finish(self) -> bytes:
        """Return the file's contents."""
        self._end()
        return b"".join(self._parts())

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            index = json.dumps({"version": 1, "chunks": self._index}, separators=(",", ":")).encode()
            self._append(index + _TAIL.pack(len(index), zlib.crc32(index), _END))

    def _parts(self) -> Iterator[bytes]:
        """Yield the contents; another one may do so at the same time: a write that was given up goes on."""
        position = 0
        while position < self.size:
            with self._reading:
                self._spool.seek(position)
                part = self._spool.read(_PART_BYTES)
            position += len(part)
            yield part


def _pickle(content: Any) -> bytes:
    try:
        return dump_lasting(content)
    except Exception as error:
        raise NotSerializableError(
            f"state cannot be pickled: {error}",
            detail=f"In: {shorten(content)}",
            hint="Keep plain data in state; open connections, locks and files in open().",
        ) from error


class StateFileReader:
    """Reads a state file; of a large one only the parts that are asked for.

    Args:
        data: Its contents, or where they are.
        where: Its place, for messages.

    Attributes:
        size: Of the file, in bytes.
        chunks: The index.

    Raises:
        CheckpointDamagedError: If it is no state file, or damaged.
    """

    def __init__(self, data: bytes | PartlyRead, where: str) -> None:
        self._where = where
        self._stored = None if isinstance(data, bytes) else data
        # What is at hand of the file, and where it begins.
        self._held, self._begin = (data, 0) if isinstance(data, bytes) else (b"", 0)
        self.size = len(data) if isinstance(data, bytes) else data.size
        self.chunks = self._read_index(self.size)

    @classmethod
    def open(cls, store: FileStore, ref: FileRef, *arguments: Any, **named: Any) -> Self:
        """Return a reader of a file of a store; small ones are read, and checked, as a whole at once.

        Args:
            store: Where it is.
            ref: The file.
            *arguments: Further arguments of the reader.
            **named: The same.

        Raises:
            CheckpointDamagedError: If it is missing, no state file, or damaged.
        """
        data = store.read(ref) if ref.size <= _WHOLE_BYTES else StoredFile(store, ref)
        return cls(data, store.describe(ref.path), *arguments, **named)

    def _read_index(self, size: int) -> list[Chunk]:
        if size < len(_MAGIC) + _TAIL.size or (self._stored is None and self._held[: len(_MAGIC)] != _MAGIC):
            raise CheckpointDamagedError(f'"{self._where}" is not a state file')
        end_bytes = self._bytes(max(size - _END_BYTES, 0), min(size, _END_BYTES))
        length, crc, end = _TAIL.unpack(end_bytes[-_TAIL.size :])
        begin = size - _TAIL.size - length
        index = self._bytes(begin, length) if end == _END and begin >= len(_MAGIC) else b""
        if end != _END or zlib.crc32(index) != crc:
            raise CheckpointDamagedError(f'the index of state file "{self._where}" is damaged')
        return [
            Chunk(operator_id, ChunkKind(kind), *rest)
            for operator_id, kind, *rest in json.loads(index)["chunks"]
        ]

    def _bytes(self, offset: int, length: int) -> bytes:
        self._fetch(offset, length)
        begin = offset - self._begin
        return self._held[begin : begin + length]

    def _fetch(self, offset: int, length: int) -> None:
        """Have some bytes at hand."""
        begin = offset - self._begin
        if self._stored is not None and not 0 <= begin <= begin + length <= len(self._held):
            self._held, self._begin = self._stored.read(offset, length), offset

    def read(
        self, operator_id: str, kind: ChunkKind, key_groups: range | None = None
    ) -> Iterator[tuple[int | None, Any]]:
        """Yield (key group, content) of an operator's chunks of a kind that belong to some key groups (None: any).

        Raises:
            CheckpointDamagedError: If a chunk was altered.
        """
        wanted = [
            chunk
            for chunk in self.chunks
            if chunk.operator_id == operator_id
            and chunk.kind is kind
            and (key_groups is None or chunk.key_group is None or chunk.key_group in key_groups)
        ]
        for run in [wanted] if self._stored is None else _runs(wanted):
            for chunk in run:
                if self._stored is not None:
                    # All of the run at once; again if somebody else has read from this file meanwhile.
                    self._fetch(run[0].offset, run[-1].offset + run[-1].length - run[0].offset)
                yield chunk.key_group, self._load(chunk)
        if self._stored is not None:
            self._held = b""

    def raw(self, chunk: Chunk) -> bytes:
        """Return a chunk as it was pickled.

        Raises:
            CheckpointDamagedError: If it was altered.
        """
        data = self._bytes(chunk.offset, chunk.length)
        if zlib.crc32(data) != chunk.crc:
            raise CheckpointDamagedError(
                f'state file "{self._where}" was altered in its part "{chunk.kind.value}" '
                f"of key group {chunk.key_group}"
            )
        return data

    def _load(self, chunk: Chunk) -> Any:
        return load_state(self.raw(chunk))


def _runs(chunks: Sequence[Chunk]) -> Iterator[list[Chunk]]:
    """Yield chunks that lie close together, to be read at once."""
    run: list[Chunk] = []
    for chunk in chunks:
        end = run[-1].offset + run[-1].length if run else chunk.offset
        near = 0 <= chunk.offset - end <= _GAP_BYTES
        if run and (not near or chunk.offset + chunk.length - run[0].offset > _RUN_BYTES):
            yield run
            run = []
        run.append(chunk)
    if run:
        yield run
