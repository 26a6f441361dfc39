"""Where the output of a job's functions and print sinks goes on the driver."""

from __future__ import annotations

import logging
import queue
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from millstream.base.signals import next_of
from millstream.operators.weight import estimate_bytes
from millstream.runtime.protocol.report import LogLine

__all__ = ["JobOutput"]

_USER_LOG = logging.getLogger("millstream.user")


class JobOutput:
    """Lines to the terminal or log, collected records to their readers.

    Written by the job master's thread; collected records may be read by any other.

    Args:
        collectors: Collect id by node id.

    Attributes:
        taken: Set whenever a reader takes records; None if nobody waits for that.
    """

    taken: threading.Event | None = None

    def __init__(self, collectors: Mapping[int, str]) -> None:
        self._collectors = collectors
        self._queues: dict[str, queue.SimpleQueue[Any]] = {
            collect_id: queue.SimpleQueue() for collect_id in collectors.values()
        }
        self._waiting_bytes = 0
        self._counting = threading.Lock()

    def lines(self, lines: Sequence[str], *, stderr: bool) -> None:
        """Print what print sinks gave."""
        stream = sys.stderr if stderr else sys.stdout
        stream.write("\n".join(lines) + "\n")
        stream.flush()

    def logs(self, logs: Sequence[LogLine]) -> None:
        """Show what user code printed (standard output) and logged (the log), tagged with where."""
        for line in logs:
            if line.level is None:
                sys.stdout.write(f"[{line.origin}] {line.text}\n")
            else:
                operator, found, subtask = line.origin.rpartition("#")
                fields = {"operator": operator, "subtask": int(subtask)} if found else {}
                _USER_LOG.log(line.level, "[%s] %s", line.origin, line.text, extra=fields)
        sys.stdout.flush()

    def collected(self, node_id: int, records: Sequence[Any]) -> None:
        """Hand on collected records."""
        size = estimate_bytes(records)
        with self._counting:
            self._waiting_bytes += size
        self._queues[self._collectors[node_id]].put((records, size))

    @property
    def waiting_bytes(self) -> int:
        """Estimated size of the records that no reader has taken yet."""
        return self._waiting_bytes

    def end(self) -> None:
        """Tell readers that nothing follows."""
        for records in self._queues.values():
            records.put(None)

    def read(self, collect_id: str) -> Iterator[Any]:
        """Iterate over collected records until the job's end."""
        while (waiting := next_of(self._queues[collect_id])) is not None:
            records, size = waiting
            with self._counting:
                self._waiting_bytes -= size
            if self.taken is not None:
                self.taken.set()
            yield from records
