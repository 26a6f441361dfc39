"""The DataStream examples of the apache-flink wheel, unmodified, against what PyFlink printed.

The wheel is downloaded and read as a zip; it is not installed. What PyFlink printed is in `expected/`. Order is no
part of it, nor is which subtask a line comes from (`2> `), which depends on how a key is hashed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from flink_wheel import run

EXPECTED = Path(__file__).parent / "expected"

BOUNDED = [
    "basic_operations",
    "process_json_data",
    "state_access",
    "event_time_timer",
    "word_count",
    "windowing/tumbling_time_window",
    "windowing/sliding_time_window",
    "windowing/session_with_gap_window",
    "windowing/session_with_dynamic_gap_window",
    "windowing/tumbling_count_window",
]
UNBOUNDED = ["streaming_word_count", "asyncio/remote_model_inference"]
# They talk to Kafka: test_kafka_examples.py.
KAFKA = [
    "connectors/kafka_avro_format",
    "connectors/kafka_bytearray_format",
    "connectors/kafka_csv_format",
    "connectors/kafka_json_format",
    "connectors/kafka_row_field_extractor_example",
]
# It talks to Elasticsearch: test_elasticsearch_example.py.
ELASTICSEARCH = ["connectors/elasticsearch"]
# It talks to Pulsar: test_pulsar_example.py.
PULSAR = ["connectors/pulsar"]


def comparable(lines: list[str]) -> list[str]:
    return sorted(re.sub(r"^\d+> ", "", line) for line in lines)


def test_every_example_of_the_wheel_is_in_one_of_the_lists(examples):
    found = {str(path.relative_to(examples).with_suffix("")) for path in examples.rglob("*.py")}
    assert {name for name in found if not name.endswith("__init__")} == {
        *BOUNDED,
        *UNBOUNDED,
        *KAFKA,
        *ELASTICSEARCH,
        *PULSAR,
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", BOUNDED)
def test_bounded_example_prints_what_pyflink_prints(examples, name, tmp_path):
    expected = (EXPECTED / f"{Path(name).name}.txt").read_text().splitlines()
    assert comparable(run(examples / f"{name}.py", cwd=tmp_path)) == comparable(expected)


# One interpreter and one Spark session for all of them: each would take as long to start as all take to run.
ALL_ON_SPARK = """
import sys
from millstream.cli.options import JobOptions
from millstream.cli.run import run_with_options
from millstream.base.pyflink_names import install

install()
for path in sys.argv[1:]:
    print(f"=== {path}", flush=True)
    code = run_with_options(path, [], JobOptions({}, parallelism=2, target="local[2]", progress=False))
    assert code == 0, f"{path} ended with {code}"
"""


@pytest.mark.slow
@pytest.mark.spark
def test_bounded_examples_print_the_same_on_spark(examples, tmp_path):
    paths = {str(examples / f"{name}.py"): name for name in BOUNDED}
    result = subprocess.run(
        [sys.executable, "-c", ALL_ON_SPARK, *paths],
        capture_output=True,
        text=True,
        timeout=280,
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    printed = re.split(r"^=== (.+)\n", result.stdout, flags=re.MULTILINE)[1:]
    assert len(printed) == 2 * len(paths)
    for path, text in zip(printed[::2], printed[1::2], strict=True):
        expected = (EXPECTED / f"{Path(path).stem}.txt").read_text().splitlines()
        assert comparable(text.splitlines()) == comparable(expected), path


@pytest.mark.slow
def test_word_count_reads_and_writes_files(examples, tmp_path):
    (tmp_path / "in.txt").write_text("to be or not to be\nthat is\n")
    arguments = ("--input", str(tmp_path / "in.txt"), "--output", str(tmp_path / "out"))
    run(examples / "word_count.py", *arguments, cwd=tmp_path)
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert all(path.name.startswith("prefix") and path.name.endswith(".ext") for path in files)
    lines = sorted(line for path in files for line in path.read_text().splitlines())
    assert lines == ["(be,2)", "(is,1)", "(not,1)", "(or,1)", "(that,1)", "(to,2)"]


@pytest.mark.slow
def test_streaming_word_count_counts_until_it_is_stopped(examples, tmp_path):
    # Five words a second without end: it is stopped after a few epochs.
    lines = run(
        examples / "streaming_word_count.py",
        options=("-D", "millstream.execution.max-epochs=6"),
        cwd=tmp_path,
    )
    counted = [re.fullmatch(r"(?:\d+> )?\((\w+),(\d+)\)", line) for line in lines[1:]]
    assert lines[0].startswith("Printing result to stdout")
    assert counted and all(counted)
    seen: dict[str, int] = {}
    for word, count in ((match[1], int(match[2])) for match in counted if match):
        assert count == seen.get(word, 0) + 1
        seen[word] = count


@pytest.mark.slow
def test_remote_model_inference_answers_for_every_row(examples, tmp_path):
    # Ten rows in all: a second or two for each answer, all at once, some after a retry.
    source = (examples / "asyncio/remote_model_inference.py").read_text()
    lines = run(
        examples / "asyncio/remote_model_inference.py",
        options=("-D", "millstream.execution.max-epochs=3"),
        cwd=tmp_path,
    )
    printed = [re.sub(r"^\d+> ", "", line) for line in lines]  # the program logs to standard output as well
    answers = [json.loads(line) for line in printed if line.startswith("{")]
    assert "unordered_wait_with_retry" in source
    assert answers and {answer["analysis_result"] for answer in answers} == {"positive"}
    assert len({answer["user_id"] for answer in answers}) == len(answers)
