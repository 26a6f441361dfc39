"""Whole blocks of JSON lines into columns by msgspec: only values of fields that are wanted become objects.

What it takes, Python's json module takes with the same result, but for this, which is looked for; a block in which it
is found is refused (None).

==============================================  =====================================  ===========================
in a block                                      line by line                           msgspec
==============================================  =====================================  ===========================
several objects in a line, one in several       an error                               objects
no UTF-8 in a field that is not wanted          an error                               left out
``-0`` as a float                               -0.0                                   0.0
==============================================  =====================================  ===========================

What is nested deeper than Python's recursion limit, or has more than Python's 4,300 digits, in a field that is not
wanted, is an error line by line only.

Texts for numbers, numbers for texts, infinity and all else that is taken line by line beyond the types of JSON is
refused as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, count, islice
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

import msgspec

from millstream.formats.block import BlockLayout, ColumnBlock, NestedColumn, column_values
from millstream.formats.json.columns import of_numbers, of_texts
from millstream.formats.json.values import new_decoder
from millstream.types import datatypes as types
from millstream.types.arrow_records import offsets_of
from millstream.types.row import rows_of

__all__ = ["ObjectLines"]

_BOUNDARY = re.compile(rb"\}[ \t\r]*\n[ \t\r\n]*\{")
_MINUS_ZERO = re.compile(rb"-0[ \t\r]*[,}\]\n]")
_WHITE = b" \t\r\n"


class ObjectLines:
    """Makes columns of the fields of objects that msgspec makes of the lines.

    Args:
        layout: Names and types.
    """

    def __init__(self, layout: BlockLayout) -> None:
        self._layout = layout
        self._objects = _objects_of(layout.row_type, new_decoder(layout.row_type).decode)
        self._decode = (
            None if self._objects is None else msgspec.json.Decoder(self._objects.kind).decode_lines
        )

    def decode(self, block: bytes) -> ColumnBlock | None:
        """Return whole lines, without empty ones; None if they have to be read one by one."""
        if self._decode is None or self._objects is None or not (block.isascii() or _is_utf8(block)):
            return None
        breaks = _plain_breaks(block)
        lines = _count_objects(block) if breaks is None else breaks + 1
        if lines is None:
            return None
        try:
            objects = self._decode(block)
            if len(objects) != lines:
                return None
            counted = None if breaks is None else breaks + block.endswith(b"\n")
            return ColumnBlock(self._layout, self._objects.columns(objects, block), counted)
        except (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError):
            return None


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
    if not (block.startswith(b"{") and block.endswith((b"}", b"}\n", b"}\r\n"))):
        return None
    try:
        import numpy as np  # optional: the extra `columns`
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

_Convert = Callable[[list[Any], bytes], Any]
"""Makes a column of what msgspec gave: a list of the values that records have, an array, or a nested column.

Its arguments are the values of a column, None among them, and the block that they are in.
"""


class _Wanted(NamedTuple):
    """How a type is asked for.

    Attributes:
        kind: What msgspec is to make of a value, without None.
        convert: What is to be done to what it made; None for nothing.
    """

    kind: Any
    convert: _Convert | None = None


class _Objects:
    """Objects of a row type.

    Attributes:
        kind: The class that msgspec makes them of.
    """

    def __init__(self, row_type: types.RowType, parts: Sequence[_Wanted]) -> None:
        fields: list[Any] = []
        names = [f"f{place}" for place in range(len(parts))]
        for name, part, field in zip(names, parts, row_type, strict=True):
            kind = _kind(part, field.data_type)
            fields.append((name, kind, None) if field.data_type.nullable else (name, kind))
        named = dict(zip(names, row_type.field_names(), strict=True))
        self.kind = msgspec.defstruct("Wanted", fields, rename=named, kw_only=True, gc=False)
        self._columns = [(attrgetter(name), part.convert) for name, part in zip(names, parts, strict=True)]

    def columns(self, objects: Iterable[Any], block: bytes) -> list[Any]:
        """Return the fields of all objects by column.

        Raises:
            ValueError, ArithmeticError: If a value does not fit, or has to be looked at more closely.
        """
        columns = []
        for get, convert in self._columns:
            values = list(map(get, objects))
            columns.append(values if convert is None else convert(values, block))
        return columns


def _objects_of(row_type: types.RowType, parse: Callable[[str], Any]) -> _Objects | None:
    """Return how objects of a type are asked for; None if that cannot be said to msgspec."""
    parts = [_wanted(part, parse) for part in row_type.field_types()]
    present = [part for part in parts if part is not None]
    if not parts or len(present) < len(parts):
        return None
    try:
        return _Objects(row_type, present)
    except ValueError:  # a name that is written with escapes
        return None


def _wanted(data_type: types.DataType, parse: Callable[[str], Any]) -> _Wanted | None:
    """Return how values of a type are asked for; None if that cannot be said to msgspec.

    Args:
        data_type: The type.
        parse: Parses the text of one value exactly.
    """
    if isinstance(data_type, types.RowType):
        return _wanted_rows(data_type, parse)
    if isinstance(data_type, types.ArrayType):
        element = _wanted(data_type.element_type, parse)
        return element and _Wanted(list[_kind(element, data_type.element_type)], _lists(element.convert))  # type: ignore[misc]
    if isinstance(data_type, types.MapType):
        item = _wanted(data_type.value_type, parse)
        return item and _Wanted(dict[str, _kind(item, data_type.value_type)], _dicts(item.convert))  # type: ignore[misc]
    if isinstance(data_type, types.VarCharType):
        return _Wanted(_text_kind(data_type))
    if isinstance(data_type, types.BooleanType):
        return _Wanted(bool)
    if isinstance(data_type, types.DoubleType):
        return _Wanted(float, _floats)
    if isinstance(data_type, types.DecimalType):
        return _Wanted(msgspec.Raw, _exact(of_numbers(data_type, parse)))
    if isinstance(data_type, types.NumericType):
        limit = 1 << (data_type.bits - 1)  # type: ignore[attr-defined]
        return _Wanted(Annotated[int, msgspec.Meta(ge=-limit, le=limit - 1)])
    read_texts = of_texts(data_type)
    return _Wanted(str, lambda texts, block: read_texts(texts))


def _wanted_rows(row_type: types.RowType, parse: Callable[[str], Any]) -> _Wanted | None:
    objects = _objects_of(row_type, parse)
    if objects is None:
        return None
    return _Wanted(objects.kind, _rows(objects, tuple(row_type.field_names())))


def _kind(wanted: _Wanted, data_type: types.DataType) -> Any:
    takes_null = data_type.nullable and wanted.kind is not msgspec.Raw  # which takes anything
    return wanted.kind | None if takes_null else wanted.kind


def _text_kind(data_type: types.VarCharType) -> Any:
    if data_type.length == types.VarCharType.MAX_LENGTH:
        return str
    return Annotated[str, msgspec.Meta(max_length=data_type.length)]


# ---- values ----


def _floats(values: list[Any], block: bytes) -> list[Any]:
    if 0.0 in values and _MINUS_ZERO.search(block):
        raise ValueError("-0 may be among the floats")
    return values


def _exact(read_numbers: Callable[[list[str | None]], Any]) -> _Convert:
    return lambda values, block: read_numbers(
        [None if value is None else bytes(value).decode() for value in values]
    )


def _rows(objects: _Objects, names: tuple[str, ...]) -> _Convert:
    def convert(values: list[Any], block: bytes) -> _Rows:
        return _Rows(values, objects.columns([value for value in values if value is not None], block), names)

    return convert


def _lists(convert: _Convert | None) -> _Convert | None:
    if convert is None:
        return None
    return lambda values, block: _Lists(
        values, convert(list(chain.from_iterable(filter(None, values))), block)
    )


def _dicts(convert: _Convert | None) -> _Convert | None:
    if convert is None:
        return None
    return lambda values, block: _Dicts(
        values, convert([item for value in values if value for item in value.values()], block)
    )


class _Rows(NestedColumn):
    """Rows: columns of those that are not None."""

    def __init__(self, values: list[Any], columns: Sequence[Any], names: tuple[str, ...]) -> None:
        self._values = values
        self._columns = columns
        self._names = names

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> list[Any]:
        """Return the rows."""
        rows = rows_of(self._names, zip(*map(column_values, self._columns), strict=True))
        if len(rows) == len(self._values):
            return rows
        taken = iter(rows)
        return [None if value is None else next(taken) for value in self._values]

    def array(self, kind: Any) -> Any:
        """Return a struct array."""
        import pyarrow as pa  # optional: whoever has a type has it

        arrays = [_array(column, field.type) for column, field in zip(self._columns, kind, strict=True)]
        if len(arrays[0]) == len(self._values):
            return pa.StructArray.from_arrays(arrays, fields=list(kind))
        counted = count()
        places = pa.array([None if value is None else next(counted) for value in self._values], pa.int64())
        spread = [array.take(places) for array in arrays]
        return pa.StructArray.from_arrays(spread, fields=list(kind), mask=places.is_null())


class _Lists(NestedColumn):
    """Lists, with the elements of all of them in one column."""

    def __init__(self, values: list[Any], elements: Any) -> None:
        self._values = values
        self._elements = elements

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> list[Any]:
        """Return the lists."""
        elements = iter(column_values(self._elements))
        return [None if value is None else list(islice(elements, len(value))) for value in self._values]

    def array(self, kind: Any) -> Any:
        """Return a list array."""
        import pyarrow as pa  # optional: whoever has a type has it

        elements = _array(self._elements, kind.value_type)
        return pa.ListArray.from_arrays(offsets_of(self._values), elements, type=kind)


class _Dicts(NestedColumn):
    """Dicts, with the items of all of them in one column."""

    def __init__(self, values: list[Any], items: Any) -> None:
        self._values = values
        self._items = items

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> list[Any]:
        """Return the dicts."""
        items = iter(column_values(self._items))
        return [
            None if value is None else dict(zip(value, islice(items, len(value)), strict=True))
            for value in self._values
        ]

    def array(self, kind: Any) -> Any:
        """Return a map array."""
        import pyarrow as pa  # optional: whoever has a type has it

        keys = pa.array([key for value in self._values if value for key in value], kind.key_type)
        items = _array(self._items, kind.item_type)
        return pa.MapArray.from_arrays(offsets_of(self._values), keys, items, type=kind)


def _array(column: Any, kind: Any) -> Any:
    import pyarrow as pa  # optional: whoever has a type has it

    if isinstance(column, NestedColumn):
        return column.array(kind)
    return pa.array(column, kind) if isinstance(column, list) else column
