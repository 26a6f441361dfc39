"""Results as frames of other libraries."""

from __future__ import annotations

from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.table.expressions.rex import RowSchema
from millstream.types.row import RowKind

__all__ = ["final_rows", "to_pandas"]


def final_rows(result: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a result that are there at its end, in the order in which they came."""
    rows: list[tuple[Any, ...] | None] = []
    places: dict[Any, list[int]] = {}
    with result.collect() as every:
        for row in every:
            values = tuple(row)
            key = _hashable(values)
            if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER):
                places.setdefault(key, []).append(len(rows))
                rows.append(values)
            else:
                found = places.get(key)
                if found:
                    rows[found.pop()] = None
    return [row for row in rows if row is not None]


def _hashable(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return frozenset((_hashable(key), _hashable(item)) for key, item in value.items())
    return value


def to_pandas(result: Any, schema: RowSchema) -> Any:
    """Return the rows of a result that are there at its end as a pandas DataFrame.

    Raises:
        ConfigurationError: If pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise ConfigurationError(
            "to_pandas needs pandas, which is not installed", hint="pip install pandas"
        ) from error
    return pandas.DataFrame(final_rows(result), columns=list(schema.names))
