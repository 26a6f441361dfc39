"""Answers that are given again, for as long as the views they were made of are.

::

    bytes of a request ──► quick answers ──► h11, routes, guard ──► answers ──► a thread: views, documents, JSON
                             │ the same bytes                         │ the same path and query
                             ▼                                        ▼
                           written as it is                         its JSON

Clients that watch ask the same over and over. A view holds until the directory's next tick (half a second), so what was
made of views holds as long: within a tick the same path has the same answer, and the same bytes of a request have the
same bytes of an answer, since whether they are let in hangs on nothing else. The second finds out without a look into
the request, which costs most. Looking bytes up tells nobody a token by how long it takes: what is compared byte by byte
has the same hash already, and that is salted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, MutableMapping
from typing import Any, Generic, TypeVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["AnswerCache", "QuickProtocol", "RAW_REQUEST", "protocol_with"]

K = TypeVar("K", bound=Hashable)

RAW_REQUEST = "millstream.raw"
"""In the scope of a request: its bytes, if an answer may be kept for them."""
_MOST = 1_000
_MOST_BYTES = 16_000_000
_LONGEST_REQUEST = 4_096


class AnswerCache(Generic[K]):
    """Answers of one version of all views; used on the event loop only.

    Args:
        version: Gives the present version; whatever was kept for another is gone.
    """

    def __init__(self, version: Callable[[], Hashable]) -> None:
        self._version = version
        self._kept_for: Hashable = None
        self._answers: dict[K, bytes] = {}
        self._size = 0

    def find(self, key: K) -> bytes | None:
        """Return what was kept; None if nothing was."""
        if not self._answers or self._version() != self._kept_for:
            return None
        return self._answers.get(key)

    def keep(self, version: Hashable, key: K, answer: bytes) -> None:
        """Keep an answer that was begun at a version, if that is the present one and there is room."""
        if version != self._version():
            return
        if version != self._kept_for:
            self._answers.clear()
            self._kept_for, self._size = version, 0
        if len(self._answers) < _MOST and self._size + len(answer) <= _MOST_BYTES:
            self._answers[key] = answer
            self._size += len(answer)


class QuickProtocol(H11Protocol):
    """A connection: what is asked for in the same bytes as before is answered at once, all else as uvicorn does it.

    An answer is kept for bytes that h11 has found to be one whole request, on a connection that stays open, with
    nothing before and behind them; it is given where they are the only thing that has come, and nothing waits to be
    sent.
    """

    quick: AnswerCache[bytes]
    _answered_s = 0.0

    def data_received(self, data: bytes) -> None:
        """Answer, or hand on what has come."""
        if len(data) > _LONGEST_REQUEST or not self._is_idle():
            super().data_received(data)
            return
        answer = self.quick.find(data)
        if answer is not None and not self.transport.get_write_buffer_size():
            self._answered_s = self.loop.time()
            self.transport.write(answer)
            return
        super().data_received(data)
        conn = self.conn
        if (
            conn.their_state is h11.DONE
            and conn.our_state is h11.SEND_RESPONSE
            and not conn.they_are_waiting_for_100_continue
            and conn.trailing_data == (b"", False)
        ):
            scope: MutableMapping[str, Any] = self.scope  # type: ignore[assignment]
            scope[RAW_REQUEST] = data

    def _is_idle(self) -> bool:
        conn = self.conn
        return conn.our_state is h11.IDLE and conn.their_state is h11.IDLE and not conn.trailing_data[0]

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection, unless something was answered at once meanwhile: then its time begins anew."""
        silent_s = self.loop.time() - self._answered_s
        if silent_s >= self.timeout_keep_alive:
            super().timeout_keep_alive_handler()
        elif not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive - silent_s, self.timeout_keep_alive_handler
            )


def protocol_with(quick: AnswerCache[bytes]) -> type[asyncio.Protocol]:
    """Return a class of connections that share quick answers."""
    fields: dict[str, Any] = {"quick": quick}
    return type("QuickProtocol", (QuickProtocol,), fields)
