r"""Whole blocks of CSV into columns, by pyarrow.

Python's csv module, which reads record by record (`rows.py`), defines what a file means. pyarrow's parser is
faster and agrees with it on ordinary text; so a block is given to it only after a look for everything that the two take
differently, and where the same result is not certain `parse` says None, and the block is read record by record.

========================================  =========================================  ==========================
in a block                                csv module                                 pyarrow
========================================  =========================================  ==========================
``"a"b``                                  an error                                   the value ab
a carriage return without a newline       an error                                   the end of a record
the escape character                      takes the next one's meaning away          not used
a comment                                 left out, where that is allowed            a record
U+FEFF at the beginning                   text                                       left out
a value of more than 131,072 characters   an error                                   a value
========================================  =========================================  ==========================

Values of the types in `_NATIVE` are parsed by pyarrow; it knows fewer forms than Python (no ``+1``), and what it does
not know fails, so values are tried as text then, which Python parses. What only pyarrow knows is looked for:
hexadecimal integers, and ``nan(...)``.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from typing import Any

from millstream.formats.block import BlockLayout, ColumnBlock
from millstream.formats.csv.schema import CsvColumn, CsvSchema
from millstream.spi.formats import BlockDecoder
from millstream.types import datatypes as types
from millstream.types.arrow_values import check_range, values_of

__all__ = ["CsvBlocks"]

_BOM = b"\xef\xbb\xbf"
_COMMENT = re.compile(rb"(?:\A|\n) *#")

_NATIVE: dict[type[types.DataType], tuple[str, ...]] = {
    types.TinyIntType: ("int8",),
    types.SmallIntType: ("int16",),
    types.IntType: ("int32",),
    types.BigIntType: ("int64",),
    types.FloatType: ("float64",),  # Python's float keeps the precision of the text
    types.DoubleType: ("float64",),
    types.BooleanType: ("bool_",),
    types.DateType: ("date32",),
    types.TimestampType: ("timestamp", "us"),
}


class CsvBlocks(BlockDecoder):
    r"""Decodes the blocks of one file.

    Args:
        schema: Its punctuation.
        columns: Its columns, in the order of the file.
        layout: Of what comes out; by default the columns.
        order: Places in the file of the columns that come out; None as they are.

    >>> schema = CsvSchema.builder().add_string_column("name").add_number_column("age").build()
    >>> CsvBlocks(schema, schema.columns).decode(b'ann,1\n"bo,b",\n').rows(0, 2)
    [Row(name='ann', age=1), Row(name='bo,b', age=None)]
    """

    def __init__(
        self,
        schema: CsvSchema,
        columns: Sequence[CsvColumn],
        layout: BlockLayout | None = None,
        order: Sequence[int] | None = None,
    ) -> None:
        self._schema = schema
        self._columns = columns
        self._layout = layout or BlockLayout(schema.row_type)
        self._order = order
        self._tries_native = any(type(column.data_type) in _NATIVE for column in columns)
        quote = schema.quote_char
        self._quote = None if quote is None else quote.encode()
        self._escape = None if schema.escape_char is None else schema.escape_char.encode()

    def whole_records(self, data: bytes) -> int:
        """Return the number of bytes up to the end of the last record that ends in `data`; 0 if none does.

        Args:
            data: From the beginning of a record on. If quotes stand where they have no meaning the result may be wrong;
                then `decode` refuses the block.
        """
        end = data.rfind(b"\n") + 1
        quote = self._quote
        # A newline is within a quoted value if the number of quotes before it is odd.
        while quote is not None and data.count(quote, 0, end) % 2:
            end = data.rfind(b"\n", 0, data.rfind(quote, 0, end)) + 1
        return end

    def decode(self, block: bytes) -> ColumnBlock | None:
        """Return whole records, without empty lines; None if they have to be read one by one.

        Args:
            block: Whole records, the last one's line end may be missing.
        """
        columns = self._decode(block)
        if columns is None:
            return None
        if self._order is not None:
            columns = [columns[place] for place in self._order]
        return ColumnBlock(self._layout, columns)

    def join(self, messages: Sequence[bytes]) -> bytes | None:
        """Return messages of one line each as a block; None if one of them is empty or holds a line break."""
        block = b"\n".join(messages)
        if not all(messages) or block.count(b"\n") != len(messages) - 1 or b"\r" in block:
            return None
        return block

    def _decode(self, block: bytes) -> list[Any] | None:
        if not self._is_plain(block):
            return None
        if self._tries_native:
            columns = self._columns_of(block, native=True)
            if columns is not None:
                return columns
            columns = self._columns_of(block, native=False)
            # What Python reads and pyarrow does not will come again.
            self._tries_native = columns is None
            return columns
        return self._columns_of(block, native=False)

    def _is_plain(self, block: bytes) -> bool:
        if block.startswith(_BOM) or (b"\r" in block and block.count(b"\r") != block.count(b"\r\n")):
            return False
        if self._escape is not None and self._escape in block:
            return False
        if self._schema.allow_comments and _COMMENT.search(block):
            return False
        quote = self._schema.quote_char
        return (
            quote is None
            or quote.encode() not in block
            or _is_well_quoted(block, self._schema.column_separator, quote)
        )

    def _columns_of(self, block: bytes, *, native: bool) -> list[Any] | None:
        import pyarrow as pa  # optional: the extra `parquet`

        kinds = self._arrow_types(block) if native else [None] * len(self._columns)
        try:
            table = self._table(block, kinds)
            arrays = [_joined(column) for column in table.columns]
            if any(_longest(array) > csv.field_size_limit() for array in arrays):
                return None
            return [
                self._parsed(column, array) if kind is None else _checked(array)
                for column, kind, array in zip(self._columns, kinds, arrays, strict=True)
            ]
        except (pa.ArrowInvalid, ValueError, OverflowError):
            return None

    def _parsed(self, column: CsvColumn, texts: Any) -> Any:
        """Return a column of an array of texts."""
        null, kind = self._schema.null_value, column.data_type
        if not isinstance(kind, types.VarCharType) or kind.length < types.VarCharType.MAX_LENGTH:
            return parse_texts(column, values_of(texts), null)
        return texts if null is None else _without(texts, null)

    def _table(self, block: bytes, kinds: Sequence[Any]) -> Any:
        import pyarrow as pa  # optional: the extra `parquet`
        import pyarrow.csv as pa_csv

        schema, null = self._schema, self._schema.null_value
        names = [str(index) for index in range(len(kinds))]
        return pa_csv.read_csv(
            pa.BufferReader(block),
            read_options=pa_csv.ReadOptions(use_threads=False, column_names=names, block_size=len(block) + 1),
            parse_options=pa_csv.ParseOptions(
                delimiter=schema.column_separator,
                quote_char=schema.quote_char or False,
                newlines_in_values=self._quote is not None and self._quote in block,  # a pass more
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types={
                    name: pa.string() if kind is None else kind
                    for name, kind in zip(names, kinds, strict=True)
                },
                null_values=[""] if null is None else ["", null],
                strings_can_be_null=False,
                true_values=["true", "True", "TRUE"],
                false_values=["false", "False", "FALSE"],
                timestamp_parsers=[pa_csv.ISO8601],
            ),
        )

    def _arrow_types(self, block: bytes) -> list[Any]:
        """Return the type as which pyarrow parses each column; None if Python does."""
        import pyarrow as pa  # optional: the extra `parquet`

        makes = [_NATIVE.get(type(column.data_type)) for column in self._columns]
        kinds = {make: getattr(pa, make[0])(*make[1:]) for make in makes if make is not None}
        if any(map(pa.types.is_integer, kinds.values())) and _may_be_hexadecimal(block):
            kinds = {make: kind for make, kind in kinds.items() if not pa.types.is_integer(kind)}
        if b"(" in block:
            kinds.pop(("float64",), None)
        return [None if make is None else kinds.get(make) for make in makes]


def parse_texts(column: CsvColumn, texts: Sequence[str], null: str | None) -> list[Any]:
    """Return the values of a column.

    Args:
        column: How they are parsed.
        texts: What stands in the file.
        null: The text that means None; None if there is no such text.

    Raises:
        ValueError: If one does not parse.
    """
    if null is None or null not in texts:
        return column.parse_column(texts)  # type: ignore[arg-type]
    present = iter(column.parse_column([text for text in texts if text != null]))
    return [None if text == null else next(present) for text in texts]


def _may_be_hexadecimal(block: bytes) -> bool:
    # A single byte is found ten times as fast as two.
    return (b"x" in block and b"0x" in block) or (b"X" in block and b"0X" in block)


def _without(texts: Any, null: str) -> Any:
    """Return an array with null in place of one text."""
    import pyarrow as pa  # optional: whoever has an array has it
    import pyarrow.compute as pc

    return pc.if_else(pc.equal(texts, null), pa.scalar(None, texts.type), texts)


def _checked(array: Any) -> Any:
    """Return an array whose values are Python's; raise ValueError if they are not."""
    check_range(array)
    return array


def _joined(column: Any) -> Any:
    """Return a chunked array as an array."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _longest(array: Any) -> int:
    """Return the number of bytes of the longest text."""
    import pyarrow as pa  # optional: whoever has an array has it
    import pyarrow.compute as pc

    return pc.max(pc.binary_length(array)).as_py() or 0 if pa.types.is_string(array.type) else 0


def _is_well_quoted(block: bytes, separator: str, quote: str) -> bool:
    """Tell whether each quote opens a value, closes it or is doubled within one; False if numpy is not installed.

    ::

        a,'b ''c''',d     if each second quote opens, from the beginning of a record on, those that open
          o  co coc       stand behind a separator, a line end or a quote, and the others in front of one
    """
    try:
        import numpy as np  # optional: pyarrow's only optional dependency
    except ImportError:
        return False
    text = np.frombuffer(b"\n" + block + b"\n", np.uint8)
    (places,) = np.nonzero(text == ord(quote))
    if len(places) % 2:
        return False
    neighbours = np.zeros(256, np.bool_)
    neighbours[[ord(separator), ord(quote), ord("\n")]] = True
    opened = neighbours[text[places[::2] - 1]].all()
    neighbours[ord("\r")] = True
    return bool(opened and neighbours[text[places[1::2] + 1]].all())
