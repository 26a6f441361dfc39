"""A source function as a source: received on a thread in the slot, read from there epoch by epoch.

::

    function's thread   run(ctx): collect ─► log (file) ─► buffer, bounded: collect waits while it is full
                                                             │
    subtask's thread    ══ epoch ══ read ◄───────────────────┘   ══ checkpoint: position in the log ══

What a function receives may not come again, so after a failure the log is read behind the checkpoint's position,
and only then what the new `run` receives. There is no log

- where no checkpoints are made: what was received and not processed is lost with the slot (at most once), but is part
  of a savepoint;
- for a CheckpointedFunction: it knows where to go on. Its state and what is in the buffer are part of the checkpoint,
  taken under one lock.

A function whose `run` has returned is not run again: the enumerator keeps in its checkpoints which ones have ended,
and a reader starts its function with the first range that it is given.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain, islice
from typing import Any

from millstream.base.errors import SourceError
from millstream.common.functions import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from millstream.common.source_functions import ParallelSourceFunction, SourceContext, SourceFunction
from millstream.config import options_checkpointing as keys
from millstream.config.configuration import Configuration
from millstream.connectors.receive_log import LogPosition, ReceiveLog, check_log, read_log
from millstream.files.paths import local_path
from millstream.files.private_files import user_directory
from millstream.operators.base import OperatorContext
from millstream.operators.checkpointed import initialize_checkpointed
from millstream.operators.runtime_context import OperatorRuntimeContext
from millstream.operators.source_function import SourceEvents
from millstream.operators.values import copy_of
from millstream.spi.batch import Rows
from millstream.spi.source import (
    Boundedness,
    EmitBatch,
    PlanRequest,
    RangeEnd,
    Source,
    SourcePlan,
    SourceReader,
    SplitEnumerator,
    SplitRange,
)

__all__ = ["KnowsCheckpoints", "SourceFunctionSource"]

_BUFFER_ENTRIES = 10_000
_POLL_MS = 50
_STOP_S = 10.0
_SETTLE_S = 60.0
_BESIDE = ""
"""For logs: the temporary directory of the user whose process reads, who need not be the driver's."""

_RECORD, _WATERMARK, _IDLE = range(3)
Entry = tuple[int, Any, "int | None"]
"""What was emitted: kind, value, timestamp in epoch milliseconds."""
Received = tuple[Entry, "LogPosition | None"]


class KnowsCheckpoints:
    """A source function that is told whether its job makes checkpoints; mix it into one.

    Attributes:
        makes_checkpoints: Whether it does; set before the function is opened.
    """

    makes_checkpoints: bool = False


class SourceFunctionSource(Source):
    """Runs a source function; picklable, with the options as they are when it is pickled.

    Args:
        function: The function.
        configuration: Says whether checkpoints are made, and where.
    """

    def __init__(self, function: SourceFunction, configuration: Configuration) -> None:
        self._function = function
        self._configuration: Configuration | None = configuration
        self._log_directory: str | None = None
        self._makes_checkpoints = False

    def __getstate__(self) -> dict[str, Any]:
        return {
            "_function": self._function,
            "_configuration": None,
            "_log_directory": self._log_root() if self._configuration is not None else self._log_directory,
            "_makes_checkpoints": self._checkpoints(),
        }

    def _checkpoints(self) -> bool:
        if self._configuration is None:
            return self._makes_checkpoints
        return self._configuration.get(keys.CHECKPOINT_INTERVAL) is not None

    def _log_root(self) -> str | None:
        """Return where logs are kept, None for nowhere: an object store cannot be appended to."""
        assert self._configuration is not None
        if self._configuration.get(keys.CHECKPOINT_INTERVAL) is None:
            return None
        directory = self._configuration.get(keys.CHECKPOINT_DIRECTORY) or self._configuration.get(
            keys.HA_DIRECTORY
        )
        local = None if directory is None else local_path(directory)
        if local is None:
            return _BESIDE
        return os.path.join(os.path.abspath(os.path.expanduser(local)), "received")

    def get_boundedness(self) -> Boundedness:
        """Return CONTINUOUS_UNBOUNDED: nobody knows whether it ends."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    def max_parallelism(self) -> int | None:
        """Return 1, unless the function may run in parallel."""
        return None if isinstance(self._function, ParallelSourceFunction) else 1

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Make the enumerator; it goes on from which subtasks have ended."""
        return _FunctionEnumerator(parallelism, restored)

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        log_root = self._log_directory if self._configuration is None else self._log_root()
        if log_root == _BESIDE:
            log_root = str(user_directory("received"))
        if isinstance(self._function, KnowsCheckpoints):
            self._function.makes_checkpoints = self._checkpoints()
        return SourceFunctionReader(self._function, log_root, subtask_index)


class _FunctionEnumerator(SplitEnumerator):
    """Has every subtask read what it has received: at once if something came last time, else after a while.

    Subtasks that had ended are not begun again. At another parallelism the functions share out their work anew: there
    none is begun if all had ended, and all are otherwise.
    """

    def __init__(self, parallelism: int, restored: tuple[int, frozenset[int]] | None) -> None:
        before, ended = restored or (parallelism, frozenset())
        if parallelism != before:
            ended = frozenset(range(parallelism)) if len(ended) == before else frozenset()
        self._parallelism = parallelism
        self._running = set(range(parallelism)) - ended
        self._next_ms: int | None = None

    def plan(self, request: PlanRequest) -> SourcePlan:
        ended = frozenset(range(request.parallelism)) - self._running
        if self._next_ms is not None and request.now_ms < self._next_ms:
            return SourcePlan(finished=ended, next_ms=self._next_ms)
        self._next_ms = request.now_ms + _POLL_MS
        ranges = {
            subtask: [SplitRange(str(subtask), None, max_records=request.max_records)]
            for subtask in self._running
            if str(subtask) not in request.paused
        }
        return SourcePlan(ranges, ended, next_ms=self._next_ms)

    def advance(self, ends: Sequence[RangeEnd]) -> None:
        for end in ends:
            if end.finished:
                self._running.discard(int(end.split_id))
            if end.finished or end.records:
                self._next_ms = None

    def snapshot(self) -> Any:
        return self._parallelism, frozenset(range(self._parallelism)) - self._running


class SourceFunctionReader(SourceReader):
    """Runs the function on a thread and reads what it has received; the subtask's thread calls it."""

    gives_away = True  # what a function collects is copied

    def __init__(self, function: SourceFunction, log_root: str | None, subtask_index: int) -> None:
        self._function = function
        self._log_root = log_root
        self._split_id = str(subtask_index)
        self._log: ReceiveLog | None = None
        self._positions: dict[str, LogPosition] = {}
        self._ends: dict[str, LogPosition] = {}
        self._snapshot_positions: list[LogPosition] = []
        self._restored: list[Any] = []
        self._unread: deque[Received] = deque()
        self._again: Iterator[Received] = iter(())
        self._next_again: Received | None = None
        self._thread: threading.Thread | None = None
        self._opened = self._stopped = self._aborted = False
        self._snapshot_buffer: list[Entry] | None = None

    def bind(self, context: OperatorContext, events: SourceEvents) -> None:
        """Be told where it runs."""
        self._context = context
        self._events = events

    def restore(self, snapshots: Sequence[Any]) -> None:
        """Take over what was received and not processed."""
        self._restored = list(snapshots)

    def open(self) -> None:
        """Find what is to be read again, and open the function; `run` begins with the first range."""
        for entries, positions, ends in self._restored:
            self._unread.extend((tuple(entry), None) for entry in entries)
            self._positions.update((position.directory, position) for position in positions)
            self._ends.update((end.directory, end) for end in ends)
        for directory, end in self._ends.items():
            check_log(directory, behind=self._positions.get(directory), through=end)
        own = None
        if self._log_root is not None and not self._context.batch and not self._is_checkpointed:
            name = f"{self._context.job_id}-{self._context.operator_id}"
            own = os.path.join(self._log_root, name, self._split_id)
            self._log = ReceiveLog(own)
        again = [
            read_log(directory, behind=self._positions.get(directory))
            for directory in {**self._positions, **self._ends}
            if directory != own
        ]
        if own is not None and self._log is not None:  # last: what former attempts of this job received
            again.append(read_log(own, behind=self._positions.get(own), before=self._log.segment))
        self._again = chain.from_iterable(again)
        self._next_again = next(self._again, None)
        self._receiver = _Receiver(self._log, replays=self._is_checkpointed)
        runtime_context = OperatorRuntimeContext(self._context)
        if self._is_checkpointed:
            initialize_checkpointed(_Locked(self), runtime_context)
        if isinstance(self._function, CheckpointListener) and self._context.operator_state is not None:
            self._context.operator_state.on_complete(self._function.notify_checkpoint_complete)
        self._opened = True
        self._function.open(runtime_context)

    def read(self, split_range: SplitRange, emit: EmitBatch) -> RangeEnd:
        """Emit what has been received.

        Raises:
            BaseException: What the function's `run` raised.
        """
        if self._thread is None and not self._stopped:
            name = f"{self._context.name}-{self._split_id}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()
        count = split_range.max_records
        received = self._take_again(count)
        if len(received) < count:
            received += self._receiver.take(count - len(received))
        records = self._emit(received, emit)
        finished = self.is_drained(self._split_id)
        return RangeEnd(split_range.split_id, None, finished, records)

    def is_drained(self, split_id: str) -> bool:
        """Return whether everything received has been read, and nothing will come."""
        return not self._unread and self._next_again is None and self._receiver.is_drained()

    def snapshot(self) -> Any:
        """Return the entries that no log holds, and the positions in logs."""
        unread = [entry for entry, _ in self._unread]
        if self._log is None:
            unread += self._receiver.peek() if self._snapshot_buffer is None else self._snapshot_buffer
            self._snapshot_buffer = None
        else:
            end = self._receiver.sync()
            self._ends[end.directory] = end
        self._snapshot_positions = list(self._positions.values())
        return unread, self._snapshot_positions, list(self._ends.values())

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """Remove what was processed before."""
        if self._log is not None:
            for position in self._snapshot_positions:
                self._log.forget_before(position)

    def stop(self) -> None:
        """Cancel the function and wait for its thread; a function that has not begun does not."""
        if not self._opened:
            return
        self._stopped = True
        if self._thread is not None:
            self._function.cancel()
            self._receiver.cancel()
            self._thread.join(_STOP_S)
        self._receiver.end(None)  # a thread that does not come back can emit nothing any more

    def abort(self) -> None:
        """Keep what was received."""
        self._aborted = True

    def close(self) -> None:
        """End the thread, then the function; the log goes only if all of it was processed."""
        try:
            self.stop()
        finally:
            if self._log is not None:
                self._log.close(remove=not self._aborted and self.is_drained(self._split_id))
                self._log = None
            if self._opened:
                self._opened = False
                self._function.close()

    @property
    def _is_checkpointed(self) -> bool:
        return isinstance(self._function, CheckpointedFunction)

    def note_buffer(self, context: FunctionSnapshotContext) -> None:
        """Take the function's state and the buffer as they are at one moment."""
        assert isinstance(self._function, CheckpointedFunction)
        with self._receiver.settled():
            self._function.snapshot_state(context)
            self._snapshot_buffer = self._receiver.peek()

    @property
    def function(self) -> SourceFunction:
        """The function."""
        return self._function

    def _run(self) -> None:
        try:
            self._function.run(self._receiver)
        except BaseException as error:  # noqa: BLE001 - raised again on the subtask's thread
            self._receiver.end(error)
        else:
            self._receiver.end(None)

    def _take_again(self, count: int) -> list[Received]:
        taken = [self._unread.popleft() for _ in range(min(count, len(self._unread)))]
        if self._next_again is not None and len(taken) < count:
            taken.append(self._next_again)
            taken += islice(self._again, count - len(taken))
            self._next_again = next(self._again, None)
        return taken

    def _emit(self, received: list[Received], emit: EmitBatch) -> int:
        """Emit entries in order, records in batches of equal kind; return the number of records."""
        values: list[Any] = []
        stamps: list[int] = []
        records = 0

        def flush() -> None:
            nonlocal values, stamps
            if values:
                emit(Rows(values, stamps or None))
                values, stamps = [], []

        for (kind, value, stamp), position in received:
            if kind == _RECORD:
                if values and (stamp is not None) != bool(stamps):
                    flush()
                values.append(value)
                if stamp is not None:
                    stamps.append(stamp)
                records += 1
            else:
                flush()
                if kind == _WATERMARK:
                    self._events.watermark(self._split_id, value)
                else:
                    self._events.idle(self._split_id)
            if position is not None:
                self._positions[position.directory] = position
        flush()
        return records


class _Receiver(SourceContext):
    """The buffer between the function's thread, which fills it, and the subtask's, which empties it."""

    def __init__(self, log: ReceiveLog | None, *, replays: bool) -> None:
        self._log = log
        self._replays = replays
        self._entries: deque[Received] = deque()
        # Held by the function around what belongs together, and by each call of its own.
        self._checkpoint_lock = threading.RLock()
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._limited = True
        self._cancelled = False
        self._ended = False
        self._error: BaseException | None = None

    def collect(self, value: Any) -> None:
        self._put((_RECORD, copy_of(value), None))

    def collect_with_timestamp(self, value: Any, timestamp: int) -> None:
        self._put((_RECORD, copy_of(value), timestamp))

    def emit_watermark(self, timestamp: int) -> None:
        self._put((_WATERMARK, timestamp, None))

    def mark_as_temporarily_idle(self) -> None:
        self._put((_IDLE, None, None))

    def get_checkpoint_lock(self) -> AbstractContextManager[Any]:
        return self._checkpoint_lock

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Keep the function from emitting, at a moment when it is not between two records that belong together.

        It gets there even if the buffer is full, as nobody empties it meanwhile.

        Raises:
            SourceError: If the function does not let go of the checkpoint lock.
        """
        self._limit(False)
        try:
            if not self._checkpoint_lock.acquire(timeout=_SETTLE_S):
                raise SourceError(
                    f"the source function has held the checkpoint lock for more than {_SETTLE_S:.0f} s",
                    hint="Hold get_checkpoint_lock() for a few records at a time, and not while waiting for data.",
                )
            try:
                yield
            finally:
                self._checkpoint_lock.release()
        finally:
            self._limit(True)

    def _limit(self, limited: bool) -> None:
        with self._room:
            self._limited = limited
            self._room.notify_all()

    def _put(self, entry: Entry) -> None:
        with self._checkpoint_lock, self._room:
            while self._limited and len(self._entries) >= _BUFFER_ENTRIES and not self._cancelled:
                self._room.wait()
            if self._ended or (self._cancelled and self._replays):
                raise SystemExit
            position = None if self._log is None else self._log.append(entry)
            self._entries.append((entry, position))
            if self._cancelled:  # the function has it from somewhere, and will not get it again
                raise SystemExit

    def take(self, count: int) -> list[Received]:
        """Take entries out, at most so many; raise what the function raised."""
        with self._room:
            if self._error is not None:
                raise self._error
            entries = self._entries
            taken = [entries.popleft() for _ in range(min(count, len(entries)))]
            self._room.notify_all()
            return taken

    def sync(self) -> LogPosition:
        """Make all that is in the log durable; return the log's end. There is a log."""
        assert self._log is not None
        with self._lock:
            return self._log.sync()

    def peek(self) -> list[Entry]:
        """Return what is in it."""
        with self._lock:
            return [entry for entry, _ in self._entries]

    def is_drained(self) -> bool:
        """Return whether it is empty for good."""
        with self._lock:
            return self._ended and not self._entries and self._error is None

    def cancel(self) -> None:
        """Take one more record at most: the function's next call does not return, nor wait for room."""
        with self._room:
            self._cancelled = True
            self._room.notify_all()

    def end(self, error: BaseException | None) -> None:
        """Learn that `run` has returned, or what it raised; what it raises because it was cancelled is nothing."""
        with self._room:
            self._ended = True
            if error is not None and not self._cancelled:
                self._error = error


class _Locked(CheckpointedFunction):
    """A function's state and the buffer, at one moment."""

    def __init__(self, reader: SourceFunctionReader) -> None:
        self._reader = reader

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        function = self._reader.function
        assert isinstance(function, CheckpointedFunction)
        function.initialize_state(context)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._reader.note_buffer(context)
