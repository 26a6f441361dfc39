r"""Whole blocks of JSON lines into columns, by pyarrow.

Python's json module, which reads line by line (`rows.py`), defines what a file means. pyarrow's parser is faster and
stricter: what it takes, Python takes with the same result, but for this, which is looked for; a block in which it is
found is refused (`decode` says None), and read line by line.

==============================================  =====================================  ===========================
in a block                                      line by line                           pyarrow
==============================================  =====================================  ===========================
several objects in a line, one in several       an error                               objects
bytes that are no UTF-8                         an error                               what they are
U+FEFF at the beginning                         an error                               left out
``Inf``                                         an error                               infinity
a text longer than its type                     an error                               a text
no value in a column that is NOT NULL           an error                               null
==============================================  =====================================  ===========================

What is nested deeper than Python's recursion limit is an error line by line only.

Dates, times, timestamps and bytes are taken as text and parsed in Python's way, or in Arrow's where that is
certain to give the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from millstream.formats.block import BlockLayout, ColumnBlock
from millstream.formats.json.values import value_reader
from millstream.spi.formats import BlockDecoder
from millstream.types import datatypes as types
from millstream.types.arrow_types import Form, arrow_type
from millstream.types.arrow_values import check_range, values_of

__all__ = ["JsonBlocks"]

_BOM = b"\xef\xbb\xbf"
_SHORT_INFINITY = re.compile(rb"Inf\s*[,}\]]")
_BOUNDARY = re.compile(rb"\}[ \t\r]*\n[ \t\r\n]*\{")
_WHITE = b" \t\r\n"


class JsonBlocks(BlockDecoder):
    r"""Decodes blocks of JSON lines of one type.

    >>> from millstream.types.datatypes import DataTypes
    >>> kind = DataTypes.ROW([DataTypes.FIELD("name", DataTypes.STRING()), DataTypes.FIELD("age", DataTypes.INT())])
    >>> JsonBlocks(BlockLayout(kind)).decode(b'{"name": "ann", "age": 1}\n{"name": "bo"}\n').rows(0, 2)
    [Row(name='ann', age=1), Row(name='bo', age=None)]
    """

    def __init__(self, layout: BlockLayout) -> None:
        import pyarrow as pa  # optional: the extra `parquet`

        self._layout = layout
        self._fields = list(layout.row_type)
        kinds = [_parsed_type(field.data_type) for field in self._fields]
        self._is_possible = None not in kinds
        self._schema = pa.schema(zip(layout.fields, kinds, strict=True)) if self._is_possible else None

    def whole_records(self, data: bytes) -> int:
        """Return the number of bytes up to the end of the last line."""
        return data.rfind(b"\n") + 1

    def join(self, messages: Sequence[bytes]) -> bytes | None:
        """Return messages of one object each as a block; None if one of them is empty or holds a line break."""
        block = b"\n".join(messages)
        return block if all(messages) and block.count(b"\n") == len(messages) - 1 else None

    def decode(self, block: bytes) -> ColumnBlock | None:
        """Return whole lines, without empty ones; None if they have to be read one by one."""
        import pyarrow as pa  # optional: the extra `parquet`

        if not self._is_possible or not _is_plain(block):
            return None
        count = _count_objects(block)
        if not count:
            return None if count is None else ColumnBlock(self._layout, [[] for _ in self._fields])
        try:
            table = self._table(block)
            if table.num_rows != count:
                return None
            return ColumnBlock(self._layout, [self._column(table, field) for field in self._fields])
        except (pa.ArrowException, ValueError, ArithmeticError):
            return None

    def _table(self, block: bytes) -> Any:
        import pyarrow as pa  # optional: the extra `parquet`
        import pyarrow.json as pa_json

        return pa_json.read_json(
            pa.BufferReader(block),
            read_options=pa_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
            parse_options=pa_json.ParseOptions(
                explicit_schema=self._schema, unexpected_field_behavior="ignore"
            ),
        )

    def _column(self, table: Any, field: types.RowField) -> Any:
        column = table.column(field.name)
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        return _converted(array, field.data_type)


def _is_plain(block: bytes) -> bool:
    if block.startswith(_BOM) or (_may_hold_infinity(block) and _SHORT_INFINITY.search(block)):
        return False
    return block.isascii() or _is_utf8(block)


def _may_hold_infinity(block: bytes) -> bool:
    if b"I" not in block:  # a single byte is found ten times as fast as three
        return False
    try:
        import numpy as np  # optional: pyarrow's only optional dependency
    except ImportError:
        return b"Inf" in block
    marks = np.frombuffer(block, np.uint8)
    places = np.flatnonzero(marks[:-2] == ord("I"))
    return bool((marks[places + 1] == ord("n")).any() and b"Inf" in block)


def _is_utf8(block: bytes) -> bool:
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _count_objects(block: bytes) -> int | None:
    r"""Return how many lines there are if each that is not empty begins with `{` and ends with `}`; else None.

    Then two lines cannot be parts of one object, as nothing has `}` and `{` side by side; so if there are as many
    objects as lines, there is one in each.
    """
    if block.startswith(b"{") and block.endswith((b"}", b"}\n", b"}\r\n")):
        breaks = _plain_breaks(block)
        if breaks is not None:
            return breaks + 1
    text = block.strip(_WHITE)
    if not text:
        return 0
    if not (text.startswith(b"{") and text.endswith(b"}")):
        return None
    found = _BOUNDARY.findall(text)
    return len(found) + 1 if sum(each.count(b"\n") for each in found) == text.count(b"\n") else None


def _plain_breaks(block: bytes) -> int | None:
    """Return the number of line breaks if each stands between `}` and `{`; None if not, or without numpy.

    A line break at the end is not counted.
    """
    try:
        import numpy as np  # optional: pyarrow's only optional dependency
    except ImportError:
        return None
    marks = np.frombuffer(block, np.uint8)
    places = np.flatnonzero(marks[:-1] == ord("\n"))
    before = marks[places - 1]
    if len(places) and before[0] == ord("\r"):
        if not (before == ord("\r")).all():
            return None
        before = marks[places - 2]
    plain = (before == ord("}")).all() and (marks[places + 1] == ord("{")).all()
    return len(places) if plain else None


# ---- types ----


def _parsed_type(data_type: types.DataType) -> Any | None:
    """Return the Arrow type as which pyarrow parses values of a type; None if it cannot."""
    import pyarrow as pa  # optional: the extra `parquet`

    if isinstance(data_type, types.ArrayType):
        element = _inner_type(data_type.element_type)
        return None if element is None else pa.list_(element)
    if isinstance(data_type, types.RowType):
        parts = [_inner_type(part) for part in data_type.field_types()]
        if not parts or None in parts:
            return None
        return pa.struct(list(zip(data_type.field_names(), parts, strict=True)))
    if isinstance(data_type, types.MapType):
        return None
    if isinstance(data_type, (types.BooleanType, types.NumericType)):
        return arrow_type(data_type, Form.PARSED)
    return pa.string()


def _inner_type(data_type: types.DataType) -> Any | None:
    """Return the same for what is within a value; what has to be looked at for more than its type is left to Python."""
    limited = isinstance(data_type, types.VarCharType) and data_type.length < types.VarCharType.MAX_LENGTH
    return _parsed_type(data_type) if data_type.nullable and not limited else None


def _converted(array: Any, data_type: types.DataType) -> Any:
    """Return an array as pyarrow parsed it in its declared type: an array, or a list of values.

    Raises:
        ValueError, pa.ArrowException: If values do not fit.
    """
    if array.null_count and not data_type.nullable:
        raise ValueError(f"no value of type {data_type}")
    if isinstance(data_type, types.VarCharType):
        return _checked_text(array, data_type)
    if array.type == arrow_type(data_type, Form.PARSED):
        return array
    if isinstance(data_type, (types.ArrayType, types.RowType)):
        return _converted_nested(array, data_type)
    if isinstance(data_type, (types.DateType, types.TimestampType)):
        cast = _cast(array, data_type)
        if cast is not None:
            return cast
    read = value_reader(data_type)
    return list(map(read, values_of(array)))


def _converted_nested(array: Any, data_type: Any) -> Any:
    import pyarrow as pa  # optional: whoever has an array has it

    if isinstance(data_type, types.RowType):
        parts = [
            _as_array(_converted(part, field.data_type), field.data_type)
            for part, field in zip(array.flatten(), data_type, strict=True)
        ]
        return pa.StructArray.from_arrays(parts, data_type.field_names(), mask=array.is_null())
    elements = _as_array(_converted(array.values, data_type.element_type), data_type.element_type)
    return pa.ListArray.from_arrays(array.offsets, elements, mask=array.is_null())


def _as_array(column: Any, data_type: types.DataType) -> Any:
    import pyarrow as pa  # optional: whoever has an array has it

    return pa.array(column, arrow_type(data_type, Form.PARSED)) if isinstance(column, list) else column


def _checked_text(texts: Any, data_type: types.VarCharType) -> Any:
    import pyarrow.compute as pc  # optional: whoever has an array has it

    if data_type.length < types.VarCharType.MAX_LENGTH:
        longest = pc.max(pc.utf8_length(texts)).as_py()
        if longest is not None and longest > data_type.length:
            raise ValueError(f"text of {longest} characters is longer than {data_type.length}")
    return texts


def _cast(texts: Any, data_type: types.DataType) -> Any | None:
    """Return dates or timestamps of texts; None if Arrow does not take one of them, as Python may."""
    import pyarrow as pa  # optional: whoever has an array has it

    if isinstance(data_type, types.LocalZonedTimestampType):
        return None
    try:
        array = texts.cast(arrow_type(data_type, Form.PARSED))
    except pa.ArrowInvalid:
        return None
    check_range(array)
    return array
