"""Asynchronous I/O: many calls in flight for the records of one subtask.

The calls run on an event loop, on a thread of its own that lives as long as the attempt; the subtask's thread
hands batches over, takes results and emits them. **Watermarks** hold back results, not calls: they wait in the
same queue, and the calls behind them go on::

    unordered   b a │ d c │ W5 │ f e        a, b: in any order; all of them before W5, e and f after it
    ordered     a b │ c d │ W5 │ e f        exactly the order of the input

**Calls outlive epochs**: `end_epoch` waits for them while the epoch's time lasts, and what is in flight then goes on
in the next. A checkpoint holds the elements whose results were not emitted, with the watermarks between them; a later
attempt calls for them again, as in Flink. With retry, an element's pauses count as being in flight.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from millstream.base.errors import JobExecutionError
from millstream.base.time import MIN_TIMESTAMP
from millstream.common.async_functions import (
    NO_RETRY_STRATEGY,
    AsyncFunction,
    AsyncRetryStrategy,
    BatchAsyncFunction,
)
from millstream.operators.async_calls import AsyncCalls, CallLimits, Element
from millstream.operators.async_loop import EventLoopThread
from millstream.operators.base import Operator, OperatorReport, OperatorSpec, RestoreScope
from millstream.operators.runtime_context import OperatorRuntimeContext
from millstream.operators.user_code import fit
from millstream.spi.batch import Rows, StreamStatus
from millstream.types.typeinfo import TypeInformation

__all__ = ["AsyncWaitSpec"]

_CHECK_S = 1.0
_CLOSE_S = 10.0
_CANCEL_S = 2.0
_MAX_THREADS = 100

Marker = int | StreamStatus
"""A watermark in epoch milliseconds, or a change of status, on its way among the elements."""

_Saved = tuple[Any, "int | None"] | Marker
"""An element's value and timestamp, or a marker, as a checkpoint holds them."""


@dataclass(frozen=True)
class AsyncWaitSpec(OperatorSpec):
    """Declares asynchronous calls.

    Attributes:
        function: Makes the calls.
        ordered: Whether results keep the order of the input.
        timeout_ms: For one call with all its attempts; 0 for none.
        capacity: How many elements are in flight at most.
        strategy: Decides on further attempts.
        output_type: Checked for each result; None leaves results as they are.
        batch_size: Elements of one call, for a BatchAsyncFunction.
        max_delay_ms: How long an element waits for its batch to fill; None for as long as the epoch.
    """

    function: AsyncFunction[Any, Any] | BatchAsyncFunction[Any, Any]
    ordered: bool
    timeout_ms: int
    capacity: int
    strategy: AsyncRetryStrategy[Any] = NO_RETRY_STRATEGY
    output_type: TypeInformation | None = None
    batch_size: int | None = None
    max_delay_ms: int | None = None

    def build(self) -> Operator:
        """Make the running half."""
        return AsyncWaitOperator(self)


class AsyncWaitOperator(Operator):
    """Runs an AsyncFunction or a BatchAsyncFunction."""

    def __init__(self, spec: AsyncWaitSpec) -> None:
        self._spec = spec
        self._function = spec.function
        self._queue: _OrderedQueue | _UnorderedQueue = _OrderedQueue() if spec.ordered else _UnorderedQueue()
        self._loop: EventLoopThread | None = None
        self._restored: list[_Saved] = []
        self._emitted_ms = MIN_TIMESTAMP

    def open(self) -> None:
        """Start the event loop and open the function."""
        spec = self._spec
        loop = EventLoopThread(self.context.name, min(spec.capacity, _MAX_THREADS))
        loop.start()
        self._loop = loop
        _call(loop, lambda: self._function.open(OperatorRuntimeContext(self.context)), None)
        self._calls = AsyncCalls(
            loop,
            invoke=_invoke(self._function),
            on_timeout=_on_timeout(self._function),
            strategy=spec.strategy,
            limits=CallLimits(
                spec.capacity,
                spec.timeout_ms / 1000,
                spec.batch_size,
                None if spec.max_delay_ms is None else spec.max_delay_ms / 1000,
            ),
        )
        restored, self._restored = self._restored, []
        for item in restored:
            if isinstance(item, tuple):
                self._calls.submit(self._queue.put([item[0]], None if item[1] is None else [item[1]]))
            else:
                self._queue.put_marker(item)

    def process(self, batch: Rows) -> None:
        """Hand a batch to the event loop, and emit what is ready."""
        values, timestamps = batch.values, batch.timestamps
        self._calls.check_failure()
        self._calls.submit(self._queue.put(values, timestamps))
        self._emit_ready()

    def process_watermark(self, timestamp_ms: int) -> None:
        """Hand the watermark on when all results before it are emitted; event time is there only then."""
        self._queue.put_marker(timestamp_ms)
        self._emit_ready()

    def process_status(self, status: StreamStatus) -> None:
        """Hand the status on when all results before it are emitted."""
        self._queue.put_marker(status)
        self._emit_ready()

    def end_epoch(self, report: OperatorReport, *, checkpoint: bool) -> None:
        """Wait for what is in flight, as long as the epoch lasts; results are emitted as they come.

        Raises:
            JobExecutionError: If the job is cancelled meanwhile: a call may never end.
        """
        if self._queue.is_empty:
            return
        self._calls.flush()
        wake, loop = self._calls.wake, self._loop
        assert loop is not None, "an operator that was not opened"
        while True:
            wake.clear()
            self._calls.check_failure()
            self._emit_ready()
            if self._queue.is_empty:
                return
            while not wake.wait(min(_CHECK_S, self.context.budget.seconds_left())):
                loop.check()
                if self.context.time.is_cancelled():
                    raise JobExecutionError("the job was cancelled")
                if not self.context.budget.seconds_left():
                    return

    @property
    def in_flight(self) -> int:
        """Elements whose results are not emitted."""
        return self._queue.size

    @property
    def held(self) -> int:
        """Elements for which there was no room among the calls."""
        return max(self._queue.size - self._spec.capacity, 0)

    def snapshot_state(self) -> list[_Saved] | None:
        """Return elements whose results are not emitted, as (value, timestamp), and what is between them."""
        if self._queue.is_empty:
            return None
        return [
            (item.value, item.timestamp) if isinstance(item, Element) else item
            for item in self._queue.items()
        ]

    def restore_state(self, snapshot: list[_Saved], scope: RestoreScope) -> None:
        """Take over an old subtask's elements: `open` calls for them again.

        At another parallelism watermarks between them are left out: behind those of one old subtask come elements of
        another one, or of a split that another one had read, and would be late by that. Senders send theirs again.
        """
        if scope.adopts:
            self._restored += [item for item in snapshot if isinstance(item, tuple) or not scope.rescaled]

    def abort(self) -> None:
        """Cancel what is in flight."""
        if hasattr(self, "_calls"):
            self._calls.abort()

    def close(self) -> None:
        """Close the function, then end the event loop, whatever it does."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        self.abort()
        try:
            _call(loop, self._function.close, _CLOSE_S)
        finally:
            loop.stop(_CANCEL_S)

    def _emit_ready(self) -> None:
        """Emit results that wait for nothing, in one batch between two watermarks."""
        results: list[Any] = []
        stamps: list[int] = []
        stamped = False
        for item in self._queue.take():
            if not isinstance(item, Element):
                self._emit(results, stamps if stamped else None)
                results, stamps = [], []
                self._emit_marker(item)
                continue
            produced = item.results
            if not produced:
                continue
            if results and stamped != (item.timestamp is not None):
                self._emit(results, stamps if stamped else None)
                results, stamps = [], []
            results += produced
            stamped = item.timestamp is not None
            if item.timestamp is not None:
                stamps.extend(repeat(item.timestamp, len(produced)))
        self._emit(results, stamps if stamped else None)

    def _emit(self, results: list[Any], stamps: list[int] | None) -> None:
        if results:
            self.output.emit(Rows(fit(results, self._spec.output_type), stamps))

    def _emit_marker(self, marker: Marker) -> None:
        if isinstance(marker, StreamStatus):
            self.output.emit_status(marker)
        elif marker > self._emitted_ms:  # after a restore the one before may come again
            self.watermark_ms = self._emitted_ms = marker
            self.output.emit_watermark(marker)


class _OrderedQueue:
    """Elements and markers in the order of the input; the head leaves when it is through."""

    def __init__(self) -> None:
        self.size = 0
        self._items: deque[Element | Marker] = deque()

    @property
    def is_empty(self) -> bool:
        return not self._items

    def items(self) -> Iterator[Element | Marker]:
        return iter(self._items)

    def put(self, values: list[Any], timestamps: list[int] | None) -> list[Element]:
        elements = [
            Element(value, stamp, None)
            for value, stamp in zip(values, timestamps or repeat(None), strict=False)
        ]
        self._items.extend(elements)
        self.size += len(elements)
        return elements

    def put_marker(self, marker: Marker) -> None:
        self._items.append(marker)

    def take(self) -> Iterator[Element | Marker]:
        items = self._items
        while items:
            head = items[0]
            if isinstance(head, Element):
                if head.results is None:
                    return
                self.size -= 1
            yield items.popleft()


class _Segment:
    """Elements between two markers, as their calls end."""

    __slots__ = ("arrivals", "marker", "outstanding")

    def __init__(self) -> None:
        self.arrivals: deque[Element] = deque()
        self.outstanding: dict[Element, None] = {}
        self.marker: Marker | None = None


class _UnorderedQueue:
    """Segments of elements in the order in which calls end; each ends with a marker, but for the last."""

    def __init__(self) -> None:
        self.size = 0
        self._segments: deque[_Segment] = deque([_Segment()])

    @property
    def is_empty(self) -> bool:
        return len(self._segments) == 1 and not self._segments[0].outstanding

    def items(self) -> Iterator[Element | Marker]:
        for segment in self._segments:
            yield from segment.outstanding
            if segment.marker is not None:
                yield segment.marker

    def put(self, values: list[Any], timestamps: list[int] | None) -> list[Element]:
        segment = self._segments[-1]
        self.size += len(values)
        arrivals = segment.arrivals
        elements = [
            Element(value, stamp, arrivals)
            for value, stamp in zip(values, timestamps or repeat(None), strict=False)
        ]
        segment.outstanding.update(dict.fromkeys(elements))
        return elements

    def put_marker(self, marker: Marker) -> None:
        self._segments[-1].marker = marker
        self._segments.append(_Segment())

    def take(self) -> Iterator[Element | Marker]:
        while True:
            segment = self._segments[0]
            arrivals = segment.arrivals
            while arrivals:
                element = arrivals.popleft()
                del segment.outstanding[element]
                self.size -= 1
                yield element
            if segment.outstanding or segment.marker is None:
                return
            self._segments.popleft()
            yield segment.marker


def _invoke(function: AsyncFunction[Any, Any] | BatchAsyncFunction[Any, Any]) -> Callable[[Any], Any]:
    return function.async_invoke_batch if isinstance(function, BatchAsyncFunction) else function.async_invoke


def _on_timeout(function: AsyncFunction[Any, Any] | BatchAsyncFunction[Any, Any]) -> Callable[[Any], Any]:
    return function.timeout_batch if isinstance(function, BatchAsyncFunction) else function.timeout


def _call(loop: EventLoopThread, action: Callable[[], Any], timeout_s: float | None) -> None:
    """Call a function's `open` or `close`: here, or on the loop if it is declared `async def`."""
    result = action()
    if inspect.iscoroutine(result):
        coroutine: Coroutine[Any, Any, Any] = result
        loop.run(coroutine, timeout_s)
