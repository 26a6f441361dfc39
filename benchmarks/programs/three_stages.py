"""The job of `kafka_kills.py`: numbers of a topic, counted in two stages behind the source, to a sink exactly once.

It is run by `millstream run`; its argument, JSON, says where the numbers are and where results go.
"""

import json
import sys

from millstream.common import Encoder, Row, SerializationSchema, SimpleStringSchema, Types, WatermarkStrategy
from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import FileSink, RollingPolicy
from millstream.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from millstream.datastream.state import ValueStateDescriptor
from millstream.table import DataTypes

settings = json.loads(sys.argv[1])
keys, groups = settings["keys"], settings["groups"]
NAMES = ("key", "seen", "in_group")


class Count(KeyedProcessFunction):
    """Put how often its key was seen behind each record."""

    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, context):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield (*value, count)


class Key(SerializationSchema):
    def serialize(self, value):
        return value.partition(":")[0].encode()


def as_text(result):
    return ":".join(map(str, result))


def as_row(result):
    return Row(**dict(zip(NAMES, result, strict=True)))


def add_sink(results, to, where):
    if to == "postgres":
        results.map(as_row, Types.ROW_NAMED(list(NAMES), [Types.LONG()] * 3)).sink_to(postgres(where)).uid(
            "sink"
        )
    elif to in ("iceberg", "delta"):
        results.map(as_row).sink_to(iceberg(where) if to == "iceberg" else delta(where)).uid("sink")
    else:
        texts = results.map(as_text, Types.STRING())
        texts.sink_to(kafka(where) if to == "kafka" else files(where)).uid("sink")


def kafka(where):
    schema = KafkaRecordSerializationSchema.builder().set_topic(where).set_key_serialization_schema(Key())
    schema.set_value_serialization_schema(SimpleStringSchema())
    sink = (
        KafkaSink.builder().set_bootstrap_servers(settings["servers"]).set_record_serializer(schema.build())
    )
    return (
        sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("kills")
        .build()
    )


def files(where):
    sink = FileSink.for_row_format(where, Encoder.simple_string_encoder())
    # Every checkpoint publishes: by default a file is visible after a minute, unless the job restarts.
    return sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()


def postgres(where):
    from millstream.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink

    connection = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(where["url"])
    connection.with_user_name(where["user"]).with_password(where["password"])
    kind = Types.ROW_NAMED(list(NAMES), [Types.LONG()] * 3)
    return JdbcSink.table(where["table"]).with_type_info(kind).build_exactly_once(connection.build())


def row_type():
    return DataTypes.ROW([DataTypes.FIELD(name, DataTypes.BIGINT()) for name in NAMES])


def iceberg(where):
    from millstream.datastream.connectors.iceberg import IcebergSink

    sink = IcebergSink.builder().set_catalog("lake", where["catalog"]).set_table(where["table"])
    return sink.set_row_type(row_type()).build()


def delta(where):
    from millstream.datastream.connectors.delta import DeltaSink

    return DeltaSink.builder().set_table(where).set_row_type(row_type()).build()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
source = (
    KafkaSource.builder()
    .set_bootstrap_servers(settings["servers"])
    .set_topics("numbers")
    .set_starting_offsets(KafkaOffsetsInitializer.earliest())
    .set_value_only_deserializer(SimpleStringSchema())
    .build()
)
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
counted = (
    numbers.map(lambda value: (int(value) % keys,))
    .key_by(lambda value: value[0])
    .process(Count())
    .uid("count")
    .key_by(lambda value: value[0] % groups)
    .process(Count())
    .uid("count in group")
)
add_sink(counted, settings["to"], settings["where"])
env.execute("counting")
