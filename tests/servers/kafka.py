"""A Kafka broker (KRaft) from Maven's artifacts."""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from servers.maven import jars
from servers.ports import free_port
from servers.process import Server, answers

# 4.4.0 refers to an artifact that Maven Central has not got (kafka-tools-api). Without a binding of SLF4J the broker
# logs nothing.
KAFKA = ("org.apache.kafka:kafka_2.13:4.3.1", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4")

_JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOG4J = """Configuration:
  status: warn
  Appenders:
    Console: {name: C, PatternLayout: {pattern: "[%d] %p %m (%c)%n"}}
  Loggers:
    Root: {level: WARN, AppenderRef: {ref: C}}
"""


class KafkaServer(Server):
    """One broker that is its own controller; topics are made by `create_topic`.

    Attributes:
        user_name: Who may log in at `sasl_bootstrap`.
        password: With what.
    """

    user_name = "millie"
    password = "s3cr3t-of-millie"

    def __init__(self, directory: Path, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(directory)
        self._sasl_port = free_port()
        self._controller_port = free_port()
        self._properties = dict(properties or {})
        self._admin: AdminClient | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def sasl_bootstrap(self) -> str:
        """The same broker; it asks for a password (SASL_PLAINTEXT, PLAIN)."""
        return f"127.0.0.1:{self._sasl_port}"

    @property
    def login(self) -> dict[str, str]:
        """Kafka's properties of a client of `sasl_bootstrap`."""
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{module} required username="{self.user_name}" password="{self.password}";',
        }

    def command(self) -> list[str]:
        properties = self.directory / "server.properties"
        if not properties.exists():
            properties.write_text("".join(f"{key}={value}\n" for key, value in self._settings().items()))
            (self.directory / "log4j2.yaml").write_text(_LOG4J)
            self._format(properties)
        return [*self._java(), "kafka.Kafka", str(properties)]

    def _java(self) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self.directory}/log4j2.yaml"
        return ["java", *_JVM, logging, "-cp", jars(KAFKA)]

    def _format(self, properties: Path) -> None:
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes)[:22].decode().replace("-", "A")
        command = [*self._java(), "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def _settings(self) -> dict[str, str]:
        addresses = f"PLAINTEXT://{self.bootstrap},SASL_PLAINTEXT://{self.sasl_bootstrap}"
        controller = f"127.0.0.1:{self._controller_port}"
        login = self.login["sasl.jaas.config"].replace(";", f' user_{self.user_name}="{self.password}";')
        one = (
            "offsets.topic.replication.factor",
            "offsets.topic.num.partitions",
            "transaction.state.log.replication.factor",
            "transaction.state.log.min.isr",
            "transaction.state.log.num.partitions",
            "share.coordinator.state.topic.replication.factor",
            "share.coordinator.state.topic.min.isr",
            "num.network.threads",
            "background.threads",
            "log.cleaner.threads",
        )
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"{addresses},CONTROLLER://{controller}",
            "advertised.listeners": addresses,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": login,
            "log.dirs": f"{self.directory}/data",
            **dict.fromkeys(one, "1"),
            "num.io.threads": "2",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            "log.cleaner.dedupe.buffer.size": "2097152",
            "controlled.shutdown.enable": "false",
            "log.cleaner.backoff.ms": "500",
            "broker.session.timeout.ms": "2000",  # so long a broker that was killed is not let in again
            "broker.heartbeat.interval.ms": "400",
            **self._properties,
        }

    def is_ready(self) -> bool:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": "0"})
        return answers(lambda: admin.list_topics(timeout=1))

    @property
    def admin(self) -> AdminClient:
        """A client that lives as long as this object: what is asked of a temporary one is given up with it."""
        if self._admin is None:
            self._admin = AdminClient(
                {"bootstrap.servers": self.bootstrap, "reconnect.backoff.max.ms": "500", "log_level": "0"}
            )
        return self._admin

    def warm_up(self) -> None:
        """Make the broker's own topics: the first transaction and the first group take more than a second."""
        self.create_topic("warm-up")
        producer = self.producer({"transactional.id": "warm-up"})
        producer.init_transactions(30)
        self.committed("warm-up", "warm-up")

    def create_topic(self, name: str, partitions: int = 1, **config: Any) -> str:
        """Make a topic and wait until it is known; records stay whatever their timestamps, unless `config` differs.

        Args:
            name: The topic's name, which is returned.
            partitions: How many it has.
            config: The topic's settings, with `_` for `.`: `cleanup_policy="compact"`.
        """
        settings = {"retention.ms": "-1"} | {key.replace("_", "."): str(each) for key, each in config.items()}
        topic = NewTopic(name, partitions, 1, config=settings)
        self.admin.create_topics([topic])[name].result(30)
        self._wait_for(name, partitions)
        return name

    def add_partitions(self, name: str, partitions: int) -> None:
        """Have a topic have so many partitions."""
        self.admin.create_partitions([NewPartitions(name, partitions)])[name].result(30)
        self._wait_for(name, partitions)

    def delete_topic(self, name: str) -> None:
        self.admin.delete_topics([name])[name].result(30)
        while name in self.admin.list_topics(timeout=10).topics:
            pass

    def _wait_for(self, name: str, partitions: int) -> None:
        """Wait until partitions have leaders: a partition just made may be asked for its offsets then."""
        reader = self.consumer("none")
        while len(self.admin.list_topics(name, timeout=10).topics[name].partitions) < partitions:
            pass
        for partition in range(partitions):
            place = TopicPartition(name, partition)
            while not answers(lambda place=place: reader.get_watermark_offsets(place, timeout=10)):
                pass
        reader.close()

    def producer(self, settings: Mapping[str, Any] | None = None) -> Producer:
        """Make a producer of the public client, with settings of librdkafka."""
        return Producer({"bootstrap.servers": self.bootstrap, "log_level": "0", **(settings or {})})

    def produce(
        self,
        topic: str,
        values: Sequence[bytes | str | None],
        *,
        partition: int = 0,
        keys: Sequence[bytes | str] | None = None,
        timestamps: Sequence[int] | None = None,
    ) -> None:
        """Write messages; return when all are acknowledged."""
        producer = self.producer({"linger.ms": "5", "queue.buffering.max.messages": "1000000"})
        errors: list[Any] = []
        for place, value in enumerate(values):
            producer.produce(
                topic,
                value,
                key=None if keys is None else keys[place],
                partition=partition,
                timestamp=0 if timestamps is None else timestamps[place],
                on_delivery=lambda error, _: errors.append(error) if error is not None else None,
            )
            if place % 500_000 == 499_999:  # its queue has an end
                assert producer.flush(60) == 0
        assert producer.flush(60) == 0
        assert not errors, errors[0]

    def consumer(self, group: str) -> Consumer:
        """Make a consumer of the public client."""
        return Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": "0"})

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Delete the records of a partition in front of an offset."""
        place = TopicPartition(topic, partition, before)
        self.admin.delete_records([place])[place].result(30)

    def messages(self, topic: str, *, isolation: str = "read_committed") -> list[Any]:
        """Return all messages of a topic, partition by partition, as the public client gives them."""
        reader = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "messages",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": isolation,
                "auto.offset.reset": "error",
                "log_level": "0",
            }
        )
        partitions = sorted(self.admin.list_topics(topic, timeout=10).topics[topic].partitions)
        found: dict[int, list[Any]] = {partition: [] for partition in partitions}
        # -2: from the first that is there.
        reader.assign([TopicPartition(topic, partition, -2) for partition in partitions])
        ended: set[int] = set()
        while len(ended) < len(partitions):
            message = reader.poll(10)
            assert message is not None, "the broker does not answer"
            if message.error() is None:
                found[message.partition()].append(message)
            elif message.error().name() == "_PARTITION_EOF":
                ended.add(message.partition())
            else:
                raise KafkaException(message.error())
        reader.close()
        return [message for partition in partitions for message in found[partition]]

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Return the offsets that a group has committed, by partition."""
        request = [ConsumerGroupTopicPartitions(group)]
        offsets = self.admin.list_consumer_group_offsets(request)[group].result(30).topic_partitions
        return {each.partition: each.offset for each in offsets if each.topic == topic and each.offset >= 0}
