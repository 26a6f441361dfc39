"""Gives the messages behind a sequence, in order, each once.

A consumer of the server is only a means: it has no acknowledgements, keeps nothing that matters, and is made anew from
the sequence when it does not stand where reading goes on, and with each new session::

    messages   … 17 18 (19 deleted) 20 21 22 │ 23 24
                  position                  end    fetched too, kept for the next range

The consumer numbers what it sends, so a message that is lost on the way is noticed; then it is made anew as well.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from millstream.connectors.nats.connection import ANSWER_S, NatsRefusal, NatsSession
from millstream.connectors.nats.streams import StreamOfClient, lost_messages

__all__ = ["Message", "StreamCursor"]

log = logging.getLogger(__name__)

_NS_PER_MS = 1_000_000
_STATUS = "Status"
_SHORT_TOKENS = 9


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a stream.

    Attributes:
        sequence: Its number in the stream.
        timestamp_ms: When the stream stored it.
        subject: What it was published to.
        headers: By name; of several with one name the last.
        data: Its bytes.
    """

    sequence: int
    timestamp_ms: int
    subject: str
    headers: dict[str, str]
    data: bytes


class StreamCursor:
    """A place in a stream, and the consumer that stands there; for one thread.

    Args:
        stream: The stream.
        fail_on_data_loss: Whether messages that are missing are an error, or a warning.
    """

    def __init__(self, stream: StreamOfClient, *, fail_on_data_loss: bool) -> None:
        self._stream = stream
        self._fails = fail_on_data_loss
        self._at: int | None = None
        self._fetched: list[Message] = []
        self._session: NatsSession | None = None
        self._consumer: str | None = None
        self._stands = False
        self._numbered = 0

    def take(self, position: int, end: int, most: int) -> list[Message]:
        """Return messages behind a position, up to an end; none if there are no more.

        Args:
            position: The sequence before the first.
            end: The last sequence that is wanted.
            most: So many at most.

        Raises:
            SourceError: If messages are missing, or the server refuses it or stays away.
        """
        if self._at != position:
            self._at, self._fetched, self._stands = position, [], False
        if not self._fetched:
            what = f'reading stream "{self._stream.name}" behind {position}'
            try:
                self._fetched = self._stream.client.call(
                    what, lambda session: self._fetch(session, position, end, most)
                )
            except NatsRefusal as error:
                if error.is_no_stream:
                    raise lost_messages(
                        self._stream.name, position, "the stream is not there any more"
                    ) from error
                raise self._stream.client.explain(what, error) from error
        taken = [message for message in self._fetched[:most] if message.sequence <= end]
        self._fetched = self._fetched[len(taken) :]
        self._at = taken[-1].sequence if taken else end
        return taken

    async def _fetch(self, session: NatsSession, position: int, end: int, most: int) -> list[Message]:
        stands, self._stands = self._stands, False  # until this has succeeded
        if not stands or session is not self._session:
            await self._start(session, position)
        messages = await self._pull(session, most)
        if not messages:
            following = await self._stream.next_sequence(session, position)
            if following is not None and following <= end:
                # the consumer's server may be behind the stream's leader: it is not the end
                raise TimeoutError(f"message {following} has not arrived yet")
        await self._look_for_losses(session, position, end, messages)
        self._stands = True
        return messages

    async def _start(self, session: NatsSession, position: int) -> None:
        if self._consumer is not None:
            with suppress(NatsRefusal):  # it may have gone by itself
                await session.ask(f"CONSUMER.DELETE.{self._stream.name}.{self._consumer}")
            self._consumer = None
        start = {"deliver_policy": "by_start_sequence", "opt_start_seq": position + 1}
        self._consumer, _ = await self._stream.make_consumer(session, start, self._stream.subject)
        self._session, self._numbered = session, 0

    async def _pull(self, session: NatsSession, most: int) -> list[Message]:
        """Return what the consumer has now, without waiting for more.

        Raises:
            TimeoutError: If it does not answer, or a message was lost on the way.
        """
        nats = session.nats
        subscription = await nats.subscribe(nats.new_inbox(), pending_msgs_limit=0, pending_bytes_limit=0)
        messages: list[Message] = []
        try:
            request = json.dumps({"batch": most, "no_wait": True}).encode()
            subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream.name}.{self._consumer}"
            await nats.publish(subject, request, reply=subscription.subject)
            pending = most
            while pending and len(messages) < most:
                message = await subscription.next_msg(timeout=ANSWER_S)
                if not message.reply:  # a status: there are no more, or why there are none
                    _check_status(message.headers or {})
                    break
                sequence, number, time_ns, pending = _numbers(message.reply)
                if number != self._numbered + 1:
                    raise TimeoutError(
                        f"messages {self._numbered + 1} to {number - 1} of a consumer were lost"
                    )
                self._numbered = number
                headers = dict(message.headers or {})
                messages.append(
                    Message(sequence, time_ns // _NS_PER_MS, message.subject, headers, message.data)
                )
        finally:
            if not nats.is_closed:
                await subscription.unsubscribe()
        return messages

    async def _look_for_losses(
        self, session: NatsSession, position: int, end: int, messages: list[Message]
    ) -> None:
        """Tell messages that went by a limit, with all before them, from those that somebody deleted."""
        missing = position + 1
        for message in messages:
            if message.sequence != missing:
                break
            missing += 1
        else:
            if messages or missing > end:
                return
        first = (await self._stream.ask_info(session)).first
        if first <= missing:
            return
        following = next((each.sequence for each in messages if each.sequence > missing), end + 1)
        lost = min(first, following) - missing
        error = lost_messages(
            self._stream.name, missing - 1, f"up to {lost} messages were removed before they were read"
        )
        if self._fails:
            raise error
        log.warning("%s", error.summary())


def _check_status(headers: dict[Any, str]) -> None:
    """See whether a status only says that there are no more messages.

    Raises:
        TimeoutError: If it is something else, such as a consumer that was removed: it is made anew.
    """
    status = headers.get(_STATUS, "")
    if status not in ("404", "408"):
        raise TimeoutError(f"the consumer says {status} {headers.get('Description', '')}".rstrip())


def _numbers(reply: str) -> tuple[int, int, int, int]:
    """Return sequence in the stream, number of the consumer, nanoseconds, and how many are waiting."""
    tokens = reply.split(".")
    first = 5 if len(tokens) == _SHORT_TOKENS else 7
    sequence, number, time_ns, pending = map(int, tokens[first : first + 4])
    return sequence, number, time_ns, pending
