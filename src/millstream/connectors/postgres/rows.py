"""Rows as the server copies them (CSV), made into columns of Arrow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from millstream.base.errors import MalformedRecordError, SourceError
from millstream.connectors.decimal_text import decimals_of
from millstream.connectors.postgres.column_types import ColumnType, is_numeric
from millstream.connectors.postgres.relation import Relation
from millstream.types import datatypes as types
from millstream.types.arrow_types import Form, arrow_type, load_arrow

__all__ = ["RowParser", "load_arrow_csv"]

_WHAT = "PostgreSQL sources"
_PLACE = re.compile(r"CSV column #(\d+)")
_ELEMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|([^",{}]+)', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_BOUNDS = re.compile(r"^(\[-?\d+:-?\d+\])+=")


def load_arrow_csv() -> Any:
    """Return pyarrow.csv.

    Raises:
        ConfigurationError: If pyarrow is not installed.
    """
    load_arrow(_WHAT)
    import pyarrow.csv  # optional: the extra `parquet`

    return pyarrow.csv


def _schema_of(names: Sequence[str], data_types: Sequence[types.DataType]) -> Any:
    """Return the Arrow schema of rows."""
    pa = load_arrow(_WHAT)
    return pa.schema(
        [pa.field(name, arrow_type(each, Form.STORED)) for name, each in zip(names, data_types, strict=True)]
    )


class RowParser:
    """Makes record batches of lines of CSV.

    Args:
        relation: What they were copied of.
        key_columns: How many columns of the key are behind its columns.
    """

    def __init__(self, relation: Relation, key_columns: int) -> None:
        self._pa = pa = load_arrow(_WHAT)
        self._csv = csv = load_arrow_csv()
        self._relation = relation
        self._schema = _schema_of(relation.columns, relation.data_types)
        places = [f"c{place}" for place in range(len(relation.columns))]
        self._keys = [f"k{place}" for place in range(key_columns)]
        self._names = [*places, *self._keys]
        read = {
            name: _read_as(pa, field.type, kind)
            for name, field, kind in zip(places, self._schema, relation.kinds, strict=True)
        }
        self._convert = csv.ConvertOptions(
            column_types={**read, **dict.fromkeys(self._keys, pa.string())},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=["t"],
            false_values=["f"],
        )
        self._parse = csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)

    def batch(self, lines: bytes) -> tuple[Any, tuple[str, ...]]:
        """Return the rows of whole lines, and the key of the last one.

        Raises:
            MalformedRecordError: If a value does not fit its type; names the column.
        """
        pa = self._pa
        options = self._csv.ReadOptions(
            use_threads=False, block_size=len(lines) + 1, column_names=self._names
        )
        try:
            table = self._csv.read_csv(
                pa.BufferReader(lines), options, parse_options=self._parse, convert_options=self._convert
            )
        except pa.ArrowInvalid as error:
            raise self._malformed(error) from error
        columns = [_whole(pa, column) for column in table.columns]
        last = tuple(column[-1].as_py() for column in columns[len(self._schema) :])
        arrays = [self._array(place, columns[place]) for place in range(len(self._schema))]
        return pa.record_batch(arrays, schema=self._schema), last

    def _array(self, place: int, column: Any) -> Any:
        pa, kind = self._pa, self._schema.field(place).type
        if column.type == kind:
            return column
        try:
            if pa.types.is_decimal(kind):
                return decimals_of(pa, column, kind)
            if pa.types.is_binary(kind):
                return pa.array(_bytes_of(column.to_pylist()), kind)
            return _ArrayText(pa, kind).array(column.to_pylist())
        except (pa.ArrowException, ValueError) as error:
            raise self._misfit(place, str(error)) from error

    def _malformed(self, error: Exception) -> SourceError:
        found = _PLACE.search(str(error))
        if found is None or int(found[1]) >= len(self._schema):
            return SourceError(f"what was copied of {self._relation.name} does not parse", detail=str(error))
        return self._misfit(int(found[1]), str(error))

    def _misfit(self, place: int, seen: str) -> MalformedRecordError:
        relation = self._relation
        return MalformedRecordError(
            f"column {relation.columns[place]!r} of {relation.name}, of type {relation.kinds[place].shown}: "
            f"a value does not fit {relation.data_types[place]}",
            detail=seen.removeprefix(f"In CSV column #{place}: "),
            hint="Declare a type that holds all values, such as STRING for their text (set_row_type); "
            "or leave such rows out by a query.",
        )


class _ArrayText:
    """Makes lists of what the server writes for arrays: {1,NULL,"a, b"}."""

    def __init__(self, pa: Any, kind: Any) -> None:
        self._pa = pa
        self._kind = kind

    def array(self, texts: Sequence[str | None]) -> Any:
        """Return the arrays of some texts.

        Raises:
            ValueError: If one has several dimensions, or an element does not fit; pyarrow's errors are such.
        """
        pa = self._pa
        lists = [None if text is None else _elements(text) for text in texts]
        offsets = list(accumulate((len(each or ()) for each in lists), initial=0))
        # A list begins where the one before it ends; where there is none, its offset is null.
        starts: list[int | None] = [
            None if each is None else start for each, start in zip(lists, offsets, strict=False)
        ]
        values = self._values([element for each in lists if each is not None for element in each])
        return pa.ListArray.from_arrays(pa.array([*starts, offsets[-1]], pa.int32()), values).cast(self._kind)

    def _values(self, elements: list[str | None]) -> Any:
        pa, kind = self._pa, self._kind.value_type
        if pa.types.is_string(kind):
            return pa.array(elements, kind)
        if pa.types.is_binary(kind):
            return pa.array(_bytes_of(elements), kind)
        if pa.types.is_boolean(kind):
            return pa.array([None if each is None else each == "t" for each in elements], kind)
        texts = pa.array(elements, pa.string())
        return decimals_of(pa, texts, kind) if pa.types.is_decimal(kind) else texts.cast(kind)


def _elements(text: str) -> list[str | None]:
    """Return the elements of an array."""
    body = _BOUNDS.sub("", text)[1:-1]
    if "{" not in body and '"' not in body:
        return [None if each == "NULL" else each for each in body.split(",")] if body else []
    elements: list[str | None] = []
    end = 0
    for match in _ELEMENT.finditer(body):
        if body[end : match.start()].strip(","):
            break
        in_quotes, bare = match.groups()
        elements.append(
            (None if bare == "NULL" else bare) if in_quotes is None else _ESCAPED.sub(r"\1", in_quotes)
        )
        end = match.end()
    if end != len(body):
        raise ValueError(f"an array of several dimensions: {text[:100]}")
    return elements


def _bytes_of(texts: Sequence[str | None]) -> list[bytes | None]:
    return [None if text is None else bytes.fromhex(text[2:]) for text in texts]  # behind \x


def _read_as(pa: Any, kind: Any, column: ColumnType) -> Any:
    """Return the type that a column of CSV is read as before it is made what it is to be."""
    if pa.types.is_decimal(kind):
        return kind if is_numeric(column, kind.precision, kind.scale) else pa.string()
    return pa.string() if pa.types.is_nested(kind) or pa.types.is_binary(kind) else kind


def _whole(pa: Any, column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
