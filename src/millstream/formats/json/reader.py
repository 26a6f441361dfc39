"""Files of JSON lines as named rows.

Files are read in blocks: `blocks.py` makes columns of a whole block at once, where the result is certain to be that of
Python's json module; else the block's lines are read one by one (`rows.py`), which also finds what is wrong with which
line.
"""

from __future__ import annotations

from typing import Any, BinaryIO

from millstream.base.errors import ConfigurationError
from millstream.formats.block import BlockLayout
from millstream.formats.block_records import BlockRecords
from millstream.formats.json.blocks import JsonBlocks
from millstream.formats.json.rows import JsonRecords
from millstream.formats.json.values import RowReader
from millstream.formats.text.lines import StreamFormat
from millstream.spi.formats import FileRecords
from millstream.types.basic import TypeInformation
from millstream.types.datatypes import RowType
from millstream.types.sql_types import row_type_info

__all__ = ["JsonLinesFormat"]


class JsonLinesFormat(StreamFormat):
    """Rows of files with one JSON object a line, in UTF-8.

    A position is (byte, number of lines before it), and the number of rows behind that. Fields are found by name: those
    that the schema has not are left out, those that an object has not are None. Empty lines are left out. Text is taken
    for other types where it has their form (`"12"`), dates and times are text, byte arrays base64, keys of maps text.

    Example:
        >>> from millstream.table import DataTypes
        >>> from millstream.datastream.connectors.file_system import FileSource
        >>> from millstream.datastream.formats.json import JsonLinesFormat
        >>> fields = [DataTypes.FIELD("city", DataTypes.STRING()), DataTypes.FIELD("people", DataTypes.BIGINT())]
        >>> lines = JsonLinesFormat.for_schema(DataTypes.ROW(fields))
        >>> lines.get_produced_type()
        RowTypeInfo(city: String, people: Long)
        >>> source = FileSource.for_record_stream_format(lines, "data/cities").build()
    """

    byte_positions = True

    def __init__(self, schema: RowType) -> None:
        if not isinstance(schema, RowType):
            raise ConfigurationError(
                f"JSON lines were given the schema {schema!r}",
                hint="Use DataTypes.ROW([DataTypes.FIELD(...)]).",
            )
        if not schema.fields:
            raise ConfigurationError("the schema of JSON lines has no fields", hint="Add fields.")
        RowReader(schema)  # checks the types
        self._schema = schema

    @staticmethod
    def for_schema(schema: RowType) -> JsonLinesFormat:
        """Make the format of files whose objects have these fields (millstream's own).

        Raises:
            ConfigurationError: If the schema has no fields, or a type has no JSON form.
        """
        return JsonLinesFormat(schema)

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the rows."""
        return row_type_info(self._schema)

    @property
    def is_splittable(self) -> bool:
        """Lines are."""
        return True

    def open(self, file: BinaryIO, path: str, position: Any) -> FileRecords:
        """Read rows from a position on."""
        layout = BlockLayout(self._schema)
        lines = JsonRecords(file, path, self._schema)
        decoder = JsonBlocks(layout)
        rows = BlockRecords(lines, layout, decoder, decoder.block_bytes)
        if position is not None:
            rows.seek(position)
        return rows
