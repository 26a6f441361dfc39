"""Documents of a collection, looked up by id or another field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from millstream.base.errors import ConfigurationError, SourceError, shorten
from millstream.connectors.blocking_lookup import BlockingLookup, LookupBuilder, LookupSettings, rows_by_key
from millstream.connectors.mongodb.connection import MongoAddress, MongoClient, check_uri
from millstream.connectors.patience import Patience

__all__ = ["MongoLookup", "MongoLookupBuilder"]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is asked for.

    Attributes:
        key_field: The field that keys are compared with; parts of nested ones with dots between.
        fields: Which fields documents have; None for all.
    """

    key_field: str
    fields: tuple[str, ...] | None

    @property
    def projection(self) -> dict[str, int] | None:
        """What is asked of the server: the key's field too."""
        if self.fields is None:
            return None
        return {"_id": 0, **dict.fromkeys(self.fields, 1), self.key_field: 1}

    def row(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return a document with no more than was asked for."""
        if self.fields is not None and self.key_field not in self.fields:
            del document[self.key_field]
        return document


class MongoLookup(BlockingLookup[MongoClient]):
    """Finds documents of a collection, as dicts; made by `MongoLookup.builder()`.

    Example:
        >>> from millstream.datastream.connectors.mongodb import MongoLookup
        >>> builder = MongoLookup.builder().set_uri("mongodb://localhost:27017").set_database("shop")
        >>> # AsyncDataStream.unordered_lookup(orders, customers, ...)
        >>> customers = builder.set_collection("customers").build()
    """

    shares_client = True

    def __init__(self, address: MongoAddress, wanted: _Wanted, settings: LookupSettings) -> None:
        super().__init__(settings)
        self._address = address
        self._wanted = wanted

    def __repr__(self) -> str:
        return f"MongoLookup({self._address} by {self._wanted.key_field})"

    @staticmethod
    def builder() -> MongoLookupBuilder:
        """Return a builder."""
        return MongoLookupBuilder()

    def connect(self) -> MongoClient:
        """Make the client, and see whether the server answers."""
        client = MongoClient(self._address, SourceError)
        try:
            client.call("asking for a document", lambda collection: collection.find_one({}, {"_id": 1}))
        except BaseException:
            client.close()
            raise
        return client

    def find(self, client: MongoClient, keys: Sequence[Any]) -> dict[Any, Any]:
        """Ask for the documents of all keys in one query."""
        condition = {self._wanted.key_field: {"$in": list(keys)}}
        found = client.call(
            f"looking up {len(keys)} documents",
            lambda collection: list(collection.find(condition, self._wanted.projection)),
        )
        return rows_by_key(
            self._keyed(found, set(keys)), gives_lists=self._asking.gives_lists, where=f"{self._address}"
        )

    def _keyed(self, documents: Sequence[dict[str, Any]], keys: set[Any]) -> Iterator[tuple[Any, Any]]:
        for document in documents:
            key = _at(document, self._wanted.key_field)
            if isinstance(key, (list, dict)) or key not in keys:
                raise SourceError(
                    f"a document of {self._address} was found by {self._wanted.key_field} {shorten(key)}, "
                    "which is no key that was asked for",
                    detail="Fields that are arrays, and comparisons by a collation, find others than equal values; "
                    "times are kept to the millisecond, in UTC and without a zone.",
                    hint="Look documents up by a field with one value, and let keys be what it holds.",
                )
            yield key, self._wanted.row(document)

    def disconnect(self, client: MongoClient) -> None:
        """End the connections."""
        client.close()


class MongoLookupBuilder(LookupBuilder):
    """Makes a `MongoLookup`; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.mongodb import MongoLookup
        >>> builder = MongoLookup.builder().set_uri("mongodb://localhost:27017").set_database("shop")
        >>> builder = builder.set_collection("customers").set_key_field("number").set_projected_fields("name")
        >>> names = builder.build()
    """

    def __init__(self) -> None:
        super().__init__()
        self._uri: str | None = None
        self._database: str | None = None
        self._collection: str | None = None
        self._patience = Patience()
        self._key_field = "_id"
        self._fields: tuple[str, ...] | None = None

    def set_uri(self, uri: str) -> Self:
        """Name the server: `mongodb://user:password@host:27017`, `mongodb+srv://…`, with options of pymongo.

        Raises:
            ConfigurationError: If it is no such URI.
        """
        self._uri = check_uri(uri)
        return self

    def set_database(self, database: str) -> Self:
        """Name the database."""
        self._database = database
        return self

    def set_collection(self, collection: str) -> Self:
        """Name the collection; one that is not there is empty."""
        self._collection = collection
        return self

    def set_key_field(self, field: str) -> Self:
        """Compare keys with this field, which should have an index; by default `_id`.

        Raises:
            ConfigurationError: If it is empty.
        """
        if not field:
            raise ConfigurationError("the field that a MongoDB look-up compares keys with is empty")
        self._key_field = field
        return self

    def set_projected_fields(self, *names: str) -> Self:
        """Have documents with these fields only, and `_id` if it is among them; by default all."""
        self._fields = names
        return self

    def set_gives_lists(self) -> Self:
        """Have a list of documents for each key; without it several documents are an error."""
        self._gives_lists = True
        return self

    def set_patience(self, patience: Patience) -> Self:
        """Choose how long the server is waited for."""
        self._patience = patience
        return self

    def build(self) -> MongoLookup:
        """Return the look-up.

        Raises:
            ConfigurationError: If URI, database or collection is missing, or fields are chosen and the key is nested.
        """
        address = MongoAddress.of(self._uri, self._database, self._collection, self._patience)
        if self._fields is not None and "." in self._key_field:
            raise ConfigurationError(
                f"a MongoDB look-up by {self._key_field}, a nested field, has chosen fields",
                hint="Leave set_projected_fields out.",
            )
        return MongoLookup(address, _Wanted(self._key_field, self._fields), self._settings())


def _at(document: Any, path: str) -> Any:
    for name in path.split("."):
        document = document.get(name) if isinstance(document, Mapping) else None
    return document
