"""Partitions of files: directories `key=value`, read into columns and written by them."""

from __future__ import annotations

import posixpath
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from millstream.base.errors import SourceError
from millstream.connectors.files.buckets import BucketAssignerContext, KeyedBucketAssigner, partition_text
from millstream.files.paths import FoundFile, list_files
from millstream.files.remote import with_parameters
from millstream.operators.base import Operator, OperatorSpec
from millstream.spi.batch import Batch, Columns
from millstream.spi.serialization import BulkWriter, BulkWriterFactory
from millstream.table.connectors.conversion import cast_column
from millstream.table.functions.types import arrow_type
from millstream.types.datatypes import BigIntType, DataType, LocalZonedTimestampType, VarCharType

__all__ = ["METADATA_TYPES", "PartitionBuckets", "PartitionedToSqlSpec"]

METADATA_TYPES: dict[str, DataType] = {
    "file.path": VarCharType(nullable=False),
    "file.name": VarCharType(nullable=False),
    "file.size": BigIntType(nullable=False),
    "file.modification-time": LocalZonedTimestampType(3, nullable=False),
}
"""What is known of the file of a row: key of METADATA FROM to type."""


class PartitionBuckets(KeyedBucketAssigner):
    """Puts a row into the directories of its partition.

    Args:
        keys: Names of the columns.
        default: What stands for NULL and empty text.
    """

    def __init__(self, keys: tuple[str, ...], default: str) -> None:
        self._keys = keys
        self._default = default

    def get_bucket_id(self, element: Any, context: BucketAssignerContext) -> str:
        """Return the row's directories."""
        return self.bucket_of({key: element[key] for key in self._keys})

    def key_column(self, batch: Any, timestamps: Any | None) -> Any:
        """Return the values of the partition's columns, as structs."""
        return pa.StructArray.from_arrays([batch.column(key) for key in self._keys], names=list(self._keys))

    def bucket_of(self, key: Any) -> str:
        """Return the directories of one partition."""
        parts = []
        for name in self._keys:
            value = key[name]
            text = "" if value is None else str(value)
            parts.append(f"{partition_text(name)}={partition_text(text) or self._default}")
        return "/".join(parts)

    def without_keys(self, writer: BulkWriterFactory, names: tuple[str, ...]) -> BulkWriterFactory:
        """Return what writes files without the partition's columns."""
        return _InsideFactory(writer, names)


class _InsideFactory(BulkWriterFactory):
    def __init__(self, inner: BulkWriterFactory, names: tuple[str, ...]) -> None:
        self._inner = inner
        self._names = names

    def create(self, file: BinaryIO) -> BulkWriter:
        return _InsideWriter(self._inner.create(file), self._names)


class _InsideWriter(BulkWriter):
    def __init__(self, inner: BulkWriter, names: tuple[str, ...]) -> None:
        self._inner = inner
        self._names = list(names)

    def add_elements(self, elements: Sequence[Any]) -> None:
        self.add_columns(Columns.from_rows(_rows(elements)).data)

    def add_columns(self, batch: Any) -> None:
        self._inner.add_columns(batch.select(self._names))

    def finish(self) -> None:
        self._inner.finish()


def _rows(elements: Sequence[Any]) -> Any:
    from millstream.spi.batch import Rows

    return Rows(list(elements))


@dataclass(frozen=True)
class PartitionedToSqlSpec(OperatorSpec):
    """Declares that records with the path of their file become columns of SQL.

    Attributes:
        names: Of the columns.
        types: Of the columns.
        where: The table, for messages.
        keys: Names of columns whose values are in the path.
        facts: Columns that tell something of the file, with the keys of metadata.
        default: What stands for NULL in paths.
        root: The path that files are found below; a URI may have parameters.
    """

    names: tuple[str, ...]
    types: tuple[DataType, ...]
    where: str
    keys: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    default: str
    root: str
    takes_columns = True

    def build(self) -> Operator:
        """Make the running half."""
        return _PartitionedToSql(self)


class _PartitionedToSql(Operator):
    def __init__(self, spec: PartitionedToSqlSpec) -> None:
        self._spec = spec
        self._kinds = [arrow_type(kind) for kind in spec.types]
        self._schema = pa.schema([(f"f{place}", kind) for place, kind in enumerate(self._kinds)])
        self._facts = dict(spec.facts)
        self._found: dict[str, FoundFile] = {}

    def process(self, batch: Batch) -> None:
        """Convert a batch."""
        spec = self._spec
        columns = batch if isinstance(batch, Columns) else Columns.from_rows(batch)
        if not len(columns):
            return
        data = columns.data
        paths = data.column(data.schema.get_field_index("file_path")).dictionary_encode()
        arrays = []
        for name, kind in zip(spec.names, self._kinds, strict=True):
            if name in self._facts:
                key = self._facts[name]
                told = [self._fact(path, key) for path in paths.dictionary.to_pylist()]
                made = pa.array(told, pa.timestamp("ms", "UTC") if key == "file.modification-time" else None)
                arrays.append(made.cast(kind).take(paths.indices))
            elif name in spec.keys:
                arrays.append(self._values(paths, name, kind))
            else:
                arrays.append(cast_column(data.column(data.schema.get_field_index(name)), kind))
        self.output.emit(Columns(pa.record_batch(arrays, schema=self._schema), None, columns.kinds))

    def _values(self, paths: Any, name: str, kind: Any) -> Any:
        texts = [self._value(path, name) for path in paths.dictionary.to_pylist()]
        try:
            values = pa.array(texts, pa.string()).cast(kind)
        except pa.ArrowException as error:
            raise SourceError(
                f'partition column "{name}" of {self._spec.where} has a directory that is no {kind}: {error}'
            ) from error
        return values.take(paths.indices)

    def _fact(self, path: str, key: str) -> Any:
        if key == "file.path":
            return path
        if key == "file.name":
            return posixpath.basename(path)
        found = self._found.get(path)
        if found is None:
            self._found.clear()  # files are read one after the other
            found = self._found[path] = list_files(with_parameters(path, (self._spec.root,)))[0]
        return found.size_bytes if key == "file.size" else found.modified_ns // 1_000_000

    def _value(self, path: str, name: str) -> str | None:
        for part in path.split("/"):
            key, separator, value = part.partition("=")
            if separator and urllib.parse.unquote(key) == name:
                return None if value == self._spec.default else urllib.parse.unquote(value)
        raise SourceError(
            f'file {path!r} of {self._spec.where} is in no directory "{name}=..."',
            detail="A table that is PARTITIONED BY columns has their values in the names of directories.",
            hint="Move the file, or declare the table without PARTITIONED BY.",
        )
