"""Session windows: a key's records that are at most one gap apart are one session.

A record opens a window of one gap; it merges with all sessions that it overlaps or touches::

    gap 3     a--|     b--|             two sessions of a key
              a--|  c--|  b--|          c touches the first and overlaps the second: one session
              [==============)          fires 3 after b

A session has one entry in the heap, which is not moved when the session grows: what is popped too early is
put back at the right time. A record is late only if the session it would belong to is late.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from millstream.common.windows import TimeWindow
from millstream.operators.base import OperatorContext, Output, OwnEntries, RestoreScope
from millstream.operators.own_entries import add_changed, touched_keys
from millstream.operators.user_code import attach_element
from millstream.operators.windowing.base import TimedWindowOperator
from millstream.state.snapshots import Entries, StateChanges
from millstream.state.touched import TouchedKeys

__all__ = ["SESSIONS", "SessionOperator"]

SESSIONS = "sessions"
"""Entries of sessions: key -> [(start, end, accumulator, fired)]."""

_Kept = list[tuple[int, int, Any, bool]]


class _Session:
    """One session of one key.

    Attributes:
        key: Its key.
        start: Of its first record, in event time.
        end: Of its last record, plus the gap.
        accumulator: What was folded.
        fired: Whether it has fired since `end` was last set; then it waits for its clean-up.
        due_ms: Time of its valid entry in the heap, never after the time it is due; None once it is gone.
        order: Breaks ties between sessions due at the same time: order of creation.
    """

    __slots__ = ("accumulator", "due_ms", "end", "fired", "key", "order", "start")

    def __init__(self, key: Any, start: int, end: int, accumulator: Any, order: int) -> None:
        self.key = key
        self.start = start
        self.end = end
        self.accumulator = accumulator
        self.fired = False
        self.due_ms: int | None = None
        self.order = order

    def window(self) -> TimeWindow:
        """Return it as a window."""
        return TimeWindow(self.start, self.end)


class SessionOperator(TimedWindowOperator):
    """Sessions of each key, sorted by time; they neither overlap nor touch.

    Args:
        gap: Silence that ends a session, milliseconds, or what gives it for a record.
        shared: For `WindowOperator`.
    """

    merging = True

    def __init__(self, *, gap: int | Callable[[Any], int], **shared: Any) -> None:
        super().__init__(**shared)
        self._gap = gap
        self._sessions: dict[Any, list[_Session]] = {}
        self._heap: list[tuple[int, int, int, _Session]] = []
        self._pushes = count()
        self._orders = count()
        self._touched: TouchedKeys | None = None

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Be told where it runs and where results go."""
        super().setup(context, output)
        self._touched = touched_keys(context)

    def restore_state(self, snapshot: int, scope: RestoreScope) -> None:
        """Take over the time passed."""
        self._restore_time(snapshot)

    def snapshot_entries(self) -> Iterator[OwnEntries]:
        """Return by key [(start, end, accumulator, fired)]."""
        yield SESSIONS, None, ((key, _kept(own)) for key, own in self._sessions.items())

    def changed_entries(self, changes: StateChanges) -> bool:
        """Add the sessions of keys of which one changed."""
        return add_changed(changes, SESSIONS, self._sessions, self._touched, _kept)

    def forget_changes(self) -> None:
        """Take the sessions as they are as known."""
        if self._touched is not None:
            self._touched.forget()

    def restore_entries(self, name: str, entries: Entries) -> None:
        """Take over sessions."""
        for _, key, kept in entries:
            restored = []
            for start, end, accumulator, fired in kept:
                session = _Session(key, start, end, accumulator, next(self._orders))
                session.fired = fired
                self._push(session)
                restored.append(session)
            self._sessions[key] = restored

    def _add_batch(self, values: list[Any], timestamps: list[int]) -> None:
        keys = self._keys(values)
        if self._touched is not None:
            self._touched.note(keys, len(self._sessions))
        rows = zip(keys, values, timestamps, self._ends(values, timestamps), strict=True)
        add, sessions_of, value = self._fold.add, self._sessions.get, None
        try:
            for key, value, timestamp, end in rows:
                own = sessions_of(key)
                if own is not None:
                    last = own[-1]
                    if last.start <= timestamp <= last.end and not last.fired:
                        last.accumulator = add(value, last.accumulator)
                        if end > last.end:
                            last.end = end
                        continue
                self._place(key, value, timestamp, end)
        except BaseException as error:
            attach_element(error, value)
            raise

    def _ends(self, values: list[Any], timestamps: list[int]) -> list[int]:
        gap = self._gap
        if isinstance(gap, int):
            return [timestamp + gap for timestamp in timestamps]
        value = None
        try:
            return [timestamp + gap(value) for value, timestamp in zip(values, timestamps, strict=True)]
        except BaseException as error:
            attach_element(error, value)
            raise

    def _place(self, key: Any, value: Any, timestamp: int, end: int) -> None:
        """Add a record that does not simply continue the key's last session."""
        start = timestamp
        own = self._sessions.get(key, [])
        touched = [session for session in own if session.start <= end and start <= session.end]
        if touched:
            session = self._merge(key, own, touched)
            session.accumulator = self._fold.add(value, session.accumulator)
            session.start = min(session.start, start)
            session.end = max(session.end, end)
        elif end - 1 + self._lateness_ms <= self._passed_ms:
            self._add_late(value, timestamp)
            return
        else:
            session = _Session(key, start, end, self._fold.first(value), next(self._orders))
            own = self._sessions.setdefault(key, own)
            own.append(session)
            own.sort(key=lambda one: one.start)
        session.fired = session.end - 1 <= self._passed_ms
        if session.fired:
            self._fire(session.window(), [(key, session.accumulator)], shared=True)
        if session.due_ms is None or session.due_ms > self._time_due(session):
            self._push(session)

    def _merge(self, key: Any, own: list[_Session], touched: list[_Session]) -> _Session:
        """Merge sessions into the first of them; the others are gone."""
        session = touched[0]
        for other in touched[1:]:
            session.accumulator = self._fold.merge(session.accumulator, other.accumulator)
            session.end = other.end
            other.due_ms = None
            own.remove(other)
        return session

    def _time_due(self, session: _Session) -> int:
        return session.end - 1 + (self._lateness_ms if session.fired else 0)

    def _push(self, session: _Session) -> None:
        session.due_ms = due_ms = self._time_due(session)
        heapq.heappush(self._heap, (due_ms, session.order, next(self._pushes), session))

    def next_due(self) -> int | None:
        """Return when the next window is due, or None."""
        return self._heap[0][0] if self._heap else None

    def _advance(self, passed_ms: int) -> None:
        heap = self._heap
        while heap and heap[0][0] <= passed_ms:
            popped_ms, _, _, session = heapq.heappop(heap)
            if popped_ms != session.due_ms:
                continue
            if self._time_due(session) > popped_ms:
                self._push(session)
            elif session.fired or not self._fire_due(session):
                self._clean_up(session)

    def _fire_due(self, session: _Session) -> bool:
        """Fire a session that has ended; return whether it is kept for late records."""
        kept = self._lateness_ms > 0
        if self._touched is not None:
            self._touched.add(session.key)
        self._fire(session.window(), [(session.key, session.accumulator)], shared=kept)
        if kept:
            session.fired = True
            self._push(session)
        return kept

    def _clean_up(self, session: _Session) -> None:
        session.due_ms = None
        if self._touched is not None:
            self._touched.add(session.key)
        own = self._sessions[session.key]
        own.remove(session)
        if not own:
            del self._sessions[session.key]
        if self._firing.clears:
            self._firing.clear(session.window(), [session.key])


def _kept(own: list[_Session]) -> _Kept:
    return [(one.start, one.end, one.accumulator, one.fired) for one in own]
