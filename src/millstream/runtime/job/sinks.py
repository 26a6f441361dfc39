"""Driver's side of a job's sinks: checks them before the start, commits what writers staged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from millstream.base.crash_points import around, reach
from millstream.graph.job_graph import JobGraph
from millstream.spi.sink import Committer

__all__ = ["SinkCoordinator"]


class SinkCoordinator:
    """The committers of one attempt; the job master's thread calls it.

    What writers staged is pending until it is part of a checkpoint; then it is sealed - it will be committed,
    by this attempt or a later one - and committed::

        stage ─► pending ─► offer ─► offered ─► seal ─► sealed ─► commit
                    └─► abort: removed

    From the moment on that a checkpoint is about to be published nobody can be sure that it is not: its answer may
    be lost, and a later driver find it. What it holds is offered, and never removed.

    Raises:
        SinkError: From the constructor, if a target cannot be written.
    """

    def __init__(self, job_graph: JobGraph) -> None:
        self._committers: dict[int, Committer] = {}
        for vertex in job_graph.vertices:
            for node in vertex.nodes:
                sink = node.spec.writes
                if sink is not None:
                    sink.check()
                    committer = sink.build_committer()
                    if committer is not None:
                        self._committers[node.id] = committer
        self._pending: dict[int, list[Any]] = {}
        self._offered: dict[int, list[Any]] = {}
        self._sealed: dict[int, list[Any]] = {}
        self._restored: dict[int, list[Any]] = {}

    def pending(self) -> dict[int, list[Any]]:
        """Return what is to be committed with the next checkpoint, by node id."""
        merged: dict[int, list[Any]] = {}
        for part in (self._restored, self._sealed, self._offered, self._pending):
            for node_id, committables in part.items():
                merged.setdefault(node_id, []).extend(committables)
        return merged

    def restore(self, node_id: int, committables: Sequence[Any]) -> None:
        """Take what a checkpoint holds; it may have been committed already."""
        if committables:
            self._restored.setdefault(node_id, []).extend(committables)

    def stage(self, node_id: int, committables: Sequence[Any]) -> None:
        """Take what a writer returned for the epoch."""
        self._pending.setdefault(node_id, []).extend(committables)

    def offer(self) -> None:
        """Learn that what is pending is about to be recorded, and may be even if that seems to fail."""
        for node_id, committables in self._pending.items():
            self._offered.setdefault(node_id, []).extend(committables)
        self._pending = {}

    def seal(self) -> None:
        """Learn that what is pending will be committed, whatever happens: it is recorded."""
        self.offer()
        for node_id, committables in self._offered.items():
            self._sealed.setdefault(node_id, []).extend(committables)
        self._offered = {}

    def commit(self) -> None:
        """Publish what is sealed, first what was restored.

        Raises:
            SinkError: If it cannot be published; it stays sealed.
        """
        for node_id in list(self._restored):
            committer, committables = self._committers[node_id], self._restored[node_id]
            around("sink.commit", str(node_id), partial(committer.recover, committables))
            del self._restored[node_id]
            reach("sink.committed", str(node_id))
        for node_id in list(self._sealed):
            committer, committables = self._committers[node_id], self._sealed[node_id]
            around("sink.commit", str(node_id), partial(committer.commit, committables))
            del self._sealed[node_id]
            reach("sink.committed", str(node_id))

    def abort(self) -> None:
        """Remove what was staged and will never be published: what is pending."""
        for node_id, committables in self._pending.items():
            reach("sink.abort", str(node_id))
            self._committers[node_id].abort(committables)
        self._pending.clear()

    def close(self) -> None:
        """Close the committers."""
        for committer in self._committers.values():
            committer.close()
