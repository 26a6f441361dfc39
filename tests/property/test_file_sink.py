"""Whatever fails, whenever, with whatever policy: the directory holds the input exactly once, and nothing else."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batch_forms import in_each_form
from millstream.base.crash_points import set_crash_hook
from millstream.common import Configuration, Row, WatermarkStrategy
from millstream.connectors.files.buckets import BucketAssigner
from millstream.connectors.files.compaction import FileCompactor, FileCompactStrategy
from millstream.connectors.files.rolling import RollingPolicy
from millstream.connectors.files.sink import FileSink
from millstream.connectors.number_sequence import NumberSequenceSource
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.formats.csv import CsvBulkWriters, CsvSchema
from millstream.spi.serialization import Encoder
from millstream.table import DataTypes

POINTS = {
    "notify",
    "level",
    "sink.precommit",
    "state.write",
    "report",
    "epoch.report",
    "manifest.write",
    "manifest.published",
    "seal",
    "sink.commit",
    "sink.committed",
}


class Crashes:
    """Fails at the places whose turn it is; commits may come twice, or be done and seem to fail."""

    def __init__(self, turns):
        self.turns = set(turns)
        self.turn = 0
        self.injected = []

    def reach(self, name, detail):
        if name in POINTS:
            self.turn += 1
            if self.turn in self.turns:
                self.injected.append(name)
                raise RuntimeError(f"injected at {name}, turn {self.turn}")

    def around(self, name, detail, action):
        self.reach(name, detail)
        result = action()
        if name == "sink.commit":
            action()
        self.reach(name, detail)
        return result


class ByRemainder(BucketAssigner):
    def get_bucket_id(self, element, context):
        return f"by3={element % 3}"


CSV = CsvSchema.builder().add_number_column("n", number_type=DataTypes.BIGINT()).set_use_header().build()
COMPACTIONS = {
    "none": None,
    "every second checkpoint": FileCompactStrategy.builder().enable_compaction_on_checkpoint(2).build(),
    "by size": FileCompactStrategy.builder().set_size_threshold(40).build(),
}
POLICIES = {
    "at checkpoints": RollingPolicy.on_checkpoint_rolling_policy(),
    "open for long": RollingPolicy.default_rolling_policy(1 << 20, 10**9, 10**9),
    "small": RollingPolicy.default_rolling_policy(12, 10**9, 10**9),
    "by age": RollingPolicy.default_rolling_policy(1 << 20, 1, 1),
}


def build_sink(base, form, policy, compaction, buckets):
    if form == "rows":
        made = FileSink.for_row_format(base, Encoder.simple_string_encoder()).with_rolling_policy(
            POLICIES[policy]
        )
    else:
        made = FileSink.for_bulk_format(base, CsvBulkWriters.for_schema(CSV))
    made.with_bucket_check_interval(1)
    made.with_bucket_assigner(ByRemainder() if buckets else BucketAssigner.base_path_bucket_assigner())
    if COMPACTIONS[compaction] is not None:
        made.enable_compact(COMPACTIONS[compaction], FileCompactor.identical_file_compactor())
    return made.build()


def run(base, sink, form, count, records, parallelism, interval):
    environment = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict(
            {
                "execution.target": "local",
                "parallelism.default": parallelism,
                "execution.checkpointing.interval": interval,
                "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.attempts": 100,
                "restart-strategy.fixed-delay.delay": "0 ms",
                "millstream.epoch.fixed-records": records,
            }
        )
    )
    source = NumberSequenceSource(0, count - 1)
    stream = environment.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    if form == "csv":
        stream = stream.map(lambda n: Row(n=n))
    stream.sink_to(sink)
    environment.execute()


def read(base, form):
    """Return the numbers in the visible files, and the names of all others."""
    numbers, others = Counter(), []
    for file in sorted(Path(base).rglob("*")):
        if not file.is_file():
            continue
        if file.name.startswith("."):
            others.append(file.name)
            continue
        lines = file.read_text().splitlines()
        if form == "csv":
            head, *lines = lines
            assert head == "n"
        if "by3=" in str(file):
            assert {int(line) % 3 for line in lines} == {int(file.parent.name[-1])}
        numbers.update(map(int, lines))
    return numbers, others


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    form=st.sampled_from(["rows", "rows", "csv"]),
    policy=st.sampled_from(list(POLICIES)),
    compaction=st.sampled_from(list(COMPACTIONS)),
    buckets=st.booleans(),
    count=st.integers(1, 120),
    records=st.integers(3, 40),
    parallelism=st.integers(1, 3),
    interval=st.sampled_from(["1 ms", "5 ms", "1 h"]),
    turns=st.sets(st.integers(1, 150), max_size=6),
)
@in_each_form
def test_directory_holds_the_input_exactly_once(
    form, policy, compaction, buckets, count, records, parallelism, interval, turns
):
    if form == "csv" and buckets:
        buckets = False  # rows have no remainder
    crashes = Crashes(turns)
    with tempfile.TemporaryDirectory() as base:
        sink = build_sink(base, form, policy, compaction, buckets)
        before = set_crash_hook(crashes)
        try:
            run(base, sink, form, count, records, parallelism, interval)
        finally:
            set_crash_hook(before)
        numbers, others = read(base, form)
    assert numbers == Counter(range(count))
    assert others == []


def test_failures_are_really_injected():
    crashes = Crashes({4, 11, 25})
    with tempfile.TemporaryDirectory() as base:
        sink = build_sink(base, "rows", "open for long", "none", False)
        before = set_crash_hook(crashes)
        try:
            run(base, sink, "rows", 100, 10, 2, "1 ms")
        finally:
            set_crash_hook(before)
        assert read(base, "rows") == (Counter(range(100)), [])
    assert len(crashes.injected) == 3
