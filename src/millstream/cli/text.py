"""How numbers, sizes and times stand in tables of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

__all__ = ["columns", "format_moment", "format_ms", "format_size"]


def format_size(size_bytes: float) -> str:
    """Return a size as a user reads it.

    >>> format_size(512), format_size(1_536), format_size(3 * 2**30)
    ('512 B', '1.5 KiB', '3.0 GiB')
    """
    if size_bytes < 1024:
        return f"{size_bytes:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        size_bytes /= 1024
        if size_bytes < 1024:
            return f"{size_bytes:.1f} {unit}"
    return f"{size_bytes / 1024:,.1f} TiB"


def format_ms(duration_ms: float) -> str:
    """Return a duration as a user reads it, two units at most.

    >>> format_ms(250), format_ms(2_500), format_ms(61_000), format_ms(7_384_000), format_ms(200_000_000)
    ('250 ms', '2.5 s', '1m 01s', '2h 03m', '2d 07h')
    """
    if duration_ms < 1000:
        return f"{duration_ms:.0f} ms"
    seconds = duration_ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, second = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {second:02}s"
    hours, minute = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h {minute:02}m"
    days, hour = divmod(hours, 24)
    return f"{days:,}d {hour:02}h"


def format_moment(timestamp_ms: int) -> str:
    """Return a moment as a user reads it.

    >>> format_moment(1_357_017_300_000)
    '2013-01-01 05:15:00 UTC'
    """
    return f"{datetime.fromtimestamp(timestamp_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def columns(rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> list[str]:
    """Return rows as lines with columns below each other.

    Args:
        rows: Of equal length, the heads first.
        right: Columns that stand at the right, by index.

    >>> columns([["id", "size"], ["7", "12 B"]], right=[1])
    ['id  size', '7   12 B']
    """
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
