"""Records that wait for a later epoch are part of checkpoints: whatever fails, none is lost and none comes twice."""

from __future__ import annotations

from collections import Counter

import pytest
from recovery_support import SAME, Tap, difference, resume, run, run_to_savepoint

from millstream.base.time import Time
from millstream.common import Types, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.connectors.number_sequence import NumberReader
from millstream.datastream import AsyncDataStream, AsyncFunction, KeyedProcessFunction, ProcessWindowFunction
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.datastream.state import ValueStateDescriptor
from millstream.datastream.window import EventTimeTrigger, TimeEvictor, TumblingEventTimeWindows
from millstream.spi.batch import Columns, Rows
from millstream.types.row import Row

RECORDS = 120
HELD = {"millstream_epoch_hold__after": 4}


class Count(KeyedProcessFunction):
    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, context):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value % 7, count


def numbers(env):
    return env.from_source(
        NumberSequenceSource(0, RECORDS - 1), WatermarkStrategy.no_watermarks(), "numbers"
    ).uid("numbers")


def keyed(env):
    return numbers(env).key_by(lambda value: value % 7).process(Count()).uid("count").map(Tap())


def dealt(env):
    return (
        numbers(env)
        .map(Tap())
        .rebalance()
        .map(lambda value: value * 10)
        .rescale()
        .map(lambda value: value + 1)
    )


def chained(env):
    return numbers(env).map(Tap()).flat_map(lambda value: [value, -value])


class Twice(AsyncFunction):
    async def async_invoke(self, value):
        return [value, value]


def called(env):
    stream = numbers(env).map(Tap())
    return AsyncDataStream.unordered_wait(stream, Twice(), Time.seconds(60), 3).uid("called")


class Seconds(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value * 1_000


def stamped(env):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Seconds())
    source = NumberSequenceSource(0, RECORDS - 1)
    return (
        env.from_source(source, strategy, "numbers").uid("numbers").map(Tap()).key_by(lambda value: value % 7)
    )


class ColumnNumbers(NumberSequenceSource):
    """The numbers as rows with a key, in columns."""

    def build_reader(self, subtask_index, parallelism):
        return _ColumnReader()


class _ColumnReader(NumberReader):
    def read(self, split_range, emit):
        def emit_columns(batch):
            return emit(
                Columns.from_rows(Rows([Row(n=value, key=value % 7) for value in batch.to_rows().values]))
            )

        return super().read(split_range, emit_columns)


class Key:
    fields = ("key",)

    def __call__(self, row):
        return row["key"]


class CountRows(Count):
    def process_element(self, value, context):
        yield from super().process_element(value.n, context)


def column_numbers(env):
    source = ColumnNumbers(0, RECORDS - 1)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")


def columns_keyed(env):
    return column_numbers(env).rebalance().key_by(Key()).process(CountRows()).uid("count").map(Tap())


def columns_dealt(env):
    return (
        column_numbers(env)
        .rebalance()
        .assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks())
        .rescale()
        .map(lambda row: row.n * 10)
        .map(Tap())
        .map(lambda value: value + 1)
    )


class FireLater(KeyedProcessFunction):
    """Sets timers of which a watermark fires many, of one time and of several."""

    def open(self, context):
        self.seen = context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer((value // 40 + 1) * 40_000)
        ctx.timer_service().register_event_time_timer((value // 40 + 1) * 40_000 - 7 * (value % 11))

    def on_timer(self, timestamp, ctx):
        self.seen.update((self.seen.value() or 0) + 1)
        yield ctx.get_current_key(), timestamp, self.seen.value()


class Whole(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, sum(elements)


def timers(env):
    return stamped(env).process(FireLater()).uid("timers").map(Tap())


def windows(env):
    window = TumblingEventTimeWindows.of(Time.seconds(10))
    return stamped(env).window(window).process(Whole()).uid("windows").map(Tap())


def triggered(env):
    window = (
        stamped(env).window(TumblingEventTimeWindows.of(Time.seconds(10))).trigger(EventTimeTrigger.create())
    )
    return window.evictor(TimeEvictor.of(Time.seconds(100))).process(Whole()).uid("windows").map(Tap())


def fired():
    """Return what `timers` gives."""
    found = Counter()
    for key in range(7):
        due = set()
        for value in range(key, RECORDS, 7):
            due |= {(value // 40 + 1) * 40_000, (value // 40 + 1) * 40_000 - 7 * (value % 11)}
        found.update((key, timestamp, count) for count, timestamp in enumerate(sorted(due), 1))
    return found


def sums():
    """Return what `windows` gives."""
    by_window = {}
    for value in range(RECORDS):
        by_window.setdefault((value % 7, value // 10 * 10_000), []).append(value)
    return Counter((key, start, sum(values)) for (key, start), values in by_window.items())


GIVES = {
    keyed: Counter((key, count) for key in range(7) for count in range(1, len(range(key, RECORDS, 7)) + 1)),
    dealt: Counter(value * 10 + 1 for value in range(RECORDS)),
    columns_keyed: Counter(
        (key, count) for key in range(7) for count in range(1, len(range(key, RECORDS, 7)) + 1)
    ),
    columns_dealt: Counter(value * 10 + 1 for value in range(RECORDS)),
    chained: Counter(one for value in range(RECORDS) for one in (value, -value)),
    called: Counter(one for value in range(RECORDS) for one in (value, value)),
    timers: fired(),
    windows: sums(),
    triggered: sums(),
}
programs = pytest.mark.parametrize("build", GIVES, ids=lambda build: build.__name__)


@programs
@pytest.mark.parametrize("parallelism", [1, 3])
def test_nothing_is_lost_or_doubled_when_attempts_fail_while_records_wait(build, parallelism):
    found = run(build, parallelism=parallelism, epoch=30, interval=2, gaps=[40, 25, 31, 7, 50], **HELD)
    assert difference(found, GIVES[build]) == SAME


@programs
def test_nothing_is_lost_or_doubled_when_the_space_of_each_epoch_is_up_at_once(build):
    found = run(
        build, parallelism=2, epoch=30, interval=2, gaps=[40, 25, 31, 7], millstream_epoch_max__bytes=1
    )
    assert difference(found, GIVES[build]) == SAME


@programs
@pytest.mark.parametrize(("before", "after"), [(2, 2), (1, 3), (3, 1), (2, 3)])
def test_a_savepoint_with_waiting_records_is_restored_at_any_parallelism(build, before, after, tmp_path):
    first, path = run_to_savepoint(build, tmp_path, at=17, parallelism=before, epoch=60, **HELD)
    assert sum(first.values()) < sum(GIVES[build].values()) // 2, "nothing waited any more"
    found = first + resume(path, build, parallelism=after, epoch=30)
    assert difference(found, GIVES[build]) == SAME
