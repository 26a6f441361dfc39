"""Values of the connector `datagen`: for each type random ones, for some a sequence.

A value depends on its row's number and a seed only, so a replay gives the same rows. Moments do, too: row `n` is of the
time when it is due, `n / rows-per-second` after the source was declared.
"""

from __future__ import annotations

import datetime
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.table.datagen_columns import hashes
from millstream.table.plan.settings import duration_ms
from millstream.types import datatypes as t
from millstream.types.further_types import MultisetType
from millstream.types.row import Row

__all__ = ["Due", "Generator", "Sequence", "column_of", "generator_of", "number_of"]

_STRING = 100
_ELEMENTS = 3
_BITS: tuple[tuple[type[t.DataType], int], ...] = (
    (t.TinyIntType, 8),
    (t.SmallIntType, 16),
    (t.IntType, 32),
    (t.BigIntType, 64),
)
_DAY = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True)
class Due:
    """When rows are due.

    Attributes:
        start_ms: The time of row 0, epoch milliseconds.
        per_second: Rows a second, over all subtasks.
    """

    start_ms: int
    per_second: float

    def of(self, index: int) -> int:
        """Return the time of a row, epoch milliseconds."""
        return self.start_ms + int(index * 1000 / self.per_second)


Generator = Callable[[random.Random, int], Any]
"""Gives a value from what is random of a row, and the row's number."""


@dataclass(frozen=True)
class _Integer:
    low: int
    high: int

    def __call__(self, source: random.Random, index: int) -> Any:
        return source.randint(self.low, self.high)

    def column(self, indices: Any, seed: int) -> Any:
        drawn, span = hashes(indices, seed), self.high - self.low + 1
        if span < 1 << 64:
            drawn %= drawn.dtype.type(span)
        return drawn.view(indices.dtype) + indices.dtype.type(self.low)


@dataclass(frozen=True)
class _Float:
    low: float
    high: float
    single: bool

    def __call__(self, source: random.Random, index: int) -> Any:
        value = source.uniform(self.low, self.high)
        return struct.unpack("<f", struct.pack("<f", value))[0] if self.single else value

    def column(self, indices: Any, seed: int) -> Any:
        drawn = hashes(indices, seed)
        share = (drawn >> drawn.dtype.type(11)) / float(1 << 53)
        # Not low + share * (high - low): the difference of the smallest and the largest number overflows.
        return self.low * (1 - share) + self.high * share


@dataclass(frozen=True)
class _Decimal:
    low: int
    high: int
    scale: int

    def __call__(self, source: random.Random, index: int) -> Any:
        return Decimal(f"{source.randint(self.low, self.high)}e-{self.scale}")


@dataclass(frozen=True)
class _Text:
    length: int
    shorter: bool

    def __call__(self, source: random.Random, index: int) -> Any:
        return "".join(source.choices("0123456789abcdef", k=_length(source, self)))


@dataclass(frozen=True)
class _Bytes:
    length: int
    shorter: bool

    def __call__(self, source: random.Random, index: int) -> Any:
        return source.randbytes(_length(source, self))


def _length(source: random.Random, of: _Text | _Bytes) -> int:
    return source.randint(1, of.length) if of.shorter else of.length


@dataclass(frozen=True)
class _Boolean:
    def __call__(self, source: random.Random, index: int) -> Any:
        return source.random() < 0.5

    def column(self, indices: Any, seed: int) -> Any:
        drawn = hashes(indices, seed)
        return drawn >> drawn.dtype.type(63) == 1


@dataclass(frozen=True)
class _Moment:
    due: Due
    past_ms: int
    kind: str  # of "timestamp", "local", "date", "time"

    def __call__(self, source: random.Random, index: int) -> Any:
        past = source.randint(0, self.past_ms) if self.past_ms else 0
        moment = _DAY + datetime.timedelta(milliseconds=self.due.of(index) - past)
        if self.kind == "date":
            return moment.date()
        if self.kind == "time":
            return moment.time()
        return moment.replace(tzinfo=datetime.UTC) if self.kind == "local" else moment


@dataclass(frozen=True)
class _Array:
    element: Generator
    length: int

    def __call__(self, source: random.Random, index: int) -> Any:
        return [self.element(source, index) for _ in range(self.length)]


@dataclass(frozen=True)
class _Map:
    key: Generator
    value: Generator
    length: int

    def __call__(self, source: random.Random, index: int) -> Any:
        return {self.key(source, index): self.value(source, index) for _ in range(self.length)}


@dataclass(frozen=True)
class _Fields:
    names: tuple[str, ...]
    generators: tuple[Generator, ...]

    def __call__(self, source: random.Random, index: int) -> Any:
        return Row.of(self.names, [generate(source, index) for generate in self.generators])


@dataclass(frozen=True)
class _Nulls:
    rate: float
    inner: Generator

    def __call__(self, source: random.Random, index: int) -> Any:
        missing = source.random() < self.rate
        value = self.inner(source, index)
        return None if missing else value


@dataclass(frozen=True)
class Sequence:
    """Numbers one after another, as values of a type.

    Attributes:
        start: The first.
        end: The last.
        convert: Makes the value of a number.
    """

    start: int
    end: int
    convert: Callable[[int], Any] = int

    def __call__(self, source: random.Random, index: int) -> Any:
        """Return the number of a row."""
        return self.convert(self.start + index)

    def column(self, indices: Any, seed: int) -> Any:
        """Return the numbers of rows, an int64 array as the rows' numbers are."""
        return indices + self.start


def column_of(generator: Generator, kind: t.DataType) -> Callable[[Any, int], Any] | None:
    """Return what makes a generator's values of an array of rows' numbers and a seed; None if only rows can be made."""
    if isinstance(generator, Sequence):
        bits = next((bits for type_, bits in _BITS if isinstance(kind, type_)), None)
        if bits is None or not -(1 << bits - 1) <= generator.start <= generator.end < 1 << bits - 1:
            return None
    column: Callable[[Any, int], Any] | None = getattr(generator, "column", None)
    return column


def generator_of(name: str, kind: t.DataType, options: dict[str, str], due: Due) -> Generator:
    """Return what makes the values of a column; takes its options out of `options`.

    Raises:
        ConfigurationError: If an option does not fit.
        NotSupportedError: If values of the type cannot be made.
    """
    prefix = f"fields.{name}"
    how = options.pop(f"{prefix}.kind", "random")
    if how == "sequence":
        return _sequence(name, kind, options)
    if how != "random":
        raise ConfigurationError(
            f'column "{name}" of type {kind} was given the kind "{how}"', hint="It is random or sequence."
        )
    return _random(_Field(prefix, name, options, due), kind)


@dataclass(frozen=True)
class _Field:
    """A column, or a part of it, with the options that are left.

    Attributes:
        prefix: Of its options.
        name: Of the column.
        options: Those of the table.
        due: When rows are due.
    """

    prefix: str
    name: str
    options: dict[str, str]
    due: Due

    def text(self, suffix: str, default: str = "") -> str:
        """Take an option."""
        return self.options.pop(f"{self.prefix}.{suffix}", default)

    def number(self, suffix: str, default: object) -> float:
        """Take an option that is a number."""
        return number_of(self.text(suffix, str(default)), f"{self.prefix}.{suffix}")

    def length(self, most: int | None, default: int) -> int:
        """Take the length, which is at most that of the type."""
        length = int(self.number("length", default if most is None else most))
        if length < 1 or (most is not None and length > most):
            raise ConfigurationError(
                f'option "{self.prefix}.length" was given {length}',
                detail=f"It is 1 to {most}." if most is not None else "It is 1 or more.",
            )
        return length

    def part(self, suffix: str) -> _Field:
        """Return an element, key, value or field."""
        return _Field(f"{self.prefix}.{suffix}", self.name, self.options, self.due)


def _random(field: _Field, kind: t.DataType) -> Generator:
    rate = field.number("null-rate", 0)
    if not 0 <= rate <= 1:
        raise ConfigurationError(
            f'option "{field.prefix}.null-rate" was given {rate}', detail="It is 0 to 1."
        )
    made = _values(field, kind)
    return _Nulls(rate, made) if rate else made


def _values(field: _Field, kind: t.DataType) -> Generator:
    for classes, make in _MAKERS:
        if isinstance(kind, classes):
            return make(field, kind)
    raise NotSupportedError(f'column "{field.name}": values of type {kind} cannot be generated')


def _integers(field: _Field, kind: t.DataType) -> Generator:
    limit = 1 << (next(bits for type_, bits in _BITS if isinstance(kind, type_)) - 1)
    return _Integer(int(field.number("min", -limit)), int(field.number("max", limit - 1)))


def _floats(field: _Field, kind: t.DataType) -> Generator:
    single = isinstance(kind, t.FloatType)
    most = 3.4e38 if single else 8.9e307
    return _Float(field.number("min", -most), field.number("max", most), single)


def _decimals(field: _Field, kind: Any) -> Generator:
    most = 10**kind.precision - 1

    def bound(suffix: str, default: int) -> int:
        text = field.text(suffix)
        number_of(text or "0", f"{field.prefix}.{suffix}")
        return int(Fraction(text) * 10**kind.scale) if text else default

    return _Decimal(max(bound("min", -most), -most), min(bound("max", most), most), kind.scale)


def _texts(field: _Field, kind: Any) -> Generator:
    if isinstance(kind, t.CharType):
        return _Text(kind.length, False)
    length = field.length(None if kind.length == t.VarCharType.MAX_LENGTH else kind.length, _STRING)
    return _Text(length, field.text("var-len", "false").lower() == "true")


def _binaries(field: _Field, kind: Any) -> Generator:
    if isinstance(kind, t.BinaryType):
        return _Bytes(kind.length, False)
    length = field.length(None if kind.length == t.VarBinaryType.MAX_LENGTH else kind.length, _STRING)
    return _Bytes(length, field.text("var-len", "false").lower() == "true")


def _moments(field: _Field, kind: t.DataType) -> Generator:
    if isinstance(kind, t.DateType):
        return _Moment(field.due, 0, "date")
    if isinstance(kind, t.TimeType):
        return _Moment(field.due, 0, "time")
    past = field.text("max-past", "0")
    local = isinstance(kind, t.LocalZonedTimestampType)
    return _Moment(
        field.due, duration_ms(past, f"{field.prefix}.max-past"), "local" if local else "timestamp"
    )


def _arrays(field: _Field, kind: Any) -> Generator:
    return _Array(_random(field.part("element"), kind.element_type), field.length(None, _ELEMENTS))


def _maps(field: _Field, kind: Any) -> Generator:
    keys, values = _random(field.part("key"), kind.key_type), _random(field.part("value"), kind.value_type)
    return _Map(keys, values, field.length(None, _ELEMENTS))


def _multisets(field: _Field, kind: Any) -> Generator:
    elements = _random(field.part("element"), kind.element_type)
    return _Map(elements, _Integer(1, _ELEMENTS), field.length(None, _ELEMENTS))


def _rows(field: _Field, kind: Any) -> Generator:
    names = tuple(kind.field_names())
    parts = zip(names, kind.field_types(), strict=True)
    return _Fields(names, tuple(_random(field.part(name), each) for name, each in parts))


def _booleans(field: _Field, kind: t.DataType) -> Generator:
    return _Boolean()


_MAKERS: tuple[tuple[Any, Callable[[_Field, Any], Generator]], ...] = (
    (tuple(type_ for type_, _ in _BITS), _integers),
    (t.DoubleType, _floats),
    (t.DecimalType, _decimals),
    (t.BooleanType, _booleans),
    (t.VarCharType, _texts),
    (t.VarBinaryType, _binaries),
    ((t.DateType, t.TimeType, t.TimestampType), _moments),
    (MultisetType, _multisets),
    (t.ArrayType, _arrays),
    (t.MapType, _maps),
    (t.RowType, _rows),
)

_CONVERSIONS: tuple[tuple[Any, Callable[[int], Any]], ...] = (
    (tuple(type_ for type_, _ in _BITS), int),
    (t.DoubleType, float),
    (t.DecimalType, Decimal),
    (t.VarCharType, str),
)


def _sequence(name: str, kind: t.DataType, options: dict[str, str]) -> Generator:
    convert = next((make for classes, make in _CONVERSIONS if isinstance(kind, classes)), None)
    if convert is None:
        raise ConfigurationError(
            f'column "{name}" of type {kind} was given the kind "sequence"',
            detail="Numbers and texts have sequences.",
        )
    bounds = [options.pop(f"fields.{name}.{suffix}", None) for suffix in ("start", "end")]
    if None in bounds:
        raise ConfigurationError(
            f'column "{name}" is a sequence without bounds', hint=f"Set fields.{name}.start and .end."
        )
    start, end = (int(number_of(str(bound), f"fields.{name}.start, .end")) for bound in bounds)
    return Sequence(start, end, convert)


def number_of(text: str, key: str) -> float:
    """Return the number that an option has.

    Raises:
        ConfigurationError: If it is none.
    """
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError as error:
            raise ConfigurationError(
                f'option "{key}" was given "{text}"', detail="It takes a number."
            ) from error
