"""The broker of the tests does what they rely on."""

from __future__ import annotations

import pytest


@pytest.mark.long
def test_what_is_acknowledged_survives_a_kill(kafka, new_topic):
    topic = new_topic(partitions=2)
    kafka.produce(topic, ["a", "b"])
    kafka.produce(topic, ["c"], partition=1, keys=["k"], timestamps=[7])
    kafka.stop()
    kafka.start()
    assert [message.value() for message in kafka.messages(topic)] == [b"a", b"b", b"c"]
    assert kafka.messages(topic)[-1].timestamp() == (1, 7)


def test_records_of_an_aborted_transaction_are_not_seen(kafka, new_topic):
    topic = new_topic()
    producer = kafka.producer({"transactional.id": topic})
    producer.init_transactions(30)
    for value in ("lost", "kept"):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(30)
        producer.commit_transaction(30) if value == "kept" else producer.abort_transaction(30)
    assert [message.value() for message in kafka.messages(topic)] == [b"kept"]
    assert len(kafka.messages(topic, isolation="read_uncommitted")) == 2


def test_partitions_are_added_and_offsets_committed(kafka, new_topic):
    topic = new_topic()
    kafka.add_partitions(topic, 3)
    kafka.produce(topic, ["x"], partition=2)
    assert len(kafka.messages(topic)) == 1
    assert kafka.committed("nobody", topic) == {}
