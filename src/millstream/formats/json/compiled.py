"""Whole blocks of JSON lines into columns by the compiled parser, where that is installed (`native/`, extra `native`).

Its columns are in memory as Arrow's; no value becomes an object of Python before somebody asks for it. It refuses more
than it would have to, for others are asked then (`blocks.py`): empty lines, keys with escapes, integers of 19 digits,
`1.0` for an integer. Rows, lists and maps are theirs, too.
"""

from __future__ import annotations

from typing import Any

from millstream.formats.block import BlockLayout, ColumnBlock, NestedColumn
from millstream.formats.json.columns import ReadColumn, of_numbers, of_texts
from millstream.formats.json.values import new_decoder
from millstream.types import datatypes as types

__all__ = ["CompiledLines"]

_MOST_REFUSED = 16
"""With so many blocks more refused than taken it is not asked for some time: much of the file is odd."""
_PAUSE = 256
"""For so many blocks."""


def _new_parser() -> Any | None:
    """Return what makes parsers; None if it is not installed."""
    try:
        from millstream_native import JsonLines  # optional: the extra `native`
    except ImportError:
        return None
    return JsonLines


_NEW_PARSER = _new_parser()


class CompiledLines:
    """Makes columns of lines; `of` returns one if it can.

    Args:
        layout: Names and types.
        new_parser: Makes parsers: `millstream_native.JsonLines`.
        kinds: What the parser is to make of each field.
        readers: What makes the column of what it made, None for nothing to be done.
    """

    def __init__(
        self, layout: BlockLayout, new_parser: Any, kinds: list[str], readers: list[ReadColumn | None]
    ) -> None:
        self._layout = layout
        self._readers = readers
        self._refused = 0  # more than were taken
        self._pause = 0
        fields = [
            (field.name, kind, bool(field.data_type.nullable), _most_characters(field.data_type))
            for field, kind in zip(layout.row_type, kinds, strict=True)
        ]
        self._decode = new_parser(fields).decode

    @classmethod
    def of(cls, layout: BlockLayout) -> CompiledLines | None:
        """Return what decodes lines of a layout; None without the parser, or if it does not know one of the types."""
        fields = list(layout.row_type)
        if _NEW_PARSER is None or not fields or len(set(layout.fields)) < len(fields):
            return None
        parse = new_decoder(layout.row_type).decode
        kinds, readers = [], []
        for field in fields:
            data_type = field.data_type
            if isinstance(data_type, (types.RowType, types.ArrayType, types.MapType)):
                return None
            kind = _KINDS.get(type(data_type))
            if kind is not None:
                reader = None
            elif isinstance(data_type, types.DecimalType):
                kind, reader = "raw", of_numbers(data_type, parse)
            else:
                kind, reader = "text", of_texts(data_type)
            kinds.append(kind)
            readers.append(reader)
        try:
            return cls(layout, _NEW_PARSER, kinds, readers)
        except UnicodeEncodeError:  # a name that is no text of UTF-8
            return None

    def decode(self, block: bytes) -> ColumnBlock | None:
        """Return whole lines; None if somebody else is to look at them."""
        if self._pause:
            self._pause -= 1
            return None
        columns = self._columns(block)
        if columns is not None:
            self._refused = max(self._refused - 1, 0)
            return ColumnBlock(self._layout, columns, len(columns[0]) - (not block.endswith(b"\n")))
        self._refused += 1
        if self._refused == _MOST_REFUSED:
            self._refused, self._pause = 0, _PAUSE
        return None

    def _columns(self, block: bytes) -> list[Any] | None:
        found = self._decode(block)
        if found is None:
            return None
        try:
            return [
                _Plain(column) if read is None else read(column.values())
                for column, read in zip(found, self._readers, strict=True)
            ]
        except (ValueError, ArithmeticError):
            return None


_KINDS: dict[type[types.DataType], str] = {
    types.VarCharType: "text",
    types.CharType: "text",
    types.BooleanType: "bool",
    types.TinyIntType: "i8",
    types.SmallIntType: "i16",
    types.IntType: "i32",
    types.BigIntType: "i64",
    types.FloatType: "f64",
    types.DoubleType: "f64",
}


def _most_characters(data_type: types.DataType) -> int:
    return data_type.length if isinstance(data_type, types.VarCharType) else types.VarCharType.MAX_LENGTH


class _Plain(NestedColumn):
    """Values that the parser has made."""

    def __init__(self, column: Any) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    def values(self) -> list[Any]:
        """Return the values."""
        values: list[Any] = self._column.values()
        return values

    def array(self, kind: Any) -> Any:
        """Return the values as an array."""
        import pyarrow as pa  # optional: whoever has a type has it

        nulls, valid, offsets, data = self._column.buffers()
        buffers = [valid, data] if offsets is None else [valid, offsets, data]
        made = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
        return pa.Array.from_buffers(kind, len(self._column), made, nulls)
