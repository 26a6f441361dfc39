"""The sink of Redis."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import ConfigurationError, SinkError
from millstream.connectors.batching_writer import BatchingWriter
from millstream.connectors.guarantee import DeliveryGuarantee
from millstream.connectors.patience import Patience
from millstream.connectors.redis.commands import Command, RedisCommand
from millstream.connectors.redis.connection import RedisClient, RedisConnection
from millstream.connectors.redis.staged import StagingRedisSink
from millstream.spi.sink import Committer, Sink, SinkWriter, WriterContext

__all__ = ["RedisSink", "RedisSinkBuilder"]


@dataclass(frozen=True, slots=True)
class RedisSink(Sink):
    """Writes a command of Redis for each record; made by `RedisSink.builder()`.

    Example:
        >>> from millstream.datastream.connectors.redis import DeliveryGuarantee, RedisCommand, RedisSink
        >>> sink = (
        ...     RedisSink.builder()
        ...     .set_url("redis://localhost:6379/0")
        ...     .set_command(RedisCommand.stream("totals", max_length=100_000))
        ...     .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        ...     .build()
        ... )  # stream.sink_to(sink)
    """

    _connection: RedisConnection
    _command: RedisCommand = field(repr=False)
    _guarantee: DeliveryGuarantee
    _prefix: str

    @staticmethod
    def builder() -> RedisSinkBuilder:
        """Return a builder."""
        return RedisSinkBuilder()

    def check(self) -> None:
        """See whether the server answers.

        Raises:
            SinkError: If it does not, or refuses user or password.
            NotSupportedError: If it is part of a cluster.
        """
        client = RedisClient(self._connection, SinkError)
        try:
            client.refuse_cluster()
        finally:
            client.close()

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        if self._is_exactly_once:
            return self._staging().build_writer(context)
        return _PipelineWriter(self._connection, self._command)

    def build_committer(self) -> Committer | None:
        """Make the committer; None if the sink is not exactly once."""
        return self._staging().build_committer() if self._is_exactly_once else None

    @property
    def _is_exactly_once(self) -> bool:
        return self._guarantee is DeliveryGuarantee.EXACTLY_ONCE

    def _staging(self) -> StagingRedisSink:
        return StagingRedisSink(self._connection, self._command, self._prefix)


class RedisSinkBuilder:
    """Builds a `RedisSink`; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.redis import RedisCommand, RedisSink
        >>> builder = RedisSink.builder().set_url("redis://localhost:6379/0")
        >>> sink = builder.set_command(RedisCommand.set_member("shops")).build()
    """

    def __init__(self) -> None:
        self._url: str | None = None
        self._patience = Patience()
        self._command: RedisCommand | None = None
        self._guarantee = DeliveryGuarantee.AT_LEAST_ONCE
        self._prefix = "millstream"

    def set_url(self, url: str) -> RedisSinkBuilder:
        """Name the server: `redis://user:password@host:port/database`, or `rediss://` with TLS.

        Raises:
            ConfigurationError: If it is no such URL.
        """
        RedisConnection(url)
        self._url = url
        return self

    def set_command(self, command: RedisCommand) -> RedisSinkBuilder:
        """Choose how a record becomes a command.

        Raises:
            ConfigurationError: If it is no RedisCommand.
        """
        if not isinstance(command, RedisCommand):
            raise ConfigurationError(
                f"{command!r} is no RedisCommand", hint='Such as RedisCommand.stream("name").'
            )
        self._command = command
        return self

    def set_delivery_guarantee(self, guarantee: DeliveryGuarantee) -> RedisSinkBuilder:
        """Choose the guarantee: AT_LEAST_ONCE (the default) or EXACTLY_ONCE; NONE is written as AT_LEAST_ONCE."""
        self._guarantee = guarantee
        return self

    def set_key_prefix(self, prefix: str) -> RedisSinkBuilder:
        """Choose what the keys of staged commands begin with, for EXACTLY_ONCE; by default `millstream`.

        Raises:
            ConfigurationError: If it is empty.
        """
        if not prefix:
            raise ConfigurationError("the prefix of keys is empty")
        self._prefix = prefix
        return self

    def set_patience(self, patience: Patience) -> RedisSinkBuilder:
        """Choose how long the server is waited for."""
        self._patience = patience
        return self

    def build(self) -> RedisSink:
        """Return the sink.

        Raises:
            ConfigurationError: If the URL or the command is missing.
        """
        if self._url is None:
            raise ConfigurationError("the Redis sink has no server", hint="set_url('redis://host:6379/0').")
        if self._command is None:
            raise ConfigurationError(
                "the Redis sink has no command", hint='set_command(RedisCommand.stream("name")).'
            )
        connection = RedisConnection(self._url, self._patience)
        return RedisSink(connection, self._command, self._guarantee, self._prefix)


class _PipelineWriter(BatchingWriter[Command]):
    """Writes at once, in pipelines."""

    def __init__(self, connection: RedisConnection, command: RedisCommand) -> None:
        super().__init__()
        self._connection = connection
        self._command = command
        self._client: RedisClient | None = None

    def open(self) -> None:
        self._client = RedisClient(self._connection, SinkError)

    def message(self, value: Any) -> Command:
        """Return the command of a record."""
        return self._command.of(value)

    def size_of(self, message: Command) -> int:
        """Return the size of its parts."""
        return sum(map(len, message))

    def send(self, messages: list[Command]) -> None:
        """Execute commands in one pipeline."""
        assert self._client is not None

        def write(client: Any) -> None:
            with client.pipeline(transaction=False) as pipeline:
                for command in messages:
                    pipeline.execute_command(*command)
                pipeline.execute()

        self._client.call(f"writing {len(messages)} commands", write)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
