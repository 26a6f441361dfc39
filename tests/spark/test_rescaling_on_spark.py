"""A job on Spark is rescaled while it runs: other slots, the same results."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from millstream.common import Encoder, Types, WatermarkStrategy
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.connectors.file_system import FileSink
from millstream.datastream.functions import KeyedProcessFunction
from millstream.datastream.state import ValueStateDescriptor
from millstream.runtime.control.channel import find_jobs
from millstream.runtime.control.commands import Rescale
from millstream.runtime.control.views import CheckpointsView, JobView

RECORDS = 4_000
LIMIT_S = 120


class Count(KeyedProcessFunction):
    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, context):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value % 7}:{count}"


@pytest.mark.long
@pytest.mark.spark
def test_slots_come_and_go_and_results_are_exact(new_environment, tmp_path):
    options = {
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
    }
    env = new_environment("local[2]", 1, options)
    source = DataGeneratorSource(lambda n: n, RECORDS, RateLimiterStrategy.per_second(200), Types.LONG())
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
    stream.key_by(lambda n: n % 7).process(Count(), Types.STRING()).uid("count").sink_to(sink)
    client = env.execute_async("rescaled on Spark")
    (job,) = (each for each in find_jobs() if each.job_id == str(client.get_job_id()))
    for parallelism in (2, 1):
        deadline = time.monotonic() + LIMIT_S
        done = job.view(CheckpointsView).counts.completed
        while job.view(CheckpointsView).counts.completed < done + 2:
            assert time.monotonic() < deadline, "no checkpoint came"
            time.sleep(0.05)
        outcome = job.perform(Rescale(parallelism)).result(LIMIT_S)
        assert (outcome.parallelism, len(job.view(JobView).slots)) == (parallelism, parallelism)
    client.get_job_execution_result().result()
    lines = [
        line
        for part in (tmp_path / "out").rglob("*")
        if part.is_file() and not part.name.startswith((".", "_"))
        for line in part.read_text().split()
    ]
    wanted = Counter(f"{key}:{n}" for key in range(7) for n in range(1, len(range(key, RECORDS, 7)) + 1))
    assert Counter(lines) == wanted
