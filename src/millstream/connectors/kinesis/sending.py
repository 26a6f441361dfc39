"""What the sinks of Kinesis and Firehose share."""

from __future__ import annotations

from typing import Self

from millstream.base.errors import ConfigurationError, SinkError
from millstream.connectors.aws_sinks import AwsSinkBuilder
from millstream.connectors.batches import BatchLimits
from millstream.spi.serialization import SerializationSchema

__all__ = ["SinkBuilder", "too_large"]


class SinkBuilder(AwsSinkBuilder):
    """What both builders can be told; each method returns the builder."""

    def __init__(self, limits: BatchLimits) -> None:
        super().__init__(limits)
        self._schema: SerializationSchema | None = None

    def set_serialization_schema(self, serialization_schema: SerializationSchema) -> Self:
        """Choose the schema that makes the data of records.

        Raises:
            ConfigurationError: If it is no schema.
        """
        if not isinstance(serialization_schema, SerializationSchema):
            raise ConfigurationError(f"{type(serialization_schema).__name__} is no SerializationSchema")
        self._schema = serialization_schema
        return self

    def _checked(
        self, service: str, *, batch_size: int, batch_bytes: int, record_bytes: int
    ) -> tuple[SerializationSchema, BatchLimits]:
        """Return schema and limits, if all is there and fits.

        Raises:
            ConfigurationError: If not.
        """
        if self._schema is None:
            raise ConfigurationError(
                f"the {service} sink has no schema", hint="set_serialization_schema(SimpleStringSchema())."
            )
        self._properties.check()
        self._limits.check(batch_size=batch_size, batch_bytes=batch_bytes, record_bytes=record_bytes)
        return self._schema, self._limits


def too_large(service: str, size: int, most: int) -> SinkError:
    """Return the error that says that a record is too large."""
    return SinkError(
        f"a record of {size} bytes is too large for {service}",
        detail=f"It may have {most}, with its partition key if it has one.",
        hint="Filter such records, or store them elsewhere and send where they are.",
    )
