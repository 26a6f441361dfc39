"""What tests of windows by expression share: aggregates in both forms, steps of a run, two runs side by side."""

from __future__ import annotations

from column_runs import Subtasks
from hypothesis import strategies as st

from millstream.common.functions import AggregateFunction, ProcessWindowFunction
from millstream.common.windows import TimeWindow
from millstream.operators.columnar.aggregates import Aggregate, AggregateKind

AGGREGATES = (
    ("n", Aggregate(AggregateKind.COUNT)),
    ("total", Aggregate(AggregateKind.SUM, "v")),
    ("low", Aggregate(AggregateKind.MIN, "v")),
    ("high", Aggregate(AggregateKind.MAX, "v")),
    ("mean", Aggregate(AggregateKind.MEAN, "v")),
    ("first", Aggregate(AggregateKind.FIRST, "v")),
    ("last", Aggregate(AggregateKind.LAST, "v")),
)


class InPython(AggregateFunction):
    """The same aggregates, record by record."""

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        return [*accumulator, value[1]]

    def get_result(self, accumulator):
        numbers = [number for number in accumulator if number is not None]
        if not numbers:
            return (len(accumulator), None, None, None, None, accumulator[0], accumulator[-1])
        mean = sum(numbers) / len(numbers)
        total = (sum(numbers), min(numbers), max(numbers), mean)
        return (len(accumulator), *total, accumulator[0], accumulator[-1])

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class WithWindow(ProcessWindowFunction):
    def process(self, key, context, elements):
        window: TimeWindow = context.window()
        yield (key, window.start, window.end, *next(iter(elements)))


def by_key(record):
    return record[0]


RECORD = st.tuples(st.integers(0, 3), st.none() | st.integers(-9, 9), st.integers(-20, 60))
RECORDS = st.lists(RECORD, min_size=1, max_size=12)
GRIDS = st.sampled_from([(10, 10, 0), (10, 10, 3), (10, 5, 0), (7, 3, 0), (9, 3, 1), (3, 7, 0), (5, 5, 2)])
CLOCK_STEPS = st.lists(
    st.tuples(st.booleans(), st.lists(RECORD, min_size=1, max_size=6), st.integers(1, 8)), max_size=10
)


def steps_of(*batches):
    """Batches of some kinds, watermarks, restarts and checkpoints."""
    kinds = [st.tuples(st.just("batch"), each) for each in batches]
    others = {"watermark": st.integers(-10, 70), "restart": st.integers(1, 3), "checkpoint": st.none()}
    kinds += [st.tuples(st.just(kind), what) for kind, what in others.items()]
    return st.lists(st.one_of(kinds), max_size=15)


def check_windows(events, both, form):
    by_rows, by_columns = map(Subtasks, both)
    watermark = None
    for kind, what in [*events, ("watermark", 1_000)]:
        if kind == "batch":
            expected, found = by_rows.add(what, "tuples"), by_columns.add(what, form)
        elif kind == "watermark":
            if watermark is not None and what <= watermark:
                continue
            watermark = what
            expected, found = by_rows.watermark(what), by_columns.watermark(what)
            assert by_rows.recorders[0].watermarks[-1:] == by_columns.recorders[0].watermarks[-1:]
        else:
            assert by_rows.dropped() == by_columns.dropped()
            for subtasks in (by_rows, by_columns):
                subtasks.checkpoint() if kind == "checkpoint" else subtasks.restart(what)
            continue
        assert found == expected
        assert by_rows.dropped() == by_columns.dropped()
    by_columns.checkpoint()
    assert not any(entries for _, held in by_columns.saved for entries in held.values())


def check_clock(steps, both):
    by_rows, by_columns = map(Subtasks, both)
    now_ms = 0
    for advances, records, step in steps:
        if advances:
            now_ms += step
            assert by_columns.clock(now_ms) == by_rows.clock(now_ms)
        assert by_columns.add(records, stamps=False) == by_rows.add(records, "tuples", stamps=False)
    assert by_columns.clock(now_ms + 100) == by_rows.clock(now_ms + 100)
