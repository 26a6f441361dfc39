"""Columns as properties, the form before `TableDescriptor` (PyFlink's `pyflink.table.descriptors`, deprecated there).

Nothing here reads the properties: declare tables with SQL or a `TableDescriptor`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError, TypeMismatchError
from millstream.table.table_schema import TableSchema
from millstream.types.datatypes import DataType

__all__ = ["Descriptor", "Rowtime", "Schema"]


class Descriptor(ABC):
    """What can be written as properties."""

    @abstractmethod
    def to_properties(self) -> dict[str, str]:
        """Return the properties by key."""


class Rowtime(Descriptor):
    """Where event time and watermarks come from; each method returns the object.

    >>> rowtime = Rowtime().timestamps_from_field("t").watermarks_periodic_bounded(60000)
    >>> rowtime.to_properties()["rowtime.watermarks.delay"]
    '60000'
    """

    def __init__(self) -> None:
        self._properties: dict[str, str] = {}

    def timestamps_from_field(self, field_name: str) -> Rowtime:
        """Take event time from a field."""
        self._properties["rowtime.timestamps.type"] = "from-field"
        self._properties["rowtime.timestamps.from"] = field_name
        return self

    def timestamps_from_source(self) -> Rowtime:
        """Take event time from the source's records."""
        self._properties["rowtime.timestamps.type"] = "from-source"
        self._properties.pop("rowtime.timestamps.from", None)
        return self

    def timestamps_from_extractor(self, extractor: str) -> Rowtime:
        """Refuse a Java class.

        Raises:
            NotSupportedError: Always.
        """
        raise _java("timestamps_from_extractor", extractor)

    def watermarks_periodic_ascending(self) -> Rowtime:
        """Let event time ascend: what is earlier than the latest record is late."""
        self._properties["rowtime.watermarks.type"] = "periodic-ascending"
        self._properties.pop("rowtime.watermarks.delay", None)
        return self

    def watermarks_periodic_bounded(self, delay: int) -> Rowtime:
        """Let records come late by so many milliseconds."""
        self._properties["rowtime.watermarks.type"] = "periodic-bounded"
        self._properties["rowtime.watermarks.delay"] = str(delay)
        return self

    def watermarks_from_source(self) -> Rowtime:
        """Take the source's watermarks."""
        self._properties["rowtime.watermarks.type"] = "from-source"
        self._properties.pop("rowtime.watermarks.delay", None)
        return self

    def watermarks_from_strategy(self, strategy: str) -> Rowtime:
        """Refuse a Java class.

        Raises:
            NotSupportedError: Always.
        """
        raise _java("watermarks_from_strategy", strategy)

    def to_properties(self) -> dict[str, str]:
        """Return the properties by key."""
        return dict(self._properties)


class Schema(Descriptor):
    """Fields, in order; each method returns the object.

    Args:
        schema: Fields to begin with.
        fields: Fields by name.
        rowtime: Makes the last field the event time.

    >>> Schema().field("n", "INT").to_properties()
    {'schema.0.name': 'n', 'schema.0.data-type': 'INT'}
    """

    def __init__(
        self,
        schema: TableSchema | None = None,
        fields: Mapping[str, str | DataType] | None = None,
        rowtime: Rowtime | None = None,
    ) -> None:
        self._fields: list[dict[str, str]] = []
        if schema is not None:
            self.schema(schema)
        if fields is not None:
            self.fields(fields)
        if rowtime is not None:
            self.rowtime(rowtime)

    def schema(self, table_schema: TableSchema) -> Schema:
        """Add all fields of a schema.

        Raises:
            TypeMismatchError: If it is none.
        """
        if not isinstance(table_schema, TableSchema):
            raise TypeMismatchError(f"schema was given a {type(table_schema).__name__}, not a TableSchema")
        types = table_schema.get_field_data_types()
        for name, kind in zip(table_schema.get_field_names(), types, strict=True):
            self.field(name, kind)
        return self

    def field(self, field_name: str, field_type: str | DataType) -> Schema:
        """Add a field.

        Raises:
            ConfigurationError: If there is one of that name.
            TypeMismatchError: If the type is none of `DataTypes`, and no text.
        """
        if not isinstance(field_type, (str, DataType)):
            raise TypeMismatchError(f'field "{field_name}" was given {field_type!r} as its type')
        if any(each["name"] == field_name for each in self._fields):
            raise ConfigurationError(f'a schema has the field "{field_name}" twice')
        self._fields.append({"name": field_name, "data-type": str(field_type)})
        return self

    def fields(self, fields: Mapping[str, str | DataType]) -> Schema:
        """Add fields by name, in order."""
        for name, kind in fields.items():
            self.field(name, kind)
        return self

    def from_origin_field(self, origin_field_name: str) -> Schema:
        """Say what the last field is called where it comes from."""
        self._last("from_origin_field")["from"] = origin_field_name
        return self

    def proctime(self) -> Schema:
        """Make the last field the processing time."""
        self._last("proctime")["proctime"] = "true"
        return self

    def rowtime(self, rowtime: Rowtime) -> Schema:
        """Make the last field the event time."""
        self._last("rowtime").update(rowtime.to_properties())
        return self

    def to_properties(self) -> dict[str, str]:
        """Return the properties by key."""
        return {
            f"schema.{place}.{key}": value
            for place, field in enumerate(self._fields)
            for key, value in field.items()
        }

    def _last(self, method: str) -> dict[str, str]:
        if not self._fields:
            raise ConfigurationError(f"{method} is about the last field, and the schema has none")
        return self._fields[-1]


def _java(method: str, class_name: Any) -> NotSupportedError:
    return NotSupportedError(
        f"{method} was given the Java class {class_name}: millstream runs no Java classes",
        hint="Declare a watermark: WATERMARK FOR t AS t - INTERVAL '5' SECOND, or Schema.Builder.watermark.",
    )
