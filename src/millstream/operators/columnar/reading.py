"""Columns of named fields of a batch, whichever form it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.base.errors import NotSupportedError
from millstream.operators.fields import FieldReader
from millstream.spi.batch import Batch, Columns, Rows, column_of
from millstream.types.arrow_records import named_array
from millstream.types.row import Row

__all__ = ["ColumnReader", "as_columns", "stamps_of", "taken"]


class ColumnReader:
    """Takes the columns of some fields out of batches; of records as Python objects it makes them.

    Args:
        fields: Names of the fields; None stands for no column.
        names: Names of the fields of plain tuples, in order; None if they have none.
    """

    def __init__(self, fields: Sequence[str | None], names: Sequence[str] | None) -> None:
        self._fields = list(fields)
        self._readers = {field: FieldReader(field, names) for field in fields if field is not None}

    def read(self, batch: Batch) -> list[Any]:
        """Return the column of each field, None where there is none.

        Raises:
            TypeMismatchError: If records have no such field, or its values are of several types.
            NotSupportedError: If the batch holds retractions.
        """
        if isinstance(batch, Columns):
            if batch.kinds is not None:
                raise NotSupportedError(
                    "aggregates by expression were given retractions, which they do not take back"
                )
            columns = {field: column_of(batch, field) for field in self._readers}
        else:
            columns = {
                field: named_array(field, reader.values(batch.values))
                for field, reader in self._readers.items()
            }
        return [None if field is None else columns[field] for field in self._fields]


def as_columns(batch: Batch, names: Sequence[str] | None) -> Columns:
    """Return a batch as columns: one for each field of its records.

    Args:
        batch: The batch, not empty.
        names: Names of the fields of plain tuples, in order; None for f0, f1, ...

    Raises:
        TypeMismatchError: If records have other fields than the first, or the values of a field are of several types.
    """
    if isinstance(batch, Columns):
        return batch
    columns, record = Columns.from_rows(batch), batch.values[0]
    if (
        names is not None
        and isinstance(record, (tuple, list, Row))
        and getattr(record, "_fields", None) is None
    ):
        columns.data = columns.data.rename_columns(names)
    return columns


def stamps_of(batch: Batch) -> Any:
    """Return the timestamps of a batch as numpy has them, or None."""
    return None if batch.timestamps is None else np.asarray(batch.timestamps, np.int64)


def taken(batch: Batch, places: Any) -> Batch:
    """Return the records in some places, without the watermarks between them.

    Args:
        batch: The batch.
        places: An array of integers.
    """
    if isinstance(batch, Columns):
        return batch.take(pa.array(places))
    rows, stamps = places.tolist(), batch.timestamps
    return Rows(
        [batch.values[row] for row in rows], None if stamps is None else [stamps[row] for row in rows]
    )
