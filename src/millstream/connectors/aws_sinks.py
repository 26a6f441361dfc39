"""What sinks of AWS services share that take entries in batches: Kinesis, Firehose, DynamoDB."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import replace
from typing import Any, Generic, Self, TypeVar

from millstream.connectors.aws_client import AwsClient, AwsRefusal
from millstream.connectors.aws_properties import AwsProperties
from millstream.connectors.batches import BatchLimits, BatchSender
from millstream.connectors.patience import Patience
from millstream.operators.user_code import attach_element
from millstream.spi.batch import Rows
from millstream.spi.sink import SinkWriter

__all__ = ["AwsSinkBuilder", "SendingWriter", "check_target"]

Entry = TypeVar("Entry")

_MAY_NOT_ASK = frozenset({"AccessDeniedException"})


class AwsSinkBuilder:
    """What builders can be told; each method returns the builder.

    Args:
        limits: How much is sent at a time by default.
    """

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._properties = AwsProperties()
        self._fail_on_error = False
        self._patience = Patience()

    def set_fail_on_error(self, fail_on_error: bool) -> Self:
        """Choose whether the job fails if a record is not taken; by default it is sent again."""
        self._fail_on_error = fail_on_error
        return self

    def set_max_batch_size(self, max_batch_size: int) -> Self:
        """Choose how many records are sent at a time, at most; by default as many as the service takes."""
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


class SendingWriter(SinkWriter, Generic[Entry]):
    """Sends batches as they are full, and the rest at the end of each epoch."""

    _sender: BatchSender[Entry] | None = None

    @abstractmethod
    def entry(self, value: Any) -> tuple[Entry, int, Hashable | None] | None:
        """Return what is sent of a record, its bytes, and the key by which it replaces others; None for nothing."""

    def write(self, batch: Rows, *, watermark_ms: int, now_ms: int) -> None:
        """Send what fills batches."""
        assert self._sender is not None
        for value in batch.values:
            try:
                made = self.entry(value)
            except BaseException as error:
                attach_element(error, value)
                raise
            if made is not None:
                entry, size, key = made
                self._sender.add(entry, size, key)

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
