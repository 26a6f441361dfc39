"""Committers that have Spark work, beside the job's epochs: whose jobs these are, and what becomes of them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from millstream.base.errors import JobExecutionError
from millstream.common import Row, Types, WatermarkStrategy
from millstream.common.job_status import JobStatus
from millstream.datastream import MapFunction
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.connectors.spark import SparkSink
from millstream.graph.launcher import spark_session
from millstream.types.datatypes import DataTypes

pytestmark = pytest.mark.spark

KIND = DataTypes.ROW([DataTypes.FIELD("number", DataTypes.BIGINT())])


class Seen(MapFunction):
    """Notes which number it has seen last."""

    def __init__(self, note: Path):
        self.note = note

    def map(self, value):
        self.note.write_text(f"{value}\n")
        return Row(number=value)


def test_epochs_go_on_while_spark_commits_and_a_cancelled_job_takes_that_with_it(
    new_environment, processes, tmp_path
):
    options = {
        "execution.checkpointing.interval": "50 ms",
        "restart-strategy.type": "none",
        "millstream.slot.timeout": "2 s",
    }
    env = new_environment("local[2]", 1, options)
    session = spark_session(env._configuration)
    context = session.sparkContext
    properties: list[str | None] = []

    def sleep_long(rows):
        time.sleep(600)
        return rows

    def write(frame, commit):
        names = ("spark.job.tags", "spark.job.interruptOnCancel", "spark.job.description")
        properties.extend(map(context.getLocalProperty, names))
        frame.rdd.mapPartitions(sleep_long).collect()

    builder = SparkSink.builder().set_session(session).set_staging_directory(str(tmp_path / "staged"))
    sink = builder.set_row_type(KIND).set_write(write).build()
    source = DataGeneratorSource(
        lambda index: index, 10**9, RateLimiterStrategy.per_second(200), Types.LONG()
    )
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    note = tmp_path / "seen"
    numbers.map(Seen(note), Types.ROW_NAMED(["number"], [Types.LONG()])).sink_to(sink)
    client = env.execute_async("beside")

    def seen() -> int:
        return int((note.read_text() if note.exists() else "").strip() or -1)

    processes.wait_until(lambda: len(properties) == 3, "the first commit has begun")
    tags, interrupts, description = properties
    assert tags is not None
    assert f"millstream-{client.get_job_id()}-0" in tags.split(",")
    assert interrupts == "true"
    assert str(description).startswith("beside: ")
    before = seen()
    processes.wait_until(lambda: seen() > before + 100, "epochs go on")
    jobs = context.statusTracker()
    assert jobs.getActiveJobsIds(), "the commit's own job runs"

    client.cancel().result()
    assert client.get_job_status().result() is JobStatus.CANCELED
    with pytest.raises(JobExecutionError, match="the job was cancelled"):
        client.get_job_execution_result().result()
    processes.wait_until(lambda: not jobs.getActiveJobsIds(), "Spark runs nothing of it", seconds=15)
    assert len(properties) == 3, "nothing was committed behind that"
    processes.wait_until_no_slot()
