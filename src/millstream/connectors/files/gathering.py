"""Records of bulk formats on their way to their files, bucket by bucket."""

from __future__ import annotations

from typing import Any, Final

from millstream.operators.weight import estimate_bytes, weigh

__all__ = ["Gathered"]

_MOST_RECORDS: Final = 1 << 16
_MOST_BYTES: Final = 16 << 20
_FEW: Final = 64
"""Of a batch with fewer records one is weighed, of others five."""


class Gathered:
    """Rows or columns that wait to be handed to their files in one call: a column of three values costs as much as one
    of a hundred.

    Attributes:
        rows: Records by bucket.
        columns: `pyarrow.RecordBatch`es by bucket.
    """

    def __init__(self) -> None:
        self.rows: dict[str, list[Any]] = {}
        self.columns: dict[str, list[Any]] = {}
        self._count = 0
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether so many wait that they are to be written; at an epoch's end they are anyway."""
        return self._count >= _MOST_RECORDS or self._bytes >= _MOST_BYTES

    def count_rows(self, values: list[Any]) -> None:
        """Count records, not none, that were added to `rows`."""
        count = len(values)
        self._count += count
        self._bytes += weigh(values[0]) * count if count < _FEW else estimate_bytes(values)

    def add_columns(self, parts: list[tuple[str, Any]]) -> None:
        """Add record batches with their buckets."""
        for bucket_id, batch in parts:
            self.columns.setdefault(bucket_id, []).append(batch)
            self._count += batch.num_rows
            self._bytes += batch.nbytes

    def joined_columns(self) -> list[tuple[str, Any]]:
        """Return the columns of each bucket as few record batches: one, if all have the same types."""
        return [
            (bucket_id, batch) for bucket_id, batches in self.columns.items() for batch in _joined(batches)
        ]


def _joined(batches: list[Any]) -> list[Any]:
    if len(batches) == 1 or any(batch.schema != batches[0].schema for batch in batches):
        return batches
    import pyarrow as pa  # optional: whoever has a batch has it

    return list(pa.Table.from_batches(batches).combine_chunks().to_batches())
