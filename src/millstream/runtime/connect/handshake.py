"""Both ends of a connection prove that they know a secret, before either says anything else.

::

    asker                                               listener
      "millstrm", nonce A (32 random bytes)      ──────►
                                                 ◄──────  nonce B, HMAC(secret, "listener" | all below)
      HMAC(secret, "asker" | all below)          ──────►
                                  all below: protocol, kind of socket, the listener's name, nonce A, nonce B

The listener's name says which process is meant: an attempt's slots share a secret, and what one of them proves is of
no use to whoever pretends to be another. The roles differ, so that no proof can be sent back to where it came from, and
the kind of socket, so that what was proved over a network opens no local socket. Each message has a fixed length, so
nothing that an unknown peer says makes this process allocate, parse or wait beyond the deadline.

Both ends derive from the same two nonces a key for each direction, see `channel`.
"""

from __future__ import annotations

import hmac
import secrets
import socket
from dataclasses import dataclass

from millstream.base.clock import Clock
from millstream.base.errors import MillstreamError

__all__ = [
    "Deadline",
    "HandshakeError",
    "Parties",
    "Session",
    "SessionKeys",
    "prove_as_asker",
    "prove_as_listener",
]

_MAGIC = b"millstrm"
_PROTOCOL = "millstream connection 1"
_NONCE_BYTES = 32
_PROOF_BYTES = 32


class HandshakeError(MillstreamError, ConnectionError):
    """The other end did not prove that it knows the secret."""

    code = "HANDSHAKE"
    domain = "external"


@dataclass(frozen=True, slots=True)
class Parties:
    """Who talks to whom, known to both ends before.

    Attributes:
        secret: What both know, and nobody else.
        listener: Name of the listener, which no other process has.
        kind: Of the socket: "unix" or "tcp".
    """

    secret: bytes
    listener: str
    kind: str

    def derive(self, purpose: str, nonces: bytes) -> bytes:
        """Return 32 bytes that only who knows the secret can know, and that serve one purpose."""
        fields = [each.encode() for each in (_PROTOCOL, purpose, self.kind, self.listener)]
        # Each with its length: no two lists of fields give the same bytes.
        message = b"".join(len(each).to_bytes(4, "big") + each for each in (*fields, nonces))
        return hmac.digest(self.secret, message, "sha256")


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """Of one connection.

    Attributes:
        asker: For what the asker sends.
        listener: For what the listener sends.
    """

    asker: bytes
    listener: bytes


@dataclass(frozen=True, slots=True)
class Session:
    """A connection whose ends have proved themselves.

    Attributes:
        parties: Who they are.
        nonces: Of the asker and of the listener.
    """

    parties: Parties
    nonces: bytes

    def keys(self) -> SessionKeys:
        """Derive the keys, the same for both ends."""
        derive = self.parties.derive
        return SessionKeys(derive("key of asker", self.nonces), derive("key of listener", self.nonces))


class Deadline:
    """The moment until which a handshake must be done, however slowly the other end talks.

    Args:
        clock: Tells the time.
        seconds: From now on.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._end_s = clock.monotonic() + seconds

    def hold(self, stream: socket.socket) -> None:
        """Have the next call on a socket wait no longer.

        Raises:
            TimeoutError: If the moment has come.
        """
        left_s = self._end_s - self._clock.monotonic()
        if left_s <= 0:
            raise TimeoutError("the other end was silent")
        stream.settimeout(left_s)


def prove_as_asker(stream: socket.socket, parties: Parties, deadline: Deadline) -> Session:
    """Talk to the listener first; it proves itself before this end does.

    Raises:
        HandshakeError: If who listens is not the one that is meant.
        OSError: If the connection ends, or the deadline comes.
    """
    own = secrets.token_bytes(_NONCE_BYTES)
    _send(stream, _MAGIC + own, deadline)
    answer = _receive(stream, _NONCE_BYTES + _PROOF_BYTES, deadline)
    nonces = own + answer[:_NONCE_BYTES]
    _check(answer[_NONCE_BYTES:], parties.derive("listener", nonces), "who listens there")
    _send(stream, parties.derive("asker", nonces), deadline)
    return Session(parties, nonces)


def prove_as_listener(stream: socket.socket, parties: Parties, deadline: Deadline) -> Session:
    """Answer who has connected.

    Raises:
        HandshakeError: If who asks does not know the secret, or means another process.
        OSError: If the connection ends, or the deadline comes.
    """
    greeting = _receive(stream, len(_MAGIC) + _NONCE_BYTES, deadline)
    if not greeting.startswith(_MAGIC):
        raise HandshakeError("who connected speaks another protocol")
    nonces = greeting[len(_MAGIC) :] + secrets.token_bytes(_NONCE_BYTES)
    _send(stream, nonces[_NONCE_BYTES:] + parties.derive("listener", nonces), deadline)
    _check(_receive(stream, _PROOF_BYTES, deadline), parties.derive("asker", nonces), "who connected")
    return Session(parties, nonces)


def _check(proof: bytes, expected: bytes, who: str) -> None:
    if not hmac.compare_digest(proof, expected):
        raise HandshakeError(f"{who} does not prove to know the secret, or means another process")


def _send(stream: socket.socket, data: bytes, deadline: Deadline) -> None:
    deadline.hold(stream)
    stream.sendall(data)


def _receive(stream: socket.socket, length: int, deadline: Deadline) -> bytes:
    data = b""
    while len(data) < length:
        deadline.hold(stream)
        part = stream.recv(length - len(data))
        if not part:
            raise ConnectionResetError("the other end closed the connection before it had proved itself")
        data += part
    return data
