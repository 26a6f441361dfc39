"""What an operator that makes watermarks tells of each split."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.base.time import MIN_TIMESTAMP

__all__ = ["SplitTime"]


@dataclass(frozen=True, slots=True)
class SplitTime:
    """Event time of one split, as told to the driver.

    Attributes:
        split_id: The split; empty for an operator that makes watermarks of its whole input.
        watermark_ms: Its watermark, -2**63 before the first.
        max_timestamp_ms: Its largest timestamp, -2**63 before the first.
        last_record_ms: Processing time of its last record; None before the first.
        advanced_ms: Processing time at which its watermark advanced last; None before the first.
        idle: Whether nobody waits for it.
        stamped: Whether its last records had timestamps; None before the first.
        sequential: Whether its subtask reads other splits only after it, as files.
        finished: Whether nothing follows in it.
    """

    split_id: str
    watermark_ms: int = MIN_TIMESTAMP
    max_timestamp_ms: int = MIN_TIMESTAMP
    last_record_ms: int | None = None
    advanced_ms: int | None = None
    idle: bool = False
    stamped: bool | None = None
    sequential: bool = False
    finished: bool = False
