"""Values of SQL types from and to JSON: what Python's json module reads, and text.

Text is taken where a type has a text form (`"12"` for a number), numbers and objects are taken for text, as in Flink.
Dates, times and timestamps are text, as in CSV files; byte arrays are base64; maps have keys of text.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.base.time import Instant
from millstream.formats.tabulator import Tabulator
from millstream.types import datatypes as types
from millstream.types.java_text import double_text, float_text
from millstream.types.row import Row

__all__ = ["Convert", "FieldError", "RowReader", "new_decoder", "text_writer", "value_reader"]

Convert = Callable[[Any], Any]


class FieldError(ValueError):
    """A value does not fit.

    Attributes:
        path: Where it is in the object: `a.b[3]`.
        reason: Why.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def within(self, part: str) -> FieldError:
        """Return the same, told from one level further out."""
        dot = "." if self.path and not self.path.startswith("[") else ""
        return FieldError(f"{part}{dot}{self.path}", self.reason)


def new_decoder(row_type: types.RowType) -> json.JSONDecoder:
    """Return what parses objects of a type: numbers are exact where there is a DECIMAL."""
    exact = decimal.Decimal if _holds(row_type, types.DecimalType) else None
    return json.JSONDecoder(parse_float=exact, parse_int=_parse_int)


def _parse_int(text: str) -> int | float:
    return -0.0 if text == "-0" else int(text)


def _holds(data_type: types.DataType, kind: type[types.DataType]) -> bool:
    return isinstance(data_type, kind) or any(_holds(part, kind) for part in _parts(data_type))


def _parts(data_type: types.DataType) -> Sequence[types.DataType]:
    if isinstance(data_type, types.RowType):
        return data_type.field_types()
    if isinstance(data_type, types.ArrayType):
        return [data_type.element_type]
    if isinstance(data_type, types.MapType):
        return [data_type.key_type, data_type.value_type]
    return []


# ---- reading ----


class RowReader:
    """Makes the values of a row of a parsed object; fields that the type has not are left out, missing ones are None.

    Raises:
        ConfigurationError: From the constructor, if a type has no JSON form.
    """

    def __init__(self, row_type: types.RowType) -> None:
        self.names = tuple(row_type.field_names())
        self._readers = [(field.name, value_reader(field.data_type)) for field in row_type]

    def __call__(self, value: Any) -> list[Any]:
        """Return the values.

        Raises:
            FieldError: If one does not fit.
        """
        if not isinstance(value, dict):
            raise FieldError("", f"{_shown(value)} is no JSON object")
        values = []
        for name, read in self._readers:
            try:
                values.append(read(value.get(name)))
            except FieldError as error:
                raise error.within(name) from error
            except (ValueError, ArithmeticError) as error:
                raise FieldError(name, str(error)) from error
        return values


def value_reader(data_type: types.DataType) -> Convert:
    """Return what makes a value of a type of parsed JSON.

    Raises:
        ConfigurationError: If the type has no JSON form.
    """
    read = _reader(data_type)
    if data_type.nullable:
        return lambda value: None if value is None else read(value)

    def read_present(value: Any) -> Any:
        if value is None:
            raise ValueError(f"there is no value, the type is {data_type}")
        return read(value)

    return read_present


def _reader(data_type: types.DataType) -> Convert:
    if isinstance(data_type, types.RowType):
        inner = RowReader(data_type)
        return lambda value: Row.of(inner.names, inner(value))
    if isinstance(data_type, types.ArrayType):
        element = value_reader(data_type.element_type)
        return lambda value: _elements(element, value, data_type)
    if isinstance(data_type, types.MapType):
        _check_key(data_type)
        item = value_reader(data_type.value_type)
        return lambda value: _entries(item, value, data_type)
    for kind, make in _READERS:
        if isinstance(data_type, kind):
            return make(data_type)
    raise ConfigurationError(f"type {data_type} has no JSON form")


def _check_key(data_type: types.MapType) -> None:
    if not isinstance(data_type.key_type, types.VarCharType):
        raise ConfigurationError(
            f"type {data_type} has no JSON form", detail="Keys of a JSON object are text.", hint="Use STRING."
        )


def _elements(read: Convert, value: Any, data_type: types.DataType) -> list[Any]:
    if not isinstance(value, list):
        raise _misfit(value, data_type)
    found: list[Any] = []
    for element in value:
        try:
            found.append(read(element))
        except FieldError as error:
            raise error.within(f"[{len(found)}]") from error
        except (ValueError, ArithmeticError) as error:
            raise FieldError(f"[{len(found)}]", str(error)) from error
    return found


def _entries(read: Convert, value: Any, data_type: types.DataType) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _misfit(value, data_type)
    found = {}
    for key, item in value.items():
        try:
            found[key] = read(item)
        except FieldError as error:
            raise error.within(key) from error
        except (ValueError, ArithmeticError) as error:
            raise FieldError(key, str(error)) from error
    return found


def _read_text(data_type: Any) -> Convert:
    def read(value: Any) -> str:
        if not isinstance(value, str):
            value = _as_text(value)
        elif not value.isascii():
            value.encode()  # half a surrogate pair is no text
        return str(data_type.parse(value))

    return read


def _as_text(value: Any) -> str:
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, (dict, list, bool)):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=float)
    return str(value)


def _read_integer(data_type: Any) -> Convert:
    def read(value: Any) -> Any:
        if isinstance(value, str):
            return data_type.parse(value)
        if isinstance(value, bool) or not isinstance(value, (int, float, decimal.Decimal)) or value % 1:
            raise _misfit(value, data_type)
        return data_type.parse(str(int(value)))

    return read


def _read_double(data_type: Any) -> Convert:
    def read(value: Any) -> Any:
        if isinstance(value, str):
            return data_type.parse(value)
        if isinstance(value, bool) or not isinstance(value, (int, float, decimal.Decimal)):
            raise _misfit(value, data_type)
        return float(value)

    return read


def _read_decimal(data_type: Any) -> Convert:
    def read(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, (str, int, float, decimal.Decimal)):
            raise _misfit(value, data_type)
        return data_type.parse(str(value))

    return read


def _read_boolean(data_type: Any) -> Convert:
    return lambda value: value if isinstance(value, bool) else _parsed(data_type, value)


def _read_parsed(data_type: Any) -> Convert:
    return lambda value: _parsed(data_type, value)


def _parsed(data_type: types.DataType, value: Any) -> Any:
    if not isinstance(value, str):
        raise _misfit(value, data_type)
    return data_type.parse(value)


def _read_bytes(data_type: Any) -> Convert:
    def read(value: Any) -> bytes:
        if not isinstance(value, str):
            raise _misfit(value, data_type)
        data = base64.b64decode(value, validate=True)
        if len(data) > data_type.length:
            raise ValueError(f"{len(data)} bytes are more than {data_type.length}")
        return data

    return read


_READERS: list[tuple[type[types.DataType], Callable[[Any], Convert]]] = [
    (types.VarCharType, _read_text),
    (types.BooleanType, _read_boolean),
    (types.DecimalType, _read_decimal),
    (types.DoubleType, _read_double),
    (types.NumericType, _read_integer),
    (types.DateType, _read_parsed),
    (types.TimeType, _read_parsed),
    (types.TimestampType, _read_parsed),
    (types.VarBinaryType, _read_bytes),
]


def _misfit(value: Any, data_type: types.DataType) -> ValueError:
    return ValueError(f"{_shown(value)} is no {data_type}")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=float)
    return text if len(text) <= 60 else text[:57] + "..."


# ---- writing ----


def text_writer(data_type: types.DataType) -> Convert:
    """Return what makes JSON text of a value of a type that is not None.

    Raises:
        ConfigurationError: If the type has no JSON form.
    """
    if isinstance(data_type, types.RowType):
        return _row_writer(data_type)
    if isinstance(data_type, types.ArrayType):
        element = _nullable(text_writer(data_type.element_type))
        return lambda values: f"[{','.join(map(element, values))}]"
    if isinstance(data_type, types.MapType):
        _check_key(data_type)
        item = _nullable(text_writer(data_type.value_type))
        return lambda items: (
            "{" + ",".join(f"{encode_basestring(k)}:{item(v)}" for k, v in items.items()) + "}"
        )
    if isinstance(data_type, types.DecimalType):
        return lambda value: f"{data_type.rounded(value):f}"
    for kind, write in _WRITERS:
        if isinstance(data_type, kind):
            return write
    raise ConfigurationError(f"type {data_type} has no JSON form")


def _row_writer(row_type: types.RowType) -> Convert:
    tabulator = Tabulator(tuple(row_type.field_names()))
    writers = [_nullable(text_writer(part)) for part in row_type.field_types()]
    names = [encode_basestring(name) for name in row_type.field_names()]

    def write(row: Any) -> str:
        parts = zip(names, writers, tabulator.fields(row), strict=True)
        return "{" + ",".join([f"{name}:{write(value)}" for name, write, value in parts]) + "}"

    return write


def _nullable(write: Convert) -> Convert:
    return lambda value: "null" if value is None else write(value)


def _finite(text: Convert) -> Convert:
    return lambda value: text(value) if value - value == 0 else f'"{double_text(value)}"'


def _moment(value: datetime.datetime | Instant) -> str:
    """Return a moment in UTC; a datetime without zone is in the machine's."""
    if isinstance(value, Instant):
        at = datetime.datetime.fromtimestamp(value.seconds, datetime.UTC).replace(
            microsecond=value.nanos // 1000
        )
    else:
        at = value.astimezone(datetime.UTC)
    return f'"{at.replace(tzinfo=None)}Z"'


_WRITERS: list[tuple[type[types.DataType], Convert]] = [
    (types.VarCharType, encode_basestring),
    (types.BooleanType, lambda value: "true" if value else "false"),
    (types.FloatType, _finite(float_text)),
    (types.DoubleType, _finite(double_text)),
    (types.NumericType, str),
    (types.DateType, lambda value: f'"{value}"'),
    (types.TimeType, lambda value: f'"{value}"'),
    (types.LocalZonedTimestampType, _moment),
    (types.TimestampType, lambda value: f'"{value}"'),
    (types.VarBinaryType, lambda value: f'"{base64.b64encode(bytes(value)).decode()}"'),
]
