"""Records into what is done to documents.

::

    record ── ElasticsearchEmitter ──► ElasticsearchAction ── ActionEncoder ──► BulkItem: two lines of JSON, or one
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from millstream.base.errors import ConfigurationError, SinkError, TypeMismatchError, shorten
from millstream.base.time import Instant
from millstream.types.row import Row, RowKind

__all__ = ["ActionEncoder", "BulkItem", "ElasticsearchAction", "ElasticsearchEmitter", "Operation", "id_text"]


class Operation(Enum):
    """What is done to a document, as the servers name it."""

    INDEX = "index"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class ElasticsearchAction:
    """What is done to one document; made by one of its methods.

    Attributes:
        operation: What.
        index: The index, alias or data stream.
        id: The document's; None to have the server choose one.
        document: A dict, a Row with names, a dataclass, or JSON as text or bytes; None for deletions.
        version: Grows with each change; a document that has a newer one is left alone.
        routing: What its shard is chosen by; None for its id.

    Example:
        >>> from millstream.datastream.connectors.elasticsearch import ElasticsearchAction
        >>> action = ElasticsearchAction.index_document("totals", {"shop": "Bonn", "cents": 250}, id="Bonn")
        >>> action.index, action.id
        ('totals', 'Bonn')
    """

    operation: Operation
    index: str
    id: str | None = None
    document: Any = None
    version: int | None = None
    routing: str | None = None

    @staticmethod
    def index_document(
        index: str,
        document: Any,
        *,
        id: str | None = None,
        version: int | None = None,
        routing: str | None = None,
    ) -> ElasticsearchAction:
        """Write a document; one that has the id is replaced."""
        return ElasticsearchAction(Operation.INDEX, index, id, document, version, routing)

    @staticmethod
    def create_document(
        index: str, document: Any, *, id: str | None = None, routing: str | None = None
    ) -> ElasticsearchAction:
        """Write a document, as data streams want it; one that has the id is left alone."""
        return ElasticsearchAction(Operation.CREATE, index, id, document, None, routing)

    @staticmethod
    def upsert_document(
        index: str, document: Any, *, id: str, routing: str | None = None
    ) -> ElasticsearchAction:
        """Write fields: of the document that has the id, whose other fields stay, or of a new one."""
        return ElasticsearchAction(Operation.UPDATE, index, id, document, None, routing)

    @staticmethod
    def delete_document(
        index: str, *, id: str, version: int | None = None, routing: str | None = None
    ) -> ElasticsearchAction:
        """Remove the document that has the id, if there is one."""
        return ElasticsearchAction(Operation.DELETE, index, id, None, version, routing)


class ElasticsearchEmitter(ABC):
    """Makes actions of records; small, picklable.

    Records are dicts, Rows with names, dataclasses, or JSON objects as text or bytes.

    Example:
        >>> from millstream.datastream.connectors.elasticsearch import ElasticsearchAction, ElasticsearchEmitter
        >>> def actions(total):
        ...     if total["cents"] == 0:
        ...         return ElasticsearchAction.delete_document("totals", id=total["shop"])
        ...     return ElasticsearchAction.index_document("totals", total, id=total["shop"])
        >>> emitter = ElasticsearchEmitter.of(actions)
    """

    @abstractmethod
    def emit(self, value: Any) -> Iterable[ElasticsearchAction]:
        """Return what is to be done for a record, in order.

        Args:
            value: The record.
        """

    @property
    def doc_type(self) -> str | None:
        """The type of documents, for servers of version 6."""
        return None

    @staticmethod
    def static_index(
        index: str, key_field: str | None = None, doc_type: str | None = None
    ) -> ElasticsearchEmitter:
        """Write each record to one index.

        Args:
            index: Its name.
            key_field: The field that is the document's id. With it, records are upserts, and Rows of the kind DELETE
                remove their document. Without it the server chooses ids, and a record that comes twice is there twice.
            doc_type: The type of documents; only Elasticsearch 6 has such.

        Raises:
            ConfigurationError: If a name is empty.
        """
        return _FieldEmitter(_name(index, "index"), None, _key(key_field), doc_type)

    @staticmethod
    def dynamic_index(
        index_field: str, key_field: str | None = None, doc_type: str | None = None
    ) -> ElasticsearchEmitter:
        """Write each record to the index that one of its fields names; otherwise as `static_index`.

        Args:
            index_field: The field.
            key_field: The field that is the document's id.
            doc_type: The type of documents; only Elasticsearch 6 has such.

        Raises:
            ConfigurationError: If a name is empty.
        """
        return _FieldEmitter(None, _name(index_field, "field"), _key(key_field), doc_type)

    @staticmethod
    def of(
        function: Callable[[Any], ElasticsearchAction | Iterable[ElasticsearchAction] | None],
    ) -> ElasticsearchEmitter:
        """Do what a function returns for each record: an action, several, or None for nothing (not in PyFlink)."""
        if not callable(function):
            raise ConfigurationError(f"{function!r} is no function")
        return _FunctionEmitter(function)


def _name(text: Any, what: str) -> str:
    if not isinstance(text, str) or not text:
        raise ConfigurationError(
            f"{text!r} is no name of an {what}" if what == "index" else f"{text!r} is no field"
        )
    return text


def _key(field: str | None) -> str | None:
    return None if field is None else _name(field, "field")


@dataclass(frozen=True, slots=True)
class _FieldEmitter(ElasticsearchEmitter):
    index: str | None
    index_field: str | None
    key_field: str | None
    type_name: str | None

    @property
    def doc_type(self) -> str | None:
        return self.type_name

    def emit(self, value: Any) -> Iterable[ElasticsearchAction]:
        kind = value.get_row_kind() if type(value) is Row else RowKind.INSERT
        if kind is RowKind.UPDATE_BEFORE and self.key_field is not None:
            return ()  # its document is overwritten
        index = self.index
        if index is None:
            assert self.index_field is not None
            index = _text_of(value, self.index_field)
        if self.key_field is None:
            if kind is not RowKind.INSERT:
                raise SinkError(
                    f"a sink without ids of documents was given a row of the kind {kind}: {shorten(value)}",
                    hint="Name the field that is the id, key_field=..., for streams of changes.",
                )
            return (ElasticsearchAction(Operation.INDEX, index, None, value),)
        key = _text_of(value, self.key_field)
        if kind is RowKind.DELETE:
            return (ElasticsearchAction(Operation.DELETE, index, key),)
        return (ElasticsearchAction(Operation.UPDATE, index, key, value),)


@dataclass(frozen=True, slots=True)
class _FunctionEmitter(ElasticsearchEmitter):
    function: Callable[[Any], ElasticsearchAction | Iterable[ElasticsearchAction] | None]

    def emit(self, value: Any) -> Iterable[ElasticsearchAction]:
        result = self.function(value)
        if result is None:
            return ()
        return (result,) if isinstance(result, ElasticsearchAction) else result


def _text_of(value: Any, field: str) -> str:
    """Return a field as text, as Java writes it."""
    try:
        found = _field_of(value, field)
    except (KeyError, AttributeError, ValueError):
        found = None
    if found is None or isinstance(found, (dict, list, tuple, Row)):
        raise TypeMismatchError(
            f'the field "{field}", which names the index or is the id of a document, is '
            f"{'missing' if found is None else 'no single value'} in {shorten(value)}",
            hint="Give it records that have the field: dicts, Rows with names, JSON objects.",
        )
    return id_text(found)


def id_text(value: Any) -> str:
    """Return what the id of a document with a value is, as Java writes it.

    >>> id_text(7), id_text(True)
    ('7', 'true')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def _field_of(value: Any, field: str) -> Any:
    if isinstance(value, (str, bytes)):
        parsed = msgspec.json.decode(value)
        return parsed.get(field) if isinstance(parsed, dict) else None
    if isinstance(value, (Row, Mapping)):
        return value[field]
    return getattr(value, field)


class BulkItem(NamedTuple):
    """An action as it is sent.

    Attributes:
        action: The action.
        data: Its lines, each with a line feed behind it.
        key: Index and id; None if the server chooses the id. Items with the same key stay in order.
    """

    action: ElasticsearchAction
    data: bytes
    key: tuple[str, str] | None


class ActionEncoder:
    """Makes lines of actions; for one thread.

    Args:
        doc_type: The type of documents, for servers of version 6; None for others.
    """

    def __init__(self, doc_type: str | None = None) -> None:
        self._doc_type = doc_type
        self._encode = msgspec.json.Encoder(enc_hook=_plain, decimal_format="number").encode

    def encode(self, action: ElasticsearchAction) -> BulkItem:
        """Return an action as it is sent.

        Raises:
            TypeMismatchError: If the document is no JSON object, or has a value that JSON has not.
        """
        head: dict[str, Any] = {"_index": _checked(action.index, "index", action)}
        if self._doc_type is not None:
            head["_type"] = self._doc_type
        if action.id is not None:
            head["_id"] = _checked(action.id, "id", action)
        elif action.operation in (Operation.UPDATE, Operation.DELETE):
            raise TypeMismatchError(f"{action.operation.value} of a document has no id: {shorten(action)}")
        if action.version is not None:
            head.update(version=action.version, version_type="external_gte")
        if action.routing is not None:
            head["routing"] = action.routing
        data = self._encode({action.operation.value: head}) + b"\n"
        if action.operation is not Operation.DELETE:
            source = self.document(action.document)
            if action.operation is Operation.UPDATE:
                source = b'{"doc":' + source + b',"doc_as_upsert":true}'
            data += source + b"\n"
        return BulkItem(action, data, None if action.id is None else (action.index, action.id))

    def document(self, document: Any) -> bytes:
        """Return a document as one line of JSON.

        Raises:
            TypeMismatchError: If it is no JSON object, or has a value that JSON has not.
        """
        if isinstance(document, (str, bytes)):
            return _line_of(document)
        if isinstance(document, Row) and document._fields is None:
            raise _no_document(document, "Its fields have no names.")
        try:
            line = self._encode(document)
        except (TypeError, ValueError, OverflowError, NotImplementedError) as error:
            raise _no_document(document, str(error)) from error
        if line[:1] != b"{":
            raise _no_document(document, "It is no object: no dict, Row with names or dataclass.")
        return line


def _checked(text: Any, what: str, action: ElasticsearchAction) -> str:
    if not isinstance(text, str) or not text:
        raise TypeMismatchError(f"the {what} of a document is {text!r}, not a text: {shorten(action)}")
    return text


def _line_of(text: str | bytes) -> bytes:
    """Return a JSON object that came as text, in one line."""
    data = text.encode() if isinstance(text, str) else text
    try:
        parsed = msgspec.json.decode(data)
    except ValueError as error:
        raise _no_document(text, f"It is no JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise _no_document(text, "It is no JSON object.")
    if b"\n" in data or b"\r" in data:  # a line feed ends a document of a bulk request
        return json.dumps(json.loads(data), ensure_ascii=False, separators=(",", ":")).encode()
    return data


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return list(value._values) if value._fields is None else value.as_dict()
    if isinstance(value, Instant):
        whole = datetime.fromtimestamp(value.seconds, UTC).replace(tzinfo=None)
        return f"{whole.isoformat()}.{value.nanos:09d}Z"
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "item") and hasattr(value, "dtype"):
        return value.item()  # a number of numpy
    raise NotImplementedError(f"a value of the type {type(value).__name__} has no form in JSON")


def _no_document(document: Any, why: str) -> TypeMismatchError:
    return TypeMismatchError(
        f"no document can be made of {shorten(document)}",
        detail=why,
        hint="Give the sink dicts, Rows with names, dataclasses, or JSON objects as text.",
    )
