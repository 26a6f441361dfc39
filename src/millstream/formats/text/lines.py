"""Text files: one record a line."""

from __future__ import annotations

import io
from itertools import islice
from typing import Any, BinaryIO

from millstream.base.errors import MalformedRecordError, NotSupportedError, shorten
from millstream.formats.line_file import FilePrefix, line_start
from millstream.spi.formats import FileRecords, StreamFileFormat
from millstream.spi.serialization import check_charset
from millstream.types.arrow_types import load_arrow
from millstream.types.arrow_values import bare_schema
from millstream.types.basic import TypeInformation
from millstream.types.typeinfo import Types

__all__ = ["StreamFormat", "TextLineFormat"]


class StreamFormat(StreamFileFormat):
    """A format that is read record by record; also makes the simplest of them.

    Example:
        >>> from millstream.datastream.connectors.file_system import FileSource, StreamFormat
        >>> lines = StreamFormat.text_line_format("ISO-8859-1")
        >>> source = FileSource.for_record_stream_format(lines, "/data/lines").build()
        >>> source.get_boundedness().name
        'BOUNDED'
    """

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """Make the format of text files: each line a str, without its end (`\\n` or `\\r\\n`).

        Raises:
            ConfigurationError: If there is no such charset.
            NotSupportedError: For charsets whose newline is more than one byte (UTF-16, UTF-32).
        """
        return TextLineFormat(charset_name)

    def open_part(self, file: BinaryIO, path: str, position: Any, part: tuple[int, int]) -> FileRecords:
        """Read the records of the lines that begin within a range of bytes; each line holds one at most."""
        begin, end = (line_start(file, byte) for byte in part)
        bounded = io.BufferedReader(FilePrefix(file, end), io.DEFAULT_BUFFER_SIZE)
        if position is None and begin:
            position = (begin, 0)
        return self.open(bounded, path, position)


class TextLineFormat(StreamFormat):
    """Lines of text; a position is (byte, number of lines before it)."""

    byte_positions = True

    def __init__(self, charset_name: str = "UTF-8") -> None:
        self._charset = check_charset(charset_name)
        if "\n".encode(self._charset) != b"\n":
            raise NotSupportedError(
                f"text files in charset {charset_name!r} cannot be read",
                detail="Lines are found by their newline byte.",
                hint="Convert the files to UTF-8.",
            )

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the lines: STRING."""
        return Types.STRING()

    @property
    def is_splittable(self) -> bool:
        """Lines are."""
        return True

    def open(self, file: BinaryIO, path: str, position: Any) -> FileRecords:
        """Read lines from a position on."""
        return _TextLines(file, path, position or (0, 0), self._charset)


class _TextLines(FileRecords):
    def __init__(self, file: BinaryIO, path: str, position: tuple[int, int], charset: str) -> None:
        self._file = file
        self._path = path
        self._charset = charset
        self._position = position
        file.seek(position[0])

    def read_columns(self, max_records: int) -> Any:
        """Return the next lines as one column named `line`; a batch's records are the bare lines."""
        pa = load_arrow("columns")
        schema = bare_schema("line", pa.string())
        return pa.record_batch([pa.array(self.read(max_records), pa.string())], schema=schema)

    def read(self, max_records: int) -> list[Any]:
        lines = list(islice(self._file, max_records))
        if not lines:
            return []
        # One decode and one split for the whole batch; a line's own end is all that \n can be.
        block = b"".join(lines)
        try:
            text = block.decode(self._charset)
        except UnicodeDecodeError:
            raise self._undecodable(lines) from None
        if self._position[0] == 0:
            text = text.removeprefix("\ufeff")
        records = text.split("\n")
        if block.endswith(b"\n"):
            records.pop()
        if "\r" in text:
            records = [record.removesuffix("\r") for record in records]
        self._position = (self._position[0] + len(block), self._position[1] + len(lines))
        return records

    @property
    def position(self) -> tuple[int, int]:
        return self._position

    @property
    def exhausted(self) -> bool:
        return not self._file.peek(1)  # type: ignore[attr-defined]

    def close(self) -> None:
        self._file.close()

    def _undecodable(self, lines: list[bytes]) -> MalformedRecordError:
        for number, line in enumerate(lines, self._position[1] + 1):
            try:
                line.decode(self._charset)
            except UnicodeDecodeError as error:
                return MalformedRecordError(
                    f"file {self._path!r}, line {number}, column {error.start + 1}: "
                    f"bytes are no {self._charset} text: {shorten(line)}",
                    detail=error.reason,
                    hint="Give the file's charset to the format.",
                )
        return MalformedRecordError(
            f"file {self._path!r}: text after line {self._position[1]} does not decode"
        )
