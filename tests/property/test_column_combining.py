"""Aggregates begun before the exchange: on, off or now and then, results, late records and their order are the same."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from column_runs import Recorder, Subtasks, is_of, plain
from hypothesis import given
from hypothesis import strategies as st

from millstream.operators.base import OperatorReport
from millstream.operators.columnar.aggregate import ColumnAggregateSpec
from millstream.operators.columnar.aggregates import Aggregate, AggregateKind
from millstream.operators.columnar.combining import RECORDS_COMBINED, ColumnCombiner
from millstream.operators.columnar.slices import SliceGrid
from millstream.operators.columnar.windows import ColumnWindowSpec
from millstream.operators.combining import CombiningGate
from millstream.spi.batch import Columns

TYPES = {
    "int64": (pa.int64(), st.integers(-9, 9)),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "bool": (pa.bool_(), st.booleans()),
    "decimal": (pa.decimal128(6, 2), st.decimals("-99", "99", places=2)),
    "float": (pa.float64(), st.sampled_from([0.1, 0.2, 0.3, 1e16, -1e16, 0.0, -0.0, float("nan")])),
    "text": (pa.string(), st.text("abc", max_size=2)),
    "words": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from("abc")),
}
KINDS = {
    "numbers": ["count", "sum", "mean", "min", "max", "first", "last"],
    "others": ["count", "min", "max", "first", "last"],
}
GRIDS = st.sampled_from([(10, 10, 0), (10, 10, 3), (10, 5, 0), (7, 3, 0), (9, 3, 1)])


def aggregates_of(kind):
    of = KINDS["others" if kind in ("float", "text", "words") else "numbers"]
    return (
        ("n", Aggregate(AggregateKind.COUNT)),
        *((each, Aggregate(AggregateKind(each), "v")) for each in of),
    )


@st.composite
def programs(draw):
    """A type of values; what two senders give, batch after batch; watermarks, checkpoints and rescalings between."""
    kind = draw(st.sampled_from(list(TYPES)))
    record = st.tuples(st.integers(0, 3), st.none() | TYPES[kind][1], st.integers(-20, 60))
    step = (
        st.tuples(st.just("batch"), st.lists(record, min_size=1, max_size=15), st.booleans())
        | st.tuples(st.just("watermark"), st.integers(-10, 70), st.none())
        | st.tuples(st.just("restart"), st.integers(1, 3), st.none())
        | st.tuples(st.just("checkpoint"), st.none(), st.none())
    )
    return kind, draw(st.lists(step, max_size=14))


def batch_of(records, kind):
    keys, values, stamps = zip(*records, strict=True)
    data = {"k": pa.array(keys, pa.int64()), "v": pa.array(values, TYPES[kind][0])}
    return Columns(pa.RecordBatch.from_pydict(data), pa.array(stamps, pa.int64()))


class InOrder(Recorder):
    """Keeps results as text, each key's in order: NaN and the two zeros are told apart."""

    def emit(self, batch):
        rows = batch.to_rows()
        self.results += [
            (repr(plain(row)), stamp) for row, stamp in zip(rows.values, rows.timestamps, strict=True)
        ]


class Combined(Subtasks):
    """Subtasks that get batches combined, or as they are."""

    def start(self, parallelism, states=()):
        super().start(parallelism, states)
        self.combiner = self.spec.build_combiner()
        self.recorders = [InOrder() for _ in self.operators]
        for operator, recorder in zip(self.operators, self.recorders, strict=True):
            operator.output = recorder

    def give(self, records, kind, *, combined):
        count = len(self.operators)
        for index, operator in enumerate(self.operators):
            own = [each for each in records if is_of(index, count, each[0])]
            if own:
                batch = batch_of(own, kind)
                made = self.combiner.combine(batch, None) if combined else batch
                assert len(made) <= len(batch)
                operator.process(made)
        return self.outcome()

    def outcome(self):
        found = [each.results for each in self.recorders]
        for each in self.recorders:
            each.results = []
        return found

    def watermark(self, timestamp_ms):
        super().watermark(timestamp_ms)
        return self.outcome()

    def take(self):
        return None


def run_both(spec, program):
    kind, steps = program
    plainly, combined = Combined(spec), Combined(spec)
    watermark = None
    for what, argument, now_and_then in [*steps, ("watermark", 1_000, None)]:
        if what == "batch":
            expected = plainly.give(argument, kind, combined=False)
            found = combined.give(argument, kind, combined=now_and_then)
        elif what == "watermark":
            if watermark is not None and argument <= watermark:
                continue
            watermark = argument
            expected, found = plainly.watermark(argument), combined.watermark(argument)
        else:
            for subtasks in (plainly, combined):
                subtasks.checkpoint() if what == "checkpoint" else subtasks.restart(argument)
            assert entries(plainly) == entries(combined)
            continue
        assert found == expected
        assert combined.dropped() == plainly.dropped()


def entries(subtasks):
    return [
        {name: sorted(map(repr, of_name.items())) for name, of_name in held.items()}
        for _, held in subtasks.saved or ()
    ]


@given(programs(), GRIDS)
def test_windows_are_the_same_whatever_is_combined(program, grid):
    run_both(ColumnWindowSpec(("k",), aggregates_of(program[0]), SliceGrid(*grid)), program)


@given(programs())
def test_running_aggregates_are_the_same_whatever_is_combined(program):
    run_both(ColumnAggregateSpec(("k",), aggregates_of(program[0])), program)


def windows(*aggregates, **settings):
    named = tuple((str(place), each) for place, each in enumerate(aggregates))
    return ColumnWindowSpec(("k",), named, SliceGrid(10, 10), **settings)


COUNT, SUM = Aggregate(AggregateKind.COUNT), Aggregate(AggregateKind.SUM, "v")


@pytest.mark.parametrize(
    "spec",
    [
        windows(COUNT, late_tag_id="late"),
        windows(COUNT, allowed_lateness_ms=5),
        windows(COUNT, event_time=False),
        windows(COUNT, Aggregate(AggregateKind.QUANTILE, "v")),
        ColumnAggregateSpec(("k", "k"), (("n", COUNT),)),
    ],
)
def test_nothing_is_combined_where_each_record_has_to_come(spec):
    assert spec.build_combiner() is None


def test_sums_of_floats_which_depend_on_their_order_are_not_begun_before():
    records = [(1, 0.1, 0), (1, 0.2, 1)]
    assert ColumnCombiner(["k"], [SUM], SliceGrid(10, 10)).combine(batch_of(records, "float"), None) is None
    most = ColumnCombiner(["k"], [Aggregate(AggregateKind.MAX, "v")], SliceGrid(10, 10))
    assert len(most.combine(batch_of(records, "float"), None)) == 1


def test_whole_numbers_behind_floats_are_not_begun_before():
    combiner = ColumnCombiner(["k"], [Aggregate(AggregateKind.MEAN, "v")], None)
    gate = CombiningGate(combiner)

    def columns(count, kind):
        numbers = pa.array([1] * count)
        return Columns(pa.RecordBatch.from_arrays([numbers, numbers.cast(kind)], ["k", "v"]))

    many = columns(2_000, pa.int64())
    assert len(gate.pass_through(many, None)) == 1
    gate.pass_through(columns(1, pa.float64()), None)
    assert gate.pass_through(many, None) is many


def test_what_does_not_fit_is_sent_as_it_is_and_the_receiver_says_so():
    texts = batch_of([(1, "a", 0), (1, "b", 1)], "text")
    assert ColumnCombiner(["k"], [SUM], SliceGrid(10, 10)).combine(texts, None) is None
    large = batch_of([(1, Decimal("99"), 0)] * 2, "decimal")
    without = Columns(large.data.rename_columns(["k", "w"]), large.timestamps)
    assert ColumnCombiner(["k"], [SUM], SliceGrid(10, 10)).combine(without, None) is None


def test_late_records_that_came_combined_are_dropped_one_by_one():
    spec = windows(COUNT, SUM)
    operator = Combined(spec).operators[0]
    operator.process_watermark(50)
    late = batch_of([(1, 1, 3), (1, 2, 4), (2, 3, 55), (1, 4, 44)], "int64")
    operator.process(spec.build_combiner().combine(late, None))
    report = OperatorReport()
    operator.end_epoch(report, checkpoint=False)
    assert report.counters == {"numLateRecordsDropped": 3, RECORDS_COMBINED: 4}
