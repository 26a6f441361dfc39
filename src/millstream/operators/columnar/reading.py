"""Columns of named fields of a batch, whichever form it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.base.errors import NotSupportedError, TypeMismatchError, shorten
from millstream.operators.fields import FieldReader
from millstream.spi.batch import Batch, Columns
from millstream.types.arrow_values import bare_schema
from millstream.types.row import Row

__all__ = ["ColumnReader", "as_columns", "stamps_of"]


_BARE = "value"


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
            columns = {field: _column(batch.data, field) for field in self._readers}
        else:
            columns = {
                field: _array(field, reader.values(batch.values)) for field, reader in self._readers.items()
            }
        return [None if field is None else columns[field] for field in self._fields]


def _column(data: pa.RecordBatch, field: str) -> pa.Array:
    place = data.schema.get_field_index(field)
    if place < 0:
        raise TypeMismatchError(
            f"the records have no field {field!r}", detail=f"They have: {', '.join(data.schema.names)}."
        )
    return data.column(place)


def _array(field: str, values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise TypeMismatchError(
            f"the values of field {field!r} make no column: {shorten(values[:3])}", detail=str(error)
        ) from error


def as_columns(batch: Batch, names: Sequence[str] | None) -> Columns:
    """Return a batch as columns: one for each field of its records.

    Args:
        batch: Rows, dicts, named tuples, tuples; records that are no such thing are one column, `value`.
        names: Names of the fields of plain tuples, in order; None for f0, f1, ...

    Raises:
        TypeMismatchError: If records have other fields than the first, or the values of a field are of several types.
    """
    if isinstance(batch, Columns):
        return batch
    stamps = None if batch.timestamps is None else pa.array(batch.timestamps, pa.int64())
    fields = _fields_of(batch.values[0], names)
    if fields is None:
        kept = _array(_BARE, batch.values)
        return Columns(pa.RecordBatch.from_arrays([kept], schema=bare_schema(_BARE, kept.type)), stamps)
    columns = [_array(field, FieldReader(field, fields).values(batch.values)) for field in fields]
    return Columns(pa.RecordBatch.from_arrays(columns, list(fields)), stamps)


def _fields_of(record: Any, names: Sequence[str] | None) -> Sequence[str] | None:
    if isinstance(record, dict):
        return list(record)
    named = getattr(record, "_fields", None)
    if named is not None:
        return list(named)
    if isinstance(record, (tuple, list, Row)):
        return (
            names
            if names is not None and len(names) == len(record)
            else [f"f{place}" for place in range(len(record))]
        )
    return None


def stamps_of(batch: Batch) -> Any:
    """Return the timestamps of a batch as numpy has them, or None."""
    if batch.timestamps is None:
        return None
    if isinstance(batch, Columns):
        return batch.timestamps.to_numpy()
    return np.array(batch.timestamps, np.int64)
