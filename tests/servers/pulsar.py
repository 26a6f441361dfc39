"""A standalone Pulsar (broker, bookie and metadata in one process) from Maven's artifacts."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pulsar

from servers.maven import jars
from servers.ports import free_port
from servers.process import Server, answers

PULSAR = (
    "org.apache.pulsar:pulsar-broker:4.0.7",
    "org.apache.logging.log4j:log4j-core:2.23.1",
    "org.apache.logging.log4j:log4j-slf4j2-impl:2.23.1",
)

_OPENED = (
    "java.base/sun.net",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
    "java.base/jdk.internal.platform",
    "java.base/java.nio",
    "java.base/jdk.internal.misc",
    "java.base/java.lang",
    "java.base/sun.nio.ch",
)
_JVM = (
    "-Xmx384m",
    "-XX:MaxDirectMemorySize=256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dorg.apache.pulsar.shade.io.netty.tryReflectionSetAccessible=true",
    *(f"--add-opens={module}=ALL-UNNAMED" for module in _OPENED),
)
_LOG4J = """<Configuration status="WARN">
  <Appenders><Console name="C"><PatternLayout pattern="%d %-5p %c{1} %m%n"/></Console></Appenders>
  <Loggers><Root level="warn"><AppenderRef ref="C"/></Root></Loggers>
</Configuration>
"""


class PulsarServer(Server):
    """Pulsar with deduplication; topics are made when they are used, and keep what was acknowledged for an hour.

    Args:
        directory: Of its data.
        settings: Further ones of the broker.
        authentication: How the server's own tests log in, if it wants that.
        admin_headers: The same, of its REST API.
    """

    start_s = 240

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, object] | None = None,
        authentication: Any = None,
        admin_headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory)
        self.admin_port = free_port()
        self._bookie_port = free_port()
        self._settings = dict(settings or {})
        self._authentication = authentication
        self._admin_headers = dict(admin_headers or {})

    @property
    def url(self) -> str:
        return f"pulsar://127.0.0.1:{self.port}"

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self.admin_port}"

    def command(self) -> list[str]:
        configuration = self.directory / "standalone.conf"
        configuration.write_text("".join(f"{key}={value}\n" for key, value in self._all_settings().items()))
        (self.directory / "log4j2.xml").write_text(_LOG4J)
        return [
            "java",
            *_JVM,
            "-cp",
            f"{self.directory}:{jars(PULSAR)}",
            "org.apache.pulsar.PulsarStandaloneStarter",
            "--config",
            str(configuration),
            "--no-functions-worker",
            "--no-stream-storage",
            "--metadata-dir",
            f"{self.directory}/metadata",
            "--bookkeeper-dir",
            f"{self.directory}/bookie",
            "--bookkeeper-port",
            str(self._bookie_port),
            "--advertised-address",
            "127.0.0.1",
        ]

    def _all_settings(self) -> dict[str, object]:
        return {
            "clusterName": "standalone",
            "brokerServicePort": self.port,
            "webServicePort": self.admin_port,
            "bindAddress": "127.0.0.1",
            "advertisedAddress": "127.0.0.1",
            "managedLedgerDefaultEnsembleSize": 1,
            "managedLedgerDefaultWriteQuorum": 1,
            "managedLedgerDefaultAckQuorum": 1,
            "brokerDeduplicationEnabled": "true",
            "allowAutoTopicCreation": "true",
            "allowAutoTopicCreationType": "non-partitioned",
            "loadBalancerEnabled": "false",
            "numIOThreads": 2,
            "numHttpServerThreads": 4,
            "journalSyncData": "false",
            "managedLedgerCacheSizeMB": 16,
            "defaultRetentionTimeInMinutes": 60,
            "defaultRetentionSizeInMB": 200,
            "dbStorage_writeCacheMaxSizeMb": 32,
            "dbStorage_readAheadCacheMaxSizeMb": 16,
            "dbStorage_rocksDB_blockCacheSize": 16777216,
            "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
            **self._settings,
        }

    def is_ready(self) -> bool:
        def ask() -> None:
            assert "standalone" in self.admin("GET", "clusters")
            self.admin("GET", "namespaces/public/default")

        return answers(ask)

    def admin(self, method: str, path: str, body: object = None) -> Any:
        """Return what the REST API answers."""
        request = urllib.request.Request(
            f"{self.admin_url}/admin/v2/{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json", **self._admin_headers},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def run(self, action: Callable[[Any], Any]) -> Any:
        """Do something with a client of its own."""
        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        client = pulsar.Client(
            self.url, authentication=self._authentication, operation_timeout_seconds=20, logger=logger
        )
        try:
            return action(client)
        finally:
            client.close()

    def new_topic(self, partitions: int = 0, namespace: str = "public/default") -> PulsarTopic:
        """Make a topic: of so many partitions, or, with 0, one that is not partitioned."""
        topic = PulsarTopic(self, f"persistent://{namespace}/t{uuid.uuid4().hex[:12]}", partitions)
        path = topic.name.replace("://", "/")
        if partitions:
            self.admin("PUT", f"{path}/partitions", partitions)
        else:
            self.admin("PUT", path)
        return topic

    def new_namespace(self, **policies: object) -> str:
        """Make a namespace in the tenant public."""
        name = f"public/n{uuid.uuid4().hex[:12]}"
        self.admin("PUT", f"namespaces/{name}")
        for policy, value in policies.items():
            self.admin("POST", f"namespaces/{name}/{policy}", value)
        return name


class PulsarTopic:
    """A topic of a server."""

    def __init__(self, server: PulsarServer, name: str, partitions: int = 0) -> None:
        self.server = server
        self.name = name
        self._partitions = partitions

    @property
    def path(self) -> str:
        """What it is called in the REST API."""
        return self.name.replace("://", "/")

    @property
    def partitions(self) -> list[str]:
        if not self._partitions:
            return [self.name]
        return [f"{self.name}-partition-{index}" for index in range(self._partitions)]

    def extend(self, partitions: int) -> None:
        """Have more partitions."""
        self.server.admin("POST", f"{self.path}/partitions", partitions)
        self._partitions = partitions

    def remove(self) -> None:
        end = "/partitions" if self._partitions else ""
        self.server.admin("DELETE", f"{self.path}{end}?force=true")

    def add(
        self, values: Iterable[Any], *, partition: int = 0, batched: bool = False, **options: Any
    ) -> list[bytes]:
        """Publish texts, or bytes, to a partition; return their ids. Options are those of the client's `send`."""
        ids: list[bytes] = []

        def note(result: Any, message_id: Any) -> None:
            assert result == pulsar.Result.Ok, result
            ids.append(message_id.serialize())

        def publish(client: Any) -> None:
            producer = client.create_producer(
                self.partitions[partition],
                batching_enabled=batched,
                batching_max_publish_delay_ms=20,
                block_if_queue_full=True,
            )
            for value in values:
                data = value if isinstance(value, bytes) else str(value).encode()
                producer.send_async(data, note, **options)
            producer.flush()
            producer.close()

        self.server.run(publish)
        return ids

    def messages(self) -> list[Any]:
        """Return all messages, partition by partition."""

        def read(client: Any) -> list[Any]:
            found = []
            for partition in self.partitions:
                reader = client.create_reader(partition, pulsar.MessageId.earliest, receiver_queue_size=5_000)
                while reader.has_message_available():
                    found.append(reader.read_next(10_000))
                reader.close()
            return found

        return self.server.run(read)  # type: ignore[no-any-return]

    def read(self) -> list[str]:
        """Return the texts of all messages, partition by partition."""
        return [message.data().decode() for message in self.messages()]

    def cursor(self, subscription: str, partition: int = 0) -> str | None:
        """Return where a subscription stands, `ledger:entry`; None if there is none."""
        path = self.partitions[partition].replace("://", "/")
        with suppress(urllib.error.HTTPError):
            stats = self.server.admin("GET", f"{path}/internalStats")
            found = stats["cursors"].get(subscription)
            return None if found is None else found["markDeletePosition"]
        return None
