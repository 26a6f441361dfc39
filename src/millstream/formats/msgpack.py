"""Rows as MessagePack: maps by field name; made by msgspec, which is always there.

Bytes are MessagePack's, points in time its timestamps (in UTC), so that both come back as they were; dates, times of
day and decimals are text.
"""

from __future__ import annotations

import datetime
from typing import Any

import msgspec

from millstream.base.errors import (
    ConfigurationError,
    MalformedRecordError,
    NotSupportedError,
    TypeMismatchError,
    shorten,
)
from millstream.base.time import Instant
from millstream.spi.serialization import DeserializationSchema, SerializationSchema
from millstream.types.basic import BasicTypeInfo
from millstream.types.composite import (
    ExternalTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    TupleTypeInfo,
    _SequenceTypeInfo,
)
from millstream.types.row import Row
from millstream.types.row_text import Converter, scalar_reader, scalar_writer
from millstream.types.typeinfo import RowTypeInfo, TypeInformation

__all__ = ["MessagePackRowDeserializationSchema", "MessagePackRowSerializationSchema"]

_MOMENTS = ("SQL_TIMESTAMP", "LOCAL_DATE_TIME")


class MessagePackRowDeserializationSchema(DeserializationSchema):
    """MessagePack's maps, by field name, or arrays, by position, into rows.

    Fields that a map lacks are None, those that the type has not are left out.

    >>> import msgspec
    >>> from millstream.datastream.formats.msgpack import MessagePackRowDeserializationSchema
    >>> from millstream.types.typeinfo import Types
    >>> kind = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
    >>> MessagePackRowDeserializationSchema(kind).deserialize(msgspec.msgpack.encode({"name": "a", "id": 1}))
    Row(id=1, name='a')

    Args:
        type_info: Type of the rows.

    Raises:
        ConfigurationError: If it is no type of rows.
        NotSupportedError: If a type has no form in MessagePack.
    """

    def __init__(self, type_info: TypeInformation) -> None:
        self._type_info = _check(type_info)
        self._read = _reader(type_info)
        self._parse = msgspec.msgpack.Decoder().decode

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._type_info

    def deserialize(self, message: bytes) -> Any:
        """Return the row of a message.

        Raises:
            MalformedRecordError: If it does not parse or fit.
        """
        try:
            return self._read(self._parse(message))
        except (msgspec.MsgspecError, ValueError, TypeError, ArithmeticError, AttributeError) as error:
            raise MalformedRecordError(
                f"message {shorten(message)} does not fit {self._type_info.describe()}: {error}"
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return MessagePackRowDeserializationSchema, (self._type_info,)


class MessagePackRowSerializationSchema(SerializationSchema):
    r"""Rows into MessagePack's maps.

    >>> from millstream.common import Row
    >>> from millstream.datastream.formats.msgpack import MessagePackRowSerializationSchema
    >>> from millstream.types.typeinfo import Types
    >>> kind = Types.ROW_NAMED(["id"], [Types.INT()])
    >>> MessagePackRowSerializationSchema(kind).serialize(Row(1))
    b'\x81\xa2id\x01'

    Args:
        type_info: Type of the rows.

    Raises:
        ConfigurationError: If it is no type of rows.
        NotSupportedError: If a type has no form in MessagePack.
    """

    def __init__(self, type_info: TypeInformation) -> None:
        self._type_info = _check(type_info)
        self._write = _writer(type_info)
        self._encode = msgspec.msgpack.Encoder(decimal_format="string").encode

    def serialize(self, value: Any) -> bytes:
        """Return a row's message.

        Raises:
            TypeMismatchError: If it does not fit.
        """
        if self._type_info.find_mismatch([value]) is not None:
            raise TypeMismatchError(f"value {shorten(value)} does not fit {self._type_info.describe()}")
        try:
            return self._encode(self._write(value))
        except (OverflowError, TypeError, ValueError) as error:
            raise TypeMismatchError(f"row {shorten(value)} has no form in MessagePack: {error}") from error

    def __reduce__(self) -> tuple[Any, ...]:
        return MessagePackRowSerializationSchema, (self._type_info,)


def _check(type_info: TypeInformation) -> RowTypeInfo:
    if not isinstance(type_info, RowTypeInfo):
        raise ConfigurationError(
            f"MessagePack rows were given the type {type_info!r}", hint="Use Types.ROW_NAMED."
        )
    return type_info


def _reader(kind: TypeInformation) -> Converter:
    """Return what makes a value of a type from what msgspec parsed; None stays None."""
    if isinstance(kind, ExternalTypeInfo):
        return _reader(kind._type_info)
    if isinstance(kind, BasicTypeInfo):
        return _scalar(kind)
    if isinstance(kind, RowTypeInfo):
        names = tuple(kind.get_field_names())
        fields = [(name, _reader(part)) for name, part in zip(names, kind.get_field_types(), strict=True)]
        return _nullable(lambda parsed: Row.of(names, _row_values(fields, parsed)))
    if isinstance(kind, TupleTypeInfo):
        parts = [_reader(part) for part in kind.get_field_types()]
        return _nullable(lambda values: tuple(read(v) for read, v in zip(parts, _list(values), strict=True)))
    if isinstance(kind, MapTypeInfo):
        key, value = _reader(kind._key_type), _reader(kind._value_type)
        return _nullable(lambda items: {key(k): value(v) for k, v in items.items()})
    if _is_bytes(kind):
        return _nullable(_bytes)
    if isinstance(kind, _SequenceTypeInfo):
        element = _reader(kind._element_type)
        return _nullable(lambda values: [element(value) for value in _list(values)])
    raise NotSupportedError(f"type {kind.describe()} has no form in MessagePack")


def _scalar(kind: BasicTypeInfo) -> Converter:
    read = scalar_reader(kind)
    if read is None:
        raise NotSupportedError(f"type {kind.describe()} has no form in MessagePack")
    if kind.name in _MOMENTS:
        return _nullable(
            lambda value: _without_zone(value) if isinstance(value, datetime.datetime) else read(value)
        )
    if kind.name == "INSTANT":
        return _nullable(
            lambda value: _instant(value) if isinstance(value, datetime.datetime) else read(value)
        )
    return _nullable(read)


def _row_values(fields: list[tuple[str, Converter]], parsed: Any) -> list[Any]:
    if isinstance(parsed, dict):
        return [read(parsed.get(name)) for name, read in fields]
    if isinstance(parsed, list) and len(parsed) == len(fields):
        return [read(value) for (_, read), value in zip(fields, parsed, strict=True)]
    raise ValueError(f"{shorten(parsed)} is no map, and no array of {len(fields)} values")


def _writer(kind: TypeInformation) -> Converter:
    """Return what makes what msgspec encodes of a value of a type; None stays None."""
    if isinstance(kind, ExternalTypeInfo):
        return _writer(kind._type_info)
    if isinstance(kind, BasicTypeInfo):
        if kind.name in _MOMENTS:
            return _nullable(lambda value: value.replace(tzinfo=datetime.UTC))
        if kind.name == "INSTANT":
            return _nullable(_moment)
        write = str if kind.name == "BIG_DEC" else scalar_writer(kind)
        assert write is not None, "a basic type with parts"
        return _nullable(write)
    if isinstance(kind, RowTypeInfo):
        names = kind.get_field_names()
        parts = [_writer(part) for part in kind.get_field_types()]
        return _nullable(
            lambda row: {
                name: write(value)
                for name, write, value in zip(names, parts, kind._in_order(row), strict=True)
            }
        )
    if isinstance(kind, TupleTypeInfo):
        parts = [_writer(part) for part in kind.get_field_types()]
        return _nullable(lambda values: [write(v) for write, v in zip(parts, values, strict=True)])
    if isinstance(kind, MapTypeInfo):
        key, value = _writer(kind._key_type), _writer(kind._value_type)
        return _nullable(lambda items: {key(k): value(v) for k, v in items.items()})
    if _is_bytes(kind):
        return _nullable(bytes)
    if isinstance(kind, _SequenceTypeInfo):
        element = _writer(kind._element_type)
        return _nullable(lambda values: [element(value) for value in values])
    raise NotSupportedError(f"type {kind.describe()} has no form in MessagePack")


def _is_bytes(kind: TypeInformation) -> bool:
    return isinstance(kind, PrimitiveArrayTypeInfo) and kind._element_type.describe() == "BYTE"


def _nullable(convert: Converter) -> Converter:
    return lambda value: None if value is None else convert(value)


def _list(values: Any) -> list[Any]:
    if not isinstance(values, list):
        raise ValueError(f"{shorten(values)} is no array")
    return values


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError(f"{shorten(value)} is no bytes")
    return value


def _without_zone(moment: datetime.datetime) -> datetime.datetime:
    return moment if moment.tzinfo is None else moment.astimezone(datetime.UTC).replace(tzinfo=None)


def _instant(moment: datetime.datetime) -> Instant:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)
    since = aware - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return Instant(since.days * 86_400 + since.seconds, since.microseconds * 1000)


def _moment(instant: Instant) -> datetime.datetime:
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return epoch + datetime.timedelta(seconds=instant.seconds, microseconds=instant.nanos // 1000)
