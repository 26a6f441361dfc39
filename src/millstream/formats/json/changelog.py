"""Change logs of databases as JSON, as Debezium, Canal and Maxwell write them: rows with what happened to them.

=========  ======================  =====================================================  =========
           inserted                updated                                                deleted
=========  ======================  =====================================================  =========
Debezium   ``c``, ``r``: after     ``u``: before and after                                ``d``: before
Canal      ``INSERT``: data        ``UPDATE``: data, and of old what was changed in it    ``DELETE``: data
Maxwell    ``insert``: data        ``update``: data, and of old what was changed in it    ``delete``: data
=========  ======================  =====================================================  =========

An update is two rows, -U and +U. Back it is written as a deletion and an insertion, as Flink does: a row does not know
the one before it.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from millstream.base.errors import (
    ConfigurationError,
    MalformedRecordError,
    NotSupportedError,
    TypeMismatchError,
    shorten,
)
from millstream.spi.serialization import DeserializationSchema, SerializationSchema
from millstream.types.row import Row, RowKind
from millstream.types.row_text import reader, writer
from millstream.types.typeinfo import RowTypeInfo, TypeInformation

__all__ = [
    "CanalJsonDeserializationSchema",
    "CanalJsonSerializationSchema",
    "DebeziumJsonDeserializationSchema",
    "DebeziumJsonSerializationSchema",
    "MaxwellJsonDeserializationSchema",
    "MaxwellJsonSerializationSchema",
]

_NEWER = (RowKind.INSERT, RowKind.UPDATE_AFTER)


class _ChangesReader(DeserializationSchema):
    """What the three have in common.

    Args:
        type_info: Type of the rows.

    Raises:
        ConfigurationError: If it is no type of rows.
        NotSupportedError: If a type has no JSON form.
    """

    gives_many = True
    tool: ClassVar[str]

    def __init__(self, type_info: TypeInformation) -> None:
        self._type_info = _check(type_info)
        self._read = reader(type_info, fail_on_missing=False)

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._type_info

    def deserialize(self, message: bytes) -> Any:
        """Raise a NotSupportedError: a change may be two rows."""
        raise NotSupportedError(
            f"a message of {self.tool} may be two rows", hint="Call deserialize_many(message)."
        )

    def deserialize_many(self, message: bytes) -> Sequence[Any]:
        """Return the rows of a message, each with its kind; none if it has no bytes, or is not about rows.

        Raises:
            MalformedRecordError: If it does not parse or fit.
        """
        if not message:
            return ()
        try:
            return self._changes(json.loads(message))
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
            detail = (
                error.message
                if isinstance(error, MalformedRecordError)
                else f"{type(error).__name__}: {error}"
            )
            raise MalformedRecordError(
                f"message {shorten(message)} is no change of {self.tool} to {self._type_info.describe()}: {detail}",
                hint=error.hint if isinstance(error, MalformedRecordError) else None,
            ) from error

    @abstractmethod
    def _changes(self, message: Any) -> list[Row]:
        """Return the rows of a parsed message."""

    def _row(self, fields: Any, kind: RowKind) -> Row:
        if not isinstance(fields, dict):
            raise ValueError(f"{shorten(fields)} is no row")
        row: Row = self._read(fields)
        row.set_row_kind(kind)
        return row

    def _update(self, data: Any, old: Any) -> list[Row]:
        """Return both rows of an update of which only the changed fields are known as they were."""
        if not isinstance(data, dict) or not isinstance(old, dict):
            raise ValueError("an update without its data, or without the old values")
        return [self._row({**data, **old}, RowKind.UPDATE_BEFORE), self._row(data, RowKind.UPDATE_AFTER)]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._type_info,)


class DebeziumJsonDeserializationSchema(_ChangesReader):
    """Debezium's messages into rows, with their schema in them or without.

    >>> from millstream.datastream.formats.json import DebeziumJsonDeserializationSchema
    >>> from millstream.types.typeinfo import Types
    >>> reads = DebeziumJsonDeserializationSchema(Types.ROW_NAMED(["id"], [Types.INT()]))
    >>> for row in reads.deserialize_many(b'{"before": {"id": 1}, "after": {"id": 2}, "op": "u"}'):
    ...     print(row.get_row_kind(), row.id)
    -U 1
    +U 2
    """

    tool = "Debezium"

    def _changes(self, message: Any) -> list[Row]:
        change = message["payload"] if "payload" in message and "op" not in message else message
        if change is None:
            return []
        kind = change["op"]
        if kind in ("c", "r"):
            return [self._row(change["after"], RowKind.INSERT)]
        if kind == "u":
            before = self._before(change)
            return [
                self._row(before, RowKind.UPDATE_BEFORE),
                self._row(change["after"], RowKind.UPDATE_AFTER),
            ]
        if kind == "d":
            return [self._row(self._before(change), RowKind.DELETE)]
        raise ValueError(f"operation {kind!r}")

    @staticmethod
    def _before(change: Any) -> Any:
        before = change.get("before")
        if before is None:
            raise MalformedRecordError(
                f"operation {change['op']!r} has no row as it was before",
                hint="Have the database write whole rows: in PostgreSQL, ALTER TABLE ... REPLICA IDENTITY FULL.",
            )
        return before


class CanalJsonDeserializationSchema(_ChangesReader):
    """Canal's messages into rows; a message may be about many. `CREATE` is about none.

    Example:
        >>> from millstream.datastream.formats.json import CanalJsonDeserializationSchema
        >>> from millstream.types.typeinfo import Types
        >>> reads = CanalJsonDeserializationSchema(Types.ROW_NAMED(["id"], [Types.INT()]))
        >>> for row in reads.deserialize_many(b'{"data": [{"id": 1}, {"id": 2}], "type": "INSERT"}'):
        ...     print(row.get_row_kind(), row.id)
        +I 1
        +I 2
    """

    tool = "Canal"

    def _changes(self, message: Any) -> list[Row]:
        kind = message["type"]
        if kind == "CREATE":
            return []
        if kind == "INSERT":
            return [self._row(each, RowKind.INSERT) for each in message["data"]]
        if kind == "DELETE":
            return [self._row(each, RowKind.DELETE) for each in message["data"]]
        if kind == "UPDATE":
            pairs = zip(message["data"], message["old"], strict=True)
            return [row for data, old in pairs for row in self._update(data, old)]
        raise ValueError(f"type {kind!r}")


class MaxwellJsonDeserializationSchema(_ChangesReader):
    """Maxwell's messages into rows, also those of a bootstrap.

    Example:
        >>> from millstream.datastream.formats.json import MaxwellJsonDeserializationSchema
        >>> from millstream.types.typeinfo import Types
        >>> reads = MaxwellJsonDeserializationSchema(Types.ROW_NAMED(["id"], [Types.INT()]))
        >>> for row in reads.deserialize_many(b'{"type": "update", "data": {"id": 2}, "old": {"id": 1}}'):
        ...     print(row.get_row_kind(), row.id)
        -U 1
        +U 2
    """

    tool = "Maxwell"

    def _changes(self, message: Any) -> list[Row]:
        kind = message["type"]
        if kind in ("insert", "bootstrap-insert"):
            return [self._row(message["data"], RowKind.INSERT)]
        if kind == "update":
            return self._update(message["data"], message["old"])
        if kind == "delete":
            return [self._row(message["data"], RowKind.DELETE)]
        if kind in ("bootstrap-start", "bootstrap-complete"):
            return []
        raise ValueError(f"type {kind!r}")


class _ChangesWriter(SerializationSchema):
    """What the three have in common.

    Args:
        type_info: Type of the rows.

    Raises:
        ConfigurationError: If it is no type of rows.
        NotSupportedError: If a type has no JSON form.
    """

    def __init__(self, type_info: TypeInformation) -> None:
        self._type_info = _check(type_info)
        self._write = writer(type_info)

    def serialize(self, value: Any) -> bytes:
        """Return a row's message: it was inserted, or deleted.

        Raises:
            TypeMismatchError: If it does not fit.
        """
        if not isinstance(value, Row) or self._type_info.find_mismatch([value]) is not None:
            raise TypeMismatchError(f"value {shorten(value)} does not fit {self._type_info.describe()}")
        change = self._change(self._write(value), inserted=value.get_row_kind() in _NEWER)
        return json.dumps(change, ensure_ascii=False).encode()

    @abstractmethod
    def _change(self, row: Any, *, inserted: bool) -> dict[str, Any]:
        """Return the message of a row, before it is text."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._type_info,)


class DebeziumJsonSerializationSchema(_ChangesWriter):
    """Rows into Debezium's messages, without schema.

    Example:
        >>> from millstream.datastream.formats.json import DebeziumJsonSerializationSchema
        >>> from millstream.types.row import Row
        >>> from millstream.types.typeinfo import Types
        >>> DebeziumJsonSerializationSchema(Types.ROW_NAMED(["id"], [Types.INT()])).serialize(Row(id=1))
        b'{"before": null, "after": {"id": 1}, "op": "c"}'
    """

    def _change(self, row: Any, *, inserted: bool) -> dict[str, Any]:
        if inserted:
            return {"before": None, "after": row, "op": "c"}
        return {"before": row, "after": None, "op": "d"}


class CanalJsonSerializationSchema(_ChangesWriter):
    """Rows into Canal's messages, one each.

    Example:
        >>> from millstream.datastream.formats.json import CanalJsonSerializationSchema
        >>> from millstream.types.row import Row
        >>> from millstream.types.typeinfo import Types
        >>> CanalJsonSerializationSchema(Types.ROW_NAMED(["id"], [Types.INT()])).serialize(Row(id=1))
        b'{"data": [{"id": 1}], "type": "INSERT"}'
    """

    def _change(self, row: Any, *, inserted: bool) -> dict[str, Any]:
        return {"data": [row], "type": "INSERT" if inserted else "DELETE"}


class MaxwellJsonSerializationSchema(_ChangesWriter):
    """Rows into Maxwell's messages.

    Example:
        >>> from millstream.datastream.formats.json import MaxwellJsonSerializationSchema
        >>> from millstream.types.row import Row
        >>> from millstream.types.typeinfo import Types
        >>> MaxwellJsonSerializationSchema(Types.ROW_NAMED(["id"], [Types.INT()])).serialize(Row(id=1))
        b'{"data": {"id": 1}, "type": "insert"}'
    """

    def _change(self, row: Any, *, inserted: bool) -> dict[str, Any]:
        return {"data": row, "type": "insert" if inserted else "delete"}


def _check(type_info: TypeInformation) -> RowTypeInfo:
    if not isinstance(type_info, RowTypeInfo):
        raise ConfigurationError(f"rows were given the type {type_info!r}", hint="Use Types.ROW_NAMED.")
    return type_info
