"""What the builders of sources of tables share."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any, Self

from millstream.base.errors import ConfigurationError, shorten
from millstream.base.time import Duration, Instant, to_milliseconds
from millstream.connectors.lake.conditions import Conditions, parse_conditions
from millstream.connectors.table_source import positive

__all__ = ["LakeSourceBuilder", "Reading"]

_SPLIT_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read of a table.

    Attributes:
        columns: Their names; None for all.
        conditions: Which rows.
        version: Of the table, to be read as it was; None for the newest.
        as_of_ms: The same by time, epoch milliseconds.
        starting: Only what came since this version.
        ending: And no later than with this one.
        interval_ms: How often to look for new versions; None to end.
        skips_changes: Whether versions that change rows are left out; else they fail the job.
        split_bytes: How large the parts of a file are at most.
        in_utc: Whether moments are given in UTC; else in the machine's local zone.
    """

    columns: tuple[str, ...] | None = None
    conditions: Conditions = field(default_factory=Conditions)
    version: int | None = None
    as_of_ms: int | None = None
    starting: int | None = None
    ending: int | None = None
    interval_ms: int | None = None
    skips_changes: bool = False
    split_bytes: int = _SPLIT_BYTES
    in_utc: bool = False


class LakeSourceBuilder:
    """Says what is read of a table; each method returns the builder."""

    def __init__(self) -> None:
        self._columns: tuple[str, ...] | None = None
        self._conditions: tuple[Any, ...] = ()
        self._version: int | None = None
        self._as_of_ms: int | None = None
        self._starting: int | None = None
        self._ending: int | None = None
        self._interval_ms: int | None = None
        self._skips_changes = False
        self._split_bytes = _SPLIT_BYTES
        self._in_utc = False

    def set_columns(self, *columns: str) -> Self:
        """Read these columns only, in this order; by default all.

        Raises:
            ConfigurationError: If there is none, or one twice.
        """
        if not columns or len(set(columns)) < len(columns):
            raise ConfigurationError(f"columns {list(columns)} of a table are to be read: name each once")
        self._columns = columns
        return self

    def set_filter(self, *conditions: tuple[Any, ...]) -> Self:
        """Read the rows that fulfil all conditions: `("cents", ">", 5), ("shop", "in", ["north", "south"])`.

        Operators are `=`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `not in`, and without a value `is null`, `is not null`.
        Null fulfils none of the others. Files whose partition or statistics show that they hold no such row are not
        opened.

        Raises:
            ConfigurationError: If one is no condition.
        """
        parse_conditions(conditions)
        self._conditions += conditions
        return self

    def set_as_of(self, moment: datetime.datetime | Instant) -> Self:
        """Read the table as it was at a moment; a datetime without zone is in the machine's.

        Raises:
            ConfigurationError: If it is no moment.
        """
        if isinstance(moment, Instant):
            self._as_of_ms = moment.to_epoch_milli()
        elif isinstance(moment, datetime.datetime):
            self._as_of_ms = int(moment.timestamp() * 1000)
        else:
            raise ConfigurationError(f"the table is to be read as of {shorten(moment)}, which is no datetime")
        return self

    def monitor_continuously(self, discovery_interval: Duration) -> Self:
        """Follow the table: look for new versions each `discovery_interval`, without end.

        Raises:
            ConfigurationError: If the interval is not positive.
        """
        interval_ms = to_milliseconds(discovery_interval)
        if interval_ms <= 0:
            raise ConfigurationError(f"discovery interval is {interval_ms} ms, must be positive")
        self._interval_ms = interval_ms
        return self

    def set_skip_changes(self) -> Self:
        """Leave out versions that overwrite, update or delete rows; by default they fail the job."""
        self._skips_changes = True
        return self

    def set_split_size(self, size_bytes: int) -> Self:
        """Have files that are larger read in parts of about so many bytes, by row groups; by default 128 MiB.

        Raises:
            ConfigurationError: If the size is not positive.
        """
        self._split_bytes = positive("split size", size_bytes)
        return self

    def set_utc_timestamps(self) -> Self:
        """Give moments (`TIMESTAMP_LTZ`) as datetimes in UTC; by default in the machine's local zone."""
        self._in_utc = True
        return self

    def _reading(self, version: str, starting: str, ending: str) -> Reading:
        """Return what was asked for.

        Args:
            version: The method that names a version, for messages.
            starting: The one that names what is read since.
            ending: The one that names the last.

        Raises:
            ConfigurationError: If two settings exclude each other.
        """
        has_moment = self._as_of_ms is not None
        pairs = (
            (version, self._version is not None, "set_as_of", has_moment),
            (starting, self._starting is not None, version, self._version is not None),
            (starting, self._starting is not None, "set_as_of", has_moment),
            (ending, self._ending is not None, "monitor_continuously", self._interval_ms is not None),
        )
        for one, is_one, other, is_other in pairs:
            if is_one and is_other:
                raise ConfigurationError(
                    f"{one} and {other} exclude each other", hint="Leave one of them out."
                )
        if self._ending is not None and self._starting is None:
            raise ConfigurationError(
                f"{ending} is without {starting}", hint=f"Name the first one by {starting}."
            )
        return Reading(
            self._columns,
            parse_conditions(self._conditions),
            self._version,
            self._as_of_ms,
            self._starting,
            self._ending,
            self._interval_ms,
            self._skips_changes,
            self._split_bytes,
            self._in_utc,
        )
