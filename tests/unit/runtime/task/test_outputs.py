"""Where output goes: to operators that take columns and to others, and into exchanges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.clock import ManualClock
from millstream.base.errors import RecordTooLargeError
from millstream.graph.job_graph import JobEdge
from millstream.graph.stream_graph import StreamEdge, StreamNode
from millstream.graph.transformation import ChainingStrategy
from millstream.operators.base import EpochTime, Operator, OperatorContext, OperatorSpec
from millstream.operators.budget import EpochLimits, WorkBudget
from millstream.operators.columnar.aggregate import ColumnAggregateSpec
from millstream.operators.columnar.aggregates import Aggregate, AggregateKind
from millstream.operators.columnar.combining import is_combined, records_of_each
from millstream.operators.combining import Combiner, CombiningGate
from millstream.operators.fields import FieldSelector
from millstream.operators.partitioners import Forward, KeyGroups, Rebalance
from millstream.runtime.protocol.blocks import decode_elements, encode_elements
from millstream.runtime.task import outputs
from millstream.runtime.task.held_input import _part
from millstream.runtime.task.outputs import ChainOutput, ExchangeWriter
from millstream.spi.batch import ACTIVE, IDLE, Columns, Marks, Rows, Watermark
from millstream.state.key_groups import key_group, subtask_of
from millstream.types.row import Row


class Taking(OperatorSpec):
    """An operator that writes down what it is given."""

    def __init__(self, *, takes_columns):
        self.takes_columns = takes_columns

    def build(self):
        return _Taker()


class _Taker(Operator):
    def __init__(self):
        self.taken = []

    def process(self, batch):
        self.taken.append(batch)


def reader(output, *, takes_columns, side=None):
    spec = Taking(takes_columns=takes_columns)
    operator = spec.build()
    operator.setup(OperatorContext("job", "op", "id", 0, 1, 128, 0, EpochTime()), ChainOutput())
    output.add_operator(operator, spec, "op", side)
    return operator


def columns(*numbers, marks=None):
    return Columns.from_rows(Rows([Row(n=n, list=[n]) for n in numbers], list(numbers), marks))


def test_each_reader_gets_the_form_that_it_takes_and_rows_of_its_own():
    output = ChainOutput()
    readers = [reader(output, takes_columns=takes) for takes in (False, True, False, True)]
    side = reader(output, takes_columns=False, side="tag")
    batch = columns(1, 2)
    output.emit(batch)
    output.emit_side("tag", batch)
    first, one, second, other = [each.taken[0] for each in readers]
    assert one is batch and other is batch
    assert first == second == side.taken[0] == batch.to_rows()
    first.values[0].list.append("changed")
    assert second == batch.to_rows()
    assert output.records_out == 4
    assert [each.records_in for each in readers] == [2, 2, 2, 2]


def test_rows_are_rows_to_those_who_take_columns():
    output = ChainOutput()
    taker = reader(output, takes_columns=True)
    output.emit(Rows([1, 2]))
    assert taker.taken == [Rows([1, 2])]


def test_watermarks_between_columns_stand_where_they_stood():
    output = ChainOutput()
    rows, cols = reader(output, takes_columns=False), reader(output, takes_columns=True)
    output.emit(columns(1, 2, 3, marks=Marks([1, 3], [0, 2])))
    assert rows.taken == [columns(1).to_rows(), columns(2, 3).to_rows()]
    assert [batch.to_rows() for batch in cols.taken] == rows.taken
    assert rows.watermark_ms == cols.watermark_ms == 2


def test_columns_are_wanted_where_a_reader_takes_them():
    output = ChainOutput()
    assert not output.wants_columns
    reader(output, takes_columns=False)
    reader(output, takes_columns=True, side="tag")
    assert not output.wants_columns
    reader(output, takes_columns=True)
    assert output.wants_columns
    for partitioning, wants in ((Rebalance(), True), (KeyGroups(lambda row: row.n), False)):
        output = ChainOutput()
        output.add_exchange(exchange(partitioning), Taking(takes_columns=True), None)
        assert output.wants_columns is wants


def test_few_columns_are_not_handed_on_one_by_one():
    output = ChainOutput(WorkBudget())
    taker = reader(output, takes_columns=True)
    output.emit(columns(*range(10_000)))
    assert len(taker.taken[0]) == Columns.smallest_slice
    assert [n for batch in taker.taken for n in batch.data.column("n").to_pylist()] == list(range(10_000))


@pytest.mark.parametrize(("cost_s", "least", "most"), [(1e-6, 25_000, 100_000), (1e-3, 4_096, 4_096)])
def test_columns_are_handed_on_in_slices_by_what_a_record_costs(cost_s, least, most):
    clock = ManualClock(0)
    taker = reader(ChainOutput(), takes_columns=True)
    taker.process = lambda batch: clock.advance(len(batch) * cost_s * 1_000) or taker.taken.append(batch)
    output = ChainOutput(WorkBudget(clock.monotonic))
    output.add_operator(taker, Taking(takes_columns=True), "op", None)
    batch = columns(*range(300_000))
    output.emit(batch)
    sizes = [len(each) for each in taker.taken]
    assert sum(sizes) == len(batch)
    assert least <= max(sizes) <= most


def test_an_epoch_of_few_records_has_few_of_columns_too():
    budget = WorkBudget()
    budget.begin(EpochLimits(records=3))
    assert budget.take(10, None, Columns.smallest_slice) == 3
    assert budget.take(7, None, Columns.smallest_slice) == 0
    budget.begin(EpochLimits())
    assert budget.take(10_000, None, 4_096) == 4_096
    assert budget.take(5_904, None, 4_096) >= 4_096


def exchange(partitioning, receivers=3, budget=None):
    edge = StreamEdge(1, 2, partitioning, None, 0)
    return ExchangeWriter(JobEdge(0, 1, 2, edge, 2, receivers, 128), 1, budget)


def sent(writer):
    """Return the elements that each target gets, as rows, those of other slots through bytes."""
    got = {}
    for block in writer.flush():
        assert isinstance(block.payload, list) == (block.target == 1)
        got[block.target] = [
            each if isinstance(each, Watermark) else each.to_rows() for each in block.elements()
        ]
    return got


class By:
    fields = ("n",)

    def __call__(self, row):
        return row["n"]


MARKED = st.builds(
    lambda numbers, places: (numbers, sorted(place % (len(numbers) + 1) for place in places)),
    st.lists(st.integers(0, 99), max_size=20),
    st.lists(st.integers(0, 30), max_size=4),
)


@given(st.lists(MARKED, max_size=4), st.sampled_from([KeyGroups(By()), Forward()]))
def test_columns_are_sent_with_their_watermarks_as_rows_are(batches, partitioning):
    writers = [exchange(partitioning), exchange(partitioning)]
    time_ms = 0
    for numbers, places in batches:
        marks = Marks(places, list(range(time_ms, time_ms + len(places)))) if places else None
        time_ms += len(places)
        rows = Rows([Row(n=n) for n in numbers], list(range(len(numbers))), marks)
        if numbers:
            writers[1].batch(Columns.from_rows(rows))
        else:
            writers[1].batch(Rows([], [], marks)) if marks else None
        if numbers or marks:
            writers[0].batch(rows)
        for writer in writers:
            writer.watermark(time_ms)
    assert story(sent(writers[0])) == story(sent(writers[1]))


def story(targets):
    """Return the records and watermarks of each target in order, however they are cut."""
    told = {}
    for target, elements in targets.items():
        events = told.setdefault(target, [])
        for element in elements:
            for piece in [element] if isinstance(element, Watermark) else element.pieces():
                if isinstance(piece, Watermark):
                    if events and isinstance(events[-1], Watermark):
                        events.pop()  # of those in one place only the last counts
                    events.append(piece)
                else:
                    events.extend(zip(map(str, piece.values), piece.timestamps, strict=True))
    return told


def test_columns_that_come_one_by_one_are_sent_together_and_weighed():
    budget = WorkBudget()
    writer = exchange(Forward(), budget=budget)
    for n in range(100):
        writer.batch(columns(n))
    assert sum(weigh() for weigh in budget.scales) >= 100 * 16
    (block,) = writer.flush()
    (whole,) = block.elements()
    assert whole == columns(*range(100))
    assert sum(weigh() for weigh in budget.scales) == 0


def test_a_block_holds_both_forms():
    elements = [columns(1), Watermark(3), Rows([2], [5]), columns(4), Columns(columns(5).data), columns(6)]
    assert decode_elements(encode_elements(elements)) == elements


@pytest.mark.parametrize("other", [Columns(columns(2).data), Columns.from_rows(Rows([Row(m=1)], [2]))])
def test_columns_of_another_kind_stay_apart(other):
    writer = exchange(Forward())
    for batch in (columns(1), other, columns(3)):
        writer.batch(batch)
    (block,) = writer.flush()
    assert block.elements() == [columns(1), other, columns(3)]


def test_columns_are_combined_before_they_are_dealt_but_not_across_watermarks():
    aggregates = (("n", Aggregate(AggregateKind.COUNT)), ("total", Aggregate(AggregateKind.SUM, "n")))
    spec = ColumnAggregateSpec(("k",), aggregates)
    stream_edge = StreamEdge(0, 1, KeyGroups(FieldSelector(("k",))), None, 0)
    edge = JobEdge(0, 0, 1, stream_edge, 1, 2, 128)
    writer = ExchangeWriter(edge, 2, None, CombiningGate(spec.build_combiner(), always=True))
    records = [Row(k=number % 5, n=number) for number in range(100)]
    writer.batch(Columns.from_rows(Rows(list(records), list(range(100)))))
    writer.batch(Columns.from_rows(Rows(list(records), list(range(100)), Marks([50], [7]))))
    sent = [element for block in writer.flush() for element in block.elements()]
    plain = [batch for batch in sent if isinstance(batch, Columns) and batch.marks is not None]
    combined = [batch for batch in sent if isinstance(batch, Columns) and is_combined(batch)]
    assert sum(map(len, plain)) == 100
    assert sorted(batch_key for batch in combined for batch_key in batch.data["k"].to_pylist()) == [
        0,
        1,
        2,
        3,
        4,
    ]
    assert sum(sum(records_of_each(batch).tolist()) for batch in combined) == 100


def test_rows_are_combined_behind_a_watermark_and_no_more_behind_a_pause():
    class Fewest(Combiner):
        form = Rows

        def combine(self, batch, sent_ms):
            known.append(sent_ms)
            return Rows(batch.values[:1])

    known = []
    edge = StreamEdge(1, 2, Rebalance(), None, 0)
    writer = ExchangeWriter(JobEdge(0, 1, 2, edge, 1, 1, 128), 0, None, CombiningGate(Fewest(), always=True))
    writer.batch(Rows([1, 2]))
    writer.watermark(7)
    writer.batch(Rows([3, 4]))
    writer.batch(Rows([5, 6], None, Marks([1], [9])))
    writer.batch(Rows([7, 8]))
    writer.status(IDLE)
    writer.status(ACTIVE)
    writer.watermark(11)
    writer.batch(Rows([9]))
    assert known == [None, 7, 9, None]
    sent = [element for block in writer.flush() for element in block.elements()]
    assert [value for each in sent if isinstance(each, Rows) for value in each.values] == [1, 3, 5, 6, 7, 9]


def test_what_is_combined_and_waits_is_dealt_anew_by_key_when_the_parallelism_changes():
    aggregates = (("n", Aggregate(AggregateKind.COUNT)),)
    spec = ColumnAggregateSpec(("k",), aggregates)
    batch = Columns.from_rows(Rows([Row(k=number % 9, n=number) for number in range(99)], list(range(99))))
    combined = spec.build_combiner().combine(batch, None)
    edge = StreamEdge(0, 1, KeyGroups(FieldSelector(("k",))), None, 0)
    node = StreamNode(1, "id", "it", spec, 2, 128, ChainingStrategy.ALWAYS, "default", None, None)
    parts = [_part(combined, edge, node, 0, index) for index in range(2)]
    assert all(map(is_combined, parts))
    assert sorted(key for part in parts for key in part.data["k"].to_pylist()) == list(range(9))
    assert [subtask_of(key_group(key, 128), 128, 2) for key in parts[1].data["k"].to_pylist()] == [1] * len(
        parts[1]
    )


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_what_cannot_be_sent_is_refused_with_its_size_and_the_option(monkeypatch, form):
    monkeypatch.setattr(outputs, "_MOST_BLOCK_BYTES", 10_000)
    edge = StreamEdge(1, 2, Rebalance(), None, 0)
    writer = ExchangeWriter(JobEdge(0, 1, 2, edge, 2, 2, 128), 0)
    batch = Rows([Row(text="x" * 100), Row(text="y" * 20_000)] * 2)
    writer.batch(batch if form == "rows" else Columns.from_rows(batch))
    with pytest.raises(RecordTooLargeError, match=r"bytes for subtask \d are more than the 10,000") as caught:
        writer.flush()
    assert "millstream.epoch.max-bytes" in caught.value.hint
    assert ("a Row, takes about 20," in caught.value.detail) == (form == "rows")
