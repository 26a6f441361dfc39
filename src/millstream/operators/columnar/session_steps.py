"""Rows of sessions one by one, where it matters in which order they came; what is done in numpy stays in numpy.

Here it is only found out what is to be done, and in how many rounds: in each a session merges at most once, then takes
its rows all at once, then may fire::

    gap 3, one key     a@0   b@5   c@3   d@4     c joins the sessions of a and b
    round 0            a to its session, b to its own
    round 1            that of b into that of a; c and d to it

The rules are those of sessions of rows (`operators/windowing/sessions.py`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import NamedTuple

__all__ = ["Fired", "Piece", "Steps"]

_start, _end = attrgetter("start"), attrgetter("end")


class Piece:
    """A session that is there, or has begun among these rows.

    Attributes:
        start: Time of its first record.
        end: Time of its last record, plus the gap.
        place: What it is called.
        round: In which its next rows are added.
    """

    __slots__ = ("end", "place", "round", "start")

    def __init__(self, start: int, end: int, place: int) -> None:
        self.start = start
        self.end = end
        self.place = place
        self.round = 0


class Fired(NamedTuple):
    """A session that fires at once, as a row has come behind the watermark.

    Attributes:
        row: The row.
        place: The session.
        start: Where it begins by then.
        end: Where it ends by then.
    """

    row: int
    place: int
    start: int
    end: int


class Steps:
    """What is to be done with rows and sessions, round by round.

    Args:
        gap_ms: Silence that ends a session.
        passed_ms: Time that has passed.
        lateness_ms: How long a session is kept after its end.
        first_place: What the first new session is called; the next has the next number.

    Attributes:
        late: Rows that no session takes.
        begun: For each new session the row that it began with, in order.
        merges: For each round pairs of a session and the one that goes into it.
        adds: For each round pairs of a row and its session, in the order of the rows.
        fires: For each round the sessions that fire.
        gone: Sessions that went into others.
    """

    def __init__(self, *, gap_ms: int, passed_ms: int, lateness_ms: int, first_place: int) -> None:
        self._gap_ms = gap_ms
        self._passed_ms = passed_ms
        self._lateness_ms = lateness_ms
        self._first_place = first_place
        self.late: list[int] = []
        self.begun: list[int] = []
        self.merges: list[list[tuple[int, int]]] = [[]]
        self.adds: list[list[tuple[int, int]]] = [[]]
        self.fires: list[list[Fired]] = [[]]
        self.gone: list[int] = []

    def add(self, own: list[Piece], row: int, start: int) -> None:
        """Add a row.

        Args:
            own: The sessions of its part, sorted by time; changed to what they become.
            row: Its number, larger than that of the row before.
            start: Its time.
        """
        end = start + self._gap_ms
        # Sessions neither overlap nor touch, so those that the row reaches stand together.
        low = bisect_left(own, start, key=_end)
        high = bisect_right(own, end, low, key=_start)
        if low < high:
            piece = self._merge(own, low, high)
            piece.start, piece.end = min(piece.start, start), max(piece.end, end)
        elif end - 1 + self._lateness_ms <= self._passed_ms:
            self.late.append(row)
            return
        else:
            piece = Piece(start, end, self._first_place + len(self.begun))
            self.begun.append(row)
            own.insert(low, piece)
        self.adds[piece.round].append((row, piece.place))
        if piece.end - 1 <= self._passed_ms:
            self.fires[piece.round].append(Fired(row, piece.place, piece.start, piece.end))
            self._go_to_round(piece, piece.round + 1)

    def _merge(self, own: list[Piece], low: int, high: int) -> Piece:
        """Merge the sessions `[low, high)` into the first of them; the others are gone."""
        piece = own[low]
        for other in own[low + 1 : high]:
            self._go_to_round(piece, max(piece.round, other.round) + 1)
            self.merges[piece.round].append((piece.place, other.place))
            piece.end = other.end
            self.gone.append(other.place)
        del own[low + 1 : high]
        return piece

    def _go_to_round(self, piece: Piece, number: int) -> None:
        piece.round = number
        if number == len(self.adds):
            self.merges.append([])
            self.adds.append([])
            self.fires.append([])

    def take_one_round(self) -> None:
        """Have all rows added at once, unless a session fires between them; for where their order does not matter.

        Sessions that began among these rows and went into others get none.
        """
        if any(self.fires):
            return
        goes_to = {other: into for merges in self.merges for into, other in merges}
        ends_in: dict[int, int] = {}
        for other in reversed(self.gone):  # who goes later is known before
            into = goes_to[other]
            ends_in[other] = ends_in.get(into, into)
        self.merges = [[(into, other) for other, into in ends_in.items() if other < self._first_place]]
        self.adds = [[(row, ends_in.get(place, place)) for adds in self.adds for row, place in adds]]
        self.fires = [[]]
