"""A program gives the same whether its records come as rows, as columns, or as a mixture of both."""

from __future__ import annotations

import pytest
from column_sources import FORMS, RowsSource
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.base.time import Duration, Time
from millstream.common import WatermarkStrategy
from millstream.common.watermark_strategy import WatermarkGenerator
from millstream.datastream import (
    CoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
)
from millstream.datastream.window import TumblingEventTimeWindows

LATE = OutputTag("late")
NAMES = ("key", "time", "value", "text")
BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(20)).with_timestamp_assigner(
    "time"
)
"""What a source, or an operator behind it, makes of a field."""

RECORDS = st.lists(
    st.tuples(
        st.sampled_from("abcd"), st.integers(0, 300), st.integers(-9, 9), st.none() | st.text(max_size=3)
    ),
    min_size=1,
    max_size=60,
)


class Key:
    """A selector that tells its field."""

    fields = ("key",)

    def __call__(self, row):
        return row["key"]


class Two:
    fields = ("key", "value")

    def __call__(self, row):
        return (row["key"], row["value"])


class Trailing(WatermarkGenerator):
    def __init__(self):
        self.latest = 0

    def on_event(self, value, timestamp_ms, output):
        self.latest = max(self.latest, timestamp_ms)
        output.emit_watermark(self.latest - 20)

    def on_periodic_emit(self, output):
        pass


class Sums(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield key, window.start, len(elements), sum(row.value for row in elements)


class Running(KeyedProcessFunction):
    def process_element(self, row, ctx):
        yield ctx.get_current_key(), row.value, row.text, ctx.timestamp()


class Sides(ProcessFunction):
    def process_element(self, row, ctx):
        yield row.as_dict()
        if row.value < 0:
            yield LATE, (row.key, row.time)


class Both(CoProcessFunction):
    def process_element1(self, row, ctx):
        yield "first", row.key, row.time

    def process_element2(self, row, ctx):
        yield "second", row.key, row.value


def windows(stream):
    hours = stream.key_by(Key()).window(TumblingEventTimeWindows.of(Time.milliseconds(50)))
    made = hours.side_output_late_data(LATE).process(Sums())
    return made.union(made.get_side_output(LATE).map(lambda row: ("late", row.key, row.time)))


def by_two_fields(stream):
    return stream.rebalance().key_by(Two()).process(Running()).map(str)


def by_function(stream):
    return stream.key_by(lambda row: row.key).process(Running()).map(str)


def branches(stream):
    changed = stream.map(change)
    kept = stream.filter(lambda row: row.value > 0)
    sides = stream.process(Sides())
    again = stream.rescale().map(lambda row: row.text)
    return changed.map(str).union(
        kept.map(str), sides.map(str), sides.get_side_output(LATE).map(str), again.map(str)
    )


def change(row):
    row.text = "changed"  # nobody else sees it
    return row


def two_inputs(stream):
    return stream.connect(stream.broadcast()).process(Both()).map(str)


def dealt(stream):
    shuffled = stream.shuffle().map(lambda row: ("shuffled", *row))
    alone = stream.global_().map(lambda row: ("global", *row))
    custom = stream.partition_custom(lambda key, count: ord(key) % count, lambda row: row.key).map(
        lambda row: ("custom", *row)
    )
    return shuffled.union(alone, custom).map(str)


def stamped_again(stream):
    strategy = WatermarkStrategy.for_generator(Trailing).with_timestamp_assigner("time")
    # What is late depends on the order in which a generator sees records: on one reader's only.
    return windows(stream.set_parallelism(1).rebalance().assign_timestamps_and_watermarks(strategy))


PROGRAMS = {
    each.__name__: each
    for each in (windows, by_two_fields, by_function, branches, two_inputs, dealt, stamped_again)
}


def run(environment, form, records, program, batch):
    source = RowsSource(NAMES, tuple(records), form, batch)
    stream = environment.from_source(source, BOUNDED, "rows")
    with program(stream).execute_and_collect() as results:
        return sorted(map(repr, results))


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=8, deadline=None)
@given(RECORDS, st.integers(1, 3), st.integers(1, 40), st.integers(1, 9))
def test_whatever_form_records_have_the_results_are_the_same(
    new_environment, name, records, parallelism, epoch_records, batch
):
    records = sorted(records, key=lambda record: record[1] // 30)  # some are out of order, few are late
    expected = run(new_environment("local", parallelism), "rows", on_time(records), PROGRAMS[name], 1_000)
    for form in FORMS:
        environment = new_environment("local", parallelism, {"millstream.epoch.fixed-records": epoch_records})
        assert run(environment, form, on_time(records), PROGRAMS[name], batch) == expected, form


def on_time(records):
    """Leave out what could be late: how far event time has come depends on who reads what first."""
    kept, latest = [], 0
    for record in records:
        if record[1] >= latest - 19:
            kept.append(record)
        latest = max(latest, record[1])
    return kept


@pytest.mark.spark
@pytest.mark.parametrize("name", ["windows", "by_two_fields", "dealt"])
def test_columns_travel_between_processes(new_environment, name):
    records = [("abcd"[n % 4], n, n % 7 - 3, None if n % 5 == 0 else "x" * (n % 3)) for n in range(300)]
    expected = run(new_environment("local", 1), "rows", records, PROGRAMS[name], 1_000)
    assert run(new_environment("local[2]", 2), "mixed", records, PROGRAMS[name], 20) == expected
