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

    What writers staged is pending until it is part of a checkpoint; then it is sealed - it will be committed,
    by this attempt or a later one - and committed::

        stage ─► pending ─► seal ─► sealed ─► commit
                    └─► abort: removed

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
        self._sealed: dict[int, list[Any]] = {}

    def pending(self) -> dict[int, list[Any]]:
        """Return what is to be committed with the next checkpoint, by node id."""
        merged = {node_id: list(sealed) for node_id, sealed in self._sealed.items()}
        for node_id, committables in self._pending.items():
            merged.setdefault(node_id, []).extend(committables)
        return merged

    def restore(self, node_id: int, committables: Sequence[Any]) -> None:
        """Take what a checkpoint holds; it may have been committed already."""
        if committables:
            self._sealed.setdefault(node_id, []).extend(committables)

    def stage(self, node_id: int, committables: Sequence[Any]) -> None:
        """Take what a writer returned for the epoch."""
        self._pending.setdefault(node_id, []).extend(committables)

    def seal(self) -> None:
        """Learn that what is pending will be committed, whatever happens: it is recorded."""
        self._sealed = self.pending()
        self._pending = {}

    def commit(self) -> None:
        """Publish what is sealed.

        Raises:
            SinkError: If it cannot be published; it stays sealed.
        """
        for node_id in list(self._sealed):
            self._committers[node_id].commit(self._sealed[node_id])
            del self._sealed[node_id]

    def abort(self) -> None:
        """Remove what was staged and will never be published: what is pending."""
        for node_id, committables in self._pending.items():
            self._committers[node_id].abort(committables)
        self._pending.clear()

    def close(self) -> None:
        """Close the committers."""
        for committer in self._committers.values():
            committer.close()
