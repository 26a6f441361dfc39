"""Entries of keyed state as frames of pandas and Spark, which are imported only when they are asked for."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.common.windows import CountWindow, TimeWindow
from millstream.state_processor.windows import WindowStart
from millstream.types.row import Row

__all__ = ["SparkColumn", "infer", "to_pandas", "to_spark"]

COLUMNS = ("key", "namespace", "value")


def to_pandas(entries: Iterable[tuple[Any, Any, Any]]) -> Any:
    """Return entries as a pandas frame; cells hold the values themselves.

    Raises:
        ConfigurationError: If pandas is not installed.
    """
    try:
        pandas = import_module("pandas")
    except ImportError as error:
        raise ConfigurationError("pandas is not installed", hint="Install it: pip install pandas.") from error
    columns = list(zip(*entries, strict=True)) or [()] * len(COLUMNS)
    series = {
        # Left to itself pandas makes floats of integers where one is missing.
        name: pandas.Series(list(column), dtype=_dtype(column))
        for name, column in zip(COLUMNS, columns, strict=True)
    }
    return pandas.DataFrame(series, columns=list(COLUMNS))


def _dtype(column: Sequence[Any]) -> type | None:
    return object if not column or any(value is None for value in column) else None


def to_spark(session: Any, entries: Iterable[tuple[Any, Any, Any]]) -> Any:
    """Return entries as a Spark DataFrame; see `infer` for the types of its columns."""
    types = import_module("pyspark.sql.types")
    columns = list(zip(*entries, strict=True)) or [()] * len(COLUMNS)
    inferred = [infer(column) for column in columns]
    schema = types.StructType(
        [types.StructField(name, column.type, True) for name, column in zip(COLUMNS, inferred, strict=True)]
    )
    converted = [
        [column.convert(value) for value in values] for column, values in zip(inferred, columns, strict=True)
    ]
    return session.createDataFrame(list(zip(*converted, strict=True)), schema)


@dataclasses.dataclass(frozen=True, slots=True)
class SparkColumn:
    """How values become a column of Spark.

    Attributes:
        type: A `pyspark.sql.types.DataType`.
        convert: Makes what Spark takes of a value.
    """

    type: Any
    convert: Callable[[Any], Any]


def infer(values: Iterable[Any]) -> SparkColumn:
    """Return the type that fits all of some values, text of `repr` if none does.

    ====================================  ==================================================
    Python                                Spark
    ====================================  ==================================================
    bool, int within 64 bits, float       boolean, bigint, double (int and float: double)
    str, bytes                            string, binary
    datetime, date, Decimal               timestamp, date, decimal(38, 18)
    Row, dataclass, tuple, window         struct, of the fields' names or `_1`, `_2`, ...
    list, set; dict                       array; map
    anything else, and mixtures           string: `repr`
    ====================================  ==================================================
    """
    present = [value for value in values if value is not None]
    return _infer(present) or _as_text()


def _infer(present: Sequence[Any]) -> SparkColumn | None:
    types = import_module("pyspark.sql.types")
    if not present:
        return SparkColumn(types.StringType(), lambda value: value)
    kinds = {type(value) for value in present}
    for accepted, build in _SCALARS:
        if kinds <= accepted:
            return build(types, present)
    if kinds <= {list, set, frozenset}:
        element = infer([item for value in present for item in value])
        return _nullable(
            types.ArrayType(element.type), lambda value: [element.convert(item) for item in value]
        )
    if kinds == {dict}:
        return _map_column(types, present)
    return _struct_column(types, present)


def _simple(name: str) -> Callable[[Any, Sequence[Any]], SparkColumn | None]:
    return lambda types, present: SparkColumn(getattr(types, name)(), lambda value: value)


def _long(types: Any, present: Sequence[Any]) -> SparkColumn | None:
    if all(-(2**63) <= value < 2**63 for value in present):
        return SparkColumn(types.LongType(), lambda value: value)
    return None


def _double(types: Any, present: Sequence[Any]) -> SparkColumn | None:
    if all(type(value) is float or abs(value) <= 2**53 for value in present):
        return _nullable(types.DoubleType(), float)
    return None


def _decimal(types: Any, present: Sequence[Any]) -> SparkColumn | None:
    if all(value.is_finite() and _fits_decimal(value) for value in present):
        return SparkColumn(types.DecimalType(38, 18), lambda value: value)
    return None


def _fits_decimal(value: decimal.Decimal) -> bool:
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= -18 and value.adjusted() < 20


_SCALARS: tuple[tuple[set[type], Callable[[Any, Sequence[Any]], SparkColumn | None]], ...] = (
    ({bool}, _simple("BooleanType")),
    ({int}, _long),
    ({int, float}, _double),
    ({str}, _simple("StringType")),
    ({bytes}, _simple("BinaryType")),
    ({datetime.datetime}, _simple("TimestampType")),
    ({datetime.date}, _simple("DateType")),
    ({decimal.Decimal}, _decimal),
)


def _map_column(types: Any, present: Sequence[dict[Any, Any]]) -> SparkColumn | None:
    keys = infer([key for value in present for key in value])
    values = infer([item for value in present for item in value.values()])
    if any(key is None for value in present for key in value):
        return None  # Spark's maps have no null keys
    return _nullable(
        types.MapType(keys.type, values.type),
        lambda value: {keys.convert(key): values.convert(item) for key, item in value.items()},
    )


def _struct_column(types: Any, present: Sequence[Any]) -> SparkColumn | None:
    structs = [_fields(value) for value in present]
    first = structs[0]
    if first is None or any(each is None or list(each) != list(first) for each in structs):
        return None
    columns = {name: infer([each[name] for each in structs if each is not None]) for name in first}
    schema = types.StructType(
        [types.StructField(name, column.type, True) for name, column in columns.items()]
    )

    def convert(value: Any) -> tuple[Any, ...]:
        fields = _fields(value) or {}
        return tuple(column.convert(fields[name]) for name, column in columns.items())

    return _nullable(schema, convert)


def _fields(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a value that becomes a struct; None for others."""
    if isinstance(value, Row):
        names = value._fields or tuple(f"_{place}" for place in range(1, len(value._values) + 1))
        return dict(zip(names, value._values, strict=True))
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None) or tuple(f"_{place}" for place in range(1, len(value) + 1))
        return dict(zip(names, value, strict=True)) if value else None
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, WindowStart)):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)} or None
    if isinstance(value, TimeWindow):
        return {"start": value.start, "end": value.end}
    if isinstance(value, WindowStart):
        return {"start": value.start}
    if isinstance(value, CountWindow):
        return {"id": value.id}
    return None


def _nullable(kind: Any, convert: Callable[[Any], Any]) -> SparkColumn:
    return SparkColumn(kind, lambda value: None if value is None else convert(value))


def _as_text() -> SparkColumn:
    types = import_module("pyspark.sql.types")
    return _nullable(types.StringType(), repr)
