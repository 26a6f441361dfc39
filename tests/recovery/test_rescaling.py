"""A savepoint made at one parallelism is gone on from at another, and the results are exact."""

from __future__ import annotations

from collections import Counter

import pytest
from recovery_programs import PROGRAMS, RECORDS, plain
from recovery_support import SAME, Tap, difference, resume, run, run_to_savepoint

from millstream.common import WatermarkStrategy
from millstream.common.functions import CheckpointedFunction
from millstream.connectors.files.source import FileSource
from millstream.datastream import FlatMapFunction
from millstream.datastream.connectors.file_system import StreamFormat
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.datastream.state import ListStateDescriptor
from millstream.files.store_local import LocalStore
from millstream.runtime.checkpoint import state_file

PAIRS = [(1, 2), (1, 4), (2, 1), (2, 3), (3, 2), (3, 4), (4, 1), (4, 3)]


@pytest.mark.parametrize(("before", "after"), PAIRS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_savepoint_goes_on_at_another_parallelism(name, before, after, tmp_path):
    build = PROGRAMS[name]
    wanted = run(build, epoch=8)
    at = 5 if name == "processing_timers" else 25
    first, path = run_to_savepoint(build, tmp_path, at=at, parallelism=before)
    rest = resume(path, build, parallelism=after)
    assert first != wanted, "the savepoint is to be made before the end"
    assert difference(first + rest, wanted) == SAME


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_large_files_of_which_each_slot_reads_its_part_give_the_same(
    name, before, after, tmp_path, monkeypatch
):
    build = PROGRAMS[name]
    wanted = run(build, epoch=8)
    first, path = run_to_savepoint(
        build, tmp_path, at=5 if name == "processing_timers" else 25, parallelism=before
    )
    monkeypatch.setattr(state_file, "_WHOLE_BYTES", 0)
    monkeypatch.setattr(state_file, "_GAP_BYTES", 0)
    read = []
    monkeypatch.setattr(
        LocalStore, "_get_part", lambda *each, get=LocalStore._get_part: read.append(each) or get(*each)
    )
    rest = resume(path, build, parallelism=after)
    assert difference(first + rest, wanted) == SAME
    assert read


def numbers(env):
    source = NumberSequenceSource(1, 1_000)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers").map(Tap())


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_splits_of_a_sequence_are_dealt_out_anew(before, after, tmp_path):
    first, path = run_to_savepoint(numbers, tmp_path, at=100, parallelism=before, epoch=30)
    rest = resume(path, numbers, parallelism=after, epoch=30)
    assert rest
    assert first + rest == Counter(range(1, 1_001))


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_files_are_dealt_out_anew_and_read_on_where_they_were_left(before, after, tmp_path):
    (tmp_path / "in").mkdir()
    lengths = [1, 40, 0, 7, 90, 3, 25]
    for number, length in enumerate(lengths):
        lines = [f"{number}:{line}" for line in range(length)]
        (tmp_path / "in" / f"{number}.txt").write_text("".join(f"{line}\n" for line in lines))

    def lines_of_files(env):
        builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "in"))
        source = env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "files")
        return source.uid("files").map(Tap())

    first, path = run_to_savepoint(lines_of_files, tmp_path / "saved", at=20, parallelism=before, epoch=5)
    rest = resume(path, lines_of_files, parallelism=after, epoch=5)
    assert rest
    assert first + rest == Counter(
        f"{n}:{line}" for n, length in enumerate(lengths) for line in range(length)
    )


class HighTemperatures(FlatMapFunction, CheckpointedFunction):
    """Counts high temperatures of all sensors of its subtask, in operator list state: one count for each sensor.

    A rescaled subtask may get the counts of sensors that another counts on: totals are of all subtasks.
    """

    def __init__(self, threshold):
        self.threshold = threshold

    def initialize_state(self, context):
        self.saved = context.get_operator_state_store().get_list_state(ListStateDescriptor("high"))
        self.counts = Counter()
        for sensor, count in self.saved.get():
            self.counts[sensor] += count

    def snapshot_state(self, context):
        self.saved.update(sorted(self.counts.items()))

    def flat_map(self, value):
        sensor, _, temperature = value
        if temperature > self.threshold:
            self.counts[sensor] += 1
        if value == RECORDS[-1] or temperature < 0:
            yield from self.counts.items()


ASK = [("ask", 0, -1)] * 4


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_counters_of_high_temperatures_in_operator_state_survive_rescaling(before, after, tmp_path):
    def counting(records):
        def build(env):
            return plain(env, records).rebalance().flat_map(HighTemperatures(15)).uid("count")

        return build

    _, path = run_to_savepoint(counting(RECORDS[:-1]), tmp_path, at=50, parallelism=before)
    told = resume(path, counting(RECORDS[:-1] + ASK[:after]), parallelism=after, epoch=1)
    totals: Counter = Counter()
    for (sensor, count), times in told.items():
        totals[sensor] += count * times
    assert totals == Counter(sensor for sensor, _, temperature in RECORDS[:-1] if temperature > 15)
