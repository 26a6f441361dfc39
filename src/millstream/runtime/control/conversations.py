"""Connections to jobs that stay open from one question to the next.

To connect and prove the secret has threads of the job run three times before it hears what is asked, and each waits for
its turn beside the job's own work. So who asks all the time, as a dashboard does, does that once::

    ask(job, …)   connect, prove ── request ──► answer      kept
    ask(job, …)                     request ──► answer      kept
    job ends                                                closed by `retain`, as nobody finds the job any more

Of one job as many are kept as were in use at once; all are closed with the last reference to their keeper.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from millstream.base.errors import JobRequestError
from millstream.runtime.connect.channel import Channel
from millstream.runtime.control.announced import Announced

__all__ = ["Conversations"]


class Conversations:
    """Asks what others have announced, over connections that are kept; any thread may ask.

    For questions only, as one may be asked twice: a kept connection may end just as it is used.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, list[Channel]] = {}
        self._known: Collection[str] | None = None

    def ask(self, announced: Announced, request: Mapping[str, Any]) -> bytes:
        """Ask a process, and wait for its answer; returns that as JSON.

        Raises:
            JobRequestError: If it refuses, or fails at it.
            OSError: If it does not answer.
            EOFError: If it ends before it has.
        """
        channel = self._take(announced.address)
        if channel is not None:
            with suppress(OSError, EOFError):  # it has ended meanwhile
                return self._ask_over(channel, announced, request)
        return self._ask_over(announced.connect(), announced, request)

    def retain(self, addresses: Collection[str]) -> None:
        """Close the connections to all others."""
        with self._lock:
            self._known = addresses
            gone = [self._kept.pop(each) for each in [*self._kept] if each not in addresses]
        for channel in (channel for channels in gone for channel in channels):
            channel.close()

    def _ask_over(self, channel: Channel, announced: Announced, request: Mapping[str, Any]) -> bytes:
        try:
            answer = announced.ask_over(channel, request)
        except JobRequestError:
            self._keep(announced.address, channel)
            raise
        except BaseException:
            channel.close()
            raise
        self._keep(announced.address, channel)
        return answer

    def _take(self, address: str) -> Channel | None:
        with self._lock:
            channels = self._kept.get(address)
            return channels.pop() if channels else None

    def _keep(self, address: str, channel: Channel) -> None:
        with self._lock:
            if self._known is None or address in self._known:
                self._kept.setdefault(address, []).append(channel)
                return
        channel.close()
