"""One program, any parallelism, any size of epoch, any order within the watermark's bound: the same results."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from batch_forms import in_each_form
from millstream.base.time import Time
from millstream.common import Duration, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import KeyedProcessFunction, ProcessWindowFunction
from millstream.datastream.state import ValueStateDescriptor
from millstream.datastream.window import TumblingEventTimeWindows

BOUND_MS = 50
SIZE_MS = 100


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class CountAndRemind(KeyedProcessFunction):
    """Counts each key's records and sets a timer at the time of each."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        ctx.timer_service().register_event_time_timer(value[1])
        yield "count", value[0], count

    def on_timer(self, timestamp, ctx):
        yield "timer", ctx.get_current_key(), timestamp


class Total(ProcessWindowFunction):
    def process(self, key, context, elements):
        values = [value for _, _, value in elements]
        yield "window", key, context.window().start, len(values), sum(values)

    def clear(self, context):
        pass


def oracle(records):
    expected = []
    for key, count in Counter(key for key, _, _ in records).items():
        expected += [("count", key, number + 1) for number in range(count)]
    expected += {("timer", key, stamp) for key, stamp, _ in records}
    panes = {}
    for key, stamp, value in records:
        panes.setdefault((key, stamp - stamp % SIZE_MS), []).append(value)
    expected += [("window", *pane, len(values), sum(values)) for pane, values in panes.items()]
    return sorted(expected)


def run(environment, sources):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(
        Duration.of_millis(BOUND_MS)
    ).with_timestamp_assigner(Stamp())
    first, *others = [
        environment.from_collection(records).assign_timestamps_and_watermarks(strategy) for records in sources
    ]
    keyed = first.union(*others).key_by(lambda record: record[0])
    counts = keyed.process(CountAndRemind())
    totals = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(SIZE_MS))).process(Total())
    with counts.union(totals).execute_and_collect() as results:
        return sorted(results)


RECORD = st.tuples(st.sampled_from("abcdef"), st.integers(0, 1_000), st.integers(-9, 9))
ARRIVALS = st.lists(st.tuples(RECORD, st.integers(0, BOUND_MS)), min_size=1, max_size=40).map(
    # A record is overtaken only by those at most BOUND_MS later, so none is late.
    lambda jittered: [record for record, _ in sorted(jittered, key=lambda pair: pair[0][1] + pair[1])]
)


@settings(max_examples=20, deadline=None)
@given(st.lists(ARRIVALS, min_size=2, max_size=2), st.integers(1, 3), st.integers(1, 15))
@in_each_form
def test_results_do_not_depend_on_parallelism_or_epochs(new_environment, sources, parallelism, epoch_records):
    environment = new_environment("local", parallelism, {"millstream.epoch.fixed-records": epoch_records})
    assert run(environment, sources) == oracle(sum(sources, []))


def test_record_overtaken_beyond_the_bound_is_late_so_the_watermark_is_not_simply_ignored(new_environment):
    on_time = [("a", 10, 1), ("a", 500, 1), ("a", 20, 100)]
    results = run(
        new_environment("local", 1, {"millstream.epoch.fixed-records": 1}), [on_time, [("b", 500, 1)]]
    )
    assert ("window", "a", 0, 2, 101) in oracle(on_time)
    assert ("window", "a", 0, 1, 1) in results
