"""Which directory below a file sink's base path a record belongs in."""

from __future__ import annotations

import datetime
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any
from zoneinfo import ZoneInfo

from millstream.base.errors import ConfigurationError, shorten
from millstream.types.arrow_values import records_of, values_of

__all__ = [
    "BucketAssigner",
    "BucketAssignerContext",
    "KeyedBucketAssigner",
    "check_bucket_id",
    "cut_by_bucket",
    "cut_columns",
    "partition_text",
]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_WHOLE_MINUTES_MS = 94_694_400_000
"""From 1973 on zones are whole minutes away from UTC."""
_MOST_KNOWN = 10_000


class BucketAssignerContext:
    """What an assigner may know besides the record.

    Example:
        >>> from millstream.datastream.connectors.file_system import BucketAssigner, BucketAssignerContext
        >>> context = BucketAssignerContext(now_ms=5_000, watermark_ms=3_000)
        >>> context.set_timestamp(3_600_000)
        >>> BucketAssigner.event_time_bucket_assigner("HH", "UTC").get_bucket_id("tea", context)
        '01'
    """

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
    """Names each record's bucket, a relative path; subclass it for buckets of your own.

    Example:
        >>> from millstream.datastream.connectors.file_system import BucketAssigner
        >>> class ByCountry(BucketAssigner):
        ...     def get_bucket_id(self, element, context):
        ...         return f"country={element['country']}"
        >>> ByCountry().get_bucket_id({"country": "FR"}, None)
        'country=FR'
        >>> BucketAssigner.field_bucket_assigner("country").get_bucket_id({"country": "FR"}, None)
        'country=FR'
    """

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

    @staticmethod
    def event_time_bucket_assigner(
        format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None
    ) -> BucketAssigner:
        """Make buckets by the records' timestamps (millstream's own); arguments as of `date_time_bucket_assigner`.

        Raises:
            ConfigurationError: If the pattern or the zone does not exist; later, if a record has no timestamp.
        """
        return _EventTimeBuckets(format_str, timezone_id)

    @staticmethod
    def field_bucket_assigner(field: str | int) -> BucketAssigner:
        """Make buckets `<field>=<value>` by one field of rows, tuples or dicts (millstream's own).

        None and empty text are `__HIVE_DEFAULT_PARTITION__`; characters that mean something in paths are written `%2F`,
        as Hive and Flink do.

        Args:
            field: Its name, or its position in tuples.
        """
        return _FieldBuckets(field)


class KeyedBucketAssigner(BucketAssigner):
    """Names buckets by a key that many records share, so that a column of them is looked at as a whole."""

    @abstractmethod
    def key_column(self, batch: Any, timestamps: Any | None) -> Any:
        """Return the keys of a `pyarrow.RecordBatch` with its timestamps, a `pyarrow.Int64Array` or None."""

    @abstractmethod
    def bucket_of(self, key: Any) -> str:
        """Return a key's bucket."""


def cut_columns(
    assigner: BucketAssigner, batch: Any, timestamps: Any | None, context: BucketAssignerContext
) -> list[tuple[str, Any]]:
    """Cut a `pyarrow.RecordBatch` by bucket, in one pass; records of a bucket stay in order.

    An assigner that is none of `KeyedBucketAssigner` is asked once for each record, as a row.

    Raises:
        ConfigurationError: If a bucket id is no relative path below the base path.
    """
    import pyarrow as pa  # optional: whoever has a batch has it
    import pyarrow.compute as pc

    buckets = _Buckets()
    if isinstance(assigner, KeyedBucketAssigner):
        numbers = _numbers_by_key(assigner, assigner.key_column(batch, timestamps), buckets)
    else:
        numbers = pa.array(_numbers(assigner, batch, timestamps, context, buckets), pa.int32())
    if len(buckets.ids) == 1:
        return [(buckets.ids[0], batch)]
    order = pc.sort_indices(numbers)  # stable
    counts = {each["values"]: each["counts"] for each in pc.value_counts(numbers).to_pylist()}
    sorted_batch, start, parts = batch.take(order), 0, []
    for number, bucket_id in enumerate(buckets.ids):
        count = counts.get(number, 0)
        if count:
            parts.append((bucket_id, sorted_batch.slice(start, count)))
        start += count
    return parts


class _Buckets:
    """Numbers buckets as they come."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, bucket_id: str) -> int:
        found = self._numbers.get(bucket_id)
        if found is None:
            found = self._numbers[check_bucket_id(bucket_id)] = len(self.ids)
            self.ids.append(bucket_id)
        return found


def _numbers_by_key(assigner: KeyedBucketAssigner, keys: Any, buckets: _Buckets) -> Any:
    import pyarrow as pa  # optional: whoever has a batch has it

    kind = keys.type
    if pa.types.is_dictionary(kind):
        keys, kind = keys.cast(kind.value_type), kind.value_type
    if pa.types.is_nested(kind) or pa.types.is_floating(kind):  # 0.0 and -0.0 are two texts
        return pa.array([buckets.number(assigner.bucket_of(key)) for key in values_of(keys)], pa.int32())
    encoded = keys.dictionary_encode(null_encoding="encode")
    by_key = [buckets.number(assigner.bucket_of(key)) for key in values_of(encoded.dictionary)]
    return pa.array(by_key, pa.int32()).take(encoded.indices)


def _numbers(
    assigner: BucketAssigner,
    batch: Any,
    timestamps: Any | None,
    context: BucketAssignerContext,
    buckets: _Buckets,
) -> Iterator[int]:
    stamps: Iterable[int | None] = repeat(None) if timestamps is None else timestamps.to_pylist()
    for value, context._timestamp in zip(records_of(batch), stamps, strict=timestamps is not None):
        yield buckets.number(assigner.get_bucket_id(value, context))


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
        return _time_text(now_ms, self._format, self._zone)


def _time_text(at_ms: int, parts: Sequence[str | tuple[str, int]], zone: datetime.tzinfo | None) -> str:
    utc = _EPOCH + datetime.timedelta(seconds=at_ms // 1000)
    moment = utc.astimezone(zone).replace(microsecond=at_ms % 1000 * 1000)
    return "".join(part if isinstance(part, str) else _FIELDS[part[0]](moment, part[1]) for part in parts)


class _EventTimeBuckets(KeyedBucketAssigner):
    def __init__(self, format_str: str, timezone_id: str | None) -> None:
        self._format = _translate(format_str)
        self._zone = None if timezone_id is None else _zone(timezone_id)
        letters = {part[0] for part in self._format if not isinstance(part, str)}
        self._unit_ms = 1 if "S" in letters else 1_000 if "s" in letters else 60_000
        self._known: dict[int, str] = {}

    def get_bucket_id(self, element: Any, context: BucketAssignerContext) -> str:
        at_ms = context.timestamp()
        if at_ms is None:
            raise self._no_timestamp()
        return self.bucket_of(at_ms - at_ms % self._unit(at_ms))

    def key_column(self, batch: Any, timestamps: Any | None) -> Any:
        import pyarrow as pa  # optional: whoever has a batch has it
        import pyarrow.compute as pc

        if timestamps is None:
            raise self._no_timestamp()
        earliest = pc.min(timestamps).as_py()
        unit_ms = self._unit(_WHOLE_MINUTES_MS if earliest is None else earliest)
        units = pc.floor(pc.divide(timestamps.cast(pa.float64()), float(unit_ms)))
        return pc.multiply(units.cast(pa.int64()), unit_ms)

    def bucket_of(self, key: Any) -> str:
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[key] = _time_text(key, self._format, self._zone)
        return found

    def _unit(self, earliest_ms: int) -> int:
        """Return so many milliseconds that all times within such a unit have the same text."""
        return self._unit_ms if earliest_ms >= _WHOLE_MINUTES_MS else min(self._unit_ms, 1_000)

    def _no_timestamp(self) -> ConfigurationError:
        return ConfigurationError(
            "buckets by event time were asked for records without timestamps",
            hint="Assign timestamps before the sink, with a WatermarkStrategy.",
        )


class _FieldBuckets(KeyedBucketAssigner):
    def __init__(self, field: str | int) -> None:
        self._field = field
        self._known: dict[tuple[type, Any], str] = {}

    def get_bucket_id(self, element: Any, context: BucketAssignerContext) -> str:
        try:
            value = element[self._field]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ConfigurationError(
                f"record {shorten(element)} has no field {self._field!r} to be put into a bucket by"
            ) from error
        return self.bucket_of(value)

    def key_column(self, batch: Any, timestamps: Any | None) -> Any:
        try:
            return batch.column(self._field)
        except (KeyError, IndexError) as error:
            raise ConfigurationError(
                f"columns {shorten(batch.schema.names)} have no field {self._field!r} to be put into a bucket by"
            ) from error

    def bucket_of(self, key: Any) -> str:
        try:
            found = None if type(key) is float else self._known.get((type(key), key))
        except TypeError:  # a list
            return self._text(key)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[type(key), key] = self._text(key)
        return found

    def _text(self, value: Any) -> str:
        text = "" if value is None else str(value)
        return f"{self._field}={_UNSAFE.sub(_escaped, text) or '__HIVE_DEFAULT_PARTITION__'}"


_UNSAFE = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
"""What Hive and Flink escape in the names of partitions."""


def partition_text(text: str) -> str:
    """Return text as it stands in the name of a partition's directory, as Hive and Flink write it."""
    return _UNSAFE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"


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
    check_bucket_id("".join(part if isinstance(part, str) else "0" for part in parts))
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
