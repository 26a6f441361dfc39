"""Which directory below a file sink's base path a record belongs in."""

from __future__ import annotations

import datetime
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any
from zoneinfo import ZoneInfo

from millstream.base.errors import ConfigurationError

__all__ = ["BucketAssigner", "BucketAssignerContext", "check_bucket_id", "cut_by_bucket"]


class BucketAssignerContext:
    """What an assigner may know besides the record."""

    __slots__ = ("_now_ms", "_timestamp", "_watermark_ms")

    def __init__(self, now_ms: int, watermark_ms: int) -> None:
        self._now_ms = now_ms
        self._watermark_ms = watermark_ms
        self._timestamp: int | None = None

    def set_timestamp(self, timestamp_ms: int | None) -> None:
        """Move on to another record; called by the sink."""
        self._timestamp = timestamp_ms

    def timestamp(self) -> int | None:
        """Return the record's event time in epoch milliseconds, or None."""
        return self._timestamp

    def current_processing_time(self) -> int:
        """Return the processing time in epoch milliseconds."""
        return self._now_ms

    def current_watermark(self) -> int:
        """Return the watermark before the record, in epoch milliseconds."""
        return self._watermark_ms


class BucketAssigner(ABC):
    """Names each record's bucket, a relative path; subclass it for buckets of your own."""

    @abstractmethod
    def get_bucket_id(self, element: Any, context: BucketAssignerContext) -> str:
        """Return the record's bucket, such as `day=2013-01-31`; empty for the base path."""

    def batch_bucket_id(self, now_ms: int) -> str | None:
        """Return the bucket of every record of a batch at once, or None if it depends on the record."""
        return None

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Put all files into the base path."""
        return _BasePathBuckets()

    @staticmethod
    def date_time_bucket_assigner(
        format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None
    ) -> BucketAssigner:
        """Make buckets by processing time.

        Args:
            format_str: Pattern of the letters y M d H m s S, as in Java; other letters in single quotes.
            timezone_id: `Europe/Berlin`, `UTC`, `GMT-08:00`; the machine's own zone if None.

        Raises:
            ConfigurationError: If the pattern or the zone does not exist.
        """
        return _DateTimeBuckets(format_str, timezone_id)


def cut_by_bucket(
    assigner: BucketAssigner,
    values: Sequence[Any],
    timestamps: Sequence[int] | None,
    context: BucketAssignerContext,
    groups: dict[str, list[Any]],
) -> None:
    """Append each record to the list of its bucket, in one pass; the assigner is asked once for each.

    Raises:
        ConfigurationError: If a bucket id is no relative path below the base path.
    """
    assign = assigner.get_bucket_id
    stamps: Iterable[int | None] = repeat(None) if timestamps is None else timestamps
    for value, context._timestamp in zip(values, stamps, strict=timestamps is not None):
        bucket_id = assign(value, context)
        try:
            groups[bucket_id].append(value)
        except KeyError:
            groups[check_bucket_id(bucket_id)] = [value]


class _BasePathBuckets(BucketAssigner):
    def get_bucket_id(self, element: Any, context: BucketAssignerContext) -> str:
        return ""

    def batch_bucket_id(self, now_ms: int) -> str | None:
        return ""


class _DateTimeBuckets(BucketAssigner):
    def __init__(self, format_str: str, timezone_id: str | None) -> None:
        self._format = _translate(format_str)
        self._zone = None if timezone_id is None else _zone(timezone_id)

    def get_bucket_id(self, element: Any, context: BucketAssignerContext) -> str:
        return self.batch_bucket_id(context.current_processing_time()) or ""

    def batch_bucket_id(self, now_ms: int) -> str | None:
        utc = datetime.datetime.fromtimestamp(now_ms // 1000, datetime.UTC)
        moment = utc.astimezone(self._zone).replace(microsecond=now_ms % 1000 * 1000)
        return "".join(
            part if isinstance(part, str) else _FIELDS[part[0]](moment, part[1]) for part in self._format
        )


_FIELDS: dict[str, Callable[[datetime.datetime, int], str]] = {
    "y": lambda at, width: f"{at.year % 100:02d}" if width == 2 else f"{at.year:0{width}d}",
    "M": lambda at, width: f"{at.month:0{width}d}",
    "d": lambda at, width: f"{at.day:0{width}d}",
    "H": lambda at, width: f"{at.hour:0{width}d}",
    "m": lambda at, width: f"{at.minute:0{width}d}",
    "s": lambda at, width: f"{at.second:0{width}d}",
    "S": lambda at, width: f"{at.microsecond:06d}".ljust(width, "0")[:width],
}
_FIELDS["u"] = _FIELDS["y"]


def _translate(pattern: str) -> list[str | tuple[str, int]]:
    """Cut a pattern into texts and (letter, number of repetitions)."""
    parts: list[str | tuple[str, int]] = []
    for match in re.finditer(r"'((?:[^']|'')*)'|(([A-Za-z])\3*)|([^A-Za-z']+)|(')", pattern):
        quoted, run, letter, other, _ = match.groups()
        if run is not None:
            if letter not in _FIELDS or (letter == "M" and len(run) > 2):
                raise ConfigurationError(
                    f"date pattern {pattern!r} holds {run!r}, which is not supported",
                    detail="Letters: y M d H m s S, in digits only.",
                    hint="Put text into single quotes.",
                )
            parts.append((letter, len(run)))
        elif match.group(5):
            raise ConfigurationError(f"date pattern {pattern!r} has a quote that is not closed")
        else:
            parts.append(other if quoted is None else quoted.replace("''", "'") or "'")
    check_bucket_id("".join(part for part in parts if isinstance(part, str)))
    return parts


def _zone(timezone_id: str) -> datetime.tzinfo:
    match = re.fullmatch(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?", timezone_id)
    if match:
        offset = datetime.timedelta(hours=int(match.group(2)), minutes=int(match.group(3) or 0))
        return datetime.timezone(-offset if match.group(1) == "-" else offset)
    try:
        return ZoneInfo(timezone_id)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigurationError(
            f"time zone {timezone_id!r} does not exist", hint="Use a name such as Europe/Berlin."
        ) from error


def check_bucket_id(bucket_id: Any) -> str:
    """Return a bucket id if it is a relative path below the base path whose files readers will see.

    Raises:
        ConfigurationError: If it is not.
    """
    if not isinstance(bucket_id, str):
        raise ConfigurationError(f"bucket id {bucket_id!r} is no str")
    if bucket_id.startswith("/") or ".." in bucket_id.split("/") or "\0" in bucket_id:
        raise ConfigurationError(
            f"bucket id {bucket_id!r} leads out of the base path",
            hint="Return a relative path such as day=2013-01-31.",
        )
    return bucket_id
