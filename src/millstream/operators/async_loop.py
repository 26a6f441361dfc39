"""An event loop on a thread of its own, for as long as an operator lives.

The loop outlives epochs, so clients that users bind to it stay connected. It always ends with its operator: tasks
are cancelled and waited for within a limit, and both the loop's thread and the threads behind
`asyncio.to_thread` are daemons, so that not even a call that never returns keeps the process alive.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, ParamSpec, TypeVar

__all__ = ["DaemonThreadPool", "EventLoopThread"]

_LOG = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreadPool(ThreadPoolExecutor):
    """Threads for calls that block; unlike those of the base class they never hold up the end of the process.

    asyncio accepts only a ThreadPoolExecutor as a loop's default executor, hence the base class, of which nothing
    but the type is used.

    Args:
        max_threads: At most so many; each is started when no other is free.
        name: Prefix of the threads' names.
    """

    def __init__(self, max_threads: int, name: str) -> None:
        super().__init__(max_threads, thread_name_prefix=name)
        self._limit = max_threads
        self._prefix = name
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._free = threading.Semaphore(0)
        self._started = 0
        self._ended = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have `fn` called on a thread of the pool."""
        if self._ended:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[T] = Future()
        self._calls.put((future, lambda: fn(*args, **kwargs)))
        if not self._free.acquire(blocking=False) and self._started < self._limit:
            self._started += 1
            name = f"{self._prefix}-{self._started}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Have threads end when they are through; never waits for a call that runs."""
        self._ended = True
        while not self._calls.empty():
            try:
                item = self._calls.get_nowait()
            except queue.Empty:
                break
            if item is not None:
                item[0].cancel()
        for _ in range(self._started):
            self._calls.put(None)

    def _work(self) -> None:
        while (item := self._calls.get()) is not None:
            future, call = item
            if future.set_running_or_notify_cancel():
                try:
                    result = call()
                except BaseException as error:  # noqa: BLE001 - handed to the one who waits for it
                    future.set_exception(error)
                else:
                    future.set_result(result)
            # Nothing of a call may be kept alive while this thread waits for the next one.
            del item, future, call
            self._free.release()


class EventLoopThread:
    """A running event loop; made, started and stopped by the operator's thread.

    Args:
        name: Of the operator; in the thread's name and in what is logged.
        max_threads: How many calls of `asyncio.to_thread` run at a time.
    """

    def __init__(self, name: str, max_threads: int) -> None:
        self._name = name
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(DaemonThreadPool(max_threads, f"async-{name}"))
        self._thread = threading.Thread(target=self._run, name=f"async-{name}", daemon=True)
        self._death: BaseException | None = None
        self._answered = True
        self._silent_checks = 0

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop; only its own thread may use it, but for `call_soon_threadsafe`."""
        return self._loop

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Have `callback` called on the loop's thread.

        Raises:
            RuntimeError: If the loop has ended; the cause is chained if user code ended it.
        """
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError as error:
            raise self._has_ended() from (self._death or error)

    def run(self, coroutine: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine on the loop and wait for it.

        Raises:
            TimeoutError: If it does not end in time; it is cancelled then.
        """
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(timeout_s)
        except FutureTimeoutError:
            future.cancel()
            raise

    def check(self) -> None:
        """Look whether the loop still turns; called about once a second by a thread that waits for it.

        After five checks without an answer the place that blocks it is logged, once for each silence.

        Raises:
            RuntimeError: If the loop has ended; the cause is chained if user code ended it.
        """
        if not self._thread.is_alive():
            raise self._has_ended() from self._death
        if self._answered:
            self._answered, self._silent_checks = False, 0
            self.call_soon(self._answer)
            return
        self._silent_checks += 1
        if self._silent_checks == 5:
            _LOG.warning(
                'the event loop of operator "%s" has been blocked for 5 s; await asyncio.to_thread(...) for calls '
                "that block\n%s",
                self._name,
                self.where(),
            )

    def where(self) -> str:
        """Return what the loop's thread is doing, as a traceback."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "" if frame is None else "".join(traceback.format_stack(frame))

    def stop(self, timeout_s: float) -> bool:
        """Cancel what runs on the loop, end the loop and its thread; may be called again.

        Args:
            timeout_s: For tasks to obey, and again for the thread to end.

        Returns:
            Whether the thread has ended; else the loop is blocked, and ends as soon as it turns again.
        """
        if self._thread.is_alive():
            try:
                asyncio.run_coroutine_threadsafe(_cancel_tasks(timeout_s), self._loop)
            except RuntimeError:
                return True  # it ended between the two lines
            self._thread.join(2 * timeout_s)
        if self._thread.is_alive():
            _LOG.warning(
                'the event loop of operator "%s" is blocked and could not be ended\n%s',
                self._name,
                self.where(),
            )
            return False
        return True

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        except BaseException as error:  # noqa: BLE001 - kept for the thread that waits for the loop
            self._death = error
        finally:
            self._loop.close()

    def _answer(self) -> None:
        self._answered = True

    def _has_ended(self) -> RuntimeError:
        return RuntimeError(f'the event loop of operator "{self._name}" has ended')


async def _cancel_tasks(timeout_s: float) -> None:
    """Cancel every other task of the loop, wait for them, stop the loop."""
    loop = asyncio.get_running_loop()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    try:
        if tasks:
            _, stubborn = await asyncio.wait(tasks, timeout=timeout_s)
            for task in stubborn:
                _LOG.warning("task %r did not end within %s s of being cancelled", task, timeout_s)
    finally:
        loop.stop()
