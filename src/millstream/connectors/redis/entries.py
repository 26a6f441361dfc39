"""From entries of streams, which are fields and values of bytes, to records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from millstream.base.errors import ConfigurationError, MalformedRecordError, shorten
from millstream.connectors.messages import MalformedPolicy, MessageDecoder
from millstream.spi.batch import Batch, Rows
from millstream.spi.serialization import DeserializationSchema, produced_type_of
from millstream.spi.source import SourceReaderContext
from millstream.types.basic import TypeInformation
from millstream.types.row import Row
from millstream.types.typeinfo import RowTypeInfo, Types

__all__ = ["Decode", "Entries", "EntryDecoder", "FieldDecoder", "MapDecoder", "RowDecoder"]

Entries = Sequence[tuple[bytes, dict[bytes, bytes]]]


Decode = Callable[[str, Entries], Batch]
"""Takes a stream's key and entries of it, and returns records with the times of the entries' ids."""


class EntryDecoder(ABC):
    """Makes records of entries; small and picklable."""

    def opened(self, context: SourceReaderContext) -> Decode:
        """Return what decodes in a reader.

        Args:
            context: The reader's.
        """
        return lambda stream, entries: Rows(self.records(stream, entries), _times(entries))

    def produced_type(self) -> TypeInformation | None:
        """Return the type of the records; None if it is not known."""
        return None

    @abstractmethod
    def records(self, stream: str, entries: Entries) -> list[Any]:
        """Return a record for each entry.

        Raises:
            MalformedRecordError: If one does not parse.
        """


class MapDecoder(EntryDecoder):
    """Records are dicts of texts."""

    def records(self, stream: str, entries: Entries) -> list[Any]:
        """Decode fields and values as UTF-8."""
        try:
            return [
                {name.decode(): value.decode() for name, value in fields.items()} for _, fields in entries
            ]
        except UnicodeDecodeError as error:
            for entry_id, fields in entries:
                if not all(map(_is_text, [*fields, *fields.values()])):
                    raise _malformed(stream, entry_id, fields, "it is not UTF-8") from error
            raise


class FieldDecoder(EntryDecoder):
    """Records are what a schema makes of one field.

    Args:
        schema: The schema.
        field: The field.
        policy: What becomes of those that do not parse.
    """

    def __init__(self, schema: DeserializationSchema, field: str, policy: MalformedPolicy) -> None:
        if not isinstance(schema, DeserializationSchema):
            raise ConfigurationError(f"{type(schema).__name__} is no DeserializationSchema")
        self._schema = schema
        self._field = field.encode()
        self._policy = policy

    def produced_type(self) -> TypeInformation | None:
        """Return the type that the schema tells."""
        return produced_type_of(self._schema)

    def opened(self, context: SourceReaderContext) -> Decode:
        """Return what deserializes the field of each entry."""
        decoders: dict[str, MessageDecoder] = {}

        def decode(stream: str, entries: Entries) -> Batch:
            if stream not in decoders:
                source = f"the Redis stream {stream}"
                decoders[stream] = MessageDecoder(self._schema, self._policy, context, source=source)
            messages = self.records(stream, entries)
            return decoders[stream].decode(
                messages, lambda index: f"entry {entries[index][0].decode()}", _times(entries)
            )

        return decode

    def records(self, stream: str, entries: Entries) -> list[Any]:
        """Return the field of each entry."""
        messages = []
        for entry_id, fields in entries:
            message = fields.get(self._field)
            if message is None:
                raise _malformed(stream, entry_id, fields, f'it has no field "{self._field.decode()}"')
            messages.append(message)
        return messages


def _times(entries: Entries) -> list[int]:
    return [int(entry_id.partition(b"-")[0]) for entry_id, _ in entries]


def _as_bool(text: bytes) -> bool:
    if text in (b"true", b"1"):
        return True
    if text in (b"false", b"0"):
        return False
    raise ValueError(f"{text!r} is neither true nor false")


def _decode(text: bytes) -> str:
    return text.decode()


_READERS: tuple[tuple[TypeInformation, Callable[[bytes], Any]], ...] = (
    (Types.STRING(), _decode),
    (Types.LONG(), int),
    (Types.INT(), int),
    (Types.SHORT(), int),
    (Types.BYTE(), int),
    (Types.DOUBLE(), float),
    (Types.FLOAT(), float),
    (Types.BOOLEAN(), _as_bool),
    (Types.PICKLED_BYTE_ARRAY(), bytes),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytes),
)


class RowDecoder(EntryDecoder):
    """Records are Rows of a type; a field that an entry has not got is None, others are left out."""

    def __init__(self, row_type: TypeInformation) -> None:
        if not isinstance(row_type, RowTypeInfo):
            raise ConfigurationError(
                f"the type of a stream's entries is {row_type}", hint="Give Types.ROW_NAMED."
            )
        self._row_type = row_type
        self._row = Row(*row_type.get_field_names())
        self._fields = [
            (name.encode(), _reader(name, kind))
            for name, kind in zip(row_type.get_field_names(), row_type.get_field_types(), strict=True)
        ]

    def produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._row_type

    def records(self, stream: str, entries: Entries) -> list[Any]:
        """Read each field as its type."""
        return [self._one(stream, entry_id, fields) for entry_id, fields in entries]

    def _one(self, stream: str, entry_id: bytes, fields: dict[bytes, bytes]) -> Row:
        try:
            return self._row(
                *[None if (value := fields.get(name)) is None else read(value) for name, read in self._fields]
            )
        except ValueError as error:
            raise _malformed(stream, entry_id, fields, str(error)) from error


def _reader(name: str, kind: TypeInformation) -> Callable[[bytes], Any]:
    for known, reader in _READERS:
        if kind == known:
            return reader
    raise ConfigurationError(
        f'field "{name}" has the type {kind}, which is not read from text',
        detail="A field of an entry is bytes: texts, numbers, booleans and byte arrays are read.",
        hint="Take it as Types.STRING() and parse it in a map().",
    )


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _malformed(stream: str, entry_id: bytes, seen: Any, why: str) -> MalformedRecordError:
    return MalformedRecordError(
        f'entry {entry_id.decode()} of the Redis stream "{stream}" does not parse: {why}',
        detail=f"It is {shorten(seen)}.",
        hint="Read the field with a schema that takes it, such as ByteArraySchema, and parse it in a flat_map().",
    )
