"""What millstream itself registers under the entry point group `millstream.connectors`: one constant for each system.

As in anybody's package (`spi.connector`): the entry points are in pyproject.toml. Nothing of a system is imported here.
"""

from __future__ import annotations

from millstream.spi.connector import Connector

__all__ = [
    "CASSANDRA",
    "DELTA",
    "DYNAMODB",
    "ELASTICSEARCH",
    "FILES",
    "HTTP",
    "HYBRID",
    "ICEBERG",
    "JDBC",
    "KAFKA",
    "KINESIS",
    "MONGODB",
    "MQTT",
    "MYSQL",
    "NATS",
    "POSTGRES",
    "PULSAR",
    "RABBITMQ",
    "REDIS",
    "SPARK",
    "WEBSOCKET",
]

_BASE = "millstream.datastream.connectors"

CASSANDRA = Connector(
    sources=(f"{_BASE}.cassandra.CassandraSource",),
    sinks=(f"{_BASE}.cassandra.CassandraSink", f"{_BASE}.cassandra.CassandraRowSink"),
    lookups=(f"{_BASE}.cassandra.CassandraLookup",),
    guarantee="source exactly once; sinks at least once, once by key, or ahead of a log",
    packages=("cassandra-driver",),
    install="millstream[cassandra]",
    page="docs/connectors/cassandra.md",
)
DELTA = Connector(
    sources=(f"{_BASE}.delta.DeltaSource",),
    sinks=(f"{_BASE}.delta.DeltaSink",),
    guarantee="exactly once",
    packages=("deltalake", "pyarrow"),
    install="millstream[delta]",
    page="docs/connectors/delta.md",
)
DYNAMODB = Connector(
    sources=(f"{_BASE}.dynamodb.DynamoDbStreamsSource",),
    sinks=(f"{_BASE}.dynamodb.DynamoDbSink",),
    lookups=(f"{_BASE}.dynamodb.DynamoDbLookup",),
    guarantee="source exactly once; sink at least once, once by key",
    packages=("boto3",),
    install="millstream[dynamodb]",
    page="docs/connectors/dynamodb.md",
)
ELASTICSEARCH = Connector(
    sources=(f"{_BASE}.elasticsearch.ElasticsearchSource",),
    sinks=(f"{_BASE}.elasticsearch.ElasticsearchSink",),
    lookups=(f"{_BASE}.elasticsearch.ElasticsearchLookup",),
    guarantee="source exactly once; sink at least once, with ids as good as exactly once",
    packages=("urllib3",),
    install="millstream[elasticsearch]",
    page="docs/connectors/elasticsearch.md",
)
FILES = Connector(
    sources=(f"{_BASE}.file_system.FileSource",),
    sinks=(f"{_BASE}.file_system.FileSink",),
    guarantee="exactly once",
    page="docs/sinks.md",
)
HTTP = Connector(
    sources=(f"{_BASE}.http.HttpSource",),
    sinks=(f"{_BASE}.http.HttpSink",),
    guarantee="exactly once with servers that give the same again, and remember keys",
    packages=("httpx",),
    install="millstream[http]",
    page="docs/connectors/http.md",
)
HYBRID = Connector(
    sources=(f"{_BASE}.hybrid_source.HybridSource",),
    guarantee="that of its sources",
    page="docs/connectors/hybrid.md",
)
ICEBERG = Connector(
    sources=(f"{_BASE}.iceberg.IcebergSource",),
    sinks=(f"{_BASE}.iceberg.IcebergSink",),
    guarantee="exactly once",
    packages=("pyiceberg", "pyarrow"),
    install="millstream[iceberg]",
    page="docs/connectors/iceberg.md",
)
JDBC = Connector(
    sources=(f"{_BASE}.jdbc.JdbcSource",),
    sinks=(f"{_BASE}.jdbc.JdbcSink",),
    lookups=(f"{_BASE}.jdbc.JdbcLookup",),
    guarantee="exactly once; others than PostgreSQL, MySQL, SQLite at least once",
    page="docs/connectors/jdbc.md",
)
KAFKA = Connector(
    sources=(f"{_BASE}.kafka.KafkaSource", f"{_BASE}.dynamic_kafka.DynamicKafkaSource"),
    sinks=(f"{_BASE}.kafka.KafkaSink",),
    guarantee="exactly once",
    packages=("confluent-kafka",),
    install="millstream[kafka]",
    page="docs/connectors/kafka.md",
)
KINESIS = Connector(
    sources=(f"{_BASE}.kinesis.KinesisStreamsSource", f"{_BASE}.kinesis.FlinkKinesisConsumer"),
    sinks=(f"{_BASE}.kinesis.KinesisStreamsSink", f"{_BASE}.kinesis.KinesisFirehoseSink"),
    guarantee="exactly once; sinks at least once",
    packages=("boto3",),
    install="millstream[kinesis]",
    page="docs/connectors/kinesis.md",
)
MONGODB = Connector(
    sources=(f"{_BASE}.mongodb.MongoSource",),
    sinks=(f"{_BASE}.mongodb.MongoSink",),
    lookups=(f"{_BASE}.mongodb.MongoLookup",),
    guarantee="exactly once; sink at least once, once by id",
    packages=("pymongo",),
    install="millstream[mongodb]",
    page="docs/connectors/mongodb.md",
)
MQTT = Connector(
    sources=(f"{_BASE}.mqtt.MqttSource",),
    sinks=(f"{_BASE}.mqtt.MqttSink",),
    guarantee="at least once",
    packages=("paho-mqtt",),
    install="millstream[mqtt]",
    page="docs/connectors/mqtt.md",
)
MYSQL = Connector(
    sources=(f"{_BASE}.mysql.MySqlSource", f"{_BASE}.mysql.MySqlChangeSource"),
    guarantee="exactly once",
    packages=("pymysql", "mysql-replication", "pyarrow"),
    install="millstream[mysql,parquet]",
    page="docs/connectors/mysql.md",
)
NATS = Connector(
    sources=(f"{_BASE}.nats.NatsStreamSource",),
    sinks=(f"{_BASE}.nats.NatsSink",),
    guarantee="exactly once; sink at least once",
    packages=("nats-py",),
    install="millstream[nats]",
    page="docs/connectors/nats.md",
)
POSTGRES = Connector(
    sources=(f"{_BASE}.postgres.PostgresSource", f"{_BASE}.postgres.PostgresChangeSource"),
    guarantee="exactly once",
    packages=("psycopg", "pyarrow"),
    install="millstream[postgres,parquet]",
    page="docs/connectors/postgres.md",
)
PULSAR = Connector(
    sources=(f"{_BASE}.pulsar.PulsarSource",),
    sinks=(f"{_BASE}.pulsar.PulsarSink",),
    guarantee="exactly once; sink where topics deduplicate",
    packages=("pulsar-client",),
    install="millstream[pulsar]",
    page="docs/connectors/pulsar.md",
)
RABBITMQ = Connector(
    sources=(f"{_BASE}.rabbitmq.RMQSource",),
    sinks=(f"{_BASE}.rabbitmq.RMQSink",),
    guarantee="exactly once; sink at least once",
    packages=("pika",),
    install="millstream[rabbitmq]",
    page="docs/connectors/rabbitmq.md",
)
REDIS = Connector(
    sources=(f"{_BASE}.redis.RedisStreamSource",),
    sinks=(f"{_BASE}.redis.RedisSink",),
    lookups=(f"{_BASE}.redis.RedisLookup",),
    guarantee="exactly once",
    packages=("redis",),
    install="millstream[redis]",
    page="docs/connectors/redis.md",
)
SPARK = Connector(
    sinks=(f"{_BASE}.spark.SparkSink",),
    guarantee="at least once; exactly once by an id",
    packages=("pyspark", "pyarrow"),
    install="millstream[parquet]",
    page="docs/connectors/spark.md",
)
WEBSOCKET = Connector(
    sources=(f"{_BASE}.websocket.WebSocketSource",),
    sinks=(f"{_BASE}.websocket.WebSocketSink",),
    guarantee="exactly once from receipt on; sink at least once as far as the server's library",
    packages=("websockets",),
    install="millstream[websocket]",
    page="docs/connectors/websocket.md",
)
