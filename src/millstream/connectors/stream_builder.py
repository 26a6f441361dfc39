"""What builders of sources that read streams have in common: from where to where, how often, and what if."""

from __future__ import annotations

from typing import Generic, Self, TypeVar

from millstream.base.errors import ConfigurationError
from millstream.base.time import Duration, to_milliseconds
from millstream.connectors.messages import MalformedPolicy
from millstream.connectors.patience import Patience
from millstream.spi.source import Boundedness

__all__ = ["StreamSourceBuilder"]

_POLL_MS = 100

Place = TypeVar("Place")
"""Where to start and to stop: the system's `…OffsetsInitializer`."""


class StreamSourceBuilder(Generic[Place]):
    """The methods that builders of stream sources share; each returns the builder.

    Args:
        start: Where reading starts by default.
    """

    def __init__(self, start: Place) -> None:
        self._start = start
        self._stop: Place | None = None
        self._boundedness = Boundedness.CONTINUOUS_UNBOUNDED
        self._policy = MalformedPolicy.fail()
        self._patience = Patience()
        self._poll_ms = _POLL_MS
        self._fail_on_data_loss = True

    def set_starting_offsets(self, offsets: Place) -> Self:
        """Choose where to start without a checkpoint; by default with the first message that is there."""
        self._start = offsets
        return self

    def set_bounded(self, stopping_offsets: Place) -> Self:
        """Have the source end there; `latest()` is the end of the stream when the job starts."""
        self._stop, self._boundedness = stopping_offsets, Boundedness.BOUNDED
        return self

    def set_unbounded(self, stopping_offsets: Place) -> Self:
        """Have the source end there, and the job run as a streaming one."""
        self._stop, self._boundedness = stopping_offsets, Boundedness.CONTINUOUS_UNBOUNDED
        return self

    def set_malformed_policy(self, policy: MalformedPolicy) -> Self:
        """Choose what becomes of messages that the schema cannot read; by default the job fails."""
        self._policy = policy
        return self

    def set_poll_interval(self, interval: Duration) -> Self:
        """Choose how often the stream is asked for new messages when there are none; by default each 100 ms.

        Raises:
            ConfigurationError: If it is not positive.
        """
        self._poll_ms = to_milliseconds(interval)
        if self._poll_ms <= 0:
            raise ConfigurationError(f"the poll interval is {self._poll_ms} ms, must be positive")
        return self

    def set_fail_on_data_loss(self, fail_on_data_loss: bool) -> Self:
        """Choose whether the job fails if messages were removed before they were read (the default), or warns."""
        self._fail_on_data_loss = fail_on_data_loss
        return self

    def set_patience(self, patience: Patience) -> Self:
        """Choose how long the server is waited for."""
        self._patience = patience
        return self
