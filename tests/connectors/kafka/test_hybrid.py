"""History from files, then a topic from where they end: nothing lost, nothing twice, in order."""

from __future__ import annotations

import pytest

from millstream.common import SimpleStringSchema, WatermarkStrategy
from millstream.datastream.connectors.base import Boundedness
from millstream.datastream.connectors.file_system import FileSource, StreamFormat
from millstream.datastream.connectors.hybrid_source import HybridSource
from millstream.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from millstream.testing import FailurePoint, MiniCluster, check_source


def history(directory, values):
    for number in range(2):
        (directory / f"{number}.txt").write_text("".join(f"{value}\n" for value in values[number::2]))
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(directory)).build()


FEW = {"parallelisms": (3,), "budgets": (4,)}
MORE = {"parallelisms": (1, 3), "budgets": (4, 100)}


@pytest.mark.parametrize(
    ("made", "numbers"),
    [(False, FEW), *(pytest.param(made, MORE, marks=pytest.mark.long) for made in (False, True))],
)
def test_files_then_a_topic_keep_the_contract(kafka, new_topic, source_of, tmp_path, made, numbers):
    topic = new_topic(partitions=2)
    values = [f"{place}" for place in range(30)]
    for partition in range(2):
        kafka.produce(topic, values[partition::2], partition=partition)
    builder = HybridSource.builder(history(tmp_path, [f"old {place}" for place in range(15)]))
    if made:
        declared = source_of(topic)
        builder.add_source_factory(lambda snapshot: declared, Boundedness.BOUNDED)
    else:
        builder.add_source(source_of(topic))
    expected = [*(f"old {place}" for place in range(15)), *values]
    check_source(builder.build(), expected=expected, **numbers)


@pytest.mark.parametrize("point", [FailurePoint.AFTER_EPOCH, FailurePoint.AFTER_CHECKPOINT])
def test_a_job_switches_and_commits_the_offsets_of_its_topic(kafka, new_topic, tmp_path, point):
    topic = new_topic()
    kafka.produce(topic, [f"{place}" for place in range(100, 200)])
    group = f"{topic}-group"
    source = KafkaSource.builder().set_bootstrap_servers(kafka.bootstrap).set_topics(topic)
    source = source.set_group_id(group).set_starting_offsets(KafkaOffsetsInitializer.earliest())
    source = source.set_bounded(KafkaOffsetsInitializer.latest())
    source = source.set_value_only_deserializer(SimpleStringSchema()).build()
    files = history(tmp_path, [f"{place}" for place in range(100)])
    hybrid = HybridSource.builder(files).add_source(source).build()
    with MiniCluster(options={"millstream.epoch.fixed-records": 30}) as cluster:
        for occurrence in range(2, 8, 2):  # before, at and behind the switch
            cluster.fail_at(point, occurrence)
        stream = cluster.environment().from_source(hybrid, WatermarkStrategy.no_watermarks(), "both")
        found = list(cluster.collect(stream))
    assert sorted(found[:100], key=int) == [f"{place}" for place in range(100)]
    assert found[100:] == [f"{place}" for place in range(100, 200)]
    assert kafka.committed(group, topic) == {0: 100}
