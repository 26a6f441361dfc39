"""What a server tells of a stream, and what it means when messages are missing."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

from millstream.base.errors import ConfigurationError, NotSupportedError, SourceError
from millstream.connectors.nats.connection import NatsClient, NatsRefusal, NatsSession

__all__ = ["StreamInfo", "StreamOfClient", "check_stream_name", "lost_messages"]

_NO_MESSAGE = 404


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """What a server tells of a stream.

    Attributes:
        created: When it was made: a stream that was made anew has another time.
        first: Its first sequence.
        last: Its last one, of a message that is or was there; 0 if there was none.
    """

    created: str
    first: int
    last: int


class StreamOfClient:
    """A stream, perhaps only those of its messages that have some subject.

    Args:
        client: The client.
        name: The stream's name.
        subject: The filter, with wildcards as in `orders.*.paid`; None for all messages.
    """

    def __init__(self, client: NatsClient, name: str, subject: str | None) -> None:
        self.client = client
        self.name = name
        self.subject = subject

    def info(self) -> StreamInfo | None:
        """Return what the server tells; None if there is no such stream.

        Raises:
            SourceError: If the server refuses it, or stays away.
            NotSupportedError: If its messages are removed once they were read.
        """
        what = f'looking at stream "{self.name}"'
        try:
            return self.client.call(what, self.ask_info)
        except NatsRefusal as error:
            if error.is_no_stream:
                return None
            raise self.client.explain(what, error) from error

    def position_at(self, time_ms: int) -> int:
        """Return the sequence before that of the first message of a time or later.

        Raises:
            SourceError: If the server refuses it, or stays away.
        """
        what = f'looking for the messages of a time in stream "{self.name}"'
        time = datetime.datetime.fromtimestamp(time_ms / 1_000, datetime.UTC)
        start = {
            "deliver_policy": "by_start_time",
            "opt_start_time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }

        async def ask(session: NatsSession) -> int:
            consumer, position = await self.make_consumer(session, start, None)
            await session.ask(f"CONSUMER.DELETE.{self.name}.{consumer}")
            return position

        try:
            return self.client.call(what, ask)
        except NatsRefusal as error:
            raise self.client.explain(what, error) from error

    async def ask_info(self, session: NatsSession) -> StreamInfo:
        """Return what the server tells, asked in a session.

        Raises:
            NatsRefusal: If it refuses.
            NotSupportedError: If the stream's messages are removed once they were read.
        """
        answer = await session.ask(f"STREAM.INFO.{self.name}")
        retention = answer["config"].get("retention", "limits")
        if retention != "limits":
            raise NotSupportedError(
                f'the stream "{self.name}" has the retention {retention}',
                detail="Its messages are removed once its consumers have them, so they cannot be read again.",
                hint="Read a stream with the retention limits; it may have this one for its source.",
            )
        state = answer["state"]
        return StreamInfo(answer["created"], state["first_seq"], state["last_seq"])

    async def make_consumer(
        self, session: NatsSession, start: Mapping[str, object], subject: str | None
    ) -> tuple[str, int]:
        """Make a consumer that lives as long as it is used; return its name, and the sequence that it is behind.

        Args:
            session: The session.
            start: Where it starts.
            subject: What it gets messages of; None for all.

        Raises:
            NatsRefusal: If the server refuses it.
        """
        config = {
            **start,
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": 300 * 10**9,
            "mem_storage": True,
            "num_replicas": 1,
        }
        if subject is not None:
            config["filter_subject"] = subject
        made = await session.ask(f"CONSUMER.CREATE.{self.name}", {"stream_name": self.name, "config": config})
        return str(made["name"]), int(made["delivered"]["stream_seq"])

    async def next_sequence(self, session: NatsSession, position: int) -> int | None:
        """Return the sequence of the first message behind a position, as the stream's leader knows it.

        Raises:
            NatsRefusal: If the server refuses it.
        """
        body = {"seq": position + 1, "next_by_subj": self.subject or ">"}
        try:
            answer = await session.ask(f"STREAM.MSG.GET.{self.name}", body)
        except NatsRefusal as error:
            if error.code == _NO_MESSAGE and not error.is_no_stream:
                return None
            raise
        return int(answer["message"]["seq"])


def check_stream_name(name: str) -> None:
    """Check that a name may be a stream's.

    Raises:
        ConfigurationError: If it has a character that NATS does not allow there, or none at all.
    """
    if not isinstance(name, str) or not name or any(each in name for each in " \t\r\n.*>/\\"):
        raise ConfigurationError(
            f"{name!r} is no name of a stream", detail="It has no blanks, points, slashes, * and >."
        )


def lost_messages(stream: str, position: int, seen: str) -> SourceError:
    """Return the error that says that messages were lost.

    Args:
        stream: The stream.
        position: How far it was read.
        seen: What tells it.
    """
    return SourceError(
        f'messages of the NATS stream "{stream}" were lost: {seen}',
        detail=f"It was read up to sequence {position}. Messages go by the stream's limits (max_age, max_msgs, "
        "max_bytes), when it is purged, and with a server that was restarted without its data.",
        hint="Keep messages longer than the job may stand still. To go on without those that are lost, "
        "set_fail_on_data_loss(False); a stream that was made anew needs a job without the old checkpoint.",
    )
