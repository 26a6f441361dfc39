"""The rows of an Iceberg table in its data files: columns go by field id, so they may have had other names and types.

pyiceberg says how the columns of a file become those of the table (`_to_requested_schema`) and which rows position
deletes and deletion vectors remove (`_read_deletes`): both are its own, and its version is pinned.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from millstream.connectors.iceberg.columns import row_type_of
from millstream.connectors.iceberg.library import load_pyiceberg
from millstream.connectors.iceberg.table import Catalog
from millstream.connectors.lake.reader import DataFiles
from millstream.connectors.lake.records import FileShape
from millstream.connectors.lake.table_file import TableFile
from millstream.types.arrow_types import load_arrow
from millstream.types.datatypes import RowType

__all__ = ["FileExtra", "IcebergFiles", "IcebergSchema"]

_KEPT_DELETE_FILES = 64


@dataclass(frozen=True)
class IcebergSchema:
    """What is read of a table.

    Attributes:
        text: The columns that are given, and behind them those that are only looked at: a schema as JSON.
        given: How many are given.
        mapping: Names of columns in files without field ids, as JSON; None if there are none.
        format_version: Of the table.
    """

    text: str
    given: int
    mapping: str | None
    format_version: int


@dataclass(frozen=True, slots=True)
class FileExtra:
    """What is known of a file besides.

    Attributes:
        partition: Values that all its rows have, by field id; they count where the file lacks the column.
        deletes: Files that say which of its rows are deleted: format and path.
    """

    partition: Mapping[int, Any]
    deletes: tuple[tuple[str, str], ...]


class IcebergFiles(DataFiles):
    """Opens data files.

    Args:
        catalog: That lists the table, and knows how its files are reached.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._io: Any = None
        self._row_types: dict[str, RowType] = {}
        self._deletes: OrderedDict[tuple[str, str], dict[str, Any]] = OrderedDict()

    def row_type(self, schema: IcebergSchema) -> RowType:
        """Return what is given of each file."""
        if schema.text not in self._row_types:
            fields = _parse_schema(schema.text).fields[: schema.given]
            self._row_types[schema.text] = row_type_of(fields)
        return self._row_types[schema.text]

    def shape(self, file: TableFile) -> FileShape:
        """Return how the rows of the table are in a file."""
        extra: FileExtra = file.extra
        deleted = [
            positions
            for each in extra.deletes
            if (positions := self._read_deletes(*each).get(file.path)) is not None
        ]
        return _IcebergShape(file, deleted)

    def open(self, file: TableFile) -> BinaryIO:
        """Open a file."""
        return io.BufferedReader(self._files().new_input(file.path).open(seekable=True))

    def refusal(self, error: Exception) -> str:
        """Return what an error says, without what the catalog is reached by."""
        return self._catalog.shown(error)

    def _files(self) -> Any:
        if self._io is None:
            self._io = self._catalog.load_any().io
        return self._io

    def _read_deletes(self, kind: str, path: str) -> dict[str, Any]:
        """Return by data file the rows that a file of deletes removes."""
        key = kind, path
        if key not in self._deletes:
            manifest = load_pyiceberg("manifest")
            file = manifest.DataFile.from_args(
                content=manifest.DataFileContent.POSITION_DELETES,
                file_path=path,
                file_format=manifest.FileFormat(kind),
                record_count=0,
                file_size_in_bytes=0,
            )
            self._deletes[key] = load_pyiceberg("io.pyarrow")._read_deletes(self._files(), file)
            while len(self._deletes) > _KEPT_DELETE_FILES:
                self._deletes.popitem(last=False)
        return self._deletes[key]


class _IcebergShape(FileShape):
    def __init__(self, file: TableFile, deleted: list[Any]) -> None:
        self._pa = load_arrow("Iceberg tables")
        self._library = load_pyiceberg("io.pyarrow")
        self._told: IcebergSchema = file.schema
        self._extra: FileExtra = file.extra
        self._schema = _parse_schema(self._told.text)
        self._deleted = deleted
        self._file_schema: Any = None
        self._constants: dict[int, Any] = {}

    def names(self, schema: Any) -> list[str]:
        mapping = self._told.mapping
        found = self._library.pyarrow_to_schema(
            schema,
            None
            if mapping is None
            else load_pyiceberg("table.name_mapping").parse_mapping_from_json(mapping),
            downcast_ns_timestamp_to_us=self._told.format_version <= 2,
            format_version=self._told.format_version,
        )
        ids = {field.field_id for field in self._schema.fields}
        chosen = [field for field in found.fields if field.field_id in ids]
        missing = ids - {field.field_id for field in chosen}
        self._constants = {key: value for key, value in self._extra.partition.items() if key in missing}
        self._file_schema = load_pyiceberg("schema").Schema(*chosen)
        return [field.name for field in chosen] or [schema.names[0]]

    def convert(self, batch: Any, first_row: int) -> tuple[Any, Any]:
        places = None
        if self._deleted:
            last_row = first_row + batch.num_rows
            places = self._library._combine_positional_deletes(self._deleted, first_row, last_row)
            batch = batch.take(places)
        try:
            rows = self._library._to_requested_schema(
                self._schema,
                self._file_schema,
                batch,
                downcast_ns_timestamp_to_us=self._told.format_version <= 2,
                projected_missing_fields=self._constants,
                allow_timestamp_tz_mismatch=True,
            )
        except load_pyiceberg("exceptions").ResolveError as error:
            raise ValueError(str(error)) from error
        return rows, places


def _parse_schema(text: str) -> Any:
    return load_pyiceberg("schema").Schema.model_validate_json(text)
