"""How far event time has come, and who holds it back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from millstream.base.time import MIN_TIMESTAMP

__all__ = ["WatermarkFact", "WatermarksView"]


@dataclass(frozen=True, slots=True)
class WatermarkFact:
    """Event time of one split, or of one subtask that has none.

    Attributes:
        node_id: The operator that makes the watermark.
        operator: Its name.
        subtask: Its subtask, from 0.
        split: The split; None for a subtask without any, or an operator that is not a source.
        watermark_ms: Its watermark; None before the first.
        event_time_ms: Its largest timestamp; None if no record had one.
        last_record_ms: Processing time of its last record; None before the first.
        advanced_ms: Processing time at which its watermark advanced last; None if it never did.
        idle: Whether nobody waits for it.
        stamped: Whether its last records had timestamps; None before the first.
        held_by_alignment: Whether it is not read because it is ahead of others.
        holds_back: Whether the job's watermark is this one's.
        since_ms: Processing time since when its watermark stands still.
        behind_ms: How far its watermark is behind the one that is farthest ahead; None if it or all have none.
        reason: Why, in one line; None if nothing is wrong.
        hint: What to configure; None if nothing is wrong.
    """

    node_id: int
    operator: str
    subtask: int
    split: str | None
    watermark_ms: int | None = None
    event_time_ms: int | None = None
    last_record_ms: int | None = None
    advanced_ms: int | None = None
    idle: bool = False
    stamped: bool | None = None
    held_by_alignment: bool = False
    holds_back: bool = False
    since_ms: int | None = None
    behind_ms: int | None = None
    reason: str | None = None
    hint: str | None = None

    @property
    def at_ms(self) -> int:
        """The watermark, -2**63 before the first."""
        return MIN_TIMESTAMP if self.watermark_ms is None else self.watermark_ms

    @property
    def place(self) -> str:
        """The split and where it is read, for a message.

        >>> WatermarkFact(1, "Source: orders", 2, "orders-7").place
        'split "orders-7" (subtask 2 of "Source: orders")'
        """
        where = f'subtask {self.subtask} of "{self.operator}"'
        return where if self.split is None else f'split "{self.split}" ({where})'

    def to_json(self) -> dict[str, Any]:
        """Return the fact as plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class WatermarksView:
    """The watermarks of a job's sources, as of a moment in the last second.

    Attributes:
        job_id: Of the job.
        name: Of the job.
        started_ms: When its attempt began.
        written_ms: When this was seen.
        batch: Whether it runs in batch mode, where the only watermark comes at the end.
        epoch: The last epoch.
        watermark_ms: The job's watermark; -2**63 before the first.
        facts: Of each split, or subtask without any: those that hold the watermark back first.
    """

    job_id: str
    name: str
    started_ms: int
    written_ms: int
    batch: bool
    epoch: int
    watermark_ms: int
    facts: tuple[WatermarkFact, ...] = ()
