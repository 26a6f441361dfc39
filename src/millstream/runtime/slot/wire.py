"""How a slot is talked to: messages over a connection whose ends have proved themselves (`runtime/connect`).

The proof is of the attempt's secret and names the slot's process; nothing is unpickled before it. A request is a
pickled `Request` and its bundles; an answer is a pickled `Answer` and its bundles.
"""

from __future__ import annotations

import pickle
import select
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from millstream.base.errors import MillstreamError, SlotLostError
from millstream.runtime.connect.asker import connect
from millstream.runtime.connect.channel import Channel
from millstream.runtime.connect.handshake import HandshakeError
from millstream.runtime.protocol.questions import AnyQuestion
from millstream.runtime.protocol.report import LogLine
from millstream.runtime.slot.core import LevelOutput
from millstream.runtime.slot.liveness import may_be_busy, probe_host

__all__ = [
    "Answer",
    "Conversation",
    "OrderEndedError",
    "Request",
    "SlotAddress",
    "SlotSilentError",
    "ask",
    "hold",
    "is_busy",
    "receive",
    "send",
]

_LIMITED = ("ping", "abort", "kill", "cancel", "stack")


class SlotSilentError(SlotLostError):
    """A slot did not answer in time; its process may be there."""


class OrderEndedError(MillstreamError, ConnectionError):
    """Who has slots asked is gone: nobody wants the answer."""

    code = "ORDER_ENDED"
    domain = "external"


@dataclass(frozen=True, slots=True)
class SlotAddress:
    """Where a slot lives.

    Attributes:
        slot: Its index.
        host: Name or address of the host.
        pid: Its process, by the number that it has in its place.
        unix: Unix socket, for who shares its place.
        tcp: Host and port for others; None if all are in one place.
        place: Where it lives, see `slot.place`.
        executor: Spark's id of the executor beside it; None in local mode.
        name: Of its process, which no other one has.
    """

    slot: int
    host: str
    pid: int
    unix: str
    tcp: tuple[str, int] | None = None
    place: str = ""
    executor: str | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """What a slot is asked.

    Attributes:
        kind: "open" first, then "level" and, between epochs, "query", at last "close" or "abort"; at any time "ping",
            "stack", "kill", "cancel", by which operators that wait give up, and "hold", which is not answered.
        header: The epoch, for a level, pickled: it may hold objects of classes of the program's main module.
        level: The level.
        question: What is asked of the state, for a query.
        completed_checkpoint: To tell functions of before the close.
        at_most: How many bytes for other slots the answer may bring: more are kept for who asks without a limit.
    """

    kind: str
    header: bytes | None = None
    level: int = 0
    question: AnyQuestion | None = None
    completed_checkpoint: int | None = None
    at_most: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a slot answers.

    Attributes:
        output: Of a level; None if it is more than the request allows, or something went wrong.
        text: Of a control request.
        error: What went wrong.
        logs: What user code printed and logged, when it is not in a report.
        value: Of a query, pickled.
    """

    output: LevelOutput | None = None
    text: str = ""
    error: MillstreamError | None = None
    logs: list[LogLine] = field(default_factory=list)
    value: bytes = b""


def send(connection: Channel, message: Any, bundles: Sequence[bytes] = ()) -> None:
    """Send a message and its bundles."""
    connection.send_bytes(pickle.dumps((message, len(bundles)), protocol=5))
    for bundle in bundles:
        connection.send_bytes(bundle)


def receive(connection: Channel) -> tuple[Any, list[bytes]]:
    """Receive a message and its bundles."""
    message, count = pickle.loads(connection.recv_bytes())
    return message, [connection.recv_bytes() for _ in range(count)]


def ask(
    address: SlotAddress,
    secret: bytes,
    request: Request,
    bundles: Sequence[bytes] = (),
    *,
    here: str,
    timeout_s: float,
) -> Answer:
    """Ask a slot and wait for its answer.

    A slow answer is waited for as long as the slot answers pings, or may be busy (`liveness.py`); any other is lost.
    An abort is not waited for longer than `timeout_s`: a function may never return.

    Args:
        address: The slot.
        secret: Of the attempt.
        request: What to ask.
        bundles: Of a level.
        here: The place of this process.
        timeout_s: How long a slot may be silent.

    Raises:
        SlotSilentError: If it is silent, or a ping is not answered in time.
        SlotLostError: If the slot is gone.
    """
    with Conversation(address, secret, here=here, timeout_s=timeout_s) as conversation:
        conversation.ask(request, bundles)
        return conversation.wait()


class Conversation:
    """Asks a slot for one thing after another over one connection; used by one thread, as a context.

    A slow answer is waited for as `ask` does.

    Args:
        address: The slot.
        secret: Of the attempt.
        here: The place of this process.
        timeout_s: How long the slot may be silent.
        ordered_by: The connection to who has this asked; nothing comes on it while the slot is waited for, but its end.
    """

    def __init__(
        self,
        address: SlotAddress,
        secret: bytes,
        *,
        here: str,
        timeout_s: float,
        ordered_by: Channel | None = None,
    ) -> None:
        self._ordered_by = ordered_by
        self._address = address
        self._secret = secret
        self._here = here
        self._timeout_s = timeout_s
        self._limited = False
        self._channel: Channel | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._channel is not None:
            self._channel.close()

    def ask(self, request: Request, bundles: Sequence[bytes] = ()) -> None:
        """Ask; the answer has to be waited for before anything else is asked.

        Args:
            request: What to ask.
            bundles: Of a level.

        Raises:
            SlotLostError: If the slot is gone or silent.
        """
        self._limited = request.kind in _LIMITED
        with _telling_loss(self._address, self._timeout_s):
            if self._channel is None:
                self._channel = self._connect()
            send(self._channel, request, bundles)

    def wait(self) -> Answer:
        """Wait for the answer.

        Raises:
            SlotSilentError: If the slot is silent, or a ping is not answered in time.
            SlotLostError: If the slot is gone.
            OrderEndedError: If the one who has this asked is gone.
        """
        assert self._channel is not None
        with _telling_loss(self._address, self._timeout_s):
            while not self._comes(self._channel):
                if self._limited or not _answers_ping(
                    self._address, self._secret, self._here, self._timeout_s
                ):
                    raise _silent(self._address, self._timeout_s)
            answer, _ = receive(self._channel)
        assert isinstance(answer, Answer)
        return answer

    def _comes(self, channel: Channel) -> bool:
        """Wait for the answer, no longer than the slot may be silent; return whether it comes."""
        if self._ordered_by is None:
            return channel.poll(self._timeout_s)
        poll = select.poll()
        for each in (channel, self._ordered_by):
            poll.register(each.fileno(), select.POLLIN)
        ready = {number for number, _ in poll.poll(self._timeout_s * 1000)}
        if channel.fileno() in ready:
            return True
        if ready:
            raise OrderEndedError("who has the slots asked is gone")
        return False

    def _connect(self) -> Channel:
        address, here = self._address, self._here
        channel = _connect(address, self._secret, here, self._timeout_s)
        while channel is None:
            if self._limited or not (_same_place(address, here) and is_busy(address, here)):
                raise _silent(address, self._timeout_s)
            channel = _connect(address, self._secret, here, self._timeout_s)
        return channel


def hold(address: SlotAddress, secret: bytes, *, here: str, timeout_s: float) -> Channel:
    """Return a connection on which nothing comes: it ends when the slot's process does, however that ends.

    Args:
        address: The slot.
        secret: Of the attempt.
        here: The place of this process.
        timeout_s: How long the slot may be silent now.

    Raises:
        SlotLostError: If the slot is gone or silent.
    """
    with _telling_loss(address, timeout_s):
        connection = _connect(address, secret, here, timeout_s)
        if connection is None:
            raise _silent(address, timeout_s)
        try:
            send(connection, Request("hold"))
        except OSError:
            connection.close()
            raise
    return connection


@contextmanager
def _telling_loss(address: SlotAddress, timeout_s: float) -> Iterator[None]:
    """Turn what goes wrong with a connection into the loss of the slot."""
    try:
        yield
    except (SlotLostError, OrderEndedError):
        raise
    except (BlockingIOError, TimeoutError) as error:
        raise _silent(address, timeout_s) from error
    except HandshakeError as error:
        raise _lost(address, error.message) from error
    except (OSError, EOFError) as error:
        raise _lost(address, f"{type(error).__name__}: {error}") from error


def _connect(address: SlotAddress, secret: bytes, here: str, timeout_s: float) -> Channel | None:
    """Connect; None if the slot, or its host, does not answer in time."""
    target = address.unix if address.place == here or address.tcp is None else address.tcp
    try:
        channel = connect(target, secret, address.name, timeout_s=timeout_s, silence_s=timeout_s)
    except (BlockingIOError, TimeoutError):
        return None
    probe_host(channel, timeout_s)
    return channel


def _answers_ping(address: SlotAddress, secret: bytes, here: str, timeout_s: float) -> bool:
    """Return whether a slot answers, or may be busy."""
    try:
        ask(address, secret, Request("ping"), here=here, timeout_s=timeout_s)
    except SlotSilentError:
        return is_busy(address, here)
    except SlotLostError:
        return False
    return True


def is_busy(address: SlotAddress, here: str) -> bool:
    """Return whether a silent slot may answer later, as far as can be seen from `here`."""
    return may_be_busy(address.pid, same_place=_same_place(address, here))


def _same_place(address: SlotAddress, here: str) -> bool:
    return address.place == here or address.tcp is None


def _silent(address: SlotAddress, timeout_s: float) -> SlotLostError:
    lost = _lost(address, f"it was silent for {timeout_s:g} s")
    return SlotSilentError(lost.message, hint=lost.hint)


def _lost(address: SlotAddress, reason: str) -> SlotLostError:
    return SlotLostError(
        f"slot {address.slot} (process {address.pid} on {address.host}) is lost: {reason}",
        hint="Look for a crash of the process: memory, signals, native code in user functions.",
    )
