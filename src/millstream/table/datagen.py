"""Tables of the connector `datagen`: rows of random values or of sequences, as many a second as asked for.

======================================  ================================================================
option                                  meaning
======================================  ================================================================
``rows-per-second``                     over all subtasks; 10000 by default
``number-of-rows``                      rows in all; without it the table has no end
``fields.<name>.kind``                  ``random`` (the default) or ``sequence``
``fields.<name>.min``, ``.max``         bounds of random numbers, both included; those of the type by default
``fields.<name>.length``                of random texts and bytes, 100 by default, or as the type says; of
                                        collections, 3 by default
``fields.<name>.var-len``               whether texts and bytes may be shorter
``fields.<name>.max-past``              how far back moments go at most; 0 by default
``fields.<name>.null-rate``             share of NULLs, 0 to 1
``fields.<name>.start``, ``.end``       of a sequence, both included; the table ends with its shortest one
======================================  ================================================================

Elements have the options ``fields.<name>.element. ...``, keys and values of maps ``.key.`` and ``.value.``, fields of
rows their names.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from millstream.base.clock import SystemClock
from millstream.base.errors import ConfigurationError
from millstream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.table.datagen_columns import Column, ColumnsSource
from millstream.table.datagen_values import Due, Generator, column_of, generator_of, number_of
from millstream.table.datagen_values import Sequence as Numbers
from millstream.table.table_descriptor import TableDescriptor
from millstream.types.row import Row

__all__ = ["build_datagen_columns", "build_datagen_source"]

DEFAULT_RATE = 10_000


@dataclass(frozen=True)
class _Rows:
    names: tuple[str, ...]
    generators: tuple[Generator, ...]
    seed: int

    def __call__(self, index: int) -> Row:
        source = random.Random(self.seed ^ index)
        return Row.of(self.names, [generate(source, index) for generate in self.generators])


def build_datagen_source(descriptor: TableDescriptor) -> DataGeneratorSource:
    """Make the source of a table.

    Raises:
        ConfigurationError: If an option does not fit.
        NotSupportedError: If a column's type cannot be generated.
    """
    generators, count, rate = _declared(descriptor)
    function = _Rows(
        tuple(name for name, _ in descriptor.table_schema.columns), generators, secrets.randbits(64)
    )
    return DataGeneratorSource(function, count, rate)


def build_datagen_columns(descriptor: TableDescriptor, names: Sequence[str]) -> DataGeneratorSource | None:
    """Make a source of some of the columns of a table, in batches f0, f1, ...; None if only rows can be made.

    Raises:
        ConfigurationError, NotSupportedError: As `build_datagen_source`.
    """
    generators, count, rate = _declared(descriptor)
    columns: list[Column] = []
    for place, ((name, kind), generator) in enumerate(
        zip(descriptor.table_schema.columns, generators, strict=True)
    ):
        make = column_of(generator, kind)
        if name in names and make is None:
            return None
        if name in names and make is not None:
            columns.append((make, kind, place))
    columns.sort(key=lambda each: names.index(descriptor.table_schema.columns[each[2]][0]))
    return ColumnsSource(columns, secrets.randbits(64), count, rate)


def _declared(
    descriptor: TableDescriptor,
) -> tuple[tuple[Generator, ...], int | None, RateLimiterStrategy]:
    """Return what makes each column, how many rows there are, and how fast."""
    left = dict(descriptor.options)
    rate = number_of(left.pop("rows-per-second", str(DEFAULT_RATE)), "rows-per-second")
    rows = left.pop("number-of-rows", None)
    count = None if rows is None else int(number_of(rows, "number-of-rows"))
    columns = descriptor.table_schema.columns
    due = Due(SystemClock().now_ms(), rate)
    generators = tuple(generator_of(name, kind, left, due) for name, kind in columns)
    if left:
        raise ConfigurationError(
            f'connector "datagen" was given option "{min(left)}", which it does not have',
            hint="A field has fields.<name>.kind, min, max, length, var-len, max-past, null-rate, start, end.",
        )
    ends = [each.end - each.start + 1 for each in generators if isinstance(each, Numbers)]
    ends += [] if count is None else [count]
    return generators, min(ends, default=None), RateLimiterStrategy.per_second(rate)
