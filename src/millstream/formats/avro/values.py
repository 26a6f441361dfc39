"""Values between Avro's, as fastavro has them, and the pipeline's: dicts and rows, moments with and without zone."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from millstream.base.errors import TypeMismatchError, shorten
from millstream.base.time import Instant
from millstream.formats.avro.schema import AvroSchema, Named, kind_of, resolve, sole_branch
from millstream.types.row import Row, rows_of

__all__ = ["RecordReader", "value_writer"]

_Convert = Callable[[Any], Any]
_MOMENTS = ("timestamp-millis", "timestamp-micros")


class RecordReader:
    """Makes rows of what fastavro read by a schema.

    Texts, numbers, dates and bytes are as they are; moments come in UTC, without zone. Values of unions of several
    types are as fastavro gives them.

    Args:
        schema: Of the records.
        as_rows: Whether records become rows; if not, they stay dicts.
    """

    def __init__(self, schema: AvroSchema, *, as_rows: bool = True) -> None:
        self._as_rows = as_rows
        self._named = schema.named
        self._known: dict[str, _Convert | None] = {}
        self._root = schema.root
        self._convert = self._reader(self._root)

    def read_all(self, values: Sequence[Any]) -> list[Any]:
        """Return the records of values."""
        convert = self._convert
        if isinstance(convert, _FlatRow):
            return convert.rows(values)
        return list(values) if convert is None else list(map(convert, values))

    def _reader(self, schema: Any) -> _Convert | None:
        """Return what makes a value of what fastavro gives; None if that is the value itself."""
        schema = resolve(schema, self._named)
        if isinstance(schema, list):
            branch = sole_branch(schema)
            return None if branch is None else _nullable(self._reader(branch))
        kind, logical = kind_of(schema)
        if kind in ("record", "error"):
            return self._record(schema)
        if kind == "array":
            item = self._reader(schema["items"])
            return None if item is None else lambda values: list(map(item, values))
        if kind == "map":
            value = self._reader(schema["values"])
            return None if value is None else lambda items: {key: value(each) for key, each in items.items()}
        if logical in _MOMENTS:
            return _without_zone
        return str if logical == "uuid" else None

    def _record(self, schema: Any) -> _Convert | None:
        name = schema["name"]
        if name in self._known:  # a type that holds itself, or that is used twice
            return self._known[name] if self._known[name] is not None else self._later(name)
        self._known[name] = None
        names = tuple(field["name"] for field in schema["fields"])
        readers = [self._reader(field["type"]) for field in schema["fields"]]
        self._known[name] = made = self._row(names, readers) if self._as_rows else _changed(names, readers)
        return made

    def _later(self, name: str) -> _Convert:
        def convert(value: Any) -> Any:
            found = self._known[name]
            return value if found is None else found(value)

        return convert

    def _row(self, names: tuple[str, ...], readers: list[_Convert | None]) -> _Convert:
        if any(readers):
            pairs = [(name, read or _same) for name, read in zip(names, readers, strict=True)]
            return lambda record: Row.of(names, [read(record[name]) for name, read in pairs])
        if len(names) > 1:
            return _FlatRow(names)
        return lambda record: Row.of(names, [record[name] for name in names])


class _FlatRow:
    """Makes rows whose values are as fastavro gives them, many at a time where there are many."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self._values = itemgetter(*names)  # in the order of this schema, whatever order they were written in

    def __call__(self, record: Any) -> Row:
        return rows_of(self._names, (self._values(record),))[0]

    def rows(self, records: Sequence[Any]) -> list[Any]:
        return rows_of(self._names, map(self._values, records))


def value_writer(schema: AvroSchema) -> _Convert:
    """Return what makes fastavro's value of a record: a Row, dict, tuple or list.

    It raises a TypeMismatchError for what is no record of the schema, as far as fastavro would not say so.
    """
    return _Writers(schema).root


class _Writers:
    def __init__(self, schema: AvroSchema) -> None:
        self._named: Named = schema.named
        self._known: dict[str, _Convert | None] = {}
        self.root: _Convert = self._writer(schema.root) or _same

    def _writer(self, schema: Any) -> _Convert | None:
        schema = resolve(schema, self._named)
        if isinstance(schema, list):
            branch = sole_branch(schema)
            return _plain if branch is None else _nullable(self._writer(branch))
        kind, logical = kind_of(schema)
        if kind in ("record", "error"):
            return self._record(schema)
        if kind == "array":
            item = self._writer(schema["items"]) or _same
            return lambda values: [item(value) for value in values]
        if kind == "map":
            value = self._writer(schema["values"]) or _same
            return lambda items: {key: value(each) for key, each in items.items()}
        if logical in _MOMENTS:
            return _in_utc
        if kind == "int" and not logical:
            return _int32
        return None

    def _record(self, schema: Any) -> _Convert:
        name = schema["name"]
        if name in self._known:
            known = self._known
            return lambda value: (known[name] or _same)(value)
        self._known[name] = None
        names = tuple(field["name"] for field in schema["fields"])
        writers = [self._writer(field["type"]) or _same for field in schema["fields"]]
        self._known[name] = made = _record_writer(name, names, writers)
        return made


def _record_writer(name: str, names: tuple[str, ...], writers: list[_Convert]) -> _Convert:
    pairs = dict(zip(names, writers, strict=True))
    # What fields are called that a type did not name: they are meant by their places, as in Flink.
    unnamed = tuple(f"f{place}" for place in range(len(names)))

    def write(value: Any) -> dict[str, Any]:
        if isinstance(value, Row):
            fields = value._fields
            if fields is not None and fields != names and tuple(fields) != unnamed:
                return write(value.as_dict())
            value = tuple(value)
        if isinstance(value, dict):
            unknown = value.keys() - pairs.keys()
            if unknown:
                raise TypeMismatchError(
                    f"Avro record {name!r} has no field {sorted(map(str, unknown))[0]!r}",
                    detail=f"Its fields: {', '.join(names)}.",
                )
            return {
                key: pairs[key](each) for key, each in value.items()
            }  # what is missing has a default, perhaps
        if not isinstance(value, (tuple, list)) or len(value) != len(names):
            raise TypeMismatchError(f"value {shorten(value)} is no Avro record {name!r}: {', '.join(names)}")
        return {key: write(each) for key, write, each in zip(names, writers, value, strict=True)}

    return write


def _changed(names: tuple[str, ...], readers: list[_Convert | None]) -> _Convert | None:
    pairs = [(name, read) for name, read in zip(names, readers, strict=True) if read is not None]
    if not pairs:
        return None

    def change(record: dict[str, Any]) -> dict[str, Any]:
        for name, read in pairs:
            record[name] = read(record[name])
        return record

    return change


def _nullable(convert: _Convert | None) -> _Convert | None:
    return None if convert is None else lambda value: None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value


def _plain(value: Any) -> Any:
    """Return a value for a union of several types, of which fastavro finds the one that fits."""
    return value.as_dict(recursive=True) if isinstance(value, Row) else value


def _without_zone(moment: Any) -> Any:
    # What is out of Python's range comes as a number.
    return moment.replace(tzinfo=None) if isinstance(moment, datetime.datetime) else moment


def _in_utc(moment: Any) -> Any:
    """Return a moment as fastavro takes it: it would read one without zone in the machine's."""
    if isinstance(moment, Instant):
        whole = datetime.datetime.fromtimestamp(moment.seconds, datetime.UTC)
        return whole.replace(microsecond=moment.nanos // 1000)
    if isinstance(moment, datetime.datetime) and moment.tzinfo is None:
        return moment.replace(tzinfo=datetime.UTC)
    return moment


def _int32(value: Any) -> Any:
    if type(value) is int and -(1 << 31) <= value < 1 << 31:
        return value
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 31) <= value < 1 << 31:
        raise TypeMismatchError(f"value {shorten(value)} is no int of Avro", detail="It has 32 bits.")
    return value
