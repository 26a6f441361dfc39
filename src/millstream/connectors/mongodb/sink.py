"""The sink of a collection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from millstream.base.errors import (
    ConfigurationError,
    NotSupportedError,
    SinkError,
    TypeMismatchError,
    shorten,
)
from millstream.connectors.batching_writer import BatchingWriter
from millstream.connectors.guarantee import DeliveryGuarantee
from millstream.connectors.mongodb.connection import MongoAddress, MongoClient, check_uri, load_pymongo
from millstream.connectors.mongodb.documents import ById, Inserts, Models, Writes
from millstream.connectors.patience import Patience
from millstream.operators.user_code import attach_element
from millstream.spi.sink import Sink, SinkWriter, WriterContext

__all__ = ["MongoSink", "MongoSinkBuilder"]

_BATCH = 1_000


@dataclass(frozen=True, slots=True)
class MongoSink(Sink):
    """Writes documents into a collection; made by `MongoSink.builder()`.

    Example:
        >>> from millstream.datastream.connectors.mongodb import MongoSink
        >>> builder = MongoSink.builder().set_uri("mongodb://localhost:27017").set_database("shop")
        >>> sink = builder.set_collection("totals").set_id("shop").build()  # stream.sink_to(sink)
    """

    _address: MongoAddress
    _writes: Writes = field(repr=False)
    _batch_size: int

    @staticmethod
    def builder() -> MongoSinkBuilder:
        """Return a builder."""
        return MongoSinkBuilder()

    def check(self) -> None:
        """See whether the server answers and knows the user; the collection need not be there.

        Raises:
            SinkError: If it does not, or refuses the user.
        """
        client = MongoClient(self._address, SinkError)
        try:
            client.call("connecting to the server", lambda collection: collection.database.command("ping"))
        finally:
            client.close()

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        return _BulkWriter(self._address, self._writes, self._batch_size)


class MongoSinkBuilder:
    """Builds a `MongoSink`; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.mongodb import MongoSink
        >>> builder = MongoSink.builder().set_uri("mongodb://localhost:27017").set_database("shop")
        >>> sink = builder.set_collection("orders").set_batch_size(500).build()
    """

    def __init__(self) -> None:
        self._uri: str | None = None
        self._database: str | None = None
        self._collection: str | None = None
        self._patience = Patience()
        self._writes: Writes | None = None
        self._batch_size = _BATCH

    def set_uri(self, uri: str) -> MongoSinkBuilder:
        """Name the server: `mongodb://user:password@host:27017`, `mongodb+srv://…`, with options of pymongo.

        Raises:
            ConfigurationError: If it is no such URI.
        """
        self._uri = check_uri(uri)
        return self

    def set_database(self, database: str) -> MongoSinkBuilder:
        """Name the database."""
        self._database = database
        return self

    def set_collection(self, collection: str) -> MongoSinkBuilder:
        """Name the collection; it is made if it is not there."""
        self._collection = collection
        return self

    def set_id(self, id_of: str | Callable[[Any], Any]) -> MongoSinkBuilder:
        """Overwrite documents with the same `_id`, and delete those of rows of the kind DELETE.

        Args:
            id_of: The field of the records that is the id, or a function that returns it. Without one each record is a
                new document.

        Raises:
            ConfigurationError: If there is a serialization schema too.
        """
        return self._set_writes(ById(id_of))

    def set_serialization_schema(self, make: Callable[[Any], Any]) -> MongoSinkBuilder:
        """Write what a function makes of each record: a write of pymongo's (`UpdateOne(...)`), or None for nothing.

        Raises:
            ConfigurationError: If it is no function, or if the id is set too.
        """
        if not callable(make):
            raise ConfigurationError(f"{shorten(make)} is no function of a record")
        return self._set_writes(Models(make))

    def _set_writes(self, writes: Writes) -> MongoSinkBuilder:
        if self._writes is not None:
            raise ConfigurationError(
                "what a MongoDB sink writes is said twice",
                hint="Call either set_id or set_serialization_schema.",
            )
        self._writes = writes
        return self

    def set_batch_size(self, batch_size: int) -> MongoSinkBuilder:
        """Write so many documents at a time; by default 1000.

        Raises:
            ConfigurationError: If it is not positive.
        """
        if batch_size < 1:
            raise ConfigurationError(f"the batch size of a MongoDB sink is {batch_size}, must be positive")
        self._batch_size = batch_size
        return self

    def set_delivery_guarantee(self, guarantee: DeliveryGuarantee) -> MongoSinkBuilder:
        """Choose the guarantee: AT_LEAST_ONCE (the default); NONE is written as AT_LEAST_ONCE.

        Raises:
            NotSupportedError: If it is EXACTLY_ONCE.
        """
        if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            raise NotSupportedError(
                "the MongoDB sink is not exactly once",
                hint="With set_id(...) records that come again overwrite themselves: once by id.",
            )
        return self

    def set_patience(self, patience: Patience) -> MongoSinkBuilder:
        """Choose how long the server is waited for."""
        self._patience = patience
        return self

    def build(self) -> MongoSink:
        """Return the sink.

        Raises:
            ConfigurationError: If URI, database or collection is missing.
        """
        address = MongoAddress.of(self._uri, self._database, self._collection, self._patience)
        return MongoSink(address, self._writes or Inserts(), self._batch_size)


class _Message(NamedTuple):
    record: Any
    model: Any


class _BulkWriter(BatchingWriter[_Message]):
    """Writes in bulk."""

    def __init__(self, address: MongoAddress, writes: Writes, batch_size: int) -> None:
        super().__init__(batch_size)
        self._address = address
        self._writes = writes
        self._client: MongoClient | None = None

    def open(self) -> None:
        self._client = MongoClient(self._address, SinkError)

    def message(self, value: Any) -> _Message:
        """Return the write of a record."""
        return _Message(value, self._writes.of(value))

    def send(self, messages: list[_Message]) -> None:
        """Perform the writes of an epoch, in order; insertions that were performed before count as done."""
        assert self._client is not None
        written = [message for message in messages if message.model is not None]
        if not written:
            return
        models = [message.model for message in written]
        pymongo, bson = load_pymongo(), load_pymongo("bson.errors")
        attempts = 0

        def write(collection: Any) -> None:
            nonlocal attempts
            attempts += 1
            try:
                collection.bulk_write(models, ordered=self._writes.in_order)
            except pymongo.errors.BulkWriteError as error:
                refused = self._refused(error.details, was_tried=attempts > 1)
                if refused is not None:
                    raise self._refusal(written, refused, error) from error

        try:
            self._client.call(f"writing {len(models)} documents", write)
        except (bson.InvalidDocument, OverflowError, pymongo.errors.DocumentTooLarge) as error:
            raise TypeMismatchError(
                f"a record cannot be written to MongoDB, one of {len(models)}: {type(error).__name__}",
                detail=" ".join(str(error).split())[:500],
                hint="Convert the values with map(...) before the sink: docs/connectors/mongodb.md has the types.",
            ) from error

    def _refused(self, details: dict[str, Any], *, was_tried: bool) -> dict[str, Any] | None:
        """Return the first write that was refused, None if all were performed, by this attempt or one before."""
        for refused in details.get("writeErrors", []):
            if not (was_tried and not self._writes.in_order and _is_there(refused)):
                return dict(refused)
        return (
            None
            if not details.get("writeConcernErrors")
            else {"index": None, **details["writeConcernErrors"][0]}
        )

    def _refusal(self, written: list[_Message], refused: dict[str, Any], error: Exception) -> SinkError:
        assert self._client is not None
        index = refused.get("index")
        what = (
            f"writing {len(written)} documents"
            if index is None
            else f"writing {shorten(written[index].record)}"
        )
        explained = self._client.explain(what, error, refused.get("code"))
        explained.detail = " ".join(str(refused.get("errmsg", "")).split())[:500]
        if index is not None:
            attach_element(explained, written[index].record)
        assert isinstance(explained, SinkError)
        return explained

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def _is_there(refused: dict[str, Any]) -> bool:
    """Return whether a write was refused because the document with that id is there."""
    pattern = refused.get("keyPattern")
    return refused.get("code") == 11_000 and (
        pattern == {"_id": 1} if pattern is not None else "_id" in str(refused.get("errmsg", ""))
    )
