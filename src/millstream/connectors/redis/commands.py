"""What a sink writes: a command of Redis for each record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import ConfigurationError, TypeMismatchError, shorten
from millstream.spi.serialization import SerializationSchema, SimpleStringSchema
from millstream.types.row import Row

__all__ = ["Command", "RedisCommand"]

Command = list[bytes]
KeyOf = Callable[[Any], Any]
FieldsOf = Callable[[Any], Mapping[str, Any]]

_TYPES = {b"XADD": "stream", b"HSET": "hash", b"SADD": "set", b"RPUSH": "list", b"SET": None}


@dataclass(frozen=True, slots=True)
class RedisCommand:
    """How a record becomes a command; made by its static methods.

    A key is a text, the same for all records, or a function of the record. Fields are those of a dict or of a Row with
    names, or what a function returns; their values are bytes, texts, numbers, booleans (`true`, `false`), or None,
    which is left out.

    Example:
        >>> from millstream.datastream.connectors.redis import RedisCommand
        >>> totals = RedisCommand.hash(lambda total: f"shop:{total['shop']}")  # HSET shop:Bonn shop Bonn cents 250
        >>> totals.is_idempotent, RedisCommand.stream("totals").is_idempotent
        (True, False)
    """

    _name: bytes
    _key: str | KeyOf
    _fields: FieldsOf | None = None
    _schema: SerializationSchema | None = None
    _before: tuple[bytes, ...] = ()
    _after: tuple[bytes, ...] = ()

    @staticmethod
    def stream(
        key: str | KeyOf, *, fields: FieldsOf | None = None, max_length: int | None = None
    ) -> RedisCommand:
        """Append an entry to a stream (XADD); a record that is no dict and no Row is its field `value`.

        Args:
            key: Of the stream.
            fields: Gives the entry's fields.
            max_length: Have the stream trimmed to about so many entries.

        Raises:
            ConfigurationError: If the length is not positive.
        """
        trim: tuple[bytes, ...] = ()
        if max_length is not None:
            if max_length < 1:
                raise ConfigurationError(f"the greatest length of a stream is {max_length}, must be positive")
            trim = (b"MAXLEN", b"~", b"%d" % max_length)
        return RedisCommand(b"XADD", _check_key(key), fields or _fields_or_value, _before=(*trim, b"*"))

    @staticmethod
    def hash(key: KeyOf, *, fields: FieldsOf | None = None) -> RedisCommand:
        """Set fields of a hash (HSET); fields that the record has not got stay as they were."""
        return RedisCommand(b"HSET", _check_key(key), fields or _fields)

    @staticmethod
    def string(
        key: KeyOf, schema: SerializationSchema | None = None, *, expire_s: int | None = None
    ) -> RedisCommand:
        """Set a key to what a schema makes of the record (SET); by default its text.

        Args:
            key: Of the record.
            schema: Makes the value.
            expire_s: Have the key removed after so many seconds.

        Raises:
            ConfigurationError: If the time is not positive.
        """
        expire: tuple[bytes, ...] = ()
        if expire_s is not None:
            if expire_s < 1:
                raise ConfigurationError(f"keys are to expire after {expire_s} s, must be positive")
            expire = (b"EX", b"%d" % expire_s)
        return RedisCommand(b"SET", _check_key(key), _schema=_check_schema(schema), _after=expire)

    @staticmethod
    def set_member(key: str | KeyOf, schema: SerializationSchema | None = None) -> RedisCommand:
        """Add what a schema makes of the record to a set (SADD); by default its text."""
        return RedisCommand(b"SADD", _check_key(key), _schema=_check_schema(schema))

    @staticmethod
    def list_item(key: str | KeyOf, schema: SerializationSchema | None = None) -> RedisCommand:
        """Append what a schema makes of the record to a list (RPUSH); by default its text."""
        return RedisCommand(b"RPUSH", _check_key(key), _schema=_check_schema(schema))

    @property
    def key_type(self) -> str | None:
        """What Redis calls the type of its keys; None if it takes any."""
        return _TYPES[self._name]

    @property
    def is_idempotent(self) -> bool:
        """Whether a record that is written again changes nothing."""
        return self._name in (b"HSET", b"SADD", b"SET")

    def of(self, value: Any) -> Command:
        """Return a record's command.

        Raises:
            TypeMismatchError: If the record has no such key or fields.
        """
        key = self._key(value) if callable(self._key) else self._key
        command = [self._name, _to_bytes(key, "the key", value), *self._before]
        if self._schema is not None:
            command.append(self._schema.serialize(value))
        elif self._fields is not None:
            fields = self._fields(value)
            for name, part in fields.items():
                if part is not None:
                    command += (_to_bytes(name, "a field's name", value), _to_bytes(part, name, value))
            if len(command) == 2 + len(self._before):
                raise TypeMismatchError(f"record {shorten(value)} has no fields to write to Redis")
        command += self._after
        return command

    def all_of(self, values: Sequence[Any]) -> list[Command]:
        """Return the commands of a batch."""
        return list(map(self.of, values))


def _check_key(key: str | KeyOf) -> str | KeyOf:
    if callable(key) or (isinstance(key, str) and key):
        return key
    raise ConfigurationError(
        f"{shorten(key)} is no key of Redis", hint="Give a text or a function of the record."
    )


def _check_schema(schema: SerializationSchema | None) -> SerializationSchema:
    if schema is None:
        return SimpleStringSchema()
    if not isinstance(schema, SerializationSchema):
        raise ConfigurationError(f"{type(schema).__name__} is no SerializationSchema")
    return schema


def _fields(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Row) and value._fields:
        return value.as_dict()
    raise TypeMismatchError(
        f"record {shorten(value)} has no names of fields",
        hint="Give fields=, a function that makes a dict of the record.",
    )


def _fields_or_value(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping) or (isinstance(value, Row) and value._fields):
        return _fields(value)
    return {"value": value if isinstance(value, (bytes, int, float)) else str(value)}


def _to_bytes(part: Any, what: str, value: Any) -> bytes:
    kind = type(part)
    if kind is str:
        return str.encode(part)
    if kind is bytes:
        return bytes(part)
    if kind is bool:
        return b"true" if part else b"false"
    if isinstance(part, (int, float, str, bytes, bytearray)):
        return bytes(part) if isinstance(part, (bytes, bytearray)) else str(part).encode()
    raise TypeMismatchError(
        f"{what} of record {shorten(value)} is {shorten(part)}",
        detail="Redis takes bytes, texts, numbers and booleans.",
        hint="Have fields= or a schema make bytes or texts of it.",
    )
