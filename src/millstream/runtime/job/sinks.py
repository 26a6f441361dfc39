"""Driver's side of a job's sinks: checks them before the start, commits what writers staged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from millstream.base.crash_points import around, reach
from millstream.graph.job_graph import JobGraph
from millstream.runtime.job.commit_thread import find_commit_calls
from millstream.spi.sink import Committer

__all__ = ["SinkCoordinator"]

Publish = Callable[[], None]


class SinkCoordinator:
    """The committers of one attempt; the job master's thread calls it, and they work on one of their own.

    What writers staged is pending until it is part of a checkpoint; then it is sealed - it will be committed,
    by this attempt or a later one - and committed, while the job goes on::

        stage ─► pending ─► offer ─► offered ─► seal ─► sealed ─► begin_commit ─► … look or wait: it is committed
                    └─► abort: removed

    From the moment on that a checkpoint is about to be published nobody can be sure that it is not: its answer may
    be lost, and a later driver find it. What it holds is offered, and never removed.

    One commit is under way at a time. `pending`, `seal` and `begin_commit` are called when none is. What could not be
    published stays sealed, and `look` or `wait` raises why, once.

    Raises:
        SinkError: From the constructor, if a target cannot be written.
    """

    def __init__(self, job_graph: JobGraph) -> None:
        self._calls = find_commit_calls()
        self._under_way: Future[None] | None = None
        self._given_up = False
        self._committers: dict[int, Committer] = {}
        for vertex in job_graph.vertices:
            for node in vertex.nodes:
                sink = node.spec.writes
                if sink is not None:
                    sink.check()
                    committer = self._calls.begin(sink.build_committer).result()
                    if committer is not None:
                        self._committers[node.id] = committer
        if not self._committers:
            self._calls.end()
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

    @property
    def is_committing(self) -> bool:
        """Whether a commit is under way, or has ended and nobody has looked yet."""
        return self._under_way is not None

    def commit(self) -> None:
        """Publish what is sealed, first what was restored.

        Raises:
            SinkError: If it cannot be published; it stays sealed.
        """
        self.begin_commit()
        self.wait()

    def begin_commit(
        self,
        on_end: Callable[[], None] = lambda: None,
        as_job: Callable[[Publish], Publish] = lambda publish: publish,
    ) -> None:
        """Begin to publish what is sealed, first what was restored.

        Args:
            on_end: Called when that has come to its end, by whatever thread.
            as_job: Makes of a call one that another thread makes as the job's own would.

        Raises:
            SinkError: If it is known at once that it cannot be published; it stays sealed.
        """
        if not (self._restored or self._sealed):
            return
        self._under_way = self._calls.begin(as_job(self._publish), beside=True)
        self._under_way.add_done_callback(lambda _: on_end())
        self._end_commit()

    def look(self, seconds: float = 0.0) -> bool:
        """Return whether the commit that was under way has come to its end since.

        Args:
            seconds: How long to wait for it.

        Raises:
            SinkError: If what it was to publish cannot be published.
        """
        if self._under_way is not None:
            self._calls.look(self._under_way, seconds)
        return self._end_commit()

    def wait(self, every_s: float | None = None, meanwhile: Callable[[], None] = lambda: None) -> bool:
        """Wait until no commit is under way; return whether one was.

        Args:
            every_s: How often something is done meanwhile; None for never.
            meanwhile: What that is; what it raises ends the wait.

        Raises:
            SinkError: If what it was to publish cannot be published.
        """
        if self._under_way is None:
            return False
        while not self._calls.wait(self._under_way, every_s):
            meanwhile()
        return self._end_commit()

    def _end_commit(self) -> bool:
        if self._under_way is None or not self._under_way.done():
            return False
        ended, self._under_way = self._under_way, None
        ended.result()
        return True

    def _publish(self) -> None:
        for node_id in list(self._restored):
            self._publish_part(self._restored, node_id, self._committers[node_id].recover)
        for node_id in list(self._sealed):
            self._publish_part(self._sealed, node_id, self._committers[node_id].commit)

    def _publish_part(
        self, parts: dict[int, list[Any]], node_id: int, publish: Callable[[Sequence[Any]], None]
    ) -> None:
        if self._given_up:
            return
        around("sink.commit", str(node_id), partial(publish, parts[node_id]))
        del parts[node_id]
        reach("sink.committed", str(node_id))

    def abort(
        self,
        every_s: float | None = None,
        meanwhile: Callable[[], None] = lambda: None,
        *,
        patience_s: float | None = None,
    ) -> bool:
        """Remove what was staged and will never be published: what is pending.

        A commit that is under way comes to its end before: what is sealed is published by this attempt or by the next
        one, never by both at once.

        Args:
            every_s: As of `wait`.
            meanwhile: As of `wait`.
            patience_s: How long to wait for it at most; None for as long as it takes. Then no further committer
                begins, and what is pending stays: a later attempt finds it.

        Returns:
            Whether that is done.

        Raises:
            SinkError: What the commit that was under way has failed with.
        """
        if not self._committers:
            return True
        removed = self._calls.begin(self._remove)
        if patience_s is not None and not self._calls.wait(removed, patience_s):
            self._given_up = removed.cancel()
            return False
        while not self._calls.wait(removed, every_s):
            meanwhile()
        try:
            removed.result()
        finally:
            self._end_commit()
        return True

    def _remove(self) -> None:
        for node_id, committables in self._pending.items():
            reach("sink.abort", str(node_id))
            self._committers[node_id].abort(committables)
        self._pending.clear()

    def close(self) -> None:
        """Close the committers; behind a commit that nobody waits for any more, without waiting for it either."""
        if not self._committers:
            return
        if self._under_way is not None:
            self._under_way.cancel()  # does nothing to one that has begun
        closed = [self._calls.begin(committer.close) for committer in self._committers.values()]
        self._calls.end()
        if self._under_way is None or self._under_way.done():
            for each in closed:
                each.result()
