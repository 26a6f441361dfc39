"""Types of records and Arrow's: which stands for which, and what Arrow takes for a value.

===================================  =====================  =====================================================
`Types`                              Arrow                  taken for it as well, when a table is read
===================================  =====================  =====================================================
STRING, CHAR                         string                 large_string, string_view, dictionaries of them
BYTE, SHORT, INT, LONG               int8, 16, 32, 64       uint8, 16, 32 as the next larger one
BIG_INT                              decimal128(38, 0)      uint64
FLOAT, DOUBLE                        float, double          halffloat as FLOAT
BOOLEAN                              bool
PRIMITIVE_ARRAY(BYTE)                binary                 large_binary, binary_view, fixed_size_binary
BIG_DEC                              decimal128(38, 18)     every decimal
SQL_DATE, LOCAL_DATE                 date32                 date64
SQL_TIME, LOCAL_TIME                 time64[us]             every time of day
SQL_TIMESTAMP, LOCAL_DATE_TIME       timestamp[us]          every timestamp without zone
INSTANT                              timestamp[us, UTC]     every timestamp with a zone
OBJECT_ARRAY, LIST and other arrays  list                   large_list, fixed_size_list, list_view
MAP                                  map
ROW, TUPLE                           struct                 fields without names are f0, f1, ...
PICKLED_BYTE_ARRAY, undeclared       what the values are    null, duration
===================================  =====================  =====================================================

Time is kept to the microsecond: nanoseconds are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.base.time import Instant
from millstream.types.arrow_types import load_arrow
from millstream.types.composite import _SequenceTypeInfo
from millstream.types.datatypes import DecimalType
from millstream.types.row import Row
from millstream.types.typeinfo import (
    ExternalTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)

__all__ = ["ArrowForm", "arrow_form", "plain_schema", "plain_value", "row_type_of"]

Encode = Callable[[Any], Any]


# From Arrow


def row_type_of(schema: Any) -> RowTypeInfo:
    """Return the type of the rows of a schema that `plain_schema` gave.

    >>> import pyarrow as pa
    >>> row_type_of(pa.schema([("name", pa.string()), ("ages", pa.list_(pa.int32()))]))
    RowTypeInfo(name: String, ages: ObjectArrayTypeInfo<Integer>)

    Raises:
        ConfigurationError: If a name is there twice, or a column has a type that no type of records stands for.
    """
    return Types.ROW_NAMED(schema.names, [_read(field.name, field.type)[0] for field in schema])


def plain_schema(schema: Any) -> Any:
    """Return the schema that a table is cast to, so that its values are those of the types of `row_type_of`.

    Raises:
        ConfigurationError: If a column has a type that no type of records stands for.
    """
    pa = load_arrow("columns")
    return pa.schema([pa.field(field.name, _read(field.name, field.type)[1]) for field in schema])


def _read(name: str, kind: Any) -> tuple[TypeInformation, Any]:
    """Return the type that stands for an Arrow type, and the plain Arrow type."""
    pa = load_arrow("columns")
    is_a = pa.types
    simple = _READ.get(str(kind))
    if simple is not None:
        return simple[0], getattr(pa, simple[1])()
    if is_a.is_fixed_size_binary(kind):
        return _BYTES, pa.binary()
    if is_a.is_decimal(kind):
        return Types.BIG_DEC(), kind
    if is_a.is_time(kind):
        return Types.SQL_TIME(), pa.time64("us")
    if is_a.is_timestamp(kind):
        if kind.tz is None:
            return Types.SQL_TIMESTAMP(), pa.timestamp("us")
        return Types.INSTANT(), pa.timestamp("us", "UTC")
    if is_a.is_duration(kind):
        return Types.PICKLED_BYTE_ARRAY(), pa.duration("us")
    return _read_composite(name, kind)


def _read_composite(name: str, kind: Any) -> tuple[TypeInformation, Any]:
    pa = load_arrow("columns")
    is_a = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _read(name, kind.storage_type)
    if is_a.is_dictionary(kind):
        return _read(name, kind.value_type)
    if is_a.is_struct(kind):
        parts = [_read(f"{name}.{field.name}", field.type) for field in kind]
        names = [field.name for field in kind]
        fields = [pa.field(each, plain) for each, (_, plain) in zip(names, parts, strict=True)]
        return Types.ROW_NAMED(names, [part for part, _ in parts]), pa.struct(fields)
    if is_a.is_map(kind):
        key, item = _read(f"{name}.key", kind.key_type), _read(f"{name}.value", kind.item_type)
        return Types.MAP(key[0], item[0]), pa.map_(key[1], item[1])
    if _is_some_list(is_a, kind):
        element = _read(f"{name}.element", kind.value_type)
        return Types.OBJECT_ARRAY(element[0]), pa.list_(element[1])
    raise ConfigurationError(
        f"column {name!r} has the Arrow type {kind}, which no type of records stands for",
        hint="Cast the column to another type, or leave it out.",
    )


def _is_some_list(is_a: Any, kind: Any) -> bool:
    checks = ("is_list", "is_large_list", "is_fixed_size_list", "is_list_view", "is_large_list_view")
    return any(getattr(is_a, check)(kind) for check in checks if hasattr(is_a, check))


_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
_READ: dict[str, tuple[TypeInformation, str]] = {
    "int8": (Types.BYTE(), "int8"),
    "int16": (Types.SHORT(), "int16"),
    "int32": (Types.INT(), "int32"),
    "int64": (Types.LONG(), "int64"),
    "uint8": (Types.SHORT(), "int16"),
    "uint16": (Types.INT(), "int32"),
    "uint32": (Types.LONG(), "int64"),
    "uint64": (Types.BIG_INT(), "uint64"),
    "halffloat": (Types.FLOAT(), "float32"),
    "float": (Types.FLOAT(), "float32"),
    "double": (Types.DOUBLE(), "float64"),
    "bool": (Types.BOOLEAN(), "bool_"),
    "string": (Types.STRING(), "string"),
    "large_string": (Types.STRING(), "string"),
    "string_view": (Types.STRING(), "string"),
    "binary": (_BYTES, "binary"),
    "large_binary": (_BYTES, "binary"),
    "binary_view": (_BYTES, "binary"),
    "date32[day]": (Types.SQL_DATE(), "date32"),
    "date64[ms]": (Types.SQL_DATE(), "date32"),
    "null": (Types.PICKLED_BYTE_ARRAY(), "null"),
}


# To Arrow


@dataclass(frozen=True, slots=True)
class ArrowForm:
    """How values of a type are in a column.

    Attributes:
        kind: The Arrow type; None if it is what the values are.
        encode: Makes what Arrow takes of a value that is not None; None if that is the value itself.
    """

    kind: Any
    encode: Encode | None = None

    def encoded(self, value: Any) -> Any:
        """Return what Arrow takes for a value."""
        return value if self.encode is None or value is None else self.encode(value)


def arrow_form(type_info: TypeInformation | None) -> ArrowForm:
    """Return how values of a type are in a column; None is a type that was not declared."""
    if isinstance(type_info, ExternalTypeInfo):
        return arrow_form(type_info._type_info)
    if isinstance(type_info, PrimitiveArrayTypeInfo) and type_info == _BYTES:
        return ArrowForm(load_arrow("columns").binary(), _bytes)
    if isinstance(type_info, _SequenceTypeInfo):
        return _list_form(arrow_form(type_info._element_type))
    if isinstance(type_info, MapTypeInfo):
        return _map_form(arrow_form(type_info._key_type), arrow_form(type_info._value_type))
    if isinstance(type_info, RowTypeInfo):
        parts = [arrow_form(each) for each in type_info.get_field_types()]
        return _struct_form(type_info.get_field_names(), parts, type_info._in_order)
    if isinstance(type_info, TupleTypeInfo):
        parts = [arrow_form(each) for each in type_info.get_field_types()]
        return _struct_form([f"f{place}" for place in range(len(parts))], parts, tuple)
    made = None if type_info is None else _WRITTEN.get(type_info.describe())
    if made is None:
        return _INFERRED
    name, arguments, encode = made
    return ArrowForm(getattr(load_arrow("columns"), name)(*arguments), encode)


def plain_value(value: Any) -> Any:
    """Return what Arrow takes for a value of which nothing is declared: rows and tuples are structs."""
    if isinstance(value, Row):
        names = value._fields or _numbered(len(value))
        return {name: plain_value(part) for name, part in zip(names, value, strict=False)}
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None) or _numbered(len(value))
        return {name: plain_value(part) for name, part in zip(names, value, strict=True)}
    if isinstance(value, Mapping):
        return {name: plain_value(part) for name, part in value.items()}
    if isinstance(value, list):
        return [plain_value(part) for part in value]
    if isinstance(value, Instant):
        return load_arrow("columns").scalar(_microseconds(value), _moment_type())
    return value


def _list_form(element: ArrowForm) -> ArrowForm:
    if element.kind is None:
        return _INFERRED
    encode = element.encoded
    kind = load_arrow("columns").list_(element.kind)
    return ArrowForm(kind, None if element.encode is None else lambda value: [encode(each) for each in value])


def _map_form(key: ArrowForm, item: ArrowForm) -> ArrowForm:
    if key.kind is None or item.kind is None:
        return _INFERRED
    return ArrowForm(
        load_arrow("columns").map_(key.kind, item.kind),
        lambda value: [(key.encoded(each), item.encoded(other)) for each, other in value.items()],
    )


def _struct_form(names: list[str], parts: list[ArrowForm], fields: Callable[[Any], Any]) -> ArrowForm:
    if any(part.kind is None for part in parts):
        return _INFERRED
    pa = load_arrow("columns")

    def encode(value: Any) -> tuple[Any, ...]:
        return tuple(part.encoded(each) for part, each in zip(parts, fields(value), strict=True))

    return ArrowForm(
        pa.struct([pa.field(name, part.kind) for name, part in zip(names, parts, strict=True)]), encode
    )


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"f{place}" for place in range(count))


def _moment_type() -> Any:
    return load_arrow("columns").timestamp("us", "UTC")


def _microseconds(value: Instant) -> int:
    return value.seconds * 1_000_000 + value.nanos // 1000


def _bytes(value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    return bytes(each & 0xFF for each in value)


_INFERRED = ArrowForm(None, plain_value)
_WRITTEN: dict[str, tuple[str, tuple[Any, ...], Encode | None]] = {
    "STRING": ("string", (), None),
    "CHAR": ("string", (), None),
    "BYTE": ("int8", (), None),
    "SHORT": ("int16", (), None),
    "INT": ("int32", (), None),
    "LONG": ("int64", (), None),
    "BIG_INT": ("decimal128", (38, 0), None),
    "FLOAT": ("float32", (), None),
    "DOUBLE": ("float64", (), None),
    "BOOLEAN": ("bool_", (), None),
    "BIG_DEC": ("decimal128", (38, 18), DecimalType(38, 18).rounded),
    "SQL_DATE": ("date32", (), None),
    "LOCAL_DATE": ("date32", (), None),
    "SQL_TIME": ("time64", ("us",), None),
    "LOCAL_TIME": ("time64", ("us",), None),
    "SQL_TIMESTAMP": ("timestamp", ("us",), None),
    "LOCAL_DATE_TIME": ("timestamp", ("us",), None),
    "INSTANT": ("timestamp", ("us", "UTC"), _microseconds),
}
