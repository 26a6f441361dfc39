"""Where a partition was left: before or behind a message.

A message's id is ledger, entry, and, if it came in a batch, its number there. Ids of one partition are in order, but
they are not dense: nobody can tell how many messages are between two, or whether some are missing. So a position
remembers whether its message was seen: whoever goes on from there looks whether it is still there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from millstream.base.errors import ConfigurationError
from millstream.base.optional import load_package

__all__ = [
    "START",
    "PlainPosition",
    "Position",
    "behind",
    "of_message_id",
    "parse_message_id",
    "pulsar_package",
]

_WHOLE_ENTRY = 1 << 30


PlainPosition = tuple[int, int, int, bool, bool]
"""A position for checkpoints: no class has to stay where it is."""


class Position(NamedTuple):
    """A place in a partition; larger ones are later, `is_known` aside.

    Attributes:
        ledger: The message's ledger.
        entry: Its entry.
        batch_index: Its number in a batch; -1 if it came alone.
        is_behind: Whether this is behind the message, or before it.
        is_known: Whether the message was there: if it is gone later, messages may be missing.
    """

    ledger: int
    entry: int
    batch_index: int
    is_behind: bool = True
    is_known: bool = True

    @property
    def place(self) -> tuple[int, int, int, bool]:
        """What positions are compared by."""
        return self[:4]

    @property
    def plain(self) -> PlainPosition:
        """The position for a checkpoint; `Position(*plain)` makes it again."""
        return self.ledger, self.entry, self.batch_index, self.is_behind, self.is_known

    @property
    def is_start(self) -> bool:
        """Whether it is before all messages."""
        return self.ledger < 0

    def __str__(self) -> str:
        batch = "" if self.batch_index < 0 or self.batch_index >= _WHOLE_ENTRY else f":{self.batch_index}"
        return f"{self.ledger}:{self.entry}{batch}"


START = Position(-1, -1, -1, is_behind=True, is_known=False)
"""Before the first message of a partition."""


def pulsar_package() -> Any:
    """Return the client library.

    Raises:
        MissingDependencyError: If it is not installed.
    """
    return load_package("pulsar", extra="pulsar", what="Pulsar sources and sinks")


def behind(message_id: Any) -> Position:
    """Return the position behind a message; `START` if the id is that of no message."""
    if message_id.ledger_id() < 0 or message_id.entry_id() < 0:
        return START
    return Position(message_id.ledger_id(), message_id.entry_id(), message_id.batch_index())


def of_message_id(ledger: int, entry: int, batch_index: int, *, is_behind: bool) -> Position:
    """Return the position before or behind a message that a program named; of a whole batch if it names one.

    >>> of_message_id(7, 3, -1, is_behind=True) > Position(7, 3, 99)
    True
    """
    if is_behind and batch_index < 0:
        batch_index = _WHOLE_ENTRY
    return Position(ledger, entry, batch_index, is_behind)


def parse_message_id(data: bytes) -> tuple[int, int, int]:
    """Return ledger, entry and number in the batch of a serialized message id.

    Raises:
        ConfigurationError: If it is none.
        MissingDependencyError: If the client library is not installed.
    """
    try:
        found = pulsar_package().MessageId.deserialize(data)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"a Pulsar message id cannot be read: {error}",
            hint="Give the bytes of message.message_id().serialize().",
        ) from error
    return found.ledger_id(), found.entry_id(), found.batch_index()
