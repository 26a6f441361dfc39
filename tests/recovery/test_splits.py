"""A split stays with its subtask after a failure: a subtask that has ended is not given one it would not read."""

from __future__ import annotations

import pytest
from recovery_support import FAULTS, SAME, Tap, difference, run

from millstream.base.time import Time
from millstream.common import Duration, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.connectors.files.source import FileSource
from millstream.datastream import ProcessWindowFunction
from millstream.datastream.connectors.file_system import StreamFormat
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.datastream.window import TumblingEventTimeWindows


class LineTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return int(value.partition(":")[2])


class Lines(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield context.window().start, sorted(elements)

    def clear(self, context):
        pass


@pytest.mark.parametrize("at", [30, 45, 60, 70])
def test_file_that_is_longer_than_others_is_read_on_where_it_was_begun(tmp_path, at):
    for number, length in enumerate([60, 5, 9]):
        (tmp_path / f"{number}.txt").write_text("".join(f"{number}:{line}\n" for line in range(length)))
    time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(1)).with_timestamp_assigner(
        LineTime()
    )

    def windows(env):
        builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
        lines = env.from_source(builder.build(), time, "files").map(Tap())
        by_all = lines.key_by(lambda line: 0)
        return by_all.window(TumblingEventTimeWindows.of(Time.milliseconds(10))).process(Lines())

    wanted = run(windows, parallelism=3, epoch=2)
    found = run(windows, parallelism=3, epoch=2, interval=1, gaps=[at])
    assert FAULTS.raised == 1
    assert difference(found, wanted) == SAME
    assert sum(len(lines) for _, lines in wanted) == 74


@pytest.mark.parametrize("at", range(6, 12))
def test_shorter_split_of_a_sequence_may_end_first(at):
    def numbers(env):
        source = NumberSequenceSource(1, 11)
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(Tap())
        return stream.key_by(lambda number: 0).map(lambda number: number)

    found = run(numbers, parallelism=3, epoch=1, interval=1, gaps=[at])
    assert FAULTS.raised == 1
    assert sorted(found.elements()) == list(range(1, 12))
