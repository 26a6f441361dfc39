"""Columns of the types that JSON has no form of its own for: of texts, and of numbers as they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.formats.json.values import value_reader
from millstream.types import datatypes as types
from millstream.types.arrow_types import Form, arrow_type
from millstream.types.arrow_values import check_range

__all__ = ["ReadColumn", "of_numbers", "of_texts"]

ReadColumn = Callable[[list[str | None]], Any]
"""Makes a column, a list or an array, of the texts of its values.

Raises ValueError or ArithmeticError if one does not fit.
"""


def of_numbers(data_type: types.DataType, parse: Callable[[str], Any]) -> ReadColumn:
    """Return what reads values from the JSON that they are in a line, exactly.

    Args:
        data_type: Of the values.
        parse: Parses the JSON of one value exactly.
    """
    read = value_reader(data_type)
    return lambda texts: [None if text is None else read(parse(text)) for text in texts]


def of_texts(data_type: types.DataType) -> ReadColumn:
    """Return what parses texts, in Arrow's way where that is certain to give the same as Python's."""
    read = value_reader(data_type)
    cast = isinstance(data_type, (types.DateType, types.TimestampType)) and not isinstance(
        data_type, types.LocalZonedTimestampType
    )

    def convert(texts: list[str | None]) -> Any:
        array = _cast(texts, data_type) if cast else None
        return list(map(read, texts)) if array is None else array

    return convert


def _cast(texts: list[str | None], data_type: types.DataType) -> Any | None:
    """Return dates or timestamps of texts; None if Arrow does not take one of them, as Python may."""
    try:
        import pyarrow as pa  # optional: the extra `parquet`
    except ImportError:
        return None
    try:
        array = pa.array(texts, pa.string()).cast(arrow_type(data_type, Form.PARSED))
    except pa.ArrowInvalid:
        return None
    check_range(array)
    return array
