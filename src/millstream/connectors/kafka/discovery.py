"""What comes while a job runs, looked for on a thread of its own: who is asked may be away."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from millstream.connectors.kafka.partitions import FoundTopic

__all__ = ["Discovery"]

log = logging.getLogger(__name__)

Found = dict[str, FoundTopic]
F = TypeVar("F")


class Discovery(Generic[F]):
    """Looks for partitions, or streams, now and then; one thread calls it.

    Args:
        find: Asks what there is.
        interval_ms: How long after one look the next one begins.
        now_ms: When somebody looked last.
    """

    def __init__(self, find: Callable[[], F], interval_ms: int, now_ms: int) -> None:
        self._find = find
        self._interval_ms = interval_ms
        self._next_ms = now_ms + interval_ms
        self._look: Future[F] | None = None

    def look(self, now_ms: int) -> F | None:
        """Return what was found since the last call, if anything was looked for; begin to look if it is time.

        Raises:
            SourceError: If it cannot be looked up; it is looked for again later.
        """
        if self._look is not None:
            if not self._look.done():
                return None
            look, self._look = self._look, None
            self._next_ms = now_ms + self._interval_ms
            return look.result()
        if now_ms >= self._next_ms:
            self._look = Future()
            threading.Thread(
                target=self._perform, args=(self._look,), daemon=True, name="kafka-discovery"
            ).start()
        return None

    def _perform(self, look: Future[F]) -> None:
        try:
            look.set_result(self._find())
        except BaseException as error:  # noqa: BLE001 - told to the thread that asked
            look.set_exception(error)
