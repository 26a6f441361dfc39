"""The type of Avro's generic records, which are dicts here (PyFlink's `GenericRecordAvroTypeInfo`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from millstream.base.errors import ConfigurationError, shorten
from millstream.formats.avro.schema import AvroSchema, load_avro
from millstream.formats.avro.values import value_writer
from millstream.types.typeinfo import TypeInformation

__all__ = ["GenericRecordAvroTypeInfo"]


class GenericRecordAvroTypeInfo(TypeInformation):
    """Dicts that fit an Avro schema.

    Args:
        schema: The schema.

    Raises:
        ConfigurationError: If it is no AvroSchema.

    Example:
        >>> from millstream.datastream.formats.avro import GenericRecordAvroTypeInfo
        >>> from millstream.formats.avro.schema import AvroSchema
        >>> text = '{"type": "record", "name": "click", "fields": [{"name": "page", "type": "string"}]}'
        >>> GenericRecordAvroTypeInfo(AvroSchema.parse_string(text)).describe()
        'GENERIC_RECORD<click>'
    """

    def __init__(self, schema: AvroSchema) -> None:
        if not isinstance(schema, AvroSchema):
            raise ConfigurationError(
                f"generic records were given the schema {shorten(schema)}",
                hint="Use AvroSchema.parse_string(...).",
            )
        self._schema = schema

    @cached_property
    def _convert(self) -> Any:
        return value_writer(self._schema)

    def describe(self) -> str:
        """Return `GENERIC_RECORD<` the schema's name `>`."""
        root = self._schema.root
        return f"GENERIC_RECORD<{root.get('name', '') if isinstance(root, dict) else root}>"

    def _misfit(self, values: Sequence[Any]) -> int | None:
        return next((place for place, value in enumerate(values) if not self._fits(value)), None)

    def _fits(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        try:
            converted = self._convert(value)
        except (TypeError, ValueError, AttributeError):
            return False
        return bool(load_avro().validation.validate(converted, self._schema.parsed, raise_errors=False))

    def _identity(self) -> object:
        return self._schema

    def __reduce__(self) -> tuple[Any, ...]:
        return GenericRecordAvroTypeInfo, (self._schema,)
