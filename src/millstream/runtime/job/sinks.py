"""Driver's side of a job's sinks: checks them before the start, commits what writers staged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.graph.job_graph import JobGraph
from millstream.operators.sink import SinkSpec
from millstream.spi.sink import Committer

__all__ = ["SinkCoordinator"]


class SinkCoordinator:
    """The committers of one attempt; the job master's thread calls it.

    Raises:
        SinkError: From the constructor, if a target cannot be written.
    """

    def __init__(self, job_graph: JobGraph) -> None:
        self._committers: dict[int, Committer] = {}
        for vertex in job_graph.vertices:
            for node in vertex.nodes:
                if isinstance(node.spec, SinkSpec):
                    node.spec.sink.check()
                    committer = node.spec.sink.build_committer()
                    if committer is not None:
                        self._committers[node.id] = committer
        self._pending: dict[int, list[Any]] = {}

    def stage(self, node_id: int, committables: Sequence[Any]) -> None:
        """Take what a writer returned for the epoch."""
        self._pending.setdefault(node_id, []).extend(committables)

    def commit(self) -> None:
        """Publish what was staged: the epoch is recorded."""
        for node_id in list(self._pending):
            self._committers[node_id].commit(self._pending[node_id])
            del self._pending[node_id]

    def abort(self) -> None:
        """Remove what was staged and will never be published."""
        for node_id, committables in self._pending.items():
            self._committers[node_id].abort(committables)
        self._pending.clear()

    def close(self) -> None:
        """Close the committers."""
        for committer in self._committers.values():
            committer.close()
