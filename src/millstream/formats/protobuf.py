"""Rows as Protocol Buffers messages; needs protobuf (the extra `protobuf`), loaded when it is used."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from millstream.base.errors import (
    ConfigurationError,
    MalformedRecordError,
    NotSupportedError,
    SourceError,
    TypeMismatchError,
    shorten,
)
from millstream.base.optional import load_package
from millstream.base.time import Instant
from millstream.spi.serialization import DeserializationSchema, SerializationSchema
from millstream.types.row import Row
from millstream.types.typeinfo import TypeInformation, Types

__all__ = ["ProtobufMessage", "ProtobufRowDeserializationSchema", "ProtobufRowSerializationSchema"]

_Convert = Callable[[Any], Any]
_TIMESTAMP = "google.protobuf.Timestamp"


def _load(module: str) -> Any:
    return load_package(f"google.protobuf.{module}", extra="protobuf", what="Protocol Buffers messages")


class ProtobufMessage:
    """A type of messages: its name, and the files that describe it; picklable, unlike classes that are generated.

    Args:
        name: Full name of the message: `org.example.User`.
        descriptor_set: A `FileDescriptorSet` with all files that it needs, as bytes.

    Raises:
        ConfigurationError: If there is no such message in it; if protobuf is not installed.

    Example:
        >>> from millstream.datastream.formats.protobuf import ProtobufMessage
        >>> from google.protobuf.duration_pb2 import Duration  # any class that protoc generated
        >>> ProtobufMessage.of_class(Duration).type_info()
        RowTypeInfo(seconds: Long, nanos: Integer)
    """

    def __init__(self, name: str, descriptor_set: bytes) -> None:
        self._name = name
        self._descriptor_set = descriptor_set
        _ = self.message_class

    @staticmethod
    def of_class(message_class: Any) -> ProtobufMessage:
        """Take a class that `protoc` generated.

        Raises:
            ConfigurationError: If it is none.
        """
        descriptor = getattr(message_class, "DESCRIPTOR", None)
        if descriptor is None or not hasattr(descriptor, "fields_by_name"):
            raise ConfigurationError(
                f"{shorten(message_class)} is no class of Protocol Buffers messages",
                hint="Give a class that protoc generated.",
            )
        files = _load("descriptor_pb2").FileDescriptorSet()
        _add_file(descriptor.file, files, set())
        return ProtobufMessage(descriptor.full_name, files.SerializeToString())

    @staticmethod
    def of_file(path: str, name: str) -> ProtobufMessage:
        """Take a message of a descriptor set (`protoc --descriptor_set_out=FILE --include_imports`), a local file.

        Raises:
            SourceError: If it cannot be read.
            ConfigurationError: If there is no such message in it.
        """
        try:
            return ProtobufMessage(name, Path(path).read_bytes())
        except OSError as error:
            raise SourceError(f"descriptor set {path!r} cannot be read", detail=str(error)) from error

    @cached_property
    def message_class(self) -> Any:
        """The class of the messages."""
        errors = _load("message")
        try:
            files = _load("descriptor_pb2").FileDescriptorSet.FromString(self._descriptor_set)
            pool = _load("descriptor_pool").DescriptorPool()
            for file in files.file:
                pool.Add(file)
            return _load("message_factory").GetMessageClass(pool.FindMessageTypeByName(self._name))
        except (KeyError, TypeError, ValueError, errors.DecodeError) as error:
            raise ConfigurationError(
                f"the descriptor set has no message {self._name!r}",
                detail=f"{type(error).__name__}: {error}",
                hint="Make it with protoc --include_imports, and give the message's full name: package.Message.",
            ) from error

    def type_info(self) -> TypeInformation:
        """Return the type of the rows.

        Raises:
            NotSupportedError: If the message holds itself.
        """
        return _type_of_message(self.message_class.DESCRIPTOR, ())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProtobufMessage) and (self._name, self._descriptor_set) == (
            other._name,
            other._descriptor_set,
        )

    def __hash__(self) -> int:
        return hash((self._name, self._descriptor_set))

    def __repr__(self) -> str:
        return f"ProtobufMessage({self._name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ProtobufMessage, (self._name, self._descriptor_set)


def _add_file(file: Any, files: Any, known: set[str]) -> None:
    """Add a file behind those that it needs."""
    if file.name in known:
        return
    known.add(file.name)
    for needed in file.dependencies:
        _add_file(needed, files, known)
    file.CopyToProto(files.file.add())


class ProtobufRowDeserializationSchema(DeserializationSchema):
    """Protocol Buffers messages into rows.

    A message, a `oneof`, a wrapper or an `optional` field that is not there is None; other fields have their default
    then. Enumerations are text, `Timestamp` an Instant. Fields that the message does not describe are left out.

    Args:
        message: The type of messages, or a class that `protoc` generated.

    Raises:
        ConfigurationError: If it is none; if protobuf is not installed.
        NotSupportedError: If the message holds itself.

    Example:
        >>> from millstream.datastream.formats.protobuf import ProtobufRowDeserializationSchema
        >>> from google.protobuf.duration_pb2 import Duration  # any class that protoc generated
        >>> reads = ProtobufRowDeserializationSchema(Duration)
        >>> reads.deserialize(Duration(seconds=3, nanos=5).SerializeToString())
        Row(seconds=3, nanos=5)
    """

    def __init__(self, message: Any) -> None:
        self._message = _message_of(message)
        self._type_info = self._message.type_info()
        self._parse = self._message.message_class.FromString
        self._error: type[Exception] = _load("message").DecodeError
        self._read = _message_reader(self._message.message_class.DESCRIPTOR)

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._type_info

    def deserialize(self, message: bytes) -> Any:
        """Return the row of a message.

        Raises:
            MalformedRecordError: If it does not parse.
        """
        try:
            return self._read(self._parse(message))
        except (self._error, ValueError) as error:
            raise MalformedRecordError(
                f"message {shorten(message)} is no {self._message!r}: {error}"
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return ProtobufRowDeserializationSchema, (self._message,)


class ProtobufRowSerializationSchema(SerializationSchema):
    """Rows, or dicts, into Protocol Buffers messages; None leaves a field unset.

    Args:
        message: The type of messages, or a class that `protoc` generated.

    Raises:
        ConfigurationError: If it is none; if protobuf is not installed.
        NotSupportedError: If the message holds itself.

    Example:
        >>> from millstream.datastream.formats.protobuf import ProtobufRowSerializationSchema
        >>> from google.protobuf.duration_pb2 import Duration  # any class that protoc generated
        >>> ProtobufRowSerializationSchema(Duration).serialize({"seconds": 3})
        b'\\x08\\x03'
    """

    def __init__(self, message: Any) -> None:
        self._message = _message_of(message)
        self._message.type_info()
        self._error: type[Exception] = _load("message").EncodeError
        self._names = tuple(field.name for field in self._message.message_class.DESCRIPTOR.fields)

    def serialize(self, value: Any) -> bytes:
        """Return a row's message; equal rows have equal messages.

        Raises:
            TypeMismatchError: If it does not fit.
        """
        message = self._message.message_class()
        try:
            _fill(message, value)
            return bytes(message.SerializeToString(deterministic=True))
        except (self._error, TypeError, ValueError, AttributeError) as error:
            raise TypeMismatchError(
                f"value {shorten(value)} does not fit {self._message!r}: {error}"
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return ProtobufRowSerializationSchema, (self._message,)


def _message_of(given: Any) -> ProtobufMessage:
    return given if isinstance(given, ProtobufMessage) else ProtobufMessage.of_class(given)


# ---- types: numbers are those of google.protobuf.descriptor.FieldDescriptor ----

_DOUBLE, _FLOAT, _UINT64, _FIXED64, _FIXED32, _BOOL, _STRING, _GROUP, _MESSAGE, _BYTES, _UINT32, _ENUM = (
    1, 2, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14,
)  # fmt: skip
_TYPES: dict[int, Callable[[], TypeInformation]] = {
    _DOUBLE: Types.DOUBLE,
    _FLOAT: Types.FLOAT,
    3: Types.LONG,
    _UINT64: Types.BIG_INT,
    5: Types.INT,
    _FIXED64: Types.BIG_INT,
    _FIXED32: Types.LONG,
    _BOOL: Types.BOOLEAN,
    _STRING: Types.STRING,
    _BYTES: lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    _UINT32: Types.LONG,
    _ENUM: Types.STRING,
    15: Types.INT,
    16: Types.LONG,
    17: Types.INT,
    18: Types.LONG,
}


def _is_wrapper(descriptor: Any) -> bool:
    return bool(descriptor.file.name == "google/protobuf/wrappers.proto")


def _is_map(field: Any) -> bool:
    return field.type == _MESSAGE and bool(field.message_type.GetOptions().map_entry)


def _type_of_message(descriptor: Any, within: tuple[str, ...]) -> TypeInformation:
    name = descriptor.full_name
    if name == _TIMESTAMP:
        return Types.INSTANT()
    if _is_wrapper(descriptor):
        return _type_of_value(descriptor.fields_by_name["value"], within)
    if name in within:
        raise NotSupportedError(
            f"message {name!r} holds itself, which no type of rows does",
            hint="Derive a DeserializationSchema of your own.",
        )
    fields = descriptor.fields
    return Types.ROW_NAMED(
        [field.name for field in fields], [_type_of_field(each, (*within, name)) for each in fields]
    )


def _type_of_field(field: Any, within: tuple[str, ...]) -> TypeInformation:
    if _is_map(field):
        parts = field.message_type.fields_by_name
        return Types.MAP(_type_of_value(parts["key"], within), _type_of_value(parts["value"], within))
    value = _type_of_value(field, within)
    return Types.OBJECT_ARRAY(value) if field.is_repeated else value


def _type_of_value(field: Any, within: tuple[str, ...]) -> TypeInformation:
    if field.type in (_MESSAGE, _GROUP):
        return _type_of_message(field.message_type, within)
    return _TYPES[field.type]()


# ---- reading ----


def _message_reader(descriptor: Any) -> _Convert:
    if descriptor.full_name == _TIMESTAMP:
        return lambda message: Instant(message.seconds, message.nanos)
    if _is_wrapper(descriptor):
        return lambda message: message.value
    names = tuple(field.name for field in descriptor.fields)
    readers = [_field_reader(field) for field in descriptor.fields]
    return lambda message: Row.of(names, [read(message) for read in readers])


def _field_reader(field: Any) -> _Convert:
    name = field.name
    if _is_map(field):
        value = _value_reader(field.message_type.fields_by_name["value"])
        return lambda message: {key: value(each) for key, each in getattr(message, name).items()}
    read = _value_reader(field)
    if field.is_repeated:
        return lambda message: [read(each) for each in getattr(message, name)]
    if field.has_presence:
        return lambda message: read(getattr(message, name)) if message.HasField(name) else None
    return lambda message: read(getattr(message, name))


def _value_reader(field: Any) -> _Convert:
    if field.type in (_MESSAGE, _GROUP):
        return _message_reader(field.message_type)
    if field.type == _ENUM:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, str(number))
    return lambda value: value


# ---- writing ----


def _fill(message: Any, value: Any) -> None:
    descriptor = message.DESCRIPTOR
    if descriptor.full_name == _TIMESTAMP:
        if not isinstance(value, Instant):
            raise TypeError(f"{shorten(value)} is no Instant")
        message.seconds, message.nanos = value.seconds, value.nanos
        return
    if _is_wrapper(descriptor):
        message.value = value
        message.SetInParent()
        return
    for name, part in _parts(descriptor, value).items():
        if part is not None:
            _fill_field(message, descriptor.fields_by_name[name], part)


def _parts(descriptor: Any, value: Any) -> dict[str, Any]:
    names = [field.name for field in descriptor.fields]
    if isinstance(value, Row):
        value = dict(zip(value._fields or names, value, strict=True))
    if not isinstance(value, dict):
        raise TypeError(f"{shorten(value)} is no Row and no dict for {descriptor.full_name!r}")
    unknown = value.keys() - set(names)
    if unknown:
        raise ValueError(f"{descriptor.full_name!r} has no field {sorted(map(str, unknown))[0]!r}")
    return value


def _fill_field(message: Any, field: Any, part: Any) -> None:
    if _is_map(field):
        entries = getattr(message, field.name)
        of_messages = field.message_type.fields_by_name["value"].type == _MESSAGE
        for key, each in part.items():
            if of_messages:
                _fill(entries[key], each)
            else:
                entries[key] = _plain(field.message_type.fields_by_name["value"], each)
    elif field.is_repeated:
        target = getattr(message, field.name)
        for each in part:
            if field.type in (_MESSAGE, _GROUP):
                _fill(target.add(), each)
            else:
                target.append(_plain(field, each))
    elif field.type in (_MESSAGE, _GROUP):
        inner = getattr(message, field.name)
        inner.SetInParent()
        _fill(inner, part)
    else:
        setattr(message, field.name, _plain(field, part))


def _plain(field: Any, value: Any) -> Any:
    if field.type != _ENUM or not isinstance(value, str):
        return value
    known = field.enum_type.values_by_name.get(value)
    if known is not None:
        return known.number
    if value.lstrip("-").isdecimal():  # as one is read that has no name
        return int(value)
    raise ValueError(f"{field.enum_type.full_name!r} has no value {value!r}")
