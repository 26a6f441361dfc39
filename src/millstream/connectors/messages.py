"""Messages into records, and what becomes of messages that do not parse: the same for all connectors.

::

    reader   messages ──► MessageDecoder.decode ──► Rows or Columns ──► emit
                               │ a message does not parse
                               ├─ fail           MalformedRecordError: source, position, bytes, cause
                               ├─ skip           the metric numRecordsInErrors, and the log now and then
                               └─ dead letters   a DeadLetter in a side output of the source's stream

A message without record is none of these: a schema returns None for it, as in Flink, and nothing is emitted. So it is
with a message without bytes (None), such as Kafka's tombstones.

A dead letter is handed to the side output while the range is read that its message is in, so it is there exactly as
often as the records around it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import repeat
from operator import is_
from typing import Any

from millstream.base.errors import (
    ConfigurationError,
    JobDefinitionError,
    MalformedRecordError,
    MillstreamError,
    NumberRangeError,
    TypeMismatchError,
    shorten,
)
from millstream.common.output_tag import OutputTag
from millstream.spi.batch import Batch, Columns, Rows
from millstream.spi.serialization import DeserializationSchema
from millstream.spi.source import SourceReaderContext

__all__ = ["DeadLetter", "MalformedPolicy", "MessageDecoder", "Where"]

_LOG = logging.getLogger("millstream.connectors.messages")

Where = Callable[[int], str]
"""Tells where a message of a batch came from, by its index: `partition 3, offset 17`; called for malformed ones."""

_FEW = 8
"""So few messages are read one by one when one of them is known to be malformed."""


class _Reaction(Enum):
    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTERS = "dead letters"


@dataclass(frozen=True, slots=True)
class MalformedPolicy:
    """What becomes of messages that do not parse; made by one of its three methods.

    >>> from millstream.datastream import OutputTag
    >>> from millstream.datastream.connectors.dynamodb import MalformedPolicy
    >>> MalformedPolicy.dead_letters(OutputTag("malformed"))
    MalformedPolicy.dead_letters('malformed')
    """

    _reaction: _Reaction
    _tag_id: str = ""

    @staticmethod
    def fail() -> MalformedPolicy:
        """Fail the job, naming the message; the default everywhere."""
        return MalformedPolicy(_Reaction.FAIL)

    @staticmethod
    def skip() -> MalformedPolicy:
        """Count them (`numRecordsInErrors`), name some of them in the log, and go on."""
        return MalformedPolicy(_Reaction.SKIP)

    @staticmethod
    def dead_letters(tag: OutputTag) -> MalformedPolicy:
        """Count them, and emit a `DeadLetter` for each: `stream.get_side_output(tag)` of the source's stream has them.

        Raises:
            TypeMismatchError: If it is no OutputTag.
        """
        if not isinstance(tag, OutputTag):
            raise TypeMismatchError(f"dead_letters was given {shorten(tag)}, not an OutputTag")
        return MalformedPolicy(_Reaction.DEAD_LETTERS, tag.tag_id)

    def __repr__(self) -> str:
        name = self._reaction.name.lower()
        return f"MalformedPolicy.{name}({repr(self._tag_id) if self._tag_id else ''})"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that did not parse.

    Attributes:
        source: What it was read from: `Kafka topic orders`.
        position: Where in it: `partition 3, offset 17`.
        message: Its bytes.
        error: Why it did not parse.

    Example:
        >>> from millstream.datastream.connectors.base import DeadLetter
        >>> letter = DeadLetter("Kafka topic orders", "partition 3, offset 17", b"{", "no JSON")
        >>> f"{letter.source}, {letter.position}: {letter.error}"
        'Kafka topic orders, partition 3, offset 17: no JSON'
    """

    source: str
    position: str
    message: bytes
    error: str


class MessageDecoder:
    """Decodes the messages of one reader; made in the reader's `open`, called by its thread.

    Args:
        schema: Decodes them.
        policy: What becomes of those that do not parse.
        context: The reader's.
        source: What they are read from, for messages: `Kafka topic orders`; without secrets.
        columns: Whether columns are wanted where the schema can make them: the reader's `wants_columns`.

    Raises:
        ConfigurationError: If dead letters go to a side output that nobody reads.

    Example:
        >>> from millstream.datastream.connectors.base import MalformedPolicy, MessageDecoder, SourceReaderContext
        >>> from millstream.spi.serialization import SimpleStringSchema
        >>> policy, context = MalformedPolicy.skip(), SourceReaderContext()
        >>> decoder = MessageDecoder(SimpleStringSchema(), policy, context, source="socket")
        >>> decoder.decode([b"a", None, b"\\xff", b"b"], "message {}".format, [5, 6, 7, 8])
        Rows(['a', 'b'], [5, 8], None)
    """

    def __init__(
        self,
        schema: DeserializationSchema,
        policy: MalformedPolicy,
        context: SourceReaderContext,
        *,
        source: str,
        columns: bool = False,
    ) -> None:
        self._schema = schema
        self._policy = policy
        self._context = context
        self._source = source
        self._columns = columns and not schema.gives_many
        self._errors = context.metrics.counter("numRecordsInErrors")
        self._next_logged = 1
        tag_id = policy._tag_id
        if tag_id and context.side_outputs is not None and tag_id not in context.side_outputs:
            raise ConfigurationError(
                f"malformed messages of {source} go to the side output {tag_id!r}, which nobody reads",
                hint=f"Read it: stream.get_side_output(OutputTag({tag_id!r})) of the source's stream; or take "
                "MalformedPolicy.skip().",
            )

    def decode(
        self, messages: Sequence[bytes | None], where: Where, timestamps: Sequence[int] | None = None
    ) -> Batch:
        """Return the records of messages; emit them in the range that is being read.

        Args:
            messages: In order; None has no record.
            where: Tells where each came from.
            timestamps: Event time of each in epoch milliseconds, or None if they have none.

        Returns:
            Columns if they are wanted and all of the messages can be decoded so, else Rows; perhaps empty.

        Raises:
            MalformedRecordError: If a message does not parse, and that is to fail the job.
        """
        if self._columns and messages and None not in messages:
            data = self._columns_of(messages)  # type: ignore[arg-type]
            if data is not None:
                return Columns(data, _int64_array(timestamps))
        values, places = self.decode_values(messages, where, timestamps)
        if timestamps is None:
            return Rows(values)
        return Rows(values, list(timestamps) if places is None else [timestamps[each] for each in places])

    def decode_values(
        self, messages: Sequence[bytes | None], where: Where, timestamps: Sequence[int] | None = None
    ) -> tuple[list[Any], list[int] | None]:
        """Return the records of messages, and for each the index of its message; None if it is its own.

        For readers that put more to a record than its message has. Arguments and errors are those of `decode`.
        """
        places = list(range(len(messages)))
        if None in messages:
            places = [place for place in places if messages[place] is not None]
        found: list[tuple[list[Any], list[int]]] = []
        refused: list[tuple[int, Exception]] = []
        self._decode_some(messages, places, found, refused)
        if refused:
            self._refuse(messages, where, timestamps, refused)
        values = found[0][0] if len(found) == 1 else [value for part, _ in found for value in part]
        origins = found[0][1] if len(found) == 1 else [place for _, part in found for place in part]
        if not self._schema.gives_many and any(map(is_, values, repeat(None))):
            origins = [place for place, value in zip(origins, values, strict=True) if value is not None]
            values = [value for value in values if value is not None]
        return values, None if len(origins) == len(messages) and not self._schema.gives_many else origins

    def _columns_of(self, messages: Sequence[bytes]) -> Any | None:
        try:
            data = self._schema.columns_of(messages)
        except Exception as error:
            if not _is_malformed(error):
                raise
            return None  # one by one: the policy is about single messages
        return data if data is None or data.num_rows == len(messages) else None

    def _decode_some(
        self,
        messages: Sequence[Any],
        places: list[int],
        found: list[tuple[list[Any], list[int]]],
        refused: list[tuple[int, Exception]],
    ) -> None:
        """Decode messages at once; if that fails, each half, so that a malformed one slows down few others."""
        if refused and self._policy._reaction is _Reaction.FAIL:
            return  # the first one is all that is told
        chosen = messages if len(places) == len(messages) else [messages[place] for place in places]
        try:
            found.append(self._decode_all(chosen, places))
        except Exception as error:
            if not _is_malformed(error):
                raise
            if len(places) == 1:
                refused.append((places[0], error))
                return
            middle = 1 if len(places) <= _FEW else len(places) // 2
            self._decode_some(messages, places[:middle], found, refused)
            self._decode_some(messages, places[middle:], found, refused)

    def _decode_all(self, messages: Sequence[bytes], places: list[int]) -> tuple[list[Any], list[int]]:
        schema = self._schema
        if schema.gives_many:
            each = [schema.deserialize_many(message) for message in messages]
            return (
                [value for values in each for value in values],
                [place for place, values in zip(places, each, strict=True) for _ in values],
            )
        values = schema.deserialize_all(messages) if messages else []
        if len(values) != len(messages):
            raise JobDefinitionError(
                f"deserialize_all of {type(schema).__name__} gave {len(values)} values for {len(messages)} messages",
                detail="It has to return one for each, None for a message without record.",
            )
        return values, places

    def _refuse(
        self,
        messages: Sequence[Any],
        where: Where,
        timestamps: Sequence[int] | None,
        refused: list[tuple[int, Exception]],
    ) -> None:
        """Do with malformed messages what the policy says."""
        place, cause = refused[0]
        if self._policy._reaction is _Reaction.FAIL:
            raise MalformedRecordError(
                f"message of {self._source}, {where(place)}, does not parse: {shorten(messages[place])}",
                detail=_text(cause),
                hint="Skip such messages with MalformedPolicy.skip(), or send them to a side output with "
                'MalformedPolicy.dead_letters(OutputTag("malformed")).',
            ) from cause
        self._errors.inc(len(refused))
        if self._policy._reaction is _Reaction.DEAD_LETTERS:
            letters = [
                DeadLetter(self._source, where(place), bytes(messages[place]), _text(cause))
                for place, cause in refused
            ]
            stamps = None if timestamps is None else [timestamps[place] for place, _ in refused]
            self._context.emit_side(self._policy._tag_id, Rows(letters, stamps))
        elif self._errors.get_count() >= self._next_logged:
            self._next_logged = 10 ** len(str(self._errors.get_count()))  # the 1st, 10th, 100th ...
            _LOG.warning(
                "%d malformed messages of %s skipped so far, the last one at %s: %s: %s",
                self._errors.get_count(),
                self._source,
                where(place),
                shorten(messages[place]),
                _text(cause),
            )


def _is_malformed(error: Exception) -> bool:
    """Return whether an error is about the message.

    A schema may raise anything, also a class that we do not know, of a package that it parses with. What is missing or
    away is not about the message: an error of the system, or one of ours about something else.
    """
    if isinstance(error, MillstreamError):
        return isinstance(error, (MalformedRecordError, TypeMismatchError, NumberRangeError))
    return not isinstance(error, (OSError, MemoryError, ImportError, NotImplementedError))


def _text(error: Exception) -> str:
    return error.message if isinstance(error, MillstreamError) else f"{type(error).__name__}: {error}"


def _int64_array(timestamps: Sequence[int] | None) -> Any:
    if timestamps is None:
        return None
    from millstream.types.arrow_records import int64_array  # where there are columns there is pyarrow

    return int64_array(timestamps)
