"""Tables of the connector `datagen`: rows of random values or of sequences, as many a second as asked for.

====================================  ==================================================================
option                                meaning
====================================  ==================================================================
``rows-per-second``                   over all subtasks; 10000 by default
``number-of-rows``                    rows in all; without it the table has no end
``fields.<name>.kind``                ``random`` (the default) or ``sequence``
``fields.<name>.min``, ``.max``       bounds of random numbers, both included; those of the type by default
``fields.<name>.length``              of random strings, 100 by default
``fields.<name>.start``, ``.end``     of a sequence, both included; the table ends with its shortest one
====================================  ==================================================================

A value depends on its row's number and a seed only, so a replay gives the same rows.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError, NotSupportedError
from millstream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.table.table_descriptor import TableDescriptor
from millstream.types.datatypes import (
    BigIntType,
    BooleanType,
    DataType,
    DoubleType,
    IntType,
    SmallIntType,
    TinyIntType,
    VarCharType,
)
from millstream.types.row import Row
from millstream.types.typeinfo import TypeInformation, Types

__all__ = ["build_datagen_source", "row_type"]

DEFAULT_RATE = 10_000
_BITS = {TinyIntType: 8, SmallIntType: 16, IntType: 32, BigIntType: 64}
_TYPES: dict[type[DataType], Callable[[], TypeInformation]] = {
    TinyIntType: Types.BYTE,
    SmallIntType: Types.SHORT,
    IntType: Types.INT,
    BigIntType: Types.LONG,
    DoubleType: Types.DOUBLE,
    BooleanType: Types.BOOLEAN,
    VarCharType: Types.STRING,
}

Generator = Callable[[random.Random, int], Any]


@dataclass(frozen=True)
class _RandomInteger:
    low: int
    high: int

    def __call__(self, source: random.Random, index: int) -> Any:
        return source.randint(self.low, self.high)


@dataclass(frozen=True)
class _RandomFloat:
    low: float
    high: float

    def __call__(self, source: random.Random, index: int) -> Any:
        return source.uniform(self.low, self.high)


@dataclass(frozen=True)
class _RandomString:
    length: int

    def __call__(self, source: random.Random, index: int) -> Any:
        return "".join(source.choices("0123456789abcdef", k=self.length))


@dataclass(frozen=True)
class _RandomBoolean:
    def __call__(self, source: random.Random, index: int) -> Any:
        return source.random() < 0.5


@dataclass(frozen=True)
class _Sequence:
    start: int
    end: int

    def __call__(self, source: random.Random, index: int) -> Any:
        return self.start + index


@dataclass(frozen=True)
class _Rows:
    names: tuple[str, ...]
    generators: tuple[Generator, ...]
    seed: int

    def __call__(self, index: int) -> Row:
        source = random.Random(self.seed ^ index)
        return Row.of(self.names, [generate(source, index) for generate in self.generators])


def row_type(descriptor: TableDescriptor) -> TypeInformation:
    """Return the type of a table's rows as a stream has it."""
    names = [name for name, _ in descriptor.table_schema.columns]
    return Types.ROW_NAMED(names, [_type_of(name, kind) for name, kind in descriptor.table_schema.columns])


def build_datagen_source(descriptor: TableDescriptor) -> DataGeneratorSource:
    """Make the source of a table.

    Raises:
        ConfigurationError: If an option does not fit.
        NotSupportedError: If a column's type cannot be generated.
    """
    left = dict(descriptor.options)
    rate = _number(left.pop("rows-per-second", str(DEFAULT_RATE)), "rows-per-second")
    rows = left.pop("number-of-rows", None)
    count = None if rows is None else int(_number(rows, "number-of-rows"))
    columns = descriptor.table_schema.columns
    generators = tuple(_generator(name, kind, left) for name, kind in columns)
    if left:
        raise ConfigurationError(
            f'connector "datagen" was given option "{min(left)}", which it does not have',
            hint="A field's options are fields.<name>.kind, min, max, length, start, end.",
        )
    ends = [each.end - each.start + 1 for each in generators if isinstance(each, _Sequence)]
    ends += [] if count is None else [count]
    function = _Rows(tuple(name for name, _ in columns), generators, secrets.randbits(64))
    return DataGeneratorSource(function, min(ends, default=None), RateLimiterStrategy.per_second(rate))


def _type_of(name: str, kind: DataType) -> TypeInformation:
    for type_, make in _TYPES.items():
        if isinstance(kind, type_):
            return make()
    raise NotSupportedError(f'column "{name}" of type {kind} cannot be generated')


def _generator(name: str, kind: DataType, left: dict[str, str]) -> Generator:
    def option(suffix: str, default: object) -> float:
        return _number(left.pop(f"fields.{name}.{suffix}", str(default)), f"fields.{name}.{suffix}")

    how = left.pop(f"fields.{name}.kind", "random")
    bits = next((bits for type_, bits in _BITS.items() if isinstance(kind, type_)), None)
    if how == "sequence" and bits is not None:
        return _sequence(name, left)
    if how != "random":
        raise ConfigurationError(f'column "{name}" of type {kind} was given the kind "{how}"')
    if bits is not None:
        limit = 1 << (bits - 1)
        return _RandomInteger(int(option("min", -limit)), int(option("max", limit - 1)))
    if isinstance(kind, DoubleType):
        return _RandomFloat(option("min", -1e300), option("max", 1e300))
    if isinstance(kind, VarCharType):
        return _RandomString(int(option("length", 100)))
    _type_of(name, kind)
    return _RandomBoolean()


def _sequence(name: str, left: dict[str, str]) -> Generator:
    bounds = [left.pop(f"fields.{name}.{suffix}", None) for suffix in ("start", "end")]
    if None in bounds:
        raise ConfigurationError(
            f'column "{name}" is a sequence without bounds', hint=f"Set fields.{name}.start and .end."
        )
    start, end = (int(_number(str(bound), f"fields.{name}.start, .end")) for bound in bounds)
    return _Sequence(start, end)


def _number(text: str, key: str) -> float:
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError as error:
            raise ConfigurationError(
                f'option "{key}" was given "{text}"', detail="It takes a number."
            ) from error
