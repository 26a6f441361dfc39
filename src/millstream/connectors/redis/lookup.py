"""Strings and hashes of Redis, looked up by key: one command for many keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from millstream.base.errors import ConfigurationError, MalformedRecordError, SourceError, shorten
from millstream.connectors.blocking_lookup import BlockingLookup, LookupBuilder, LookupSettings
from millstream.connectors.patience import Patience
from millstream.connectors.redis.connection import RedisClient, RedisConnection
from millstream.spi.serialization import DeserializationSchema, SimpleStringSchema

__all__ = ["RedisLookup", "RedisLookupBuilder"]

KeyOf = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is asked for.

    Attributes:
        key_of: Gives the key of Redis, text or bytes.
        fields: Of hashes; all if there are none.
        are_hashes: Whether rows are hashes; if not they are strings.
        schema: Makes a row of a string, or a value of a field.
    """

    key_of: KeyOf
    fields: tuple[str, ...]
    are_hashes: bool
    schema: DeserializationSchema


@dataclass(frozen=True, slots=True)
class _Prefixed:
    prefix: str

    def __call__(self, key: Any) -> str:
        if isinstance(key, tuple):
            return self.prefix + ":".join(map(_text, key))
        return self.prefix + _text(key)


class RedisLookup(BlockingLookup[RedisClient]):
    """Finds strings or hashes by key; made by `RedisLookup.builder()`.

    Example:
        >>> from millstream.datastream.connectors.redis import RedisLookup
        >>> names = RedisLookup.builder().set_url("redis://localhost:6379/0").set_hashes("name").build()
        >>> # AsyncDataStream.unordered_lookup(orders, names, ...)
    """

    shares_client = True

    def __init__(self, connection: RedisConnection, wanted: _Wanted, settings: LookupSettings) -> None:
        super().__init__(settings)
        self._connection = connection
        self._wanted = wanted

    def __repr__(self) -> str:
        return f"RedisLookup({self._connection.address})"

    @staticmethod
    def builder() -> RedisLookupBuilder:
        """Return a builder."""
        return RedisLookupBuilder()

    def connect(self) -> RedisClient:
        """Make the client, and see whether the server answers, alone and not as part of a cluster."""
        client = RedisClient(self._connection, SourceError)
        try:
            client.refuse_cluster()
        except BaseException:
            client.close()
            raise
        return client

    def find(self, client: RedisClient, keys: Sequence[Any]) -> dict[Any, Any]:
        """Ask for all keys in one go: MGET, or a pipeline of HGETALL or HMGET."""
        names = [self._wanted.key_of(key) for key in keys]
        what = f"looking up {len(names)} keys"
        if not self._wanted.are_hashes:
            values = client.call(what, lambda server: server.mget(names))
            pairs = zip(keys, values, strict=True)
            return {key: self._row(key, value) for key, value in pairs if value is not None}
        found = client.call(what, lambda server: self._hashes(server, names))
        rows = ((key, self._hash(key, values)) for key, values in zip(keys, found, strict=True))
        return {key: row for key, row in rows if row}

    def _hashes(self, server: Any, names: Sequence[Any]) -> list[Any]:
        with server.pipeline(transaction=False) as pipeline:
            for name in names:
                if self._wanted.fields:
                    pipeline.hmget(name, self._wanted.fields)
                else:
                    pipeline.hgetall(name)
            answers: list[Any] = pipeline.execute()
        return answers

    def _hash(self, key: Any, found: Any) -> dict[str, Any]:
        fields = self._wanted.fields
        values = dict(zip(fields, found, strict=True)) if fields else found
        return {
            name if isinstance(name, str) else name.decode(errors="replace"): self._row(key, value)
            for name, value in values.items()
            if value is not None
        }

    def _row(self, key: Any, value: bytes) -> Any:
        try:
            return self._wanted.schema.deserialize(value)
        except (ValueError, TypeError, LookupError) as error:
            raise MalformedRecordError(
                f"the value of key {shorten(key)} does not parse: {shorten(value)}",
                detail=f"{type(error).__name__}: {error}. Server {self._connection.address}.",
                hint="Choose another schema: ByteArraySchema() for bytes as they are.",
            ) from error

    def disconnect(self, client: RedisClient) -> None:
        """End the connections."""
        client.close()


class RedisLookupBuilder(LookupBuilder):
    """Makes a `RedisLookup`; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.redis import RedisLookup
        >>> builder = RedisLookup.builder().set_url("redis://localhost:6379/0").set_key_prefix("customer:")
        >>> customers = builder.set_hashes("name", "city").build()
    """

    def __init__(self) -> None:
        super().__init__()
        self._url: str | None = None
        self._patience = Patience()
        self._key_of: KeyOf = _Prefixed("")
        self._fields: tuple[str, ...] = ()
        self._are_hashes: bool | None = None
        self._schema: DeserializationSchema = SimpleStringSchema()

    def set_url(self, url: str) -> Self:
        """Name the server: `redis://user:password@host:port/database`, or `rediss://` with TLS.

        Raises:
            ConfigurationError: If it is no such URL.
        """
        RedisConnection(url)
        self._url = url
        return self

    def set_key_prefix(self, prefix: str) -> Self:
        """Say what keys of Redis begin with: `customer:`; the key's text follows, parts of a tuple with `:` between."""
        self._key_of = _Prefixed(prefix)
        return self

    def set_key(self, key_of: KeyOf) -> Self:
        """Make keys of Redis by a function: it gives text or bytes."""
        self._key_of = key_of
        return self

    def set_strings(self, schema: DeserializationSchema | None = None) -> Self:
        """Look up strings (GET): a row is what a schema makes of the value; by default its text.

        Raises:
            ConfigurationError: If it is no DeserializationSchema.
        """
        self._are_hashes = False
        return self._with_schema(schema)

    def set_hashes(self, *fields: str, schema: DeserializationSchema | None = None) -> Self:
        """Look up hashes (HGETALL, HMGET): a row is a dict of fields.

        Args:
            fields: Which; by default all. A hash that has none of them is not found.
            schema: Makes what is in the dict of values; by default their text.

        Raises:
            ConfigurationError: If it is no DeserializationSchema.
        """
        self._are_hashes, self._fields = True, fields
        return self._with_schema(schema)

    def set_patience(self, patience: Patience) -> Self:
        """Choose how long the server is waited for."""
        self._patience = patience
        return self

    def build(self) -> RedisLookup:
        """Return the look-up.

        Raises:
            ConfigurationError: If the URL is missing, or it is not said what is looked up.
        """
        if self._url is None:
            raise ConfigurationError("the Redis look-up has no URL", hint="set_url('redis://host:6379').")
        if self._are_hashes is None:
            raise ConfigurationError(
                "it is not said what the Redis look-up finds", hint="Call set_strings() or set_hashes()."
            )
        wanted = _Wanted(self._key_of, self._fields, self._are_hashes, self._schema)
        return RedisLookup(RedisConnection(self._url, self._patience), wanted, self._settings())

    def _with_schema(self, schema: DeserializationSchema | None) -> Self:
        if schema is not None and not isinstance(schema, DeserializationSchema):
            raise ConfigurationError(f"{type(schema).__name__} is no DeserializationSchema")
        self._schema = schema or SimpleStringSchema()
        return self


def _text(part: Any) -> str:
    if isinstance(part, bool):
        return "true" if part else "false"  # as the sink writes them
    return part.decode() if isinstance(part, bytes) else str(part)
