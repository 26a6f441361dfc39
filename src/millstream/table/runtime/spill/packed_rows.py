"""Rows of a join's side as checkpoints have them: columns, which become entries by key for who reads them so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self, overload

import numpy as np
import pyarrow as pa

from millstream.state.snapshots import PackedEntries
from millstream.table.runtime.arrays import concat, conform, values_of_fixed
from millstream.table.runtime.growing import GrowingRows
from millstream.table.runtime.key_slots import KeySlots
from millstream.table.runtime.multimap import runs_of

__all__ = ["LANES", "PackedRows", "entries_of"]

LANES = ("weight", "matches", "alone", "stamp")
"""What a row has beside its columns: see `JoinSide`. All are int64; the stamp is NULL of rows that never expire."""

_Entry = tuple[None, Any, list[tuple[Any, ...]]]


class PackedRows(PackedEntries):
    """Entries (None, key, [(weight, matches, alone, stamp, row), ...]) of one key group, as columns.

    Pickled, it is an Arrow IPC stream; entries are made when they are asked for.

    Args:
        rows: `LANES`, then the columns.
        keys: Places of the key columns, without the lanes.
        kinds: Types of the keys as both sides have them.
    """

    def __init__(self, rows: pa.RecordBatch, keys: Sequence[int], kinds: Sequence[pa.DataType]) -> None:
        self.rows, self._keys, self._kinds = rows, tuple(keys), list(kinds)
        self._entries: list[_Entry] | None = None

    def __len__(self) -> int:
        return len(self._made())

    @overload
    def __getitem__(self, place: int) -> _Entry: ...
    @overload
    def __getitem__(self, place: slice) -> list[_Entry]: ...
    def __getitem__(self, place: int | slice) -> Any:
        return self._made()[place]

    def __iter__(self) -> Iterator[_Entry]:
        return iter(self._made())

    def __bool__(self) -> bool:
        return len(self.rows) > 0

    def patched(self, whole: Sequence[Self], patches: Sequence[tuple[Sequence[Any], Sequence[Self]]]) -> Self:
        """Return what rows become: of each key what the last of the patches says that has it."""
        index = KeySlots(self._kinds)
        kept: list[pa.RecordBatch] = []
        seen = np.zeros(0, bool)
        for gone, parts in (*reversed(patches), ((), whole)):
            slots_of = [part._slots(index) for part in parts]
            gone_slots = index.of_keys(list(gone)) if gone else np.empty(0, np.int64)
            seen = np.concatenate([seen, np.zeros(len(index) - len(seen), bool)])
            for part, slots in zip(parts, slots_of, strict=True):
                new = np.flatnonzero(~seen[slots])
                kept.append(part.rows if len(new) == len(slots) else part.rows.take(pa.array(new)))
            for slots in (*slots_of, gone_slots):
                seen[slots] = True
        columns = [concat([rows.column(place) for rows in kept]) for place in range(self.rows.num_columns)]
        rows = pa.RecordBatch.from_arrays(columns, schema=self.rows.schema)
        return type(self)(rows, self._keys, self._kinds)

    def _slots(self, index: KeySlots) -> Any:
        columns = self.rows.columns[len(LANES) :]
        keys = [conform(columns[place], kind) for place, kind in zip(self._keys, self._kinds, strict=True)]
        return index.of(keys, len(self.rows))

    def __reduce__(self) -> Any:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.rows.schema) as stream:
            stream.write_batch(self.rows)
        kinds = pa.schema([(f"f{place}", kind) for place, kind in enumerate(self._kinds)])
        return _unpack, (sink.getvalue().to_pybytes(), self._keys, kinds.serialize().to_pybytes())

    def _made(self) -> list[_Entry]:
        if self._entries is None:
            made = entries_of(self.rows, self._keys, self._kinds)
            self._entries = [(None, key, entry) for key, entry in made]
        return self._entries


def _unpack(rows: bytes, keys: tuple[int, ...], kinds: bytes) -> PackedRows:
    with pa.ipc.open_stream(rows) as stream:
        batch = stream.read_next_batch()
    return PackedRows(batch, keys, pa.ipc.read_schema(pa.BufferReader(kinds)).types)


def entries_of(
    rows: pa.RecordBatch, keys: Sequence[int], kinds: Sequence[pa.DataType]
) -> list[tuple[Any, list[tuple[Any, ...]]]]:
    """Return each key with its rows.

    Args:
        rows: `LANES`, then the columns.
        keys: Places of the key columns, without the lanes.
        kinds: Types of the keys.
    """
    columns = rows.columns[len(LANES) :]
    index = KeySlots(kinds)
    slots = index.of(
        [conform(columns[place], kind) for place, kind in zip(keys, kinds, strict=True)], len(rows)
    )
    order = np.argsort(slots, kind="stable")
    held = GrowingRows([column.type for column in columns])
    held.append(columns, len(rows))
    lanes: list[Any] = [values_of_fixed(column)[order].tolist() for column in rows.columns[:3]]
    stamps = rows.column(3)
    lanes.append(
        [None] * len(rows) if stamps.null_count else values_of_fixed(stamps)[order].tolist(),
    )
    flat = list(zip(*lanes, held.entries(order), strict=True))
    starts, lengths = runs_of(slots[order])
    return [
        (key, flat[start : start + length])
        for key, start, length in zip(
            index.keys(np.arange(len(index))), starts.tolist(), lengths.tolist(), strict=True
        )
    ]
