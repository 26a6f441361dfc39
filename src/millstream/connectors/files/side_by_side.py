"""What a file sink does with many files at once: waiting for the disk, or a server, for all of them together.

A journaling file system writes one transaction for all who wait for it, so a hundred `fsync` calls side by side cost
little more than one; the same holds for the round trips to a server. Nothing here is for user code, which belongs to
the subtask's own thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from itertools import chain, islice
from typing import Final, TypeVar

__all__ = ["side_by_side"]

_THREADS: Final = 16

Result = TypeVar("Result")


def side_by_side(actions: Iterable[Callable[[], Result]]) -> list[Result]:
    """Perform actions on threads of their own, which are gone when this returns; return what they gave, in order.

    What holds on the calling thread, such as how to reach file systems, holds on theirs.

    Args:
        actions: Taken one by one on the calling thread, while those before are under way.

    Raises:
        Exception: What the first that failed raised, or taking the next one; those begun have ended by then, and
            those that had not begun never do.
    """
    rest = iter(actions)
    first = list(islice(rest, 2))
    if len(first) < 2:
        return [action() for action in first]
    futures: list[Future[Result]] = []
    pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="file-sink")
    try:
        for action in chain(first, rest):
            futures.append(pool.submit(copy_context().run, action))
        wait(futures, return_when=FIRST_EXCEPTION)
    finally:
        pool.shutdown(cancel_futures=True)
    failed = [future for future in futures if not future.cancelled() and future.exception() is not None]
    return [future.result() for future in failed[:1] or futures]
