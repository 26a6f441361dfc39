"""The documents of a collection as a bounded source."""

from __future__ import annotations

from typing import Any

from millstream.base.errors import ConfigurationError
from millstream.connectors.mongodb.connection import MongoAddress, check_uri
from millstream.connectors.mongodb.ids import Query
from millstream.connectors.mongodb.reading import MongoEnumerator, MongoReader
from millstream.connectors.patience import Patience
from millstream.spi.source import Boundedness, Source, SourceReader, SplitEnumerator

__all__ = ["MongoSource", "MongoSourceBuilder"]

_SPLIT_DOCUMENTS = 100_000
_FETCHED = 2_048


class MongoSource(Source):
    """The documents of a collection, cut into ranges of their `_id`s that are read side by side.

    Documents are dicts, as pymongo reads them. Made by `MongoSource.builder()`.

    Example:
        >>> from millstream.datastream.connectors.mongodb import MongoSource
        >>> source = (
        ...     MongoSource.builder()
        ...     .set_uri("mongodb://localhost:27017")
        ...     .set_database("shop")
        ...     .set_collection("orders")
        ...     .set_filter({"cents": {"$gt": 100}})
        ...     .set_projected_fields("shop", "cents")
        ...     .build()
        ... )  # env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")
    """

    def __init__(self, address: MongoAddress, query: Query, split_size: int, fetch_size: int) -> None:
        self._address = address
        self._query = query
        self._split_size = split_size
        self._fetch_size = fetch_size

    def __repr__(self) -> str:
        return f"MongoSource({self._address})"

    @staticmethod
    def builder() -> MongoSourceBuilder:
        """Begin to declare a source."""
        return MongoSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED: documents are read that are there when the job starts."""
        return Boundedness.BOUNDED

    def build_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        """Look at the collection, and cut it into ranges.

        Raises:
            SourceError: If the server is away or refuses us.
            NotSupportedError: If `_id`s are of several types.
        """
        return MongoEnumerator(self._address, self._query, self._split_size, parallelism, restored)

    def build_reader(self, subtask_index: int, parallelism: int) -> SourceReader:
        """Make the reader of one subtask."""
        return MongoReader(self._address, self._query, self._fetch_size)


class MongoSourceBuilder:
    """Builds a `MongoSource`; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.mongodb import MongoSource
        >>> builder = MongoSource.builder().set_uri("mongodb://localhost:27017").set_database("shop")
        >>> source = builder.set_collection("orders").set_split_size(10_000).build()
    """

    def __init__(self) -> None:
        self._uri: str | None = None
        self._database: str | None = None
        self._collection: str | None = None
        self._patience = Patience()
        self._filter: dict[str, Any] = {}
        self._fields: tuple[str, ...] | None = None
        self._split_size = _SPLIT_DOCUMENTS
        self._fetch_size = _FETCHED

    def set_uri(self, uri: str) -> MongoSourceBuilder:
        """Name the server: `mongodb://user:password@host:27017`, `mongodb+srv://…`, with options of pymongo.

        Raises:
            ConfigurationError: If it is no such URI.
        """
        self._uri = check_uri(uri)
        return self

    def set_database(self, database: str) -> MongoSourceBuilder:
        """Name the database."""
        self._database = database
        return self

    def set_collection(self, collection: str) -> MongoSourceBuilder:
        """Name the collection; one that is not there is empty."""
        self._collection = collection
        return self

    def set_filter(self, condition: dict[str, Any]) -> MongoSourceBuilder:
        """Read only documents that fit a condition of MongoDB's, such as `{"cents": {"$gt": 100}}`.

        Raises:
            ConfigurationError: If it is no dict.
        """
        if not isinstance(condition, dict):
            raise ConfigurationError(f"the filter of a MongoDB source is {condition!r}, must be a dict")
        self._filter = dict(condition)
        return self

    def set_projected_fields(self, *names: str) -> MongoSourceBuilder:
        """Read these fields only, and `_id` if it is among them; by default all."""
        self._fields = names
        return self

    def set_split_size(self, documents: int) -> MongoSourceBuilder:
        """Have so many documents in a split; by default 100,000.

        Raises:
            ConfigurationError: If it is not positive.
        """
        self._split_size = _positive("split size", documents)
        return self

    def set_fetch_size(self, documents: int) -> MongoSourceBuilder:
        """Ask for so many documents at a time; by default 2048.

        Raises:
            ConfigurationError: If it is not positive.
        """
        self._fetch_size = _positive("fetch size", documents)
        return self

    def set_patience(self, patience: Patience) -> MongoSourceBuilder:
        """Choose how long the server is waited for."""
        self._patience = patience
        return self

    def build(self) -> MongoSource:
        """Return the source.

        Raises:
            ConfigurationError: If URI, database or collection is missing.
        """
        address = MongoAddress.of(self._uri, self._database, self._collection, self._patience)
        return MongoSource(address, Query(self._filter, self._fields), self._split_size, self._fetch_size)


def _positive(what: str, number: int) -> int:
    if number < 1:
        raise ConfigurationError(f"the {what} of a MongoDB source is {number}, must be positive")
    return number
