"""Connects to a process that is meant, and to no other."""

from __future__ import annotations

import os
import socket

from millstream.base.clock import Clock, SystemClock
from millstream.runtime.connect.channel import Channel, limit_waiting
from millstream.runtime.connect.handshake import Deadline, HandshakeError, Parties, prove_as_asker
from millstream.runtime.connect.sockets import peer_user

__all__ = ["connect"]


def connect(
    target: str | tuple[str, int],
    secret: bytes,
    name: str,
    *,
    timeout_s: float,
    silence_s: float | None = None,
    clock: Clock | None = None,
) -> Channel:
    """Connect and prove the secret.

    Args:
        target: Path of a Unix socket, or host and port.
        secret: What the listener knows as well.
        name: The process that is meant.
        timeout_s: How long all this may take.
        silence_s: How long one call on the channel may wait; None for ever.
        clock: For the time-out; the machine's by default.

    Raises:
        HandshakeError: If another process listens there, or one of another user.
        OSError: If nobody does, or not in time.
    """
    is_unix = isinstance(target, str)
    deadline = Deadline(clock or SystemClock(), timeout_s)
    stream = socket.socket(socket.AF_UNIX if is_unix else socket.AF_INET)
    try:
        # Blocking, with a limit: where the queue of a Unix socket is full, one with a time-out would not wait at all.
        limit_waiting(stream, timeout_s)
        stream.connect(target)
        user = peer_user(stream) if is_unix else None
        if user is not None and user != os.geteuid():
            raise HandshakeError(f"who listens there is user {user}, not this one")
        session = prove_as_asker(stream, Parties(secret, name, "unix" if is_unix else "tcp"), deadline)
        return Channel.of_asker(stream, session.keys() if user is None else None, silence_s)
    except BaseException:
        stream.close()
        raise
