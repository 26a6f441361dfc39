"""The source of a queue (PyFlink's `RMQSource`).

::

    receive    m1 m2 m3 │ m4 m5 │ m6            emitted under the checkpoint lock
    checkpoint          7       8
    complete                  7: acknowledge up to m3

A message is acknowledged when a checkpoint is complete that has it, as a record that was processed or in the buffer. So
after a failure the broker gives again what is in no checkpoint, and perhaps some that is: its acknowledgement was under
way, or its connection was lost. With correlation ids those are known, for the ids of messages without acknowledgement
are part of the checkpoint, and dropped: exactly once. Without, they are processed again: at least once.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from millstream.base.errors import ConfigurationError, MalformedRecordError, NotSupportedError, SourceError
from millstream.common.functions import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    RuntimeContext,
)
from millstream.common.source_functions import SourceContext, SourceFunction
from millstream.common.state import ListState, ListStateDescriptor
from millstream.connectors.messages import MalformedPolicy, MessageDecoder
from millstream.connectors.patience import Patience
from millstream.connectors.rabbitmq.config import RMQConnectionConfig
from millstream.connectors.rabbitmq.connecting import Broker
from millstream.connectors.rabbitmq.consumer import Consumer, Delivery
from millstream.connectors.source_function import KnowsCheckpoints
from millstream.spi.serialization import DeserializationSchema, produced_type_of
from millstream.spi.source import SourceReaderContext
from millstream.types.basic import TypeInformation

__all__ = ["RMQSource"]

_PREFETCH = 10_000
_TAKEN = 200
_WAIT_S = 0.1
_MOST_FORMER_IDS = 100_000


@dataclass
class _Received:
    """What was received and not acknowledged.

    Attributes:
        session: Of the last message.
        tag: Of the last message, 0 before the first.
        ids: Correlation ids since the last checkpoint.
        known: All that are not acknowledged, in the order of their coming.
        pending: What each checkpoint that is not complete asks to acknowledge: number, session, tag, ids.
        acknowledged: Ids that the broker took note of; the consumer's thread appends.
    """

    session: int = 0
    tag: int = 0
    ids: list[str] = field(default_factory=list)
    known: dict[str, None] = field(default_factory=dict)
    pending: deque[tuple[int, int, int, list[str]]] = field(default_factory=deque)
    acknowledged: deque[list[str]] = field(default_factory=deque)


class RMQSource(SourceFunction, CheckpointedFunction, CheckpointListener, KnowsCheckpoints):
    """Reads a queue, by one subtask; give it to `add_source`.

    Exactly once with checkpoints and correlation ids, which differ for all messages; at least once with checkpoints
    only. Without checkpoints messages are acknowledged when they were received (at most once).

    Args:
        connection_config: Where the broker is.
        queue_name: The queue; a durable one is declared if there is none.
        use_correlation_id: Whether each message has a correlation id of its own.
        deserialization_schema: Makes the records.
        malformed_policy: What becomes of messages that do not parse: fail (the default) or skip.
        reject_malformed: Have the broker drop them, or send them to the queue's dead letter exchange.
        patience: How long the broker is waited for.

    Raises:
        ConfigurationError: If an argument is something else.
        NotSupportedError: If malformed messages are to go to a side output.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.rabbitmq import RMQConnectionConfig, RMQSource
        >>> config = RMQConnectionConfig.Builder().set_uri("amqp://guest:guest@localhost:5672/%2F").build()
        >>> source = RMQSource(config, "orders", True, SimpleStringSchema())  # env.add_source(source)
    """

    def __init__(
        self,
        connection_config: RMQConnectionConfig,
        queue_name: str,
        use_correlation_id: bool,
        deserialization_schema: DeserializationSchema,
        *,
        malformed_policy: MalformedPolicy | None = None,
        reject_malformed: bool = False,
        patience: Patience | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(connection_config, RMQConnectionConfig):
            raise ConfigurationError(f"{type(connection_config).__name__} is no RMQConnectionConfig")
        if not isinstance(deserialization_schema, DeserializationSchema):
            raise ConfigurationError(f"{type(deserialization_schema).__name__} is no DeserializationSchema")
        policy = malformed_policy or MalformedPolicy.fail()
        if policy not in (MalformedPolicy.fail(), MalformedPolicy.skip()):
            raise NotSupportedError(
                "a source function has no side output for dead letters",
                hint="Have the broker keep them: reject_malformed=True, and a queue with x-dead-letter-exchange.",
            )
        self._config = connection_config
        self._queue = queue_name
        self._use_ids = use_correlation_id
        self._schema = deserialization_schema
        self._policy = policy
        self._rejects = reject_malformed
        self._patience = patience or Patience()

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type that the schema tells."""
        return produced_type_of(self._schema)

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Learn which messages were processed that may come again."""
        descriptor = ListStateDescriptor("correlation-ids")
        self._state: ListState[str] = context.get_operator_state_store().get_list_state(descriptor)
        former = list(self._state.get() or ())[-_MOST_FORMER_IDS:]  # most of them will not come again
        self._received = _Received(known=dict.fromkeys(former))

    def open(self, runtime_context: RuntimeContext) -> None:
        """Prepare; the broker is asked when `run` begins."""
        self._running = True
        self._consumer: Consumer | None = None
        self._decoder = MessageDecoder(
            self._schema,
            MalformedPolicy.fail() if self._rejects else self._policy,
            SourceReaderContext(runtime_context.get_metrics_group()),
            source=f"the RabbitMQ queue {self._queue}",
        )

    def run(self, ctx: SourceContext) -> None:
        """Receive messages."""
        prefetch = self._config.get_prefetch_count()
        self._consumer = consumer = Consumer(
            Broker(self._config, SourceError, self._patience),
            self._queue,
            _PREFETCH if prefetch is None else prefetch,
        )
        while self._running:
            deliveries = consumer.take(_TAKEN, _WAIT_S)
            with ctx.get_checkpoint_lock():
                for delivery in deliveries:
                    self._receive(ctx, consumer, delivery)
            if deliveries and not self.makes_checkpoints and self._received.tag:
                consumer.acknowledge(self._received.session, self._received.tag)

    def cancel(self) -> None:
        """Receive no more; what is acknowledged later still is."""
        self._running = False

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Keep the ids of messages that are not acknowledged; called under the checkpoint lock."""
        received = self._received
        while received.acknowledged:
            for each in received.acknowledged.popleft():
                received.known.pop(each, None)
        received.pending.append((context.get_checkpoint_id(), received.session, received.tag, received.ids))
        received.ids = []
        self._state.update(list(received.known))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Acknowledge what the checkpoint has."""
        received, done = self._received, []
        while received.pending and received.pending[0][0] <= checkpoint_id:
            done.append(received.pending.popleft())
        if not done or self._consumer is None:
            return
        _, session, tag, _ = done[-1]
        ids = [each for _, of, _, ids in done if of == session for each in ids]
        if tag:
            self._consumer.acknowledge(session, tag, lambda: received.acknowledged.append(ids))

    def close(self) -> None:
        """End the connection: what is not acknowledged goes back to the queue."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _receive(self, ctx: SourceContext, consumer: Consumer, delivery: Delivery) -> None:
        received = self._received
        if delivery.session != received.session:  # what came before comes again
            received.session, received.tag, received.ids = delivery.session, 0, []
        if self._is_new(delivery):
            values = self._values(delivery)
            if values is None:
                consumer.reject(delivery)
                return
            for value in values:
                ctx.collect(value)
        received.tag = delivery.tag

    def _is_new(self, delivery: Delivery) -> bool:
        """Return whether a message is no repetition, and take note of its id."""
        if not self._use_ids:
            return True
        name, received = delivery.correlation_id, self._received
        if name is None:
            raise SourceError(
                f'a message of the RabbitMQ queue "{self._queue}" has no correlation id',
                detail="The source was made with use_correlation_id=True.",
                hint="Have whoever sends the messages give each an id of its own, or take use_correlation_id=False.",
            )
        is_new = name not in received.known
        received.ids.append(name)
        if is_new:
            received.known[name] = None
        return is_new

    def _values(self, delivery: Delivery) -> list[Any] | None:
        """Return the records of a message; None if it does not parse and is to be rejected."""
        try:
            values, _ = self._decoder.decode_values([delivery.body], lambda _: f"message {delivery.tag}")
        except MalformedRecordError:
            if self._rejects:
                return None
            raise
        return values
