"""Sources of the broker's topics."""

from __future__ import annotations

import pytest

from connectors.kafka.streams_in_file import Streams
from millstream.common import SimpleStringSchema
from millstream.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from servers.kafka import KafkaServer


@pytest.fixture
def source_of(kafka):
    """Build sources of strings: `source_of(topic, starts=…, stops=…, unbounded=…, group_id=…)`."""

    def build(*topics, starts=None, stops=None, unbounded=False, pattern=None, schema=None, **properties):
        builder = KafkaSource.builder().set_bootstrap_servers(kafka.bootstrap)
        builder.set_starting_offsets(starts or KafkaOffsetsInitializer.earliest())
        builder.set_properties({key.replace("_", "."): value for key, value in properties.items()})
        if schema is None:
            builder.set_value_only_deserializer(SimpleStringSchema())
        else:
            builder.set_deserializer(schema)
        if topics:
            builder.set_topics(*topics)
        elif pattern is not None:
            builder.set_topic_pattern(pattern)
        if not unbounded:
            builder.set_bounded(stops or KafkaOffsetsInitializer.latest())
        return builder.build()

    return build


@pytest.fixture(scope="session")
def other_kafka(tmp_path_factory):
    """A second cluster. Tests that kill it start it again."""
    server = KafkaServer(tmp_path_factory.mktemp("other-kafka"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def streams(kafka, other_kafka, tmp_path):
    """A metadata service of the clusters `west` and `east`."""
    return Streams(tmp_path / "streams.json", {"west": kafka.bootstrap, "east": other_kafka.bootstrap})
