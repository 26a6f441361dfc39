"""The examples of the apache-flink wheel that talk to Kafka, on a real broker; only its address is another one."""

from __future__ import annotations

import json
import re

import pytest
from flink_wheel import run

NUMBERED = [
    ("1", "hi"),
    ("2", "hello"),
    ("3", "hi"),
    ("4", "hello"),
    ("5", "hi"),
    ("6", "hello"),
    ("6", "hello"),
]
ROWS = [f"+I[{number},{word}]" for number, word in NUMBERED]
TEXTS = [("1", "USA"), ("2", "Canada"), ("3", "Germany")]


@pytest.fixture
def run_example(examples, tmp_path, kafka):
    """Run an example until nothing comes any more; return what it prints."""

    def run_it(name):
        source = (examples / f"connectors/{name}.py").read_text()
        program = tmp_path / f"{name}.py"
        program.write_text(source.replace("localhost:9092", kafka.bootstrap))
        return run(program, options=("-D", "millstream.execution.stop-when-idle=3 s"), cwd=tmp_path)

    return run_it


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "topic", "expected"),
    [
        ("json_format", "test_json_topic", ROWS),
        ("csv_format", "test_csv_topic", ROWS),
        ("avro_format", "test_avro_topic", ROWS),
    ],
)
def test_what_is_written_to_kafka_is_read_and_printed(run_example, kafka, name, topic, expected):
    kafka.create_topic(topic)
    printed = [re.sub(r"^\d+> ", "", line) for line in run_example(f"kafka_{name}")]
    assert sorted(line for line in printed if line.startswith("+I")) == sorted(expected)


@pytest.mark.slow
def test_bytes_that_are_written_to_kafka_are_read_and_printed(run_example, kafka):
    kafka.create_topic("test_bytearray_topic")
    # A number and a word of each record.
    printed = [re.findall(r"[=:] ?[\"']?(\w+)", line) for line in run_example("kafka_bytearray_format")]
    assert sorted(tuple(each) for each in printed if len(each) == 2) == sorted(TEXTS)


@pytest.mark.slow
def test_keys_and_values_are_taken_out_of_rows(run_example, kafka):
    topic = kafka.create_topic("row-extractor-example", 3)
    run_example("kafka_row_field_extractor_example")
    found = {(message.key(), json.loads(message.value())["item"]) for message in kafka.messages(topic)}
    assert found == {
        (b"user-001", "laptop"),
        (b"user-002", "phone"),
        (b"user-001", "mouse"),
        (b"user-003", "keyboard"),
    }
