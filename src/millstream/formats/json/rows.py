"""The objects of a file of JSON lines one by one, as Python's json module takes them: with exact positions and errors.

Each line is one object, in UTF-8; empty lines are left out. A line ends with a newline, a carriage return before it is
white space, as in all JSON.
"""

from __future__ import annotations

import json
from itertools import islice
from typing import Any, BinaryIO

from millstream.base.errors import MalformedRecordError, shorten
from millstream.formats.json.values import FieldError, RowReader, new_decoder
from millstream.formats.line_file import LineFile
from millstream.types.datatypes import RowType

__all__ = ["JsonRecords"]

_WHITE = b" \t\r\n"


class JsonRecords(LineFile):
    """Reads an open file's objects, from any position at which a line begins."""

    def __init__(self, file: BinaryIO, path: str, row_type: RowType) -> None:
        self._read_row = RowReader(row_type)
        self._decode = new_decoder(row_type).decode
        super().__init__(file, path)

    def read_columns(self, max_records: int) -> list[list[Any]]:
        """Return the values of the next objects by column; no columns if there is no object."""
        line, rows = self.position[1], []
        for text in islice(self._lines(), max_records):
            line += 1
            if text.strip(_WHITE):
                rows.append(self._row(text, line))
        self.position = (self._reached, line)
        return list(map(list, zip(*rows, strict=True)))

    def skip(self, count: int) -> None:
        """Leave out so many objects; empty lines are none."""
        line = self.position[1]
        for text in self._lines() if count else ():
            line += 1
            count -= bool(text.strip(_WHITE))
            if not count:
                break
        self._begin((self._reached, line))

    def _row(self, line: bytes, number: int) -> list[Any]:
        try:
            return self._read_row(self._decode(line.decode()))
        except (ValueError, RecursionError) as error:
            raise self._malformed(line, number, error) from error

    def _malformed(self, line: bytes, number: int, error: Exception) -> MalformedRecordError:
        where = f"file {self._path!r}, line {number}"
        seen = f"Seen: {shorten(line.decode('utf-8', 'replace').rstrip())}"
        if isinstance(error, UnicodeDecodeError):
            return MalformedRecordError(
                f"{where}, column {error.start + 1}: bytes are no UTF-8 text: {shorten(line)}",
                hint="Convert the file to UTF-8.",
            )
        if isinstance(error, json.JSONDecodeError):
            return MalformedRecordError(
                f"{where}, column {error.colno}: JSON does not parse: {error.msg}",
                detail=seen,
                hint="Each line has to be one JSON object.",
            )
        if isinstance(error, FieldError) and error.path:
            return MalformedRecordError(
                f"{where}, field {error.path!r}: {error.reason}",
                detail=seen,
                hint="Correct the file or declare another type.",
            )
        reason = error.reason if isinstance(error, FieldError) else str(error)
        return MalformedRecordError(
            f"{where}: {reason}", detail=seen, hint="Each line has to be one JSON object."
        )
