"""Session windows: a key's records that are at most one gap apart are one session.

A record opens a window of one gap; it merges with all sessions that it overlaps or touches::

    gap 3     a--|     b--|             two sessions of a key
              a--|  c--|  b--|          c touches the first and overlaps the second: one session
              [==============)          fires 3 after b

A session has one entry among what is due, which is not moved when the session grows: what comes too early is put
back at the right time. A record is late only if the session it would belong to is late.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from itertools import count
from operator import attrgetter
from typing import Any

from millstream.base.time import MIN_TIMESTAMP
from millstream.common.windows import TimeWindow
from millstream.operators.base import OperatorContext, Output, OwnEntries, RestoreScope
from millstream.operators.own_entries import add_changed, touched_keys
from millstream.operators.user_code import attach_element
from millstream.operators.values import ATOMIC, protect
from millstream.operators.windowing.base import TimedWindowOperator
from millstream.state.snapshots import Entries, StateChanges
from millstream.state.touched import TouchedKeys

__all__ = ["SESSIONS", "SessionOperator"]

SESSIONS = "sessions"
"""Entries of sessions: key -> [(start, end, accumulator, fired)]."""

_BAGS_IN_A_GAP = 4
_GRAIN_MS = 256
"""Where the gap depends on the record."""

_start, _end = attrgetter("start"), attrgetter("end")

_Kept = list[tuple[int, int, Any, bool]]


class _Session:
    """One session of one key.

    Attributes:
        key: Its key.
        start: Of its first record, in event time.
        end: Of its last record, plus the gap.
        accumulator: What was folded.
        fired: Whether it has fired since `end` was last set; then it waits for its clean-up.
        due_ms: Time of its valid entry in `_Due`, never after the time it is due; None once it is gone.
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

    def __lt__(self, other: _Session) -> bool:
        return False  # entries with the same time and order are of one session

    def window(self) -> TimeWindow:
        """Return it as a window."""
        return TimeWindow(self.start, self.end)


class _Due:
    """Sessions by the time they are due, then by their order.

    Those of the next `grain_ms` are sorted, the others lie in bags of as much time each: most sessions are due in about
    the order in which they began, which sorting a bag makes use of, and a heap does not.
    """

    def __init__(self, grain_ms: int) -> None:
        self._grain_ms = grain_ms
        self._next: list[tuple[int, int, _Session]] = []  # the last of them first
        self._next_until_ms = MIN_TIMESTAMP
        self._bags: dict[int, list[tuple[int, int, _Session]]] = {}
        self._times: list[int] = []

    def push(self, due_ms: int, session: _Session) -> None:
        """Add an entry."""
        session.due_ms = due_ms
        entry = (due_ms, session.order, session)
        if due_ms < self._next_until_ms:
            insort(self._next, entry, key=_backwards)
            return
        number = due_ms // self._grain_ms
        bag = self._bags.get(number)
        if bag is None:
            self._bags[number] = [entry]
            heapq.heappush(self._times, number)
        else:
            bag.append(entry)

    def first_ms(self) -> int | None:
        """Return the time of the first entry, or None."""
        if not self._next:
            if not self._times:
                return None
            number = heapq.heappop(self._times)
            self._next = self._bags.pop(number)
            self._next.sort(reverse=True)
            self._next_until_ms = (number + 1) * self._grain_ms
        return self._next[-1][0]

    def pop(self) -> tuple[int, int, _Session]:
        """Take the first entry out, which must have been looked at."""
        return self._next.pop()


def _backwards(entry: tuple[int, int, _Session]) -> tuple[int, int]:
    return -entry[0], -entry[1]


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
        self._due = _Due(max(1, gap // _BAGS_IN_A_GAP) if isinstance(gap, int) else _GRAIN_MS)
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
        fold, sessions_of, passed_ms, value = self._fold, self._sessions.get, self._passed_ms, None
        add, first = fold.add, fold.first
        try:
            for key, value, timestamp, end in rows:
                own = sessions_of(key)
                if own is not None:
                    last = own[-1]
                    if timestamp > last.end:
                        if end - 1 > passed_ms:
                            own.append(self._begin(key, timestamp, end, first(value)))
                            continue
                    elif last.start <= timestamp and not last.fired:
                        last.accumulator = add(value, last.accumulator)
                        if end > last.end:
                            last.end = end
                        continue
                self._place(key, value, timestamp, end)
        except BaseException as error:
            attach_element(error, value)
            raise

    def _begin(self, key: Any, start: int, end: int, accumulator: Any) -> _Session:
        """Return a new session that has not ended."""
        session = _Session(key, start, end, accumulator, next(self._orders))
        self._due.push(end - 1, session)
        return session

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
        """Add a record that neither continues the key's last session nor begins one behind it."""
        start = timestamp
        own = self._sessions.get(key, [])
        # Sessions neither overlap nor touch, so those that the record reaches stand together.
        low = bisect_left(own, start, key=_end)
        high = bisect_right(own, end, low, key=_start)
        if low < high:
            session = self._merge(own, low, high)
            session.accumulator = self._fold.add(value, session.accumulator)
            session.start = min(session.start, start)
            session.end = max(session.end, end)
        elif end - 1 + self._lateness_ms <= self._passed_ms:
            self._add_late(value, timestamp)
            return
        else:
            session = _Session(key, start, end, self._fold.first(value), next(self._orders))
            own = self._sessions.setdefault(key, own)
            own.insert(low, session)
        session.fired = session.end - 1 <= self._passed_ms
        if session.fired:
            self._fire(session.window(), [(key, session.accumulator)], shared=True)
        if session.due_ms is None or session.due_ms > self._time_due(session):
            self._push(session)

    def _merge(self, own: list[_Session], low: int, high: int) -> _Session:
        """Merge the sessions `[low, high)` into the first of them; the others are gone."""
        session = own[low]
        for other in own[low + 1 : high]:
            session.accumulator = self._fold.merge(session.accumulator, other.accumulator)
            session.end = other.end
            other.due_ms = None
        del own[low + 1 : high]
        return session

    def _time_due(self, session: _Session) -> int:
        return session.end - 1 + (self._lateness_ms if session.fired else 0)

    def _push(self, session: _Session) -> None:
        self._due.push(self._time_due(session), session)

    def next_due(self) -> int | None:
        """Return when the next window is due, or None."""
        return self._due.first_ms()

    def _advance(self, passed_ms: int) -> None:
        due = self._due
        plain = self._firing.plain and self._lateness_ms == 0 and self._touched is None
        while (due_ms := due.first_ms()) is not None and due_ms <= passed_ms:
            popped_ms, _, session = due.pop()
            if popped_ms != session.due_ms:
                continue
            if self._time_due(session) > popped_ms:
                self._push(session)
            elif plain and not session.fired:
                self._end(session)
            elif session.fired or not self._fire_due(session):
                self._clean_up(session)

    def _end(self, session: _Session) -> None:
        """Fire a session and forget it: what `_fire_due` and `_clean_up` come to where the result is all there is."""
        result = self._fold.result(session.accumulator)
        self._results.append(result if type(result) in ATOMIC else protect(result))
        self._result_timestamps.append(session.end - 1)
        session.due_ms = None
        own = self._sessions[session.key]
        if len(own) == 1:
            del self._sessions[session.key]
        elif own[0] is session:
            del own[0]
        else:
            own.remove(session)

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
