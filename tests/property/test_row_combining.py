"""Sums of windows begun before the exchange: with it and without, results, late records and order are the same."""

from __future__ import annotations

import sys
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.base.time import Time
from millstream.common import Configuration, Duration, Row, WatermarkStrategy
from millstream.common.output_tag import OutputTag
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from millstream.datastream.window import (
    CountTrigger,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
)
from millstream.operators.combining import CombiningGate
from millstream.testing import OperatorHarness
from millstream.testing.declared import find_operator


class Reading(NamedTuple):
    key: int
    value: object
    place: int


FORMS = {
    "tuple": (tuple, 1),
    "named tuple": (lambda fields: Reading(*fields), "value"),
    "row": (lambda fields: Row(key=fields[0], value=fields[1], place=fields[2]), "value"),
    "list": (list, 1),
}
VALUES = {
    "int": st.integers(-9, 9),
    "mixed": st.integers(-9, 9) | st.sampled_from([0.1, 0.2, 1e16, -1e16]) | st.booleans(),
}
WINDOWS = st.sampled_from([(10, 10, 0), (10, 10, 3), (10, 5, 0), (7, 3, 0), (9, 3, 1)])
FIRST_MARKS = st.sampled_from([-30, -30, None])
METHODS = st.sampled_from(["sum", "min", "max", "min_by", "max_by"])


@st.composite
def steps(draw):
    """Batches of records of few times and keys, so that some can be put together, and watermarks between them."""
    value = VALUES[draw(st.sampled_from(["int", "int", "mixed"]))]
    record = st.tuples(st.integers(0, 1), value, st.integers(-5, 15))
    batch = st.tuples(st.lists(record, min_size=5, max_size=20), st.sampled_from([True, True, False]))
    return draw(st.lists(batch | batch | st.integers(-10, 30), min_size=2, max_size=10))


def windows_of(size, slide, offset):
    size, slide, offset = (Time.milliseconds(each) for each in (size, slide, offset))
    if size == slide:
        return TumblingEventTimeWindows.of(size, offset)
    return SlidingEventTimeWindows.of(size, slide, offset)


HALVES = {number: number // 2 for number in range(-9, 10)}
KEYS = {
    "another field": lambda value: value[0],
    "what is added up": lambda value: value[1] // 3 if isinstance(value[1], int) else 0,
    "fails for others": lambda value: HALVES[value[1]] if isinstance(value[1], int) else 0,
}


@settings(max_examples=200)
@given(steps(), WINDOWS, METHODS, st.sampled_from(list(FORMS)), st.sampled_from(list(KEYS)), FIRST_MARKS)
def test_windows_are_the_same_whatever_is_combined(program, window, method, form, by, first_mark):
    make, field = FORMS[form]
    key = KEYS[by]

    def windowed(stream):
        return getattr(stream.key_by(key).window(windows_of(*window)), method)(field)

    combiner = find_operator(windowed, 1).spec.build_combiner()
    plainly, combined = OperatorHarness(windowed), OperatorHarness(windowed)
    watermark, number = None, 0
    for step in [first_mark, *program, 1_000]:
        if step is None:
            continue  # nothing is combined before a watermark is known
        if isinstance(step, int):
            if watermark is not None and step <= watermark:
                continue
            watermark = step
            plainly.push_watermark(step)
            combined.push_watermark(step)
        else:
            records, is_combined = step
            stamps = [stamp for _, _, stamp in records]
            numbered = [(key, value, number + place) for place, (key, value, _) in enumerate(records)]
            number += len(records)
            plainly.push_batch(map(make, numbered), stamps)
            batch = rows([make(each) for each in numbered], stamps)
            made = combiner.combine(batch, watermark) if is_combined and combiner is not None else batch
            if made is None:
                combiner, made = None, batch
            assert len(made) <= len(records)
            combined.push_batch(made.values, made.timestamps)
        assert list(map(repr, combined.take_records())) == list(map(repr, plainly.take_records()))
        late = "numLateRecordsDropped"
        assert combined.counter(late) == plainly.counter(late)


def rows(values, stamps):
    from millstream.spi.batch import Rows

    return Rows(values, stamps)


def test_records_of_a_key_and_window_become_one():
    def windowed(stream):
        return stream.key_by(lambda value: value[0]).window(windows_of(10, 10, 0)).sum(1)

    combiner = find_operator(windowed, 1).spec.build_combiner()
    batch = rows([("a", 1), ("b", 5), ("a", 2), ("a", 4)], [3, 4, 5, 12])
    made = combiner.combine(batch, 0)
    assert (made.values, made.timestamps) == ([("a", 3), ("b", 5), ("a", 4)], [5, 4, 12])
    assert combiner.combine(batch, None) is batch, "what is late is not known"
    late = combiner.combine(batch, 9)
    assert late.values == [("a", 1), ("a", 2), ("b", 5), ("a", 4)], "each late record counts"


def test_records_stay_apart_where_their_sum_has_another_key():
    def windowed(stream):
        return stream.key_by(lambda number: 6 // (4 - number)).window(windows_of(10, 10, 0)).sum()

    combiner = find_operator(windowed, 1).spec.build_combiner()
    batch = rows([1, 1, 2, 2], [0, 0, 0, 0])
    assert combiner.combine(batch, -1).values == [1, 1, 2, 2], "1 + 1 has another key, 2 + 2 none"


def test_a_selector_that_exits_for_a_sum_is_no_error():
    def key(number):
        if number > 1:
            sys.exit("no such record")
        return number

    combiner = find_operator(lambda stream: stream.key_by(key).window(windows_of(10, 10, 0)).sum(), 1)
    assert combiner.spec.build_combiner().combine(rows([1, 1], [0, 0]), -1).values == [1, 1]


@pytest.mark.parametrize(
    ("always", "watermark"), [(True, -1), (True, None), (False, -1)], ids=["put together", "no mark", "small"]
)
def test_whole_numbers_behind_floats_are_not_put_together(always, watermark):
    def windowed(stream):
        return stream.key_by(lambda value: value[0]).window(windows_of(10, 10, 0)).sum(1)

    gate = CombiningGate(find_operator(windowed, 1).spec.build_combiner(), always=always)
    ones = rows([("a", 1)] * 2_000, [0] * 2_000)
    assert gate.pass_through(ones, -1).values == [("a", 2_000)]
    gate.pass_through(rows([("a", 1e16)], [0]), watermark)
    assert gate.pass_through(ones, -1) is ones, "1e16 + 1 + 1 is not 1e16 + 2"


class First(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key


@pytest.mark.parametrize(
    "windowed",
    [
        lambda keyed: keyed.window(windows_of(10, 10, 0)).reduce(lambda a, b: (a[0], a[1] + 1)),
        lambda keyed: keyed.window(windows_of(10, 10, 0)).process(First()),
        lambda keyed: keyed.window(windows_of(10, 10, 0)).allowed_lateness(5).sum(1),
        lambda keyed: keyed.window(windows_of(10, 10, 0)).side_output_late_data(OutputTag("late")).sum(1),
        lambda keyed: keyed.window(windows_of(10, 10, 0)).trigger(CountTrigger.of(2)).sum(1),
        lambda keyed: keyed.window(windows_of(10, 30, 0)).sum(1),
        lambda keyed: keyed.window(
            SlidingProcessingTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))
        ).sum(1),
        lambda keyed: keyed.sum(1),
    ],
    ids=["reduce", "process", "lateness", "side output", "trigger", "gaps", "clock", "running"],
)
def test_where_each_record_matters_nothing_is_combined(windowed):
    spec = find_operator(lambda stream: windowed(stream.key_by(lambda value: value[0])), 1).spec
    assert spec.build_combiner() is None


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


@pytest.mark.parametrize("mode", ["ALWAYS", "NEVER", "AUTO"])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_job_gives_the_same_with_it_and_without(mode, parallelism):
    configuration = Configuration().set_string("millstream.exchange.combine", mode)
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    environment.set_parallelism(parallelism)
    records = [(f"word {number % 7}", number, number // 3) for number in range(9_000)]
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5))
    stream = environment.from_collection(records).rebalance()
    stamped = stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Stamp()))
    sums = stamped.key_by(lambda record: record[0]).window(windows_of(1_000, 1_000, 0)).sum(1)
    expected = {}
    for word, number, time in records:
        place = word, time // 1_000
        expected[place] = expected.get(place, 0) + number
    with sums.execute_and_collect() as results:
        found = {(word, time // 1_000): total for word, total, time in results}
    assert found == expected
