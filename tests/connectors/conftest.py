"""Servers that connectors are tested with: one of each kind for a session, something of its own in it for each test."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from servers.cassandra import CassandraServer
from servers.dynamodb import DynamoDbServer
from servers.elasticsearch import ElasticsearchServer
from servers.kafka import KafkaServer
from servers.kinesis import KinesisServer
from servers.mariadb import MariaDbDatabase, MariaDbServer
from servers.mongodb import MongoStandIn
from servers.nats import NatsServer
from servers.opensearch import OpenSearchServer
from servers.postgres import PostgresDatabase, PostgresServer
from servers.process import lent, running
from servers.pulsar import PulsarServer
from servers.rabbitmq import RabbitServer
from servers.redis import RedisDatabase, RedisServer
from servers.registry import RegistryServer
from servers.search import SearchServer


@pytest.fixture
def new_topic(kafka: KafkaServer) -> Callable[..., str]:
    """Make Kafka topics with names of their own: `new_topic(partitions=2, cleanup_policy="compact")`."""

    def make(partitions: int = 1, **config: object) -> str:
        return kafka.create_topic(f"topic-{uuid.uuid4().hex[:12]}", partitions, **config)

    return make


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    yield from running(PostgresServer())


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> Iterator[PostgresDatabase]:
    """A new database. Tests that stop or pause its server start it again, or leave that to this fixture."""
    with postgres_server.new_database() as database:
        yield database


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    yield from running(RedisServer(tmp_path_factory.mktemp("redis")))


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
    yield from running(MariaDbServer())


@pytest.fixture
def mariadb(mariadb_server: MariaDbServer) -> Iterator[MariaDbDatabase]:
    """A new database. Tests that stop or pause its server start it again, or leave that to this fixture."""
    with mariadb_server.new_database() as database:
        yield database


@pytest.fixture(scope="session")
def schema_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    yield from running(RegistryServer(tmp_path_factory.mktemp("registry")))


@pytest.fixture(scope="session")
def rabbit_server() -> Iterator[RabbitServer]:
    yield from running(RabbitServer())


@pytest.fixture
def rabbit(rabbit_server: RabbitServer) -> Iterator[RabbitServer]:
    """A broker, for queues with names of their own. Tests that stop it may leave starting it to this."""
    yield from lent(rabbit_server)


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    yield from running(NatsServer(tmp_path_factory.mktemp("nats")))


@pytest.fixture
def nats(nats_server: NatsServer) -> Iterator[NatsServer]:
    """A server, for streams with names of their own. Tests that stop or pause it may leave the rest to this."""
    yield from lent(nats_server)


@pytest.fixture(scope="session", params=[OpenSearchServer, ElasticsearchServer])
def search_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SearchServer]:
    yield from running(request.param(tmp_path_factory.mktemp("search")))


@pytest.fixture
def search(search_server: SearchServer) -> Iterator[SearchServer]:
    """OpenSearch, then Elasticsearch. Tests that stop or pause it may leave the rest to this."""
    yield from lent(search_server)


@pytest.fixture(scope="session")
def cassandra_server() -> Iterator[CassandraServer]:
    yield from running(CassandraServer())


@pytest.fixture
def cassandra(cassandra_server: CassandraServer) -> Iterator[CassandraServer]:
    """A node, for keyspaces with names of their own. Tests that stop or pause it may leave the rest to this."""
    yield from lent(cassandra_server)


@pytest.fixture(scope="session")
def mongodb_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MongoStandIn]:
    yield from running(MongoStandIn(tmp_path_factory.mktemp("mongodb")))


@pytest.fixture
def mongodb(mongodb_server: MongoStandIn) -> Iterator[MongoStandIn]:
    """A stand-in, for collections with names of their own. Tests that stop or pause it may leave the rest to this."""
    yield from lent(mongodb_server)


@pytest.fixture(scope="session")
def pulsar_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarServer]:
    yield from running(PulsarServer(tmp_path_factory.mktemp("pulsar")))


@pytest.fixture
def pulsar(pulsar_server: PulsarServer) -> Iterator[PulsarServer]:
    """A server, for topics with names of their own. Tests that stop or pause it may leave the rest to this."""
    yield from lent(pulsar_server)


@pytest.fixture(scope="session")
def kinesis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KinesisServer]:
    yield from running(KinesisServer(tmp_path_factory.mktemp("kinesis")))


@pytest.fixture
def kinesis(kinesis_server: KinesisServer) -> Iterator[KinesisServer]:
    """A server, for streams with names of their own. Tests that stop or pause it may leave the rest to this."""
    yield from lent(kinesis_server)


@pytest.fixture(scope="session")
def dynamodb_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DynamoDbServer]:
    yield from running(DynamoDbServer(tmp_path_factory.mktemp("dynamodb")))


@pytest.fixture
def dynamodb(dynamodb_server: DynamoDbServer) -> Iterator[DynamoDbServer]:
    """A server, for tables with names of their own. Tests that stop or pause it may leave the rest to this."""
    yield from lent(dynamodb_server)
