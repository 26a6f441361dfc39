"""Takes the messages of one partition in order, from any position.

A reader begins with the message that was read last, so that it can be seen whether that is still there; it is left out.
"""

from __future__ import annotations

import logging
from typing import Any

from millstream.base.clock import Clock, SystemClock
from millstream.base.errors import SourceError
from millstream.connectors.pulsar.connection import PulsarClient
from millstream.connectors.pulsar.positions import Position, behind, pulsar_package

__all__ = ["PartitionCursor"]

log = logging.getLogger(__name__)

_FIRST_MS = 500
_NEXT_MS = 50


class PartitionCursor:
    """Reads one partition; for one thread.

    Args:
        client: Of the slot.
        partition: Its full name.
        receiver_queue: How many messages wait.
        fails_on_mismatch: Whether the message that was read last has to be there.
    """

    def __init__(
        self, client: PulsarClient, partition: str, *, receiver_queue: int, fails_on_mismatch: bool
    ) -> None:
        self._client = client
        self._partition = partition
        self._receiver_queue = receiver_queue
        self._fails = fails_on_mismatch
        self._package = pulsar_package()
        self._clock: Clock = SystemClock()
        self._reader: Any = None
        self._at: Position | None = None
        self._next: Any = None

    def take(self, position: Position, stop: Position, most: int) -> list[Any]:
        """Return messages behind a position; none only if there are none before `stop`.

        Args:
            position: Behind what was read.
            stop: In front of what is not wanted.
            most: So many at most.

        Raises:
            SourceError: If messages are missing, or the cluster stays away.
        """
        if position != self._at:
            self.close()
        began, said = self._clock.monotonic(), False
        while True:
            try:
                taken, is_there = self._try_to_take(position, stop, most)
            except BaseException:
                self.close()
                raise
            if taken or not is_there:
                self._at = behind(taken[-1].message_id()) if taken else None
                return taken
            waited_s = self._clock.monotonic() - began
            if waited_s > self._client.patience_s:
                self.close()
                raise self._client.explain(f'reading "{self._partition}" behind {position}', "Timeout")
            if not self._reader.is_connected():
                self.close()
            if not said:
                said = True
                log.warning("%s: nothing comes behind %s; waiting", self._partition, position)

    def close(self) -> None:
        """Let go of the reader."""
        reader, self._reader, self._next, self._at = self._reader, None, None, None
        if reader is not None:
            try:
                reader.close()
            except self._package.PulsarException:
                return  # it goes with the connection

    def _try_to_take(self, position: Position, stop: Position, most: int) -> tuple[list[Any], bool]:
        """Return messages that came, and, if none did, whether there are some all the same."""
        if self._reader is None:
            self._open(position)
        taken: list[Any] = []
        while len(taken) < most:
            message = self._read(_NEXT_MS if taken else _FIRST_MS)
            if message is None:
                break
            place = behind(message.message_id())
            if place.place > stop.place:
                self._next = message
                return taken, False
            if place.place > position.place:
                taken.append(message)
            if place.place >= stop.place:
                return taken, False
        return taken, bool(taken) or self._has_more()

    def _read(self, timeout_ms: int) -> Any:
        if self._next is not None:
            message, self._next = self._next, None
            return message
        try:
            return self._reader.read_next(timeout_ms)
        except self._package.Timeout:
            return None
        except self._package.PulsarException as error:
            if not self._client.is_passing(error):
                raise self._client.explain(f'reading "{self._partition}"', error) from error
            log.debug("%s: %s", self._partition, error)
            return None

    def _has_more(self) -> bool:
        try:
            return bool(self._reader.has_message_available())
        except self._package.PulsarException as error:
            if not self._client.is_passing(error):
                raise self._client.explain(f'reading "{self._partition}"', error) from error
            return True

    def _open(self, position: Position) -> None:
        package = self._package
        start = package.MessageId.earliest
        if not position.is_start:
            start = package.MessageId(-1, position.ledger, position.entry, -1)
        self._reader = self._client.call(
            f'opening "{self._partition}"',
            lambda client: client.create_reader(
                self._partition,
                start,
                receiver_queue_size=self._receiver_queue,
                start_message_id_inclusive=True,
            ),
        )
        if position.is_known:
            self._look_for_losses(position)

    def _look_for_losses(self, position: Position) -> None:
        """See whether the first message is the one that was read last."""
        deadline = self._clock.monotonic() + self._client.patience_s
        while (message := self._read(_FIRST_MS)) is None:
            if self._clock.monotonic() > deadline:
                raise self._client.explain(f'reading "{self._partition}" from {position}', "Timeout")
        self._next = message
        first = behind(message.message_id())
        if first[:2] == position[:2]:
            return
        error = SourceError(
            f'messages of "{self._partition}" may have been lost: message {position} is not there any more',
            detail=f"Reading was to go on there; the first message that is there is {first}. Messages go by "
            "retention, time to live and quotas, and when a topic is removed.",
            hint="If nothing is missing that is needed: set_config('pulsar.source.verifyInitialOffsets', "
            "'WARN_ON_MISMATCH').",
        )
        if self._fails:
            raise error
        log.warning("%s", error.summary())
