"""The source of topics: a source function, given to `add_source`.

Messages of QoS 1 stay with the broker, in the client's session, until they are acknowledged. That happens

- `ON_CHECKPOINT`: when a checkpoint is complete that has them. What no checkpoint has is given again after a failure;
- `ON_RECEIPT`: when they are in the receive log (`connectors/receive_log.py`), which is read again after a failure.

::

    ON_CHECKPOINT   m1 m2 m3 │ m4 m5      failure: m4 and m5 come again from the broker, by the session
                        checkpoint        complete: acknowledge m1 m2 m3
    ON_RECEIPT      m1 ─► log ─► acknowledge        failure: what is behind the checkpoint comes again from the log
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from millstream.base.errors import ConfigurationError, NotSupportedError, SourceError
from millstream.base.time import Duration, Time, to_milliseconds
from millstream.common.functions import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    RuntimeContext,
)
from millstream.common.source_functions import ParallelSourceFunction, SourceContext, SourceFunction
from millstream.common.state import ListState, ListStateDescriptor
from millstream.connectors.messages import MalformedPolicy, MessageDecoder
from millstream.connectors.mqtt.connection import MqttBroker, MqttConnection, MqttRefusal
from millstream.connectors.mqtt.records import decode
from millstream.connectors.mqtt.session import Message, MqttSession, SessionSettings
from millstream.connectors.mqtt.unacknowledged import Unacknowledged
from millstream.connectors.patience import Patience
from millstream.connectors.reconnects import Reconnects
from millstream.connectors.source_function import KnowsCheckpoints
from millstream.spi.serialization import DeserializationSchema, produced_type_of
from millstream.spi.source import SourceReaderContext
from millstream.types.basic import TypeInformation

__all__ = ["MqttAcknowledgement", "MqttSource", "MqttSourceBuilder"]

log = logging.getLogger(__name__)

_TAKEN = 200
_WAIT_S = 0.1
_MOST_UNACKNOWLEDGED = 65_535


class MqttAcknowledgement(Enum):
    """When messages of QoS 1 are acknowledged; without checkpoints always when they were received.

    Example:
        >>> from millstream.datastream.connectors.mqtt import MqttAcknowledgement
        >>> early = MqttAcknowledgement.ON_RECEIPT  # MqttSource.builder().set_acknowledgement(early)
    """

    ON_CHECKPOINT = "when a checkpoint is complete that has them"
    ON_RECEIPT = "when they are in the receive log"


@dataclass(frozen=True, slots=True)
class _Declared:
    """What a source was built with."""

    connection: MqttConnection
    filters: tuple[str, ...]
    schema: DeserializationSchema = field(repr=False)
    policy: MalformedPolicy
    with_metadata: bool
    qos: int
    settings: SessionSettings
    group: str | None

    @property
    def subscriptions(self) -> list[str]:
        if self.group is None:
            return list(self.filters)
        return [f"$share/{self.group}/{each}" for each in self.filters]


class MqttSource(SourceFunction):
    """Reads topics; made by `MqttSource.builder()`, given to `add_source`.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.mqtt import MqttSource
        >>> builder = MqttSource.builder().set_broker("mqtt://localhost:1883").set_topics("rooms/+/heat")
        >>> builder = builder.set_client_id("heating")  # the broker keeps for it what was not acknowledged
        >>> source = builder.set_value_only_deserializer(SimpleStringSchema()).build()  # env.add_source(source)
    """

    def __init__(self, declared: _Declared) -> None:
        super().__init__()
        self._declared = declared

    @staticmethod
    def builder() -> MqttSourceBuilder:
        """Return a builder."""
        return MqttSourceBuilder()

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type that the schema tells; none if records have metadata."""
        declared = self._declared
        return None if declared.with_metadata else produced_type_of(declared.schema)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Prepare; the broker is asked when `run` begins."""
        declared = self._declared
        self._running = True
        self._session: MqttSession | None = None
        self._lock = threading.Lock()
        self._unacknowledged = Unacknowledged()
        self._what = f"reading {', '.join(declared.filters)}"
        self._broker = MqttBroker(declared.connection, SourceError)
        self._settings = self._settings_of(runtime_context.get_index_of_this_subtask())
        self._decoder = MessageDecoder(
            declared.schema,
            declared.policy,
            SourceReaderContext(runtime_context.get_metrics_group()),
            source=f"the MQTT broker {declared.connection.address}",
        )

    def run(self, ctx: SourceContext) -> None:
        """Receive messages, by one connection after the other."""
        reconnects = Reconnects()
        while self._running:
            session = self._broker.call(self._what, self._connect, goes_on=lambda: self._running)
            reconnects.connected()
            try:
                while self._running:
                    self._receive(ctx, session, session.take(_TAKEN, _WAIT_S))
            except (MqttRefusal, OSError) as error:
                self._lose(session, error, reconnects)

    def _lose(self, session: MqttSession, error: MqttRefusal | OSError, reconnects: Reconnects) -> None:
        """Give up a connection that is lost, or the job if it was lost too often shortly after it was made."""
        session.close()
        if not self._broker.is_passing(error):
            raise self._broker.explain(self._what, error) from error
        address = self._broker.connection.address
        if reconnects.lost():
            raise SourceError(
                f"MQTT connection was lost {reconnects.losses} times shortly after it was made, "
                f"{self._what}: {error}",
                detail=f"Broker {address}, client {self._settings.client_id!r}.",
                hint="Does another client have the same id? Give each source of each job one of its own: "
                "set_client_id('...').",
            ) from error
        if reconnects.losses == 1:
            log.warning("MQTT %s, %s: connection lost: %s", address, self._what, error)
        reconnects.pause()

    def cancel(self) -> None:
        """Receive no more; what is acknowledged later still is."""
        self._running = False

    def close(self) -> None:
        """End the connection; the session stays with the broker as long as it was asked to keep it."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            session.close()

    def _settings_of(self, subtask: int) -> SessionSettings:
        settings = self._declared.settings
        if self._declared.group is None or not settings.client_id:
            return settings
        name = f"{settings.client_id}-{subtask}"
        return SessionSettings(name, settings.expiry_s, settings.receive_maximum)

    def _connect(self) -> MqttSession:
        declared = self._declared
        session = MqttSession(declared.connection, self._settings)
        try:
            session.open()
            had_one = self._session is not None and bool(self._settings.expiry_s)
            with self._lock:
                self._session = session
                self._unacknowledged.connected(resumed=session.is_resumed)
            session.subscribe(declared.subscriptions, declared.qos)
        except BaseException:
            session.close()
            raise
        if had_one and not session.is_resumed:
            log.warning(
                "MQTT %s has forgotten the session of client %s: messages since then are lost",
                declared.connection.address,
                self._settings.client_id,
            )
        return session

    def _receive(self, ctx: SourceContext, session: MqttSession, messages: Sequence[Message]) -> None:
        """Emit messages, and acknowledge each; the receive log has it when `collect` returns."""
        for message in messages:
            if not self._running:
                return
            self._emit(ctx, message)
            if message.qos:
                session.acknowledge([message.packet_id])

    def _emit(self, ctx: SourceContext, message: Message) -> None:
        for value in decode(self._decoder, [message], with_metadata=self._declared.with_metadata):
            ctx.collect(value)


class _AcknowledgingSource(MqttSource, CheckpointedFunction, CheckpointListener, KnowsCheckpoints):
    """Acknowledges messages when a checkpoint is complete that has them."""

    _sessions: ListState[str]

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        descriptor = ListStateDescriptor("clients")
        self._sessions = context.get_operator_state_store().get_union_list_state(descriptor)
        self._former = list(self._sessions.get() or ())

    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        if self._declared.group is None or not self._settings.client_id:
            return
        count = runtime_context.get_number_of_parallel_subtasks()
        mine = {self._settings_of(subtask).client_id for subtask in range(count)}
        name = self._declared.settings.client_id
        left = sorted(each for each in set(self._former) - mine if each.rpartition("-")[0] == name)
        if left:
            raise SourceError(
                f"the MQTT source {name!r} had more subtasks: nobody would read the sessions of {', '.join(left)}",
                detail="A broker keeps messages that were given to a client for that client.",
                hint=f"Restore it with a parallelism of {len(set(self._former))} or more.",
            )

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        with self._lock:
            self._unacknowledged.checkpoint(context.get_checkpoint_id())
        self._sessions.update([self._settings.client_id])

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        with self._lock:
            done = self._unacknowledged.complete(checkpoint_id)
            if self._session is not None:
                self._session.acknowledge(done)

    def _receive(self, ctx: SourceContext, session: MqttSession, messages: Sequence[Message]) -> None:
        if not self.makes_checkpoints:
            super()._receive(ctx, session, messages)
            return
        with ctx.get_checkpoint_lock():
            for message in messages:
                if self._is_new(session, message):
                    self._emit(ctx, message)

    def _is_new(self, session: MqttSession, message: Message) -> bool:
        if not message.qos:
            return True
        with self._lock:
            if self._unacknowledged.is_done(message.packet_id):
                session.acknowledge([message.packet_id])
                return False
            return self._unacknowledged.note(message.packet_id)


class _SharedSource(MqttSource, ParallelSourceFunction):
    """Shares the messages with the other subtasks."""


class _SharedAcknowledgingSource(_AcknowledgingSource, ParallelSourceFunction):
    """Shares the messages with the other subtasks."""


class MqttSourceBuilder:
    """Builds an `MqttSource`; each method returns the builder.

    Example:
        >>> from millstream.common import SimpleStringSchema
        >>> from millstream.datastream.connectors.mqtt import MqttSource
        >>> builder = MqttSource.builder().set_broker("mqtt://localhost:1883").set_topics("rooms/#")
        >>> builder = builder.set_qos(1).set_client_id("heating").set_with_metadata()
        >>> source = builder.set_value_only_deserializer(SimpleStringSchema()).build()
    """

    def __init__(self) -> None:
        self._url: str | None = None
        self._authority: str | None = None
        self._patience = Patience()
        self._filters: tuple[str, ...] = ()
        self._schema: DeserializationSchema | None = None
        self._policy = MalformedPolicy.fail()
        self._with_metadata = False
        self._qos = 1
        self._client_id = ""
        self._expiry_s = 86_400
        self._receive_maximum = 10_000
        self._group: str | None = None
        self._acknowledgement = MqttAcknowledgement.ON_CHECKPOINT

    def set_broker(self, url: str) -> MqttSourceBuilder:
        """Name the broker: `mqtt://user:password@host:1883`, or `mqtts://` with TLS.

        Raises:
            ConfigurationError: If it is no such URL.
        """
        MqttConnection(url)
        self._url = url
        return self

    def set_certificate_authority(self, path: str) -> MqttSourceBuilder:
        """Choose the file with the certificates of who signed the broker's; by default those of the system."""
        self._authority = path
        return self

    def set_topics(self, *filters: str) -> MqttSourceBuilder:
        """Choose topics, perhaps with wildcards: `plant/+/temperature`, `plant/#`.

        Raises:
            ConfigurationError: If one cannot be subscribed to.
        """
        for each in filters:
            if not _is_filter(each):
                raise ConfigurationError(
                    f"{each!r} cannot be subscribed to",
                    detail="+ stands for a whole level, # for all levels at the end.",
                )
        self._filters = filters
        return self

    def set_value_only_deserializer(self, schema: DeserializationSchema) -> MqttSourceBuilder:
        """Choose the schema that makes values of payloads.

        Raises:
            ConfigurationError: If it is no schema.
        """
        if not isinstance(schema, DeserializationSchema):
            raise ConfigurationError(f"{type(schema).__name__} is no DeserializationSchema")
        self._schema = schema
        return self

    def set_malformed_policy(self, policy: MalformedPolicy) -> MqttSourceBuilder:
        """Choose what becomes of messages that do not parse: fail (the default) or skip.

        Raises:
            NotSupportedError: If they are to go to a side output.
        """
        if policy not in (MalformedPolicy.fail(), MalformedPolicy.skip()):
            raise NotSupportedError(
                "a source function has no side output for dead letters",
                hint="MalformedPolicy.skip(), or read bytes and parse them in a process function.",
            )
        self._policy = policy
        return self

    def set_with_metadata(self) -> MqttSourceBuilder:
        """Have records be `MqttMessage`s, with topic and properties."""
        self._with_metadata = True
        return self

    def set_qos(self, qos: int) -> MqttSourceBuilder:
        """Choose the quality of service to subscribe with: 1, the default, or 0, at most once.

        Raises:
            NotSupportedError: If it is 2.
            ConfigurationError: If it is none of these.
        """
        if qos == 2:
            raise NotSupportedError(
                "the MQTT source does not subscribe with QoS 2",
                detail="The client library tells the broker that it has a message before the job has it: a slot that "
                "is killed in between loses it.",
                hint="Subscribe with QoS 1: messages that were published with QoS 2 come as well, at least once.",
            )
        if qos not in (0, 1):
            raise ConfigurationError(f"the QoS is {qos!r}, must be 0 or 1")
        self._qos = qos
        return self

    def set_client_id(self, client_id: str) -> MqttSourceBuilder:
        """Choose what the broker knows the session by, also in later runs of the job; needed with QoS 1.

        No other client may have it; with a shared group it gets the subtask's number at its end.
        """
        self._client_id = client_id
        return self

    def set_session_expiry(self, duration: Time | Duration) -> MqttSourceBuilder:
        """Choose how long the broker keeps session and messages while nobody reads; a day by default.

        Raises:
            ConfigurationError: If it is less than a second.
        """
        self._expiry_s = to_milliseconds(duration) // 1_000
        if self._expiry_s < 1:
            raise ConfigurationError("the session's expiry is less than a second")
        return self

    def set_receive_maximum(self, messages: int) -> MqttSourceBuilder:
        """Choose how many messages the broker may send before any is acknowledged; 10,000 by default.

        Raises:
            ConfigurationError: If it is not from 1 to 65,535.
        """
        if not 1 <= messages <= _MOST_UNACKNOWLEDGED:
            raise ConfigurationError(f"the receive maximum is {messages}, must be from 1 to 65535")
        self._receive_maximum = messages
        return self

    def set_shared_group(self, name: str) -> MqttSourceBuilder:
        """Have all subtasks read, each a share of the messages: a shared subscription with this name.

        Raises:
            ConfigurationError: If it is no name of a group.
        """
        if not name or set(name) & set("/+#"):
            raise ConfigurationError(f"{name!r} is no name of a shared group", detail="It has no /, + and #.")
        self._group = name
        return self

    def set_acknowledgement(self, acknowledgement: MqttAcknowledgement) -> MqttSourceBuilder:
        """Choose when messages of QoS 1 are acknowledged; by default when a checkpoint is complete that has them."""
        self._acknowledgement = MqttAcknowledgement(acknowledgement)
        return self

    def set_patience(self, patience: Patience) -> MqttSourceBuilder:
        """Choose how long the broker is waited for."""
        self._patience = patience
        return self

    def build(self) -> MqttSource:
        """Return the source.

        Raises:
            ConfigurationError: If broker, topics, schema, or a client id that is needed are missing.
        """
        if self._url is None:
            raise ConfigurationError("the MQTT source has no broker", hint="set_broker('mqtt://host:1883').")
        if not self._filters:
            raise ConfigurationError("the MQTT source has no topics", hint="set_topics('plant/#').")
        if self._schema is None:
            raise ConfigurationError(
                "the MQTT source has no schema", hint="set_value_only_deserializer(SimpleStringSchema())."
            )
        if self._qos and not self._client_id:
            raise ConfigurationError(
                "the MQTT source has no client id",
                detail="With QoS 1 the broker keeps what was not acknowledged for a client with a name.",
                hint="set_client_id('my-job'), or set_qos(0).",
            )
        expiry_s = self._expiry_s if self._qos else 0
        declared = _Declared(
            MqttConnection(self._url, self._patience, self._authority),
            self._filters,
            self._schema,
            self._policy,
            self._with_metadata,
            self._qos,
            SessionSettings(self._client_id, expiry_s, self._receive_maximum),
            self._group,
        )
        return _KINDS[self._acknowledgement, self._group is not None](declared)


_KINDS: dict[tuple[MqttAcknowledgement, bool], type[MqttSource]] = {
    (MqttAcknowledgement.ON_CHECKPOINT, False): _AcknowledgingSource,
    (MqttAcknowledgement.ON_CHECKPOINT, True): _SharedAcknowledgingSource,
    (MqttAcknowledgement.ON_RECEIPT, False): MqttSource,
    (MqttAcknowledgement.ON_RECEIPT, True): _SharedSource,
}


def _is_filter(name: str) -> bool:
    levels = name.split("/") if isinstance(name, str) and name else ["#", "#"]
    return all(
        ("+" not in level or level == "+")
        and ("#" not in level or (level == "#" and index == len(levels) - 1))
        for index, level in enumerate(levels)
    )
