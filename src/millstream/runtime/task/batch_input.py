"""The input of an operator in batch mode: kept until it is whole, then given in order of time.

Flink sorts the input of keyed operators by key and, within a key, by timestamp, and reads broadcast inputs
before others. Here::

    input                                   goes to the operator
    broadcast, beside another input         as it comes: before all others
    beside a broadcast one                  at the end of the input
    of a keyed operator, with timestamps    at the end of the input, by timestamp over all inputs
    of a keyed operator, without            as it comes

Records with the same timestamp keep their order, input 0 before input 1. More than a million records wait on
disk, in sorted runs that are merged in the end. One thread calls it, the subtask's.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from typing import IO, Any

from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.operators.base import BatchHandler
from millstream.runtime.protocol.blocks import decode_elements, encode_elements
from millstream.spi.batch import Batch, Element, Rows

__all__ = ["SortedInput"]

_SPILL_RECORDS = 1_000_000
_BATCH_RECORDS = 20_000

_Entry = tuple[int, int, bool, Any]
"""Timestamp, input, whether it has a timestamp at all, value."""

_ORDER = itemgetter(0, 1)


class SortedInput:
    """Keeps what comes until the final watermark, then hands it on in order of time.

    Args:
        handlers: The operator's, one for each input.
        on_watermark: The operator's.
        waits: For each input, whether records wait: "never", "stamped" (those with timestamps) or "always".
        spill_records: So many wait in memory; more on disk.
    """

    def __init__(
        self,
        handlers: list[BatchHandler],
        on_watermark: Callable[[int], None],
        waits: list[str],
        *,
        spill_records: int = _SPILL_RECORDS,
    ) -> None:
        self._handlers = handlers
        self._on_watermark = on_watermark
        self._spill_records = spill_records
        self._entries: list[_Entry] = []
        self._runs: list[IO[bytes]] = []
        self._ended = False
        self.handlers = [
            handler if wait == "never" else self._keeping(index, handler, always=wait == "always")
            for index, (handler, wait) in enumerate(zip(handlers, waits, strict=True))
        ]

    def _keeping(self, index: int, handler: BatchHandler, *, always: bool) -> BatchHandler:
        def keep(batch: Batch) -> None:
            if self._ended or (batch.timestamps is None and not always):
                handler(batch)
                return
            rows = batch.to_rows()
            values, timestamps = rows.values, rows.timestamps
            if timestamps is None:
                self._entries.extend((MIN_TIMESTAMP, index, False, value) for value in values)
            else:
                self._entries.extend(
                    (stamp, index, True, value) for stamp, value in zip(timestamps, values, strict=True)
                )
            if len(self._entries) >= self._spill_records:
                self._spill()

        return keep

    def on_watermark(self, timestamp_ms: int) -> None:
        """Hand on what waited before the final watermark; there is no other in batch mode."""
        if timestamp_ms == MAX_TIMESTAMP and not self._ended:
            self._ended = True
            self._replay()
        self._on_watermark(timestamp_ms)

    def close(self) -> None:
        """Remove what is on disk."""
        runs, self._runs = self._runs, []
        for run in runs:
            run.close()

    def _spill(self) -> None:
        run = tempfile.TemporaryFile(prefix="millstream-batch-")  # noqa: SIM115 - closed by close()
        self._runs.append(run)
        for part in _parts(self._sorted()):
            marks = [(stamp, index, stamped) for stamp, index, stamped, _ in part]
            pickle.dump((marks, encode_elements([Rows([value for *_, value in part])])), run, protocol=5)

    def _sorted(self) -> list[_Entry]:
        entries, self._entries = self._entries, []
        entries.sort(key=_ORDER)
        return entries

    def _replay(self) -> None:
        entries: Iterable[_Entry] = self._sorted()
        if self._runs:
            # Runs hold what came first, and merging keeps the order of equals.
            entries = merge(*(_read(run) for run in self._runs), entries, key=_ORDER)
        for (index, stamped), group in groupby(entries, key=itemgetter(1, 2)):
            for part in _parts(group):
                values = [value for *_, value in part]
                self._handlers[index](Rows(values, [stamp for stamp, *_ in part] if stamped else None))
        self.close()


def _parts(entries: Iterable[_Entry]) -> Iterator[list[_Entry]]:
    remaining = iter(entries)
    while part := list(islice(remaining, _BATCH_RECORDS)):
        yield part


def _read(run: IO[bytes]) -> Iterator[_Entry]:
    run.seek(0)
    while True:
        try:
            marks, payload = pickle.load(run)
        except EOFError:
            return
        values = (value for element in decode_elements(payload) for value in _rows(element).values)
        for (stamp, index, stamped), value in zip(marks, values, strict=True):
            yield stamp, index, stamped, value


def _rows(element: Element) -> Rows:
    assert isinstance(element, Rows)
    return element
