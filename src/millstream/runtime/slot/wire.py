"""How a slot is talked to: messages over a connection whose ends have proved themselves (`runtime/connect`).

The proof is of the attempt's secret and names the slot's process; nothing is unpickled before it. A request is a
pickled `Request` and its bundles; an answer is a pickled `Answer` and its bundles.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from millstream.common.errors import MillstreamError, SlotLostError
from millstream.runtime.connect.asker import connect
from millstream.runtime.connect.channel import Channel
from millstream.runtime.connect.handshake import HandshakeError
from millstream.runtime.job.queryable import SlotQuestion
from millstream.runtime.slot.core import LevelOutput
from millstream.runtime.task.report import EpochHeader, LogLine

__all__ = ["Answer", "Request", "SlotAddress", "ask", "hold", "receive", "send"]


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
        header: The epoch, for a level.
        level: The level.
        question: What is asked of the state, for a query.
        completed_checkpoint: To tell functions of before the close.
    """

    kind: str
    header: EpochHeader | None = None
    level: int = 0
    question: SlotQuestion | None = None
    completed_checkpoint: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a slot answers.

    Attributes:
        output: Of a level.
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

    A slow answer is waited for as long as the slot answers pings; a slot that does not is lost. An abort is not
    waited for longer than `timeout_s`: a function may never return.

    Args:
        address: The slot.
        secret: Of the attempt.
        request: What to ask.
        bundles: Of a level.
        here: The place of this process.
        timeout_s: How long a slot may be silent.

    Raises:
        SlotLostError: If the slot is gone or silent.
    """
    with _telling_loss(address, timeout_s), _connect(address, secret, here, timeout_s) as connection:
        send(connection, request, bundles)
        while not connection.poll(timeout_s):
            if request.kind in ("ping", "abort") or not _answers_ping(address, secret, here, timeout_s):
                raise _lost(address, f"it was silent for {timeout_s:g} s")
        answer, _ = receive(connection)
    assert isinstance(answer, Answer)
    return answer


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
    except (BlockingIOError, TimeoutError) as error:
        raise _lost(address, f"it was silent for {timeout_s:g} s") from error
    except HandshakeError as error:
        raise _lost(address, error.message) from error
    except (OSError, EOFError) as error:
        raise _lost(address, f"{type(error).__name__}: {error}") from error


def _connect(address: SlotAddress, secret: bytes, here: str, timeout_s: float) -> Channel:
    target = address.unix if address.place == here or address.tcp is None else address.tcp
    return connect(target, secret, address.name, timeout_s=timeout_s, silence_s=timeout_s)


def _answers_ping(address: SlotAddress, secret: bytes, here: str, timeout_s: float) -> bool:
    try:
        ask(address, secret, Request("ping"), here=here, timeout_s=timeout_s)
    except SlotLostError:
        return False
    return True


def _lost(address: SlotAddress, reason: str) -> SlotLostError:
    return SlotLostError(
        f"slot {address.slot} (process {address.pid} on {address.host}) is lost: {reason}",
        hint="Look for a crash of the process: memory, signals, native code in user functions.",
    )
