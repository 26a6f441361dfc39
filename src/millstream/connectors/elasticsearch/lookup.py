"""Documents, looked up by id."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from millstream.base.errors import ConfigurationError, SourceError
from millstream.connectors.elasticsearch.connection import (
    ElasticsearchClient,
    ElasticsearchConnection,
    describe_error,
    quote_path,
)
from millstream.connectors.elasticsearch.connection_builder import ConnectionBuilder
from millstream.connectors.elasticsearch.documents import id_text
from millstream.spi.lookup import AsyncLookup

__all__ = ["ElasticsearchLookup", "ElasticsearchLookupBuilder"]


@dataclass(slots=True)
class ElasticsearchLookup(AsyncLookup):
    """Finds documents of an index by id, as dicts; made by `ElasticsearchLookup.builder()`.

    What was written is found at once: it need not be searchable yet.

    Example:
        >>> from millstream.datastream.connectors.elasticsearch import ElasticsearchLookup
        >>> customers = ElasticsearchLookup.builder().set_hosts(["localhost:9200"]).set_index("customers").build()
        >>> # AsyncDataStream.unordered_lookup(orders, customers, ...)
    """

    _connection: ElasticsearchConnection
    _index: str
    _fields: tuple[str, ...]
    _client: ElasticsearchClient | None = None

    @staticmethod
    def builder() -> ElasticsearchLookupBuilder:
        """Return a builder."""
        return ElasticsearchLookupBuilder()

    async def open(self) -> None:
        """Make the client; it connects when it is asked."""
        self._client = ElasticsearchClient(self._connection, SourceError)

    async def lookup(self, keys: Sequence[Any]) -> Mapping[Any, Any]:
        """Return the documents with these ids.

        Args:
            keys: Texts or numbers.

        Raises:
            SourceError: If the server refuses it, or stays away.
        """
        assert self._client is not None, "open comes first"
        return await asyncio.to_thread(self._find, self._client, keys)

    async def close(self) -> None:
        """End the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _find(self, client: ElasticsearchClient, keys: Sequence[Any]) -> dict[Any, Any]:
        path = f"/{quote_path(self._index)}/_mget"
        if self._fields:
            path += "?" + urlencode({"_source_includes": ",".join(self._fields)})
        what = f'looking up {len(keys)} documents of index "{self._index}"'
        answer = client.ask("POST", path, {"ids": [id_text(key) for key in keys]}, what=what)
        told = answer.json()
        if not isinstance(told, dict) or "docs" not in told:
            raise client.refused(what, answer)
        found: dict[Any, Any] = {}
        for key, document in zip(keys, told["docs"], strict=True):
            if "error" in document:
                raise SourceError(
                    f"the search server refused it, {what}: {describe_error(document['error'])}",
                    detail=f"Server {client.connection.address}.",
                    hint="Check the name of the index: it is an index, or an alias of one.",
                )
            if document["found"]:
                found[key] = document["_source"]
        return found


class ElasticsearchLookupBuilder(ConnectionBuilder):
    """Makes an `ElasticsearchLookup`; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.elasticsearch import ElasticsearchLookup
        >>> builder = ElasticsearchLookup.builder().set_hosts(["localhost:9200"]).set_index("customers")
        >>> names = builder.set_fields("name").build()
    """

    def __init__(self) -> None:
        super().__init__()
        self._index: str | None = None
        self._fields: tuple[str, ...] = ()

    def set_index(self, index: str) -> ElasticsearchLookupBuilder:
        """Choose the index."""
        self._index = index
        return self

    def set_fields(self, *fields: str) -> ElasticsearchLookupBuilder:
        """Choose fields of documents, perhaps with `*`; by default all."""
        self._fields = fields
        return self

    def build(self) -> ElasticsearchLookup:
        """Return the look-up.

        Raises:
            ConfigurationError: If hosts or index are missing.
        """
        if not self._index:
            raise ConfigurationError("the look-up has no index", hint="set_index('customers').")
        return ElasticsearchLookup(self.connection(), self._index, self._fields)
