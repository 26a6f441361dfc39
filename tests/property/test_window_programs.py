"""Whole programs with windows: any parallelism, any epochs, any order within the bound; against plain Python."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from batch_forms import in_each_form
from millstream.base.time import Time
from millstream.common import Duration, WatermarkStrategy
from millstream.common.output_tag import OutputTag
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.datastream import ProcessWindowFunction
from millstream.datastream.functions import AllWindowFunction, ProcessAllWindowFunction
from millstream.datastream.window import (
    EventTimeSessionWindows,
    EventTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
)

BOUND_MS = 50


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Values(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield key, window.start, window.end, sorted(value for _, _, value in elements)


class AllValues(AllWindowFunction):
    def apply(self, window, inputs):
        yield "all", window.start, window.end, sorted(value for _, _, value in inputs)


class AllCounts(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield "count", context.window().start, len(list(elements))


def gap(record):
    return 20 + abs(record[2])


def panes_of(records, assign, key=lambda record: record[0]):
    panes = defaultdict(list)
    for record in records:
        for start, end in assign(record[1]):
            panes[key(record), start, end].append(record)
    return panes


def tumbling(size):
    return lambda time: [(time // size * size, time // size * size + size)]


def sliding(size, slide):
    return lambda time: [
        (start, start + size) for start in range(-990, 2000, slide) if start <= time < start + size
    ]


def values(records):
    return sorted(value for _, _, value in records)


def sessions(records):
    """Grow intervals record by record until nothing changes."""
    found = []
    for key in {record[0] for record in records}:
        groups = [(one[1], one[1] + gap(one), [one]) for one in records if one[0] == key]
        changed = True
        while changed:
            changed = False
            for left in groups:
                touching = [other for other in groups if left[0] <= other[1] and other[0] <= left[1]]
                if len(touching) > 1:
                    groups = [other for other in groups if other not in touching]
                    merged = [record for each in touching for record in each[2]]
                    groups.append((min(t[0] for t in touching), max(t[1] for t in touching), merged))
                    changed = True
                    break
        found += [(key, start, end, values(group)) for start, end, group in groups]
    return found


def youngest(records):
    newest = max(time for _, time, _ in records)
    return [record for record in records if record[1] > newest - 30]


def oracle(records):
    result = [(*pane, values(group)) for pane, group in panes_of(records, tumbling(100)).items()]
    result += [
        ("slide", key, sum(values(group)))
        for (key, _, _), group in panes_of(records, sliding(90, 30)).items()
    ]
    result += sessions(records)
    result += [(*pane, values(youngest(group))) for pane, group in panes_of(records, tumbling(80)).items()]
    everything = panes_of(records, tumbling(60), key=lambda record: "all")
    result += [(*pane, values(group)) for pane, group in everything.items()]
    result += [("count", start, len(group)) for (_, start, _), group in everything.items()]
    return sorted(result, key=repr)


def run(environment, sources):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(
        Duration.of_millis(BOUND_MS)
    ).with_timestamp_assigner(Stamp())
    first, *others = [
        environment.from_collection(records).assign_timestamps_and_watermarks(strategy) for records in sources
    ]
    stream = first.union(*others)
    keyed = stream.key_by(lambda record: record[0])
    tumbling_100 = TumblingEventTimeWindows.of(Time.milliseconds(100))
    purging = keyed.window(tumbling_100).trigger(PurgingTrigger.of(EventTimeTrigger())).process(Values())
    slide = (
        keyed.window(SlidingEventTimeWindows.of(Time.milliseconds(90), Time.milliseconds(30)))
        .reduce(lambda left, right: (left[0], left[1], left[2] + right[2]))
        .map(lambda record: ("slide", record[0], record[2]))
    )
    dynamic = keyed.window(EventTimeSessionWindows.with_dynamic_gap(gap)).process(Values())
    evicted = (
        keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(80)))
        .evictor(TimeEvictor.of(Time.milliseconds(30)))
        .process(Values())
    )
    windows_60 = TumblingEventTimeWindows.of(Time.milliseconds(60))
    everything = stream.window_all(windows_60).apply(AllValues())
    counts = stream.window_all(windows_60).process(AllCounts())
    union = purging.union(slide, dynamic, evicted, everything, counts)
    with union.execute_and_collect() as results:
        return sorted(results, key=repr)


RECORD = st.tuples(st.sampled_from("abcdef"), st.integers(0, 1_000), st.integers(-9, 9))
ARRIVALS = st.lists(st.tuples(RECORD, st.integers(0, BOUND_MS)), min_size=1, max_size=40).map(
    lambda jittered: [record for record, _ in sorted(jittered, key=lambda pair: pair[0][1] + pair[1])]
)


@settings(max_examples=20, deadline=None)
@given(st.lists(ARRIVALS, min_size=2, max_size=2), st.integers(1, 3), st.integers(1, 15))
@in_each_form
def test_windows_do_not_depend_on_parallelism_or_epochs(new_environment, sources, parallelism, epoch_records):
    environment = new_environment("local", parallelism, {"millstream.epoch.fixed-records": epoch_records})
    assert run(environment, sources) == oracle(sum(sources, []))


def test_late_records_of_windows_without_keys_go_to_the_side_output(new_environment):
    environment = new_environment("local", 1, {"millstream.epoch.fixed-records": 1})
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
    records = [("a", 10, 1), ("a", 500, 2), ("b", 20, 3)]
    late = OutputTag("late")
    stream = environment.from_collection(records).assign_timestamps_and_watermarks(strategy)
    windows = stream.window_all(TumblingEventTimeWindows.of(Time.milliseconds(100))).side_output_late_data(
        late
    )
    sums = windows.sum(2)
    assert sums.get_parallelism() == 1
    with sums.union(
        sums.get_side_output(late).map(lambda record: ("late", *record))
    ).execute_and_collect() as out:
        assert sorted(out, key=repr) == [("a", 10, 1), ("a", 500, 2), ("late", "b", 20, 3)]


def test_count_windows_as_pyflink_prints_them(new_environment):
    """Recorded from PyFlink 2.3: `count_window(3)`, `count_window(3, 2)` of seven records."""

    class Numbers(ProcessWindowFunction):
        def process(self, key, context, elements):
            yield str(context.window()), [number for _, number in elements]

    environment = new_environment("local", 1, {"millstream.epoch.fixed-records": 2})
    keyed = environment.from_collection([("a", number) for number in range(1, 8)]).key_by(
        lambda pair: pair[0]
    )
    with keyed.count_window(3).process(Numbers()).execute_and_collect() as results:
        assert list(results) == [("CountWindow(id=0)", [1, 2, 3]), ("CountWindow(id=1)", [4, 5, 6])]
    with keyed.count_window(3, 2).process(Numbers()).execute_and_collect() as results:
        assert list(results) == [
            ("CountWindow(id=0)", [1, 2, 3]),
            ("CountWindow(id=1)", [3, 4, 5]),
            ("CountWindow(id=2)", [5, 6, 7]),
        ]
    everything = keyed.count_window(2).max_by(1)
    with everything.execute_and_collect() as results:
        assert list(results) == [("a", 2), ("a", 4), ("a", 6)]
