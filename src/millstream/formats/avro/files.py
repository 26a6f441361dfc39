"""Avro files: blocks of records behind a header with their schema, each block followed by the file's sync marker.

::

    header: schema, codec, marker │ block 1: count, size, records │ marker │ block 2 … │ marker │

A position is the byte of a block, and how many of its records were given. A part of a file has the blocks whose marker
before them begins in it, so every block belongs to one part.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import islice
from typing import Any, BinaryIO

from millstream.base.errors import (
    ConfigurationError,
    MalformedRecordError,
    SourceError,
    TypeMismatchError,
    shorten,
)
from millstream.formats.avro.schema import AvroSchema, avro_errors, load_avro
from millstream.formats.avro.values import RecordReader, value_writer
from millstream.formats.row_columns import RowColumns
from millstream.spi.formats import BulkFormat, FileRecords
from millstream.spi.serialization import BulkWriter, BulkWriterFactory
from millstream.types.arrow_types import Form
from millstream.types.basic import TypeInformation
from millstream.types.sql_types import row_type_info

__all__ = ["AvroBulkWriters", "AvroFormat"]

_CODECS = ("null", "deflate", "bzip2", "xz", "snappy", "zstandard", "lz4")
_MARKER_BYTES = 16
_SEARCH_BYTES = 64 << 10
_Part = tuple[int, int]


class AvroFormat(BulkFormat):
    """Records of Avro files, for `FileSource.for_bulk_file_format` (millstream's own name).

    The file's own schema says how a record was written. With a schema here it is read by that, as Avro resolves
    schemas: fields that the file lacks have their default, those that are not wanted are left out, numbers are
    promoted.

    Example:
        >>> from millstream.datastream.formats.avro import AvroFormat
        >>> from millstream.datastream.connectors.file_system import FileSource
        >>> source = FileSource.for_bulk_file_format(AvroFormat.for_rows(), "data/clicks").build()
    """

    byte_positions = True

    def __init__(self, schema: AvroSchema | None, *, as_rows: bool) -> None:
        if schema is not None and not isinstance(schema, AvroSchema):
            raise ConfigurationError(
                f"Avro files were given the schema {shorten(schema)}",
                hint="Use AvroSchema.parse_string(...).",
            )
        load_avro()
        self._schema = schema
        self._as_rows = as_rows
        self.gives_columns = as_rows and schema is not None

    @staticmethod
    def for_generic_record(schema: AvroSchema | None = None) -> AvroFormat:
        """Read records as dicts, by a schema or by each file's own.

        Raises:
            ConfigurationError: If it is no AvroSchema, or fastavro is not installed.
        """
        return AvroFormat(schema, as_rows=False)

    @staticmethod
    def for_rows(schema: AvroSchema | None = None) -> AvroFormat:
        """Read records as rows, by a schema or by each file's own.

        Raises:
            ConfigurationError: If it is no AvroSchema, or fastavro is not installed.
            NotSupportedError: If the schema's records have no SQL type: they hold themselves, or unions of several
                types.
        """
        if schema is not None:
            schema.row_type()
        return AvroFormat(schema, as_rows=True)

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the rows, if there is a schema; generic records have none."""
        return row_type_info(self._schema.row_type()) if self._as_rows and self._schema is not None else None

    @property
    def is_splittable(self) -> bool:
        """Blocks are."""
        return True

    def open(self, file: BinaryIO, path: str, position: Any) -> FileRecords:
        """Read records from a position on.

        Raises:
            SourceError: If it is no Avro file.
            MalformedRecordError: If its schema cannot be read by the wanted one.
        """
        return _AvroRecords(file, path, self._schema, self._as_rows, position, None)

    def open_part(self, file: BinaryIO, path: str, position: Any, part: _Part) -> FileRecords:
        """Read the records of the blocks of a part."""
        return _AvroRecords(file, path, self._schema, self._as_rows, position, part)


class _AvroRecords(FileRecords):
    def __init__(
        self,
        file: BinaryIO,
        path: str,
        wanted: AvroSchema | None,
        as_rows: bool,
        position: tuple[int, int] | None,
        part: _Part | None,
    ) -> None:
        fastavro = load_avro()
        self._errors = avro_errors(zlib.error, OSError)
        self._file = file
        self._path = path
        self._wanted = wanted
        try:
            self._reader = fastavro.block_reader(file, None if wanted is None else wanted.parsed)
            self._marker: bytes = self._reader._header["sync"]
            written = AvroSchema(self._reader.metadata["avro.schema"])
        except self._errors as error:
            raise SourceError(
                f"file {path!r} is no Avro file", detail=f"{type(error).__name__}: {error}"
            ) from error
        try:
            _check_codec(self._reader.metadata.get("avro.codec", "null"))
        except ConfigurationError as error:
            raise SourceError(f"file {path!r}: {error.message}", detail=error.detail) from error
        self._rows = RecordReader(wanted or written, as_rows=as_rows)
        self._end = None if part is None else part[1]
        first = file.tell()
        self._block = first if part is None or part[0] == 0 else self._find_block(part[0], first)
        self._given = 0
        self._records: Iterator[Any] | None = None
        self._left = 0
        self._next = self._block
        if position is not None:
            self._block, skip = position
            self._next = self._block
            if skip and self._load():
                self._take(skip)

    def read(self, max_records: int) -> list[Any]:
        found: list[Any] = []
        while len(found) < max_records and (self._left or self._load()):
            found += self._take(max_records - len(found))
            if not self._left:
                self._block, self._given, self._records = self._next, 0, None
        return self._rows.read_all(found)

    def read_columns(self, max_records: int) -> Any:
        assert self._wanted is not None, "columns of an Avro file without a schema"
        return RowColumns(self._wanted.row_type(), Form.READ).batch(self.read(max_records))

    @property
    def position(self) -> tuple[int, int]:
        return self._block, self._given

    @property
    def exhausted(self) -> bool:
        return not self._left and not self._load()

    def close(self) -> None:
        self._file.close()

    def _take(self, count: int) -> list[Any]:
        """Return the next records of the block, naming what is wrong with it."""
        assert self._records is not None, "no block of an Avro file is open"
        try:
            some = list(islice(self._records, min(count, self._left)))
        except self._errors as error:
            raise self._malformed(error) from error
        self._left -= len(some)
        self._given += len(some)
        return some

    def _load(self) -> bool:
        """Open the next block that has records; return whether there is one."""
        while self._left == 0:
            if self._end is not None and self._next - _MARKER_BYTES >= self._end:
                return False
            self._file.seek(self._next)
            if not self._file.read(1):
                return False
            self._file.seek(self._next)
            try:
                block = next(self._reader)
            except StopIteration:
                return False
            except self._errors as error:
                raise self._malformed(error) from error
            self._block, self._given = self._next, 0
            self._next = self._file.tell()
            self._records, self._left = iter(block), block.num_records
        return True

    def _malformed(self, error: Exception) -> MalformedRecordError:
        return MalformedRecordError(
            f"file {self._path!r}, block at byte {self._block}, record {self._given}: does not parse as Avro",
            detail=f"{type(error).__name__}: {error}",
            hint="Check that the file is whole, and that its schema can be read by the wanted one.",
        )

    def _find_block(self, start: int, first: int) -> int:
        """Return where the first block begins whose marker begins at a byte or behind it; the end if none does."""
        position = max(start, first - _MARKER_BYTES)
        self._file.seek(position)
        held = b""
        while piece := self._file.read(_SEARCH_BYTES):
            held += piece
            found = held.find(self._marker)
            if found >= 0:
                return position + found + _MARKER_BYTES
            keep = min(len(held), _MARKER_BYTES - 1)
            position += len(held) - keep
            held = held[len(held) - keep :]
        return self._file.tell()


class AvroBulkWriters:
    """Makes writers of Avro files for `FileSink.for_bulk_format`.

    Example:
        >>> from millstream.datastream.formats.avro import AvroBulkWriters
        >>> from millstream.datastream.connectors.file_system import FileSink
        >>> from millstream.formats.avro.schema import AvroSchema
        >>> text = '{"type": "record", "name": "click", "fields": [{"name": "page", "type": "string"}]}'
        >>> writers = AvroBulkWriters.for_generic_record(AvroSchema.parse_string(text), codec="deflate")
        >>> sink = FileSink.for_bulk_format("out/clicks", writers).build()  # stream.sink_to(sink)
    """

    @staticmethod
    def for_generic_record(schema: AvroSchema, codec: str = "null") -> BulkWriterFactory:
        """Write dicts, rows, tuples or lists that fit the schema.

        Args:
            schema: Of the records.
            codec: How blocks are compressed (millstream's own): null, deflate, bzip2, xz or snappy; zstandard and lz4
                need packages of theirs.

        Raises:
            ConfigurationError: If it is no AvroSchema, or the codec is not known; if fastavro is not installed.
        """
        if not isinstance(schema, AvroSchema):
            raise ConfigurationError(
                f"Avro files were given the schema {shorten(schema)}",
                hint="Use AvroSchema.parse_string(...).",
            )
        _check_codec(codec)
        return _AvroWriterFactory(schema, codec)


def _check_codec(codec: str) -> None:
    """Raise a ConfigurationError if blocks cannot be compressed so here."""
    if codec not in _CODECS:
        raise ConfigurationError(
            f"codec {codec!r} of Avro files is not known", detail=f"Known: {', '.join(_CODECS)}."
        )
    try:
        probe = load_avro().write.Writer(BytesIO(), "null", codec)
        probe.write(None)
        probe.flush()
    except ValueError as error:
        raise ConfigurationError(f"codec {codec!r} of Avro files cannot be used: {error}") from error


class _AvroWriterFactory(BulkWriterFactory):
    def __init__(self, schema: AvroSchema, codec: str) -> None:
        self._schema = schema
        self._codec = codec

    def create(self, file: BinaryIO) -> BulkWriter:
        return _AvroWriter(file, self._schema, self._codec)


class _AvroWriter(BulkWriter):
    """Hands blocks to the file as they are full."""

    def __init__(self, file: BinaryIO, schema: AvroSchema, codec: str) -> None:
        self._file = file
        self._buffer = BytesIO()  # fastavro would take a file that has bytes for one to append to
        self._convert = value_writer(schema)
        self._writer = load_avro().write.Writer(self._buffer, schema.parsed, codec)

    def add_elements(self, elements: Sequence[Any]) -> None:
        write, convert, errors = self._writer.write, self._convert, avro_errors(AttributeError)
        for element in elements:
            try:
                write(convert(element))
            except errors as error:
                if isinstance(error, TypeMismatchError):
                    raise
                raise TypeMismatchError(
                    f"record {shorten(element)} does not fit the Avro schema: {type(error).__name__}: {error}"
                ) from error
        self._hand_on()

    def finish(self) -> None:
        self._writer.flush()
        self._hand_on()

    def _hand_on(self) -> None:
        if self._buffer.tell():
            self._file.write(self._buffer.getvalue())
            self._buffer.seek(0)
            self._buffer.truncate()
