"""Records of files with where they came from: the file, and their number in it.

Rows and dicts get two fields more; other records, such as lines of text, become rows of `value` and these fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count, repeat
from typing import Any, BinaryIO

from millstream.base.errors import ConfigurationError
from millstream.spi.formats import FileFormat, FileRecords
from millstream.types.arrow_types import load_arrow
from millstream.types.arrow_values import is_bare
from millstream.types.row import Row, rows_of

__all__ = ["FormatWithMetadata", "MetadataFields"]

_VALUE = "value"


@dataclass(frozen=True, slots=True)
class MetadataFields:
    """What the fields are called.

    Attributes:
        file_path: The file's path, as it was found.
        record_number: How many records of the file come before.

    Raises:
        ConfigurationError: If a name is empty, or both are the same.
    """

    file_path: str = "file_path"
    record_number: str = "record_number"

    def __post_init__(self) -> None:
        if not self.file_path or not self.record_number or self.file_path == self.record_number:
            raise ConfigurationError(
                f"fields for metadata of files are called {self.file_path!r} and {self.record_number!r}",
                detail="They need two names.",
            )

    @property
    def names(self) -> tuple[str, str]:
        """Both names."""
        return self.file_path, self.record_number


class FormatWithMetadata(FileFormat):
    """A format whose records tell where they came from.

    A position is that of the format, and how many records come before it.
    """

    def __init__(self, inner: FileFormat, fields: MetadataFields) -> None:
        self._inner = inner
        self._fields = fields
        self.decompress = inner.decompress
        self.gives_columns = inner.gives_columns

    def open(self, file: BinaryIO, path: str, position: Any) -> FileRecords:
        """Read a file from a position on."""
        at, number = (None, 0) if position is None else position
        return _Numbered(self._inner.open(file, path, at), path, number, self._fields.names)


class _Numbered(FileRecords):
    def __init__(self, inner: FileRecords, path: str, number: int, names: tuple[str, str]) -> None:
        self._inner = inner
        self._path = path
        self._number = number
        self._names = names

    def read(self, max_records: int) -> list[Any]:
        records = self._inner.read(max_records)
        if not records:
            return records
        places = zip(repeat(self._path, len(records)), count(self._number))
        self._number += len(records)
        first = records[0]
        if isinstance(first, dict):
            return [
                {**record, self._names[0]: path, self._names[1]: number}
                for record, (path, number) in zip(records, places, strict=True)
            ]
        fields: tuple[str, ...] = (_VALUE,)
        values: Iterable[tuple[Any, ...]] = zip(records, strict=True)
        if isinstance(first, Row):
            fields, values = (
                first._fields or tuple(f"f{place}" for place in range(len(first))),
                map(tuple, records),
            )
        self._check(fields)
        return rows_of(
            (*fields, *self._names), [(*value, *place) for value, place in zip(values, places, strict=True)]
        )

    def read_columns(self, max_records: int) -> Any:
        pa = load_arrow("columns")
        batch = self._inner.read_columns(max_records)
        size = batch.num_rows
        names = [_VALUE] if is_bare(batch.schema) else batch.schema.names
        self._check(tuple(names))
        numbers = pa.array(range(self._number, self._number + size), pa.int64())
        self._number += size
        paths = pa.array([self._path] * size, pa.string())
        return pa.record_batch([*batch.columns, paths, numbers], names=[*names, *self._names])

    @property
    def position(self) -> tuple[Any, int]:
        return self._inner.position, self._number

    @property
    def exhausted(self) -> bool:
        return self._inner.exhausted

    def close(self) -> None:
        self._inner.close()

    def _check(self, fields: tuple[str, ...]) -> None:
        taken = set(fields) & set(self._names)
        if taken:
            raise ConfigurationError(
                f"records of file {self._path!r} have a field {sorted(taken)[0]!r}, as metadata have",
                hint="Give the metadata other names: add_metadata(file_path=..., record_number=...).",
            )
