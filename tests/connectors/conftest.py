"""Servers that connectors are tested with: one of each kind for a session, something of its own in it for each test."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from servers.cassandra import CassandraServer
from servers.elasticsearch import ElasticsearchServer
from servers.kafka import KafkaServer
from servers.kinesis import KinesisServer
from servers.mariadb import MariaDbDatabase, MariaDbServer
from servers.mongodb import MongoStandIn
from servers.nats import NatsServer
from servers.opensearch import OpenSearchServer
from servers.postgres import PostgresDatabase, PostgresServer
from servers.pulsar import PulsarServer
from servers.rabbitmq import RabbitServer
from servers.redis import RedisDatabase, RedisServer
from servers.registry import RegistryServer
from servers.search import SearchServer


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A Kafka broker. Tests that kill it start it again."""
    server = KafkaServer(tmp_path_factory.mktemp("kafka"))
    try:
        server.start()
        server.warm_up()
        yield server
    finally:
        server.stop()


@pytest.fixture
def new_topic(kafka: KafkaServer) -> Callable[..., str]:
    """Make Kafka topics with names of their own: `new_topic(partitions=2, cleanup_policy="compact")`."""

    def make(partitions: int = 1, **config: object) -> str:
        return kafka.create_topic(f"topic-{uuid.uuid4().hex[:12]}", partitions, **config)

    return make


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> Iterator[PostgresDatabase]:
    """A new database. Tests that stop or pause its server start it again, or leave that to this fixture."""
    with postgres_server.new_database() as database:
        yield database


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def redis_database(redis_server: RedisServer) -> Iterator[RedisDatabase]:
    """An empty database. Tests that stop or pause its server start it again, or leave that to this fixture."""
    database = redis_server.new_database()
    try:
        yield database
    finally:
        redis_server.ensure()


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaDbServer]:
    server = MariaDbServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def mariadb(mariadb_server: MariaDbServer) -> Iterator[MariaDbDatabase]:
    """A new database. Tests that stop or pause its server start it again, or leave that to this fixture."""
    with mariadb_server.new_database() as database:
        yield database


@pytest.fixture(scope="session")
def schema_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    server = RegistryServer(tmp_path_factory.mktemp("registry"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def rabbit_server() -> Iterator[RabbitServer]:
    server = RabbitServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def rabbit(rabbit_server: RabbitServer) -> Iterator[RabbitServer]:
    """A broker, for queues with names of their own. Tests that stop it may leave starting it to this."""
    try:
        yield rabbit_server
    finally:
        rabbit_server.ensure()


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path_factory.mktemp("nats"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def nats(nats_server: NatsServer) -> Iterator[NatsServer]:
    """A server, for streams with names of their own. Tests that stop or pause it may leave the rest to this."""
    try:
        yield nats_server
    finally:
        nats_server.ensure()


@pytest.fixture(scope="session", params=[OpenSearchServer, ElasticsearchServer])
def search_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SearchServer]:
    server: SearchServer = request.param(tmp_path_factory.mktemp("search"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def search(search_server: SearchServer) -> Iterator[SearchServer]:
    """OpenSearch, then Elasticsearch. Tests that stop or pause it may leave the rest to this."""
    try:
        yield search_server
    finally:
        search_server.ensure()


@pytest.fixture(scope="session")
def cassandra_server() -> Iterator[CassandraServer]:
    server = CassandraServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def cassandra(cassandra_server: CassandraServer) -> Iterator[CassandraServer]:
    """A node, for keyspaces with names of their own. Tests that stop or pause it may leave the rest to this."""
    try:
        yield cassandra_server
    finally:
        cassandra_server.ensure()


@pytest.fixture(scope="session")
def mongodb_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MongoStandIn]:
    server = MongoStandIn(tmp_path_factory.mktemp("mongodb"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def mongodb(mongodb_server: MongoStandIn) -> Iterator[MongoStandIn]:
    """A stand-in, for collections with names of their own. Tests that stop or pause it may leave the rest to this."""
    try:
        yield mongodb_server
    finally:
        mongodb_server.ensure()


@pytest.fixture(scope="session")
def pulsar_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarServer]:
    server = PulsarServer(tmp_path_factory.mktemp("pulsar"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def pulsar(pulsar_server: PulsarServer) -> Iterator[PulsarServer]:
    """A server, for topics with names of their own. Tests that stop or pause it may leave the rest to this."""
    try:
        yield pulsar_server
    finally:
        pulsar_server.ensure()


@pytest.fixture(scope="session")
def kinesis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KinesisServer]:
    server = KinesisServer(tmp_path_factory.mktemp("kinesis"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def kinesis(kinesis_server: KinesisServer) -> Iterator[KinesisServer]:
    """A server, for streams with names of their own. Tests that stop or pause it may leave the rest to this."""
    try:
        yield kinesis_server
    finally:
        kinesis_server.ensure()
