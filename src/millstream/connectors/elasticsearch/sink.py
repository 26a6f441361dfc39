"""The sink of documents."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

from millstream.base.clock import SystemClock
from millstream.base.errors import ConfigurationError, NotSupportedError, SinkError
from millstream.connectors.elasticsearch.bulk import BulkLimits, BulkRequests
from millstream.connectors.elasticsearch.connection import ElasticsearchClient, ElasticsearchConnection
from millstream.connectors.elasticsearch.connection_builder import ConnectionBuilder
from millstream.connectors.elasticsearch.documents import ActionEncoder, ElasticsearchEmitter
from millstream.connectors.elasticsearch.rejections import Backoff, FlushBackoffType, RejectedPolicy
from millstream.connectors.guarantee import DeliveryGuarantee
from millstream.operators.user_code import attach_element
from millstream.spi.batch import Rows
from millstream.spi.sink import Sink, SinkWriter, WriterContext

__all__ = [
    "Elasticsearch6SinkBuilder",
    "Elasticsearch7SinkBuilder",
    "Elasticsearch8SinkBuilder",
    "ElasticsearchSink",
    "ElasticsearchSinkBuilderBase",
    "OpenSearchSinkBuilder",
]


@dataclass(frozen=True, slots=True)
class ElasticsearchSink(Sink):
    """Writes documents, at least once; with ids, as good as exactly once. Made by one of the builders.

    The server has all documents of an epoch before the epoch's checkpoint.

    Example:
        >>> from millstream.datastream.connectors.elasticsearch import Elasticsearch8SinkBuilder, ElasticsearchEmitter
        >>> # ids make it as good as exactly once
        >>> emitter = ElasticsearchEmitter.static_index("totals", key_field="shop")
        >>> sink = Elasticsearch8SinkBuilder().set_hosts(["localhost:9200"]).set_emitter(emitter).build()
        >>> # stream.sink_to(sink)
    """

    _connection: ElasticsearchConnection
    _emitter: ElasticsearchEmitter = field(repr=False)
    _doc_type: str | None
    _limits: BulkLimits
    _backoff: Backoff
    _policy: RejectedPolicy

    def check(self) -> None:
        """See whether a server answers.

        Raises:
            SinkError: If it does not, or refuses user, password or key.
        """
        client = ElasticsearchClient(self._connection, SinkError)
        try:
            # who may write need not have the right to see what the page at "/" tells
            client.ask("GET", "/", what="looking whether it answers", accept=(403, 404, 405))
        finally:
            client.close()

    def build_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        return _BulkWriter(self)


class _BulkWriter(SinkWriter):
    """Sends bulk requests, and the last one at the end of each epoch or checkpoint."""

    def __init__(self, sink: ElasticsearchSink) -> None:
        self._emit = sink._emitter.emit
        self._interval_ms = sink._limits.interval_ms
        self._due_ms: int | None = None
        self._clock = SystemClock()
        self._client = ElasticsearchClient(sink._connection, SinkError)
        encoder = ActionEncoder(sink._doc_type)
        self._encode = encoder.encode
        self._requests = BulkRequests(
            self._client,
            encoder,
            limits=sink._limits,
            backoff=sink._backoff,
            policy=sink._policy,
        )

    def write(self, batch: Rows, *, watermark_ms: int, now_ms: int) -> None:
        for value in batch.values:
            try:
                items = [self._encode(action) for action in self._emit(value)]
            except BaseException as error:
                attach_element(error, value)
                raise
            for item in items:
                self._requests.add(item)
        if self._interval_ms is None:
            return
        if self._due_ms is None:
            self._due_ms = now_ms + self._interval_ms
        elif self._clock.now_ms() >= self._due_ms:  # epochs may be longer than the interval
            self._flush()

    def prepare_commit(self, *, now_ms: int, checkpoint: bool, end_of_input: bool) -> list[Any]:
        if checkpoint or end_of_input or self._due_ms is None or now_ms >= self._due_ms:
            self._flush()
        return []

    def next_processing_time(self) -> int | None:
        return self._due_ms

    def close(self) -> None:
        self._client.close()

    def _flush(self) -> None:
        self._due_ms = None
        self._requests.flush()


class ElasticsearchSinkBuilderBase(ConnectionBuilder):
    """Makes an `ElasticsearchSink`; each method returns the builder.

    Example:
        >>> from millstream.datastream.connectors.elasticsearch import Elasticsearch8SinkBuilder, ElasticsearchEmitter
        >>> from millstream.datastream.connectors.elasticsearch import FlushBackoffType
        >>> builder = Elasticsearch8SinkBuilder().set_hosts(["localhost:9200"])
        >>> builder = builder.set_bulk_flush_backoff_strategy(FlushBackoffType.EXPONENTIAL, 10, 100)
        >>> sink = builder.set_emitter(ElasticsearchEmitter.static_index("orders")).build()
    """

    def __init__(self) -> None:
        super().__init__()
        self._emitter: ElasticsearchEmitter | None = None
        self._limits = BulkLimits()
        self._backoff = Backoff()
        self._policy = RejectedPolicy.fail()

    def set_emitter(self, emitter: ElasticsearchEmitter) -> Self:
        """Choose how records become documents.

        Raises:
            ConfigurationError: If it is no emitter.
        """
        if not isinstance(emitter, ElasticsearchEmitter):
            raise ConfigurationError(
                f"{emitter!r} is no ElasticsearchEmitter",
                hint="Such as ElasticsearchEmitter.static_index('orders', 'id').",
            )
        self._emitter = emitter
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> Self:
        """Choose the guarantee: AT_LEAST_ONCE, the default; NONE is written as AT_LEAST_ONCE.

        Raises:
            NotSupportedError: If it is EXACTLY_ONCE.
        """
        if delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            raise NotSupportedError(
                "the sink of documents is not exactly once",
                detail="The servers cannot write several documents at once or not at all.",
                hint="Name the field that is the id, static_index('orders', key_field='id'): what comes twice "
                "overwrites itself.",
            )
        return self

    def set_bulk_flush_max_actions(self, num_max_actions: int) -> Self:
        """Send a request when it has so many actions; by default 1,000; -1 for no limit.

        Raises:
            ConfigurationError: If it is no such number.
        """
        self._limits = replace(self._limits, actions=_limit(num_max_actions, "max_actions"))
        return self

    def set_bulk_flush_max_size_mb(self, max_size_mb: int) -> Self:
        """Send a request before it is larger than so many megabytes; by default 5; -1 for no limit.

        Raises:
            ConfigurationError: If it is no such number.
        """
        size = _limit(max_size_mb, "max_size_mb")
        self._limits = replace(self._limits, size_bytes=None if size is None else size << 20)
        return self

    def set_bulk_flush_interval(self, interval_millis: int) -> Self:
        """Send a request when its first action is so old; by default (-1) at the end of each epoch.

        Raises:
            ConfigurationError: If it is no such number.
        """
        self._limits = replace(self._limits, interval_ms=_limit(interval_millis, "interval"))
        return self

    def set_bulk_flush_backoff_strategy(
        self, flush_backoff_type: FlushBackoffType, max_retries: int, delay_millis: int
    ) -> Self:
        """Choose what is done about documents that the server rejects for a while.

        Args:
            flush_backoff_type: NONE fails at once; CONSTANT waits as long each time; EXPONENTIAL, the default, twice
                as long each time.
            max_retries: How often they are sent again; by default 8 times.
            delay_millis: The first pause; by default 100.

        Raises:
            ConfigurationError: If a number does not fit.
        """
        self._backoff = Backoff(flush_backoff_type, max_retries, delay_millis)
        return self

    def set_rejected_policy(self, policy: RejectedPolicy) -> Self:
        """Choose what becomes of documents that the server rejects for good (not in PyFlink)."""
        self._policy = policy
        return self

    def build(self) -> ElasticsearchSink:
        """Return the sink.

        Raises:
            ConfigurationError: If hosts or emitter are missing, or only one of user and password is there.
        """
        if self._emitter is None:
            raise ConfigurationError(
                "the sink has no emitter",
                hint="set_emitter(ElasticsearchEmitter.static_index('orders', 'id')).",
            )
        doc_type = self._type_of(self._emitter.doc_type)
        return ElasticsearchSink(
            self.connection(), self._emitter, doc_type, self._limits, self._backoff, self._policy
        )

    def _type_of(self, doc_type: str | None) -> str | None:
        """Return the type of documents that is sent; None if servers of this version have none."""
        return None


class Elasticsearch6SinkBuilder(ElasticsearchSinkBuilderBase):
    """Makes a sink for Elasticsearch 6, whose documents have a type; by default `_doc`.

    Example:
        >>> from millstream.datastream.connectors.elasticsearch import Elasticsearch6SinkBuilder, ElasticsearchEmitter
        >>> emitter = ElasticsearchEmitter.static_index("totals", key_field="shop", doc_type="total")
        >>> sink = Elasticsearch6SinkBuilder().set_hosts(["localhost:9200"]).set_emitter(emitter).build()
    """

    def _type_of(self, doc_type: str | None) -> str | None:
        return doc_type or "_doc"


class Elasticsearch7SinkBuilder(ElasticsearchSinkBuilderBase):
    """Makes a sink for Elasticsearch 7, which later versions understand as well.

    Example:
        >>> from millstream.datastream.connectors.elasticsearch import Elasticsearch7SinkBuilder, ElasticsearchEmitter
        >>> emitter = ElasticsearchEmitter.static_index("totals", key_field="shop")
        >>> builder = Elasticsearch7SinkBuilder().set_hosts(["localhost:9200"]).set_emitter(emitter)
        >>> sink = builder.set_bulk_flush_max_actions(500).build()
    """


class Elasticsearch8SinkBuilder(ElasticsearchSinkBuilderBase):
    """Makes a sink for Elasticsearch 8 and 9 (not in PyFlink).

    Example:
        >>> from millstream.datastream.connectors.elasticsearch import Elasticsearch8SinkBuilder, ElasticsearchEmitter
        >>> emitter = ElasticsearchEmitter.static_index("totals", key_field="shop")
        >>> sink = Elasticsearch8SinkBuilder().set_hosts(["localhost:9200"]).set_emitter(emitter).build()
    """


class OpenSearchSinkBuilder(ElasticsearchSinkBuilderBase):
    """Makes a sink for OpenSearch (not in PyFlink).

    Example:
        >>> from millstream.datastream.connectors.elasticsearch import ElasticsearchEmitter, OpenSearchSinkBuilder
        >>> emitter = ElasticsearchEmitter.static_index("totals", key_field="shop")
        >>> sink = OpenSearchSinkBuilder().set_hosts(["localhost:9200"]).set_emitter(emitter).build()
    """


def _limit(number: int, what: str) -> int | None:
    if number == -1:
        return None
    if not isinstance(number, int) or number < 1:
        raise ConfigurationError(
            f"{what} is {number!r}", detail="It is a number of at least 1, or -1 for no limit."
        )
    return number
