"""What the sinks of Kinesis and Firehose share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Generic, Self, TypeVar

from millstream.base.errors import ConfigurationError, SinkError
from millstream.connectors.aws_client import AwsClient, AwsRefusal
from millstream.connectors.aws_properties import AwsProperties
from millstream.connectors.batches import BatchLimits, BatchSender
from millstream.connectors.patience import Patience
from millstream.operators.user_code import attach_element
from millstream.spi.batch import Rows
from millstream.spi.serialization import SerializationSchema
from millstream.spi.sink import SinkWriter

__all__ = ["SendingWriter", "SinkBuilder", "check_target", "too_large"]

Entry = TypeVar("Entry")

_MAY_NOT_ASK = frozenset({"AccessDeniedException"})


class SinkBuilder:
    """What both builders can be told; each method returns the builder."""

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._properties = AwsProperties()
        self._schema: SerializationSchema | None = None
        self._fail_on_error = False
        self._patience = Patience()

    def set_serialization_schema(self, serialization_schema: SerializationSchema) -> Self:
        """Choose the schema that makes the data of records.

        Raises:
            ConfigurationError: If it is no schema.
        """
        if not isinstance(serialization_schema, SerializationSchema):
            raise ConfigurationError(f"{type(serialization_schema).__name__} is no SerializationSchema")
        self._schema = serialization_schema
        return self

    def set_fail_on_error(self, fail_on_error: bool) -> Self:
        """Choose whether the job fails if a record is not taken; by default it is sent again."""
        self._fail_on_error = fail_on_error
        return self

    def set_max_batch_size(self, max_batch_size: int) -> Self:
        """Choose how many records are sent at a time, at most; by default 500, which is what the service takes."""
        return self._with(max_batch_size=max_batch_size)

    def set_max_in_flight_requests(self, max_in_flight_requests: int) -> Self:
        """Choose how many batches of a subtask are under way at a time; 1 keeps them in order, by default 50."""
        return self._with(max_in_flight_requests=max_in_flight_requests)

    def set_max_buffered_requests(self, max_buffered_requests: int) -> Self:
        """Choose how many records of a subtask are under way at a time; by default 10,000."""
        return self._with(max_buffered_requests=max_buffered_requests)

    def set_max_batch_size_in_bytes(self, max_batch_size_in_bytes: int) -> Self:
        """Choose how many bytes are sent at a time; by default what the service takes."""
        return self._with(max_batch_size_in_bytes=max_batch_size_in_bytes)

    def set_max_time_in_buffer_ms(self, max_time_in_buffer_ms: int) -> Self:
        """Taken for the sake of programs: all records are sent at the end of each epoch."""
        return self._with(max_time_in_buffer_ms=max_time_in_buffer_ms)

    def set_max_record_size_in_bytes(self, max_record_size_in_bytes: int) -> Self:
        """Choose how large a record may be: a larger one fails the job; by default what the service takes."""
        return self._with(max_record_size_in_bytes=max_record_size_in_bytes)

    def set_patience(self, patience: Patience) -> Self:
        """Choose how long the service is waited for when it is away, or takes nothing."""
        self._patience = patience
        return self

    def _with(self, **changes: int) -> Self:
        self._limits = replace(self._limits, **changes)
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


class SendingWriter(SinkWriter, Generic[Entry]):
    """Sends batches as they are full, and the rest at the end of each epoch."""

    _sender: BatchSender[Entry] | None = None

    @abstractmethod
    def entry(self, value: Any) -> tuple[Entry, int]:
        """Return what is sent of a record, and how many bytes it has."""

    def write(self, batch: Rows, *, watermark_ms: int, now_ms: int) -> None:
        """Send what fills batches."""
        assert self._sender is not None
        for value in batch.values:
            try:
                entry, size = self.entry(value)
            except BaseException as error:
                attach_element(error, value)
                raise
            self._sender.add(entry, size)

    def prepare_commit(self, *, now_ms: int, checkpoint: bool, end_of_input: bool) -> list[Any]:
        """Send the rest, and wait until all is taken."""
        assert self._sender is not None
        self._sender.flush()
        return []

    def close(self) -> None:
        """End."""
        if self._sender is not None:
            self._sender.close()
            self._sender = None


def check_target(client: AwsClient, what: str, operation: str, **arguments: Any) -> None:
    """See whether what is written to is there; passed over where nobody may ask for that.

    Raises:
        SinkError: If it is not, or the service stays away.
    """
    try:
        client.call(what, operation, refusals=_MAY_NOT_ASK, **arguments)
    except AwsRefusal:
        return


def too_large(service: str, size: int, most: int) -> SinkError:
    """Return the error that says that a record is too large."""
    return SinkError(
        f"a record of {size} bytes is too large for {service}",
        detail=f"It may have {most}, with its partition key if it has one.",
        hint="Filter such records, or store them elsewhere and send where they are.",
    )
