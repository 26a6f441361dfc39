"""Days, times of day, timestamps."""

from __future__ import annotations

import datetime
from typing import Any, ClassVar

from millstream.base.time import Instant
from millstream.types.datatypes.base import AtomicType

__all__ = ["DateType", "LocalZonedTimestampType", "TimeType", "TimestampType"]


class DateType(AtomicType):
    """A day; in text `2013-01-31`."""

    name = "DATE"
    EPOCH_ORDINAL: ClassVar[int] = datetime.date(1970, 1, 1).toordinal()

    def parse(self, text: str) -> datetime.date:
        """Read an ISO date."""
        return datetime.date.fromisoformat(text.strip())

    def _fits(self, value: Any) -> bool:
        return isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)

    def need_conversion(self) -> bool:
        """Return True: it is days since 1970."""
        return True

    def to_sql_type(self, d: Any) -> Any:
        """Return days since 1970."""
        return None if d is None else d.toordinal() - self.EPOCH_ORDINAL

    def from_sql_type(self, v: Any) -> Any:
        """Return the day of a number of days since 1970."""
        return None if v is None else datetime.date.fromordinal(v + self.EPOCH_ORDINAL)


class TimeType(AtomicType):
    """A time of day without zone; in text `05:15:00`."""

    name = "TIME"
    python_types = (datetime.time,)
    EPOCH_ORDINAL: ClassVar[int] = 0

    def __init__(self, precision: int = 0, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.precision = precision

    def parse(self, text: str) -> datetime.time:
        """Read an ISO time."""
        value = datetime.time.fromisoformat(text.strip())
        if value.tzinfo is not None:
            raise ValueError("a TIME has no zone")
        return value

    def _arguments(self) -> str:
        return f"({self.precision})"

    def need_conversion(self) -> bool:
        """Return True: it is microseconds of a day."""
        return True

    def to_sql_type(self, t: Any) -> Any:
        """Return microseconds since midnight, of UTC if the time has a zone."""
        if t is None:
            return None
        offset = t.utcoffset() or datetime.timedelta()
        whole = ((t.hour * 60 + t.minute) * 60 + t.second) * 10**6 + t.microsecond
        return whole - offset // datetime.timedelta(microseconds=1)

    def from_sql_type(self, t: Any) -> Any:
        """Return the time of a number of microseconds since midnight."""
        return None if t is None else (datetime.datetime.min + datetime.timedelta(microseconds=t)).time()


class TimestampType(AtomicType):
    """A day and time without zone; in text `2013-01-31 05:15:00` or with a `T` between."""

    name = "TIMESTAMP"
    python_types: ClassVar[tuple[type, ...]] = (datetime.datetime,)

    def __init__(self, precision: int = 6, nullable: bool = True) -> None:
        super().__init__(nullable)
        self.precision = precision

    def parse(self, text: str) -> datetime.datetime:
        """Read an ISO date and time."""
        value = datetime.datetime.fromisoformat(text.strip())
        if value.tzinfo is not None:
            raise ValueError("a TIMESTAMP has no zone")
        return value

    def _arguments(self) -> str:
        return f"({self.precision})"

    def need_conversion(self) -> bool:
        """Return True: it is microseconds since 1970."""
        return True

    def to_sql_type(self, dt: Any) -> Any:
        """Return microseconds since 1970; a time without zone is the machine's."""
        return None if dt is None else int(dt.replace(microsecond=0).timestamp()) * 10**6 + dt.microsecond

    def from_sql_type(self, ts: Any) -> Any:
        """Return the machine's local time of microseconds since 1970."""
        if ts is None:
            return None
        return datetime.datetime.fromtimestamp(ts // 10**6).replace(microsecond=ts % 10**6)


class LocalZonedTimestampType(TimestampType):
    """A moment, in Python a datetime: without zone it is in the machine's; in text as a timestamp, `Z` for UTC."""

    name = "TIMESTAMP_LTZ"
    EPOCH_ORDINAL: ClassVar[int] = 0
    python_types = (datetime.datetime, Instant)

    def parse(self, text: str) -> datetime.datetime:
        """Read an ISO date and time; with a zone it becomes the machine's."""
        value = datetime.datetime.fromisoformat(text.strip())
        return value if value.tzinfo is None else value.astimezone().replace(tzinfo=None)
