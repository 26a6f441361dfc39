"""Records that wait for a later epoch are part of checkpoints: whatever fails, none is lost and none comes twice."""

from __future__ import annotations

from collections import Counter

import pytest
from recovery_support import SAME, Tap, difference, resume, run, run_to_savepoint

from millstream.common import Types, WatermarkStrategy
from millstream.common.time import Time
from millstream.datastream import AsyncDataStream, AsyncFunction, KeyedProcessFunction
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.datastream.state import ValueStateDescriptor

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


GIVES = {
    keyed: Counter((key, count) for key in range(7) for count in range(1, len(range(key, RECORDS, 7)) + 1)),
    dealt: Counter(value * 10 + 1 for value in range(RECORDS)),
    chained: Counter(one for value in range(RECORDS) for one in (value, -value)),
    called: Counter(one for value in range(RECORDS) for one in (value, value)),
}
programs = pytest.mark.parametrize("build", GIVES, ids=lambda build: build.__name__)


@programs
@pytest.mark.parametrize("parallelism", [1, 3])
def test_nothing_is_lost_or_doubled_when_attempts_fail_while_records_wait(build, parallelism):
    found = run(build, parallelism=parallelism, epoch=30, interval=2, gaps=[40, 25, 31, 7, 50], **HELD)
    assert difference(found, GIVES[build]) == SAME


@programs
@pytest.mark.parametrize(("before", "after"), [(2, 2), (1, 3), (3, 1), (2, 3)])
def test_a_savepoint_with_waiting_records_is_restored_at_any_parallelism(build, before, after, tmp_path):
    first, path = run_to_savepoint(build, tmp_path, at=17, parallelism=before, epoch=60, **HELD)
    assert sum(first.values()) < sum(GIVES[build].values()) // 2, "nothing waited any more"
    found = first + resume(path, build, parallelism=after, epoch=30)
    assert difference(found, GIVES[build]) == SAME
