"""Lets those in who prove the secret, and lets nobody else keep them out.

Whoever can reach a socket can connect and say nothing. So every connection is proved by a thread of its own within a
deadline, and so many may wait to be proved at once; when one more comes, the one that has waited longest goes, of the
peer that has most of them. One that knows the secret is done within milliseconds: it is hardly ever the oldest.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import socket
import threading
from collections import Counter
from collections.abc import Callable

from millstream.base.clock import Clock
from millstream.runtime.connect.channel import Channel
from millstream.runtime.connect.handshake import Deadline, HandshakeError, Parties, prove_as_listener
from millstream.runtime.connect.sockets import peer_user

__all__ = ["Listener"]

_LOG = logging.getLogger("millstream")
_DEADLINE_S = 10.0
_MOST_WAITING = 64
_MOST_FREE = 4
_PAUSE_S = 0.05


class Listener:
    """Accepts connections on daemon threads, from `start` to `close`.

    Args:
        stream: The socket, which listens; it belongs to the listener from now on.
        secret: What askers have to know.
        name: Of this process, which askers have to mean.
        converse: Talks to one that has proved itself, on a thread that has nothing else to do meanwhile; the channel is
            closed afterwards.
        clock: For the deadline.
        deadline_s: How long a proof may take.
        most_waiting: How many may be at it at once.
    """

    def __init__(
        self,
        stream: socket.socket,
        *,
        secret: bytes,
        name: str,
        converse: Callable[[Channel], None],
        clock: Clock,
        deadline_s: float = _DEADLINE_S,
        most_waiting: int = _MOST_WAITING,
    ) -> None:
        self._stream = stream
        self._is_unix = stream.family == socket.AF_UNIX
        self._parties = Parties(secret, name, "unix" if self._is_unix else "tcp")
        self._converse = converse
        self._clock = clock
        self._deadline_s = deadline_s
        self._most_waiting = most_waiting
        self._lock = threading.Lock()
        self._waiting: dict[socket.socket, str] = {}
        self._free = 0
        self._arrived: queue.SimpleQueue[socket.socket] = queue.SimpleQueue()
        self._closed = False

    def start(self) -> None:
        """Begin."""
        threading.Thread(target=self._accept, name="accept", daemon=True).start()

    def close(self) -> None:
        """Let nobody in any more; conversations go on."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._stream.shutdown(socket.SHUT_RDWR)  # ends accept()
        self._stream.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                stream, address = self._stream.accept()
            except OSError as error:
                if self._closed:
                    return
                _LOG.debug("a connection could not be accepted: %s", error)
                self._clock.wait(_PAUSE_S)  # too many files are open, and will be at once
                continue
            if self._is_unix and peer_user(stream) not in (os.geteuid(), None):
                stream.close()
                continue
            self._admit(stream, "" if self._is_unix else str(address[0]))

    def _admit(self, stream: socket.socket, peer: str) -> None:
        with self._lock:
            if len(self._waiting) >= self._most_waiting:
                self._drop_one()
            self._waiting[stream] = peer
            one_is_free = self._free > 0
            self._free -= one_is_free
        if one_is_free:
            self._arrived.put(stream)
            return
        try:
            threading.Thread(target=self._work, args=(stream,), name="conversation", daemon=True).start()
        except RuntimeError:  # the system has no thread left
            self._end_waiting(stream)
            stream.close()

    def _drop_one(self) -> None:
        busiest, _ = Counter(self._waiting.values()).most_common(1)[0]
        oldest = next(stream for stream, peer in self._waiting.items() if peer == busiest)
        del self._waiting[oldest]
        with contextlib.suppress(OSError):
            oldest.shutdown(socket.SHUT_RDWR)  # its thread ends

    def _end_waiting(self, stream: socket.socket) -> bool:
        with self._lock:
            return self._waiting.pop(stream, None) is not None

    def _work(self, stream: socket.socket) -> None:
        """Serve one after the other: a thread that is kept is there sooner than a new one."""
        while True:
            self._serve(stream)
            with self._lock:
                if self._free >= _MOST_FREE:
                    return
                self._free += 1
            stream = self._arrived.get()

    def _serve(self, stream: socket.socket) -> None:
        try:
            session = prove_as_listener(stream, self._parties, Deadline(self._clock, self._deadline_s))
        except (OSError, HandshakeError) as error:
            self._end_waiting(stream)
            stream.close()
            _LOG.debug("a connection was turned away: %s", error)
            return
        if not self._end_waiting(stream):  # it has just been dropped
            stream.close()
            return
        local = self._is_unix and peer_user(stream) is not None
        with Channel.of_listener(stream, None if local else session.keys()) as channel:
            self._converse(channel)
