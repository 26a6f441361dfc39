"""Kafka's records as rows of tables: key and value by formats of their own, and what Kafka knows beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millstream.base.errors import MalformedRecordError
from millstream.connectors.kafka.records import (
    ConsumerRecord,
    ConsumerRecords,
    KafkaRecordDeserializationSchema,
)
from millstream.spi.serialization import DeserializationSchema, SerializationSchema
from millstream.types import datatypes as sql
from millstream.types.row import Row, RowKind

__all__ = ["METADATA", "FieldsOf", "TableRecords"]

METADATA: dict[str, sql.DataType] = {
    "topic": sql.VarCharType(nullable=False),
    "partition": sql.IntType(False),
    "headers": sql.MapType(sql.VarCharType(nullable=False), sql.VarBinaryType(nullable=False), False),
    "leader-epoch": sql.IntType(),
    "offset": sql.BigIntType(False),
    "timestamp": sql.LocalZonedTimestampType(3, False),
    "timestamp-type": sql.VarCharType(nullable=False),
}
"""What Kafka knows of a record, and its types."""


@dataclass(frozen=True)
class TableRecords(KafkaRecordDeserializationSchema):
    """Makes rows of records.

    Attributes:
        names: Fields of the rows, in order.
        value: Reads values; None if they do not matter.
        key: Reads keys; None if they do not matter.
        key_prefix: Before the names of the key's fields in rows.
        metadata: Names of fields that are Kafka's, and which.
        upsert: Whether a tombstone deletes its key's row; otherwise it is left out.
    """

    names: tuple[str, ...]
    value: DeserializationSchema
    key: DeserializationSchema | None = None
    key_prefix: str = ""
    metadata: tuple[tuple[str, str], ...] = ()
    upsert: bool = False
    gives_many = True

    def deserialize(self, record: ConsumerRecord) -> Any:
        """Return the only row of a record."""
        rows = self.deserialize_many(record)
        return rows[0] if rows else None

    def deserialize_all(self, records: ConsumerRecords) -> list[Any]:
        """Return the rows of records; None for those to leave out."""
        return [self.deserialize(record) for record in records]

    def deserialize_many(self, record: ConsumerRecord) -> list[Row]:
        """Return the rows of a record."""
        extra: dict[str, Any] = {}
        if self.key is not None and record.key is not None:
            found = self.key.deserialize(record.key)
            if found is not None:
                extra = {f"{self.key_prefix}{name}": found[name] for name in found._fields}
        for name, what in self.metadata:
            extra[name] = _metadata(record, what)
        if record.value is None:
            return [self._row({}, extra, RowKind.DELETE)] if self.upsert else []
        many = getattr(self.value, "gives_many", False)
        read: Sequence[Any] = (
            self.value.deserialize_many(record.value) if many else [self.value.deserialize(record.value)]
        )
        rows = []
        for row in read:
            if row is not None:
                kind = RowKind.UPDATE_AFTER if self.upsert else row.get_row_kind()
                rows.append(self._row({name: row[name] for name in row._fields}, extra, kind))
        return rows

    def _row(self, fields: dict[str, Any], extra: dict[str, Any], kind: RowKind) -> Row:
        whole = {**fields, **extra}
        row: Row = Row.of(self.names, [whole.get(name) for name in self.names])
        row.set_row_kind(kind)
        return row


def _metadata(record: ConsumerRecord, what: str) -> Any:
    if what == "headers":
        return dict(record.headers)
    if what == "timestamp-type":
        return "CreateTime"
    if what == "leader-epoch":
        return None
    if what == "timestamp":
        import datetime

        return datetime.datetime.fromtimestamp(record.timestamp / 1000, datetime.UTC)
    if what not in ("topic", "partition", "offset"):
        raise MalformedRecordError(f'a record of Kafka has no metadata "{what}"')
    return getattr(record, what)


class FieldsOf(SerializationSchema):
    """Some fields of a row as a message.

    Args:
        inner: Writes a row of these fields.
        places: Where they are in the row.
        names: What they are called in the message.
    """

    def __init__(self, inner: SerializationSchema, places: tuple[int, ...], names: tuple[str, ...]) -> None:
        self._inner = inner
        self._places = places
        self._names = names

    def serialize(self, value: Any) -> bytes:
        """Return the message of a row."""
        row: Row = Row.of(self._names, [value[place] for place in self._places])
        row.set_row_kind(value.get_row_kind())
        return self._inner.serialize(row)
