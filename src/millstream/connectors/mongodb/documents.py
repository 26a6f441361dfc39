"""Records as writes: a document inserted, overwritten by its id, deleted; or what a program makes of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from millstream.base.errors import TypeMismatchError, shorten
from millstream.base.time import Instant
from millstream.connectors.mongodb.connection import load_pymongo
from millstream.types.row import Row, RowKind

__all__ = ["ById", "Inserts", "Models", "Writes", "document_of"]


class Writes(ABC):
    """Makes writes of records; picklable.

    Attributes:
        in_order: Whether they have to be performed in their order.
    """

    in_order = True

    @abstractmethod
    def of(self, record: Any) -> Any | None:
        """Return the write of a record, a model of pymongo's; None if there is nothing to do.

        Raises:
            TypeMismatchError: If no document can be made of it.
        """


class Inserts(Writes):
    """Adds a document for each record."""

    in_order = False

    def of(self, record: Any) -> Any:
        """Return an insertion; its id is made now, so that one that is repeated is known."""
        if isinstance(record, Row) and record._schema.kind is not RowKind.INSERT:
            raise TypeMismatchError(
                f"a MongoDB sink that inserts documents was given {shorten(record)} of the kind {record._schema.kind}",
                hint="Name the id, set_id('field'), for streams of changes.",
            )
        document = document_of(record)
        document.setdefault("_id", load_pymongo("bson").ObjectId())
        return load_pymongo().InsertOne(document)


class ById(Writes):
    """Overwrites and deletes documents by their ids.

    Args:
        id_of: A field of the records, or a function of them.
    """

    def __init__(self, id_of: str | Callable[[Any], Any]) -> None:
        self._id_of = id_of

    def of(self, record: Any) -> Any | None:
        """Return a replacement that inserts what is not there, or a deletion."""
        kind = record._schema.kind if isinstance(record, Row) else RowKind.INSERT
        if kind is RowKind.UPDATE_BEFORE:  # its id is overwritten
            return None
        pymongo = load_pymongo()
        document = document_of(record)
        found = self._find_id(record, document)
        if kind is RowKind.DELETE:
            return pymongo.DeleteOne({"_id": found})
        document["_id"] = found
        return pymongo.ReplaceOne({"_id": found}, document, upsert=True)

    def _find_id(self, record: Any, document: dict[str, Any]) -> Any:
        id_of = self._id_of
        found = convert(id_of(record)) if callable(id_of) else document.get(id_of)
        if found is None:
            raise TypeMismatchError(
                f"a MongoDB sink was given {shorten(record)}, which has no id",
                detail=f"The id is its field {id_of!r}."
                if isinstance(id_of, str)
                else "The function gave None.",
            )
        return found


class Models(Writes):
    """Writes what a function of the program's makes of records.

    Args:
        make: Returns a model of pymongo's, such as `UpdateOne`, or None.
    """

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make

    def of(self, record: Any) -> Any | None:
        """Return what the function gives."""
        model = self._make(record)
        if model is not None and not hasattr(model, "_add_to_bulk"):
            raise TypeMismatchError(
                f"the serialization schema of a MongoDB sink made {shorten(model)} of {shorten(record)}",
                detail="It has to be a write of pymongo's: InsertOne, UpdateOne, ReplaceOne, DeleteOne and the like.",
            )
        return model


def document_of(record: Any) -> dict[str, Any]:
    """Return the document of a dict or of a Row with names.

    Raises:
        TypeMismatchError: If it is something else.
    """
    if isinstance(record, dict):
        return {str(name): convert(value) for name, value in record.items()}
    if isinstance(record, Row) and record._fields is not None:
        return {name: convert(value) for name, value in zip(record._fields, record._values, strict=False)}
    raise TypeMismatchError(
        f"a MongoDB sink was given {shorten(record)}, which has no names for its fields",
        hint="Give it dicts, or Rows with names; or say what is written by set_serialization_schema(function).",
    )


def convert(value: Any) -> Any:
    """Return what BSON has in the place of a value; others are left to pymongo.

    >>> convert(Row(a=[Row(b=1)]))
    {'a': [{'b': 1}]}
    """
    kind = type(value)
    if kind in (str, int, float, bool, type(None), bytes, datetime):
        return value
    if isinstance(value, Row):
        return document_of(value) if value._fields is not None else [convert(each) for each in value._values]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [convert(each) for each in value]
    if isinstance(value, dict):
        return {str(name): convert(each) for name, each in value.items()}
    return _convert_scalar(value)


def _convert_scalar(value: Any) -> Any:
    if isinstance(value, Decimal):
        return load_pymongo("bson.decimal128").Decimal128(value)
    if isinstance(value, Instant):
        return load_pymongo("bson.datetime_ms").DatetimeMS(value.to_epoch_milli())
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, time):
        return value.isoformat()
    return value
