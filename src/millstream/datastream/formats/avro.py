"""Avro (PyFlink's `pyflink.datastream.formats.avro`), and what is millstream's own: rows of files, registries."""

from __future__ import annotations

from millstream.common.io import InputFormat
from millstream.connectors.files.source import FileSource
from millstream.connectors.schema_registry import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
    SchemaRegistry,
    Subject,
)
from millstream.datastream.utils import ResultTypeQueryable
from millstream.formats.avro.files import AvroBulkWriters, AvroFormat
from millstream.formats.avro.generic import GenericRecordAvroTypeInfo
from millstream.formats.avro.messages import AvroRowDeserializationSchema, AvroRowSerializationSchema
from millstream.formats.avro.schema import AvroSchema
from millstream.spi.source import Source

__all__ = [
    "AvroBulkWriters",
    "AvroFormat",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "ConfluentRegistryAvroDeserializationSchema",
    "ConfluentRegistryAvroSerializationSchema",
    "GenericRecordAvroTypeInfo",
    "SchemaRegistry",
    "Subject",
]


class AvroInputFormat(InputFormat, ResultTypeQueryable):
    """Generic records, as dicts, of the Avro files at a path, for `environment.create_input`.

    Args:
        path: A file, or a directory, which is searched with all below it.
        schema: The schema that records are read by.

    Raises:
        ConfigurationError: If it is no AvroSchema; if fastavro is not installed.

    Example:
        >>> from millstream.datastream.formats.avro import AvroInputFormat, AvroSchema
        >>> text = '{"type": "record", "name": "click", "fields": [{"name": "page", "type": "string"}]}'
        >>> clicks = AvroInputFormat("data/clicks", AvroSchema.parse_string(text))  # env.create_input(clicks)
    """

    def __init__(self, path: str, schema: AvroSchema) -> None:
        self._path = path
        self._format = AvroFormat.for_generic_record(schema)
        self._type_info = GenericRecordAvroTypeInfo(schema)

    def get_produced_type(self) -> GenericRecordAvroTypeInfo:
        """Return the type of the records."""
        return self._type_info

    def to_source(self) -> Source:
        """Return the source that reads the files."""
        return FileSource.for_bulk_file_format(self._format, self._path).build()
