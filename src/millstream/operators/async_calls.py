"""Asynchronous calls in flight: the half of an asynchronous operator that runs on the event loop.

::

    operator's thread                       event loop's thread
    submit ──► elements ──► pending ──► at most `capacity` elements in flight ──► Element.finish
                                         │  attempts, pauses                      (results, arrivals)
    take_failure ◄── failure ◄───────────┘  one timer for all attempts ──────────► wake the operator
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import TypeMismatchError, shorten
from millstream.common.async_functions import AsyncRetryStrategy
from millstream.operators.async_loop import EventLoopThread
from millstream.operators.user_code import attach_element
from millstream.operators.values import copies

__all__ = ["AsyncCalls", "CallLimits", "Element"]

_WAKE_DELAY_S = 0.002


class Element:
    """One record on its way through an asynchronous call.

    Attributes:
        value: The record.
        timestamp: Its timestamp, None if it has none.
        results: What is to be emitted for it; None until its call has ended.
        arrivals: Where it is put when its call has ended; None where the order of the input is kept.
    """

    __slots__ = ("arrivals", "results", "timestamp", "value")

    def __init__(self, value: Any, timestamp: int | None, arrivals: deque[Element] | None) -> None:
        self.value = value
        self.timestamp = timestamp
        self.results: list[Any] | None = None
        self.arrivals = arrivals

    def finish(self, results: list[Any]) -> None:
        """Take the results; on the event loop, once. Both steps are atomic, the operator looks at any time."""
        self.results = copies(results)
        if self.arrivals is not None:
            self.arrivals.append(self)


@dataclass(frozen=True, slots=True)
class CallLimits:
    """What bounds calls.

    Attributes:
        capacity: How many elements are in flight at most.
        timeout_s: For one call with all its attempts; 0 for none.
        batch_size: How many elements one call takes; None for calls that take the element itself.
        max_delay_s: How long an element waits for its batch to fill; None for as long as the epoch.
    """

    capacity: int
    timeout_s: float
    batch_size: int | None = None
    max_delay_s: float | None = None


class _Call:
    """One call, with its attempts."""

    __slots__ = ("done", "elements", "task", "timer")

    def __init__(self, elements: list[Element]) -> None:
        self.elements = elements
        self.done = False
        self.task: asyncio.Task[None]
        self.timer: asyncio.TimerHandle | None = None


class AsyncCalls:
    """Starts calls within the limits, tries again, watches the time, tells of results.

    Methods without underscore are the operator thread's, all others run on the event loop.

    Args:
        loop: The event loop's thread, started.
        invoke: The user's asynchronous call.
        on_timeout: What the user gives for a call that took too long.
        strategy: Decides on further attempts.
        limits: What bounds calls.

    Attributes:
        wake: Set when results have arrived or a call has failed.
    """

    def __init__(
        self,
        loop: EventLoopThread,
        *,
        invoke: Callable[[Any], Awaitable[Any]],
        on_timeout: Callable[[Any], Any],
        strategy: AsyncRetryStrategy[Any],
        limits: CallLimits,
    ) -> None:
        self.wake = threading.Event()
        self._thread = loop
        self._loop = loop.loop
        self._invoke = invoke
        self._on_timeout = on_timeout
        self._strategy = strategy
        predicate = strategy.get_retry_predicate()
        self._result_predicate = predicate.result_predicate()
        self._exception_predicate = predicate.exception_predicate()
        self._retries = self._result_predicate is not None or self._exception_predicate is not None
        self._limits = limits
        self._batched = limits.batch_size is not None
        self._batch_size = limits.batch_size or 1
        self._pending: deque[Element] = deque()
        self._running: set[_Call] = set()
        self._in_flight = 0
        self._flushing = not self._batched
        self._delay: asyncio.TimerHandle | None = None
        self._wake_due = False
        self._failure: Exception | None = None

    def submit(self, elements: list[Element]) -> None:
        """Hand over elements; their calls begin in this order, as capacity allows."""
        self._thread.call_soon(self._accept, elements)

    def flush(self) -> None:
        """Have batches go that are not full."""
        if self._batched:
            self._thread.call_soon(self._flush)

    def check_failure(self) -> None:
        """Raise what the first failed call raised, if any did; the others have been cancelled then."""
        if self._failure is not None:
            raise self._failure

    def abort(self) -> None:
        """Cancel all calls; results that still come are dropped."""
        if self._thread.is_alive:
            self._thread.call_soon(self._cancel_all)

    # On the event loop

    def _accept(self, elements: list[Element]) -> None:
        if self._failure is None:
            self._pending.extend(elements)
            self._start_calls()

    def _flush(self) -> None:
        self._flushing = True
        self._start_calls()

    def _start_calls(self) -> None:
        pending, limits, size = self._pending, self._limits, self._batch_size
        while pending:
            count = min(len(pending), size)
            if count < size and not self._flushing:
                self._await_more()
                return
            if self._in_flight + count > limits.capacity:
                return
            self._start([pending.popleft() for _ in range(count)])
        if self._batched:
            self._flushing = False
            if self._delay is not None:
                self._delay.cancel()
                self._delay = None

    def _await_more(self) -> None:
        if self._delay is None and self._limits.max_delay_s is not None:
            self._delay = self._loop.call_later(self._limits.max_delay_s, self._flush)

    def _start(self, elements: list[Element]) -> None:
        call = _Call(elements)
        self._in_flight += len(elements)
        self._running.add(call)
        call.task = self._loop.create_task(self._run(call))
        if self._limits.timeout_s:
            call.timer = self._loop.call_later(self._limits.timeout_s, self._time_out, call)

    async def _run(self, call: _Call) -> None:
        try:
            results = await (self._attempts(call) if self._retries else self._invoke(self._argument(call)))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it fails the job and not the loop
            if not call.done:
                self._fail(call, error)
        else:
            if not call.done:
                self._complete(call, results)

    async def _attempts(self, call: _Call) -> Any:
        attempts = 1
        while True:
            try:
                results = await self._invoke(self._argument(call))
            except Exception as error:
                if not (self._asks_again(self._exception_predicate, error) and self._allows(attempts)):
                    raise
            else:
                results = _listed(results)
                if not (self._asks_again(self._result_predicate, results) and self._allows(attempts)):
                    return results
            await asyncio.sleep(self._strategy.get_backoff_time_millis(attempts) / 1000)
            attempts += 1

    def _asks_again(self, predicate: Callable[[Any], bool] | None, outcome: Any) -> bool:
        return predicate is not None and outcome is not None and bool(predicate(outcome))

    def _allows(self, attempts: int) -> bool:
        return self._strategy.can_retry(attempts)

    def _argument(self, call: _Call) -> Any:
        if self._batched:
            return [element.value for element in call.elements]
        return call.elements[0].value

    def _time_out(self, call: _Call) -> None:
        if call.done:
            return
        call.task.cancel()
        try:
            results = self._on_timeout(self._argument(call))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it fails the job and not the loop
            self._fail(call, error)
        else:
            self._complete(call, results)

    def _complete(self, call: _Call, results: Any) -> None:
        try:
            produced = self._per_element(call, results)
        except BaseException as error:  # noqa: BLE001 - an iterable of the user's may raise anything
            self._fail(call, error)
            return
        self._close(call)
        for element, each in zip(call.elements, produced, strict=True):
            element.finish(each)
        self._start_calls()
        self._tell()

    def _per_element(self, call: _Call, results: Any) -> Sequence[list[Any]]:
        if not self._batched:
            return (_as_results(results),)
        per_element = [_as_results(each) for each in _as_results(results)]
        if len(per_element) != len(call.elements):
            raise TypeMismatchError(
                f"the batched function gave results for {len(per_element)} of {len(call.elements)} elements",
                hint="Return one list for each element, empty if it has no results.",
            )
        return per_element

    def _fail(self, call: _Call, error: BaseException) -> None:
        if not isinstance(error, Exception):
            wrapped = RuntimeError(f"{type(error).__name__} was raised inside of an asynchronous call")
            wrapped.__cause__ = error
            error = wrapped
        attach_element(error, self._argument(call))
        self._failure = self._failure or error
        self._cancel_all()
        self.wake.set()

    def _cancel_all(self) -> None:
        self._pending.clear()
        for call in tuple(self._running):
            self._close(call)
            call.task.cancel()

    def _close(self, call: _Call) -> None:
        call.done = True
        if call.timer is not None:
            call.timer.cancel()
        self._in_flight -= len(call.elements)
        self._running.discard(call)

    def _tell(self) -> None:
        """Wake the operator: at once if nothing is left, else a little later, for many results together."""
        if not self._running and not self._pending:
            self.wake.set()
        elif not self._wake_due:
            self._wake_due = True
            self._loop.call_later(_WAKE_DELAY_S, self._wake)

    def _wake(self) -> None:
        self._wake_due = False
        self.wake.set()


def _listed(results: Any) -> Any:
    """Return results as a list, for predicates; what is no iterable as it is."""
    return list(results) if isinstance(results, Iterable) and not isinstance(results, list) else results


def _as_results(results: Any) -> list[Any]:
    if type(results) is list:
        return results
    if isinstance(results, Iterable):
        return list(results)
    raise TypeMismatchError(
        f"an asynchronous call gave {shorten(results)} of type {type(results).__name__}",
        detail="The result of AsyncFunction cannot be none: it is a list of what to emit."
        if results is None
        else "The result of AsyncFunction should be of list type: what to emit.",
        hint="Return [result], or [] for no result.",
    )
