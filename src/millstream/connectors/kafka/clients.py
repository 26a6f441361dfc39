"""Clients of a Kafka cluster: made of Kafka's properties, heard when they complain, their errors explained."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from millstream.base.clock import Clock, SystemClock
from millstream.base.errors import ConfigurationError, SinkError, SourceError
from millstream.base.optional import load_package
from millstream.connectors.kafka.errors import KafkaProblem, error_of, explain, is_passing
from millstream.connectors.kafka.properties import ClientKind, KafkaProperties, translate
from millstream.connectors.patience import Patience

__all__ = ["DEFAULTS", "Cluster", "confluent_kafka"]

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Key = TypeVar("Key")

DEFAULTS: dict[ClientKind, dict[str, str]] = {
    # Records of a key go where producers in Java put them.
    "producer": {"partitioner": "murmur2_random"},
    # By default a full queue is looked at again after a second, and a fetch at the end of the log holds back others.
    "consumer": {
        "fetch.queue.backoff.ms": "5",
        "fetch.wait.max.ms": "100",
        "queued.min.messages": "20000",
    },
    "admin": {},
}
_COMMON = {
    "reconnect.backoff.max.ms": "1000",  # 10 s by default: so long it would take to see that a broker is back
    "log.connection.close": "false",  # brokers close idle connections
}
_LOOK_S = 0.5
_ANSWER_S = 10.0
# What will not get better by waiting: the client itself goes on trying.
_FINAL = frozenset({"_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED"})
_TELLING = frozenset({"_TRANSPORT", "_RESOLVE"})

_quiet = logging.getLogger("millstream.connectors.kafka.librdkafka")
_quiet.setLevel(logging.CRITICAL + 1)  # what matters comes as an error, said once and explained


def confluent_kafka(module: str = "confluent_kafka") -> Any:
    """Return the client library, or one of its modules.

    Raises:
        ConfigurationError: If it is not installed.
    """
    return load_package(module, extra="kafka", what="Kafka sources and sinks")


class Cluster:
    """A Kafka cluster as one source or sink sees it. Not picklable: made where it is used.

    Args:
        properties: Kafka's properties, with `bootstrap.servers`.
        kind: What its errors are: `SourceError` or `SinkError`.
        patience: How long it is waited for.
    """

    def __init__(
        self, properties: Mapping[str, Any], kind: KafkaProblem, patience: Patience | None = None
    ) -> None:
        self.properties = KafkaProperties(properties)
        self.patience = patience or Patience()
        self._kind = kind
        self._reason: Any = None
        self._admin: Any = None
        self._due: list[tuple[Any, Any]] = []
        self._due_lock = threading.Lock()
        if not self.properties.get("bootstrap.servers"):
            raise ConfigurationError(
                "no Kafka brokers are named", hint='Set bootstrap servers: "host:9092,other:9092".'
            )

    def producer(self, **settings: Any) -> Any:
        """Make a `confluent_kafka.Producer`; settings are librdkafka's, with `_` for `.`, and win."""
        return self._make("producer", confluent_kafka().Producer, settings)

    def consumer(self, **settings: Any) -> Any:
        """Make a `confluent_kafka.Consumer`; settings are librdkafka's, with `_` for `.`, and win."""
        return self._make("consumer", confluent_kafka().Consumer, settings)

    @property
    def admin(self) -> Any:
        """The cluster's `confluent_kafka.admin.AdminClient`."""
        if self._admin is None:
            self._admin = self._make("admin", confluent_kafka("confluent_kafka.admin").AdminClient, {})
        return self._admin

    def ask(self, request: Callable[[Any], Mapping[Key, Any]]) -> dict[Key, Any]:
        """Ask brokers something, without waiting; any thread may.

        A client that is let go of never answers what is still open, not even that time has run out. So the client is
        kept until it has answered, also where `call` makes another one for somebody else in the meantime.

        Args:
            request: Calls a method of the admin client that returns futures.

        Returns:
            The futures; each has a result or an error when the request's timeout has run out.
        """
        admin = self.admin
        futures = dict(request(admin))
        with self._due_lock:
            still = [(client, future) for client, future in self._due if not future.done()]
            self._due = still + [(admin, future) for future in futures.values()]
        return futures

    def _make(self, kind: ClientKind, build: Callable[..., Any], settings: dict[str, Any]) -> Any:
        config, ignored = translate(self.properties, kind)
        config = {**_COMMON, **DEFAULTS[kind], **config}
        config.update(
            (name.replace("_", "."), value) for name, value in settings.items() if name != "on_delivery"
        )
        if "on_delivery" in settings:
            config["on_delivery"] = settings["on_delivery"]
        for key, reason in ignored.items():
            log.debug("Kafka's property %s is ignored: %s", key, reason)
        try:
            return build({**config, "error_cb": self._hear}, logger=_quiet)
        except confluent_kafka().KafkaException as error:
            raise self._configuration_error(error) from None

    def _configuration_error(self, error: Exception) -> ConfigurationError:
        told = error_of(error)
        text = self.properties.without_secrets(str(error) if told is None else told.str())
        return ConfigurationError(
            f"Kafka's client does not take the properties of this source or sink: {text}",
            hint="Properties are Kafka's own (docs/connectors/kafka.md lists what differs) or librdkafka's.",
        )

    def _hear(self, error: Any) -> None:
        """Keep what a client reports of its connections: calls only say that time has run out."""
        if error.name() in _FINAL or (error.name() in _TELLING and not self._is_refused()):
            self._reason = error

    def _is_refused(self) -> bool:
        return self._reason is not None and self._reason.name() in _FINAL

    def is_passing(self, cause: Exception) -> bool:
        """Return whether an error may pass by itself: not if the brokers refused the login meanwhile."""
        return is_passing(cause) and not self._is_refused()

    def explain(self, cause: Any, doing: str) -> SourceError | SinkError:
        """Return the error to raise for what a client raised or reported (`errors.explain`)."""
        return explain(cause, kind=self._kind, doing=doing, properties=self.properties, reason=self._reason)

    def raise_if_refused(self, doing: str) -> None:
        """Raise an error if the brokers refused the login, or have no certificate that is trusted.

        Raises:
            SourceError, SinkError: If so.
        """
        if self._is_refused():
            raise self.explain(self._reason, doing)

    def call(self, action: Callable[[], Result], doing: str, *, clock: Clock | None = None) -> Result:
        """Return what an action of a client gives; tried again while its failures may pass.

        Args:
            action: May be repeated.
            doing: What has failed if it fails: `topic 'orders' could not be read`.
            clock: What time it is.

        Raises:
            SourceError, SinkError: As `kind` says, if it failed for good.
        """
        what = f"Kafka at {self.properties['bootstrap.servers']}"

        def attempt() -> Result:
            try:
                return action()
            except confluent_kafka().KafkaException:
                # One that was there before a group's coordinator was killed may never reach it again.
                self._admin = None
                raise

        try:
            result = self.patience.call(attempt, is_passing=self.is_passing, what=what, log=log, clock=clock)
        except confluent_kafka().KafkaException as error:
            raise self.explain(error, doing) from None
        self._reason = None
        return result

    def reach(self, doing: str, *, clock: Clock | None = None) -> Any:
        """Wait until a broker answers, and return the cluster's metadata.

        A login that is refused, or a certificate that is not trusted, is raised at once.

        Raises:
            SourceError, SinkError: If none does.
        """
        return self.topics(None, doing, clock=clock)

    def topics(self, topic: str | None, doing: str, *, clock: Clock | None = None) -> Any:
        """Return the metadata of one topic, or of all.

        Raises:
            SourceError, SinkError: If no broker answers.
        """
        clock = clock or SystemClock()
        names = () if topic is None else (topic,)

        def look() -> Any:
            admin = self.admin
            deadline = clock.monotonic() + min(_ANSWER_S, self.patience.total_s)
            while True:
                try:
                    return admin.list_topics(*names, timeout=_LOOK_S)
                except confluent_kafka().KafkaException as error:
                    admin.poll(0)  # hears why
                    if not self.is_passing(error) or clock.monotonic() > deadline:
                        raise

        return self.call(look, doing, clock=clock)

    def close(self) -> None:
        """Let go of the admin client."""
        self._admin = None
