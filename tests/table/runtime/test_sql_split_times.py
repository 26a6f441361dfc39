"""Event time of tables is that of each split: what is read later of one that is behind is not late."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import dataclass
from random import Random

import pytest

from millstream.base.time import MIN_TIMESTAMP
from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.connectors.index_splits import IndexEnumerator, IndexReader
from millstream.graph.transformation import Edge, Transformation
from millstream.operators.base import EpochTime, OperatorContext, OperatorReport, RestoreScope
from millstream.operators.source import SourceSpec
from millstream.spi.batch import Columns, Rows, Watermark
from millstream.spi.source import Boundedness, RangeEnd, Source, SourceReader, SplitRange
from millstream.table import StreamTableEnvironment
from millstream.table.connectors import registry
from millstream.table.connectors.base import TableConnector
from millstream.table.connectors.conversion import ToSqlSpec
from millstream.table.expressions.rex import Call, InputRef, Literal, RowSchema
from millstream.table.plan.event_time import push_watermarks
from millstream.table.runtime.event_time import ExpressionWatermarks
from millstream.table.runtime.specs import CalcSpec
from millstream.testing.recorder import Record, Recorder
from millstream.types.datatypes import DataTypes
from millstream.types.row import Row, RowKind

SECONDS, SPLITS = 20, 3
NAMES = ("k", "ms", "n")


def records(seed):
    """Return the rows of each split: all have the same times, by up to 2 s out of order, and some have none."""
    random, splits = Random(seed), []
    for split in range(SPLITS):
        rows = [
            (random.choice("ab"), ms, split)
            for ms in range(0, SECONDS * 1_000, random.choice((250, 400, 500)))
        ]
        rows.sort(key=lambda row: row[1] + random.randrange(2_000))
        for _ in range(5):
            rows.insert(random.randrange(len(rows)), ("a", None, split))
        splits.append(rows)
    return splits


@dataclass(frozen=True)
class Partitions(Source):
    """All that there is of a partition is read before the next one, if the epoch is long enough."""

    seed: int
    form: str

    def get_boundedness(self):
        return Boundedness.BOUNDED

    def build_enumerator(self, parallelism, restored):
        lengths = [len(each) for each in records(self.seed)]
        starts = [sum(lengths[:place]) for place in range(SPLITS)]
        ranges = [range(start, start + count) for start, count in zip(starts, lengths, strict=True)]
        return IndexEnumerator(ranges, parallelism, restored)

    def build_reader(self, subtask_index, parallelism):
        rows = [Row(**dict(zip(NAMES, row, strict=True))) for part in records(self.seed) for row in part]

        def batch_of(indices):
            batch = Rows([rows[place] for place in indices])
            return batch if self.form == "rows" else Columns.from_rows(batch)

        return IndexReader(batch_of, 16)


class PartitionsConnector(TableConnector):
    name = "partitions"

    def check(self):
        pass

    def is_bounded(self):
        return False

    def scan(self, environment, columns):
        source = Partitions(int(self.options.required("seed")), self.options.required("form"))
        stream = environment.from_source(source, WatermarkStrategy.no_watermarks(), "partitions")
        names = tuple(self.table.schema.names[place] for place in columns)
        types = tuple(self.table.schema.types[place] for place in columns)
        return stream._transform("columns", ToSqlSpec(names, types, "the table"))


@pytest.fixture
def new_tables(new_environment, monkeypatch):
    monkeypatch.setattr(registry, "_installed", lambda: {"partitions": f"{__name__}:PartitionsConnector"})

    def make(parallelism, options=None, *, seed=1, form="rows"):
        tables = StreamTableEnvironment.create(new_environment(f"local[{parallelism}]", parallelism, options))
        tables.execute_sql(
            "CREATE TABLE t (k STRING, ms BIGINT, n INT, ts AS TO_TIMESTAMP_LTZ(ms, 3), "
            f"WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector' = 'partitions', 'seed' = '{seed}', "
            f"'form' = '{form}')"
        )
        return tables

    return make


def counted(tables):
    query = (
        "SELECT k, CAST(UNIX_TIMESTAMP(CAST(window_start AS STRING)) AS INT), COUNT(*), SUM(n) "
        "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY k, window_start, window_end"
    )
    with tables.execute_sql(query).collect() as found:
        return sorted(tuple(row) for row in found)


def expected(seed):
    rows = [row for part in records(seed) for row in part if row[1] is not None]
    counts = Counter((k, ms // 1_000) for k, ms, _ in rows)
    sums = Counter()
    for k, ms, n in rows:
        sums[k, ms // 1_000] += n
    return sorted((*key, count, sums[key]) for key, count in counts.items())


@pytest.mark.parametrize(
    ("parallelism", "epoch", "form"),
    [(1, None, "rows"), (1, 40, "columns"), pytest.param(2, 40, "rows", marks=pytest.mark.long)],
)
def test_rows_of_splits_that_are_read_later_are_not_late(new_tables, parallelism, epoch, form):
    options = {"millstream.epoch.fixed-records": epoch} if epoch else {}
    seed = parallelism * 100 + (epoch or 0)
    assert counted(new_tables(parallelism, options, seed=seed, form=form)) == expected(seed)


NUMBERED = RowSchema(("n", "ms"), (DataTypes.INT(), DataTypes.BIGINT()))
AT = Call(
    "TO_TIMESTAMP_LTZ",
    (InputRef(1, DataTypes.BIGINT()), Literal(3, DataTypes.INT())),
    DataTypes.TIMESTAMP_LTZ(3),
)
DECLARED = ExpressionWatermarks(ToSqlSpec(NUMBERED.names, NUMBERED.types, "t"), NUMBERED, AT, AT)


class SourceRun:
    """A source operator in a test's hands."""

    def __init__(self, idle_ms=None, restored=None):
        self.time, self.output = EpochTime(0), Recorder()
        self.operator = SourceSpec(Given(), WatermarkStrategy(DECLARED, None, idle_ms)).build()
        self.operator.setup(OperatorContext("j", "s", "id", 0, 1, 128, 0, self.time), self.output)
        if restored is not None:
            self.operator.restore_state(restored, RestoreScope(0, 0, 1, lambda key: True))
        self.operator.open()

    def epoch(self, *parts, now_ms=0):
        """Read rows of splits, given as (split id, times or rows); return the last watermark or status, if any.

        Batches are cut by the time that they take, and there may be a watermark behind each piece.
        """
        self.time.now_ms = now_ms
        self.operator.read_ranges([SplitRange(name, rows) for name, rows in parts], finished=False)
        self.report = OperatorReport()
        self.operator.end_epoch(self.report, checkpoint=False)
        taken = [each for each in self.output.take() if not isinstance(each, Record)]
        return [each.timestamp_ms if isinstance(each, Watermark) else str(each) for each in taken[-1:]]


class Given(Source):
    def get_boundedness(self):
        return Boundedness.CONTINUOUS_UNBOUNDED

    def build_enumerator(self, parallelism, restored):
        raise NotImplementedError

    def build_reader(self, subtask_index, parallelism):
        return _GivenReader()


class _GivenReader(SourceReader):
    def read(self, split_range, emit):
        rows = [each if isinstance(each, Row) else Row(n=1, ms=each) for each in split_range.split]
        emit(Rows(rows))
        return RangeEnd(split_range.split_id, len(rows), False, len(rows))


def test_the_watermark_is_the_lowest_of_the_splits_and_rows_without_time_give_none():
    run = SourceRun()
    assert run.epoch(("a", [5_000, 3_000, None]), ("b", [])) == []
    assert run.epoch(("b", [None])) == []
    told = {each.split_id: each for each in run.report.splits}
    assert (told["b"].stamped, told["b"].watermark_ms) == (False, MIN_TIMESTAMP)
    assert run.epoch(("b", [1_000, 4_000])) == [4_000]
    assert run.epoch(("a", [4_500]), ("b", [9_000])) == [5_000]
    assert run.report.max_timestamp_ms == 9_000


def test_a_silent_split_is_not_waited_for_after_the_idle_timeout():
    run = SourceRun(idle_ms=1_000)
    assert run.epoch(("a", [5_000]), ("b", [2_000])) == [2_000]
    assert run.epoch(("a", [6_000]), now_ms=999) == []
    assert run.epoch(now_ms=1_000) == [6_000]
    assert run.epoch(now_ms=2_000) == ["StreamStatus.IDLE"]


def test_rows_that_are_taken_back_do_not_advance_event_time():
    run, gone = SourceRun(), Row(n=1, ms=9_000)
    gone.set_row_kind(RowKind.UPDATE_BEFORE)
    assert run.epoch(("a", [Row(n=1, ms=1_000), gone])) == [1_000]
    only = Row(n=1, ms=9_500)
    only.set_row_kind(RowKind.DELETE)
    assert run.epoch(("a", [only])) == []


def test_event_time_of_each_split_goes_on_from_a_checkpoint():
    run = SourceRun()
    run.epoch(("a", [5_000]), ("b", [2_000]))
    snapshot = pickle.loads(pickle.dumps(run.operator.snapshot_state()))
    again = SourceRun(restored=snapshot)
    again.operator.watermark_ms = 2_000
    assert again.epoch(("a", [1_000]), ("b", [3_000])) == [3_000]
    assert again.epoch(("b", [7_000])) == [5_000]


MINUS = Call("-", (InputRef(1, DataTypes.BIGINT()), Literal(5, DataTypes.BIGINT())), DataTypes.BIGINT())
NOW = Call("CURRENT_ROW_TIMESTAMP", (), DataTypes.TIMESTAMP_LTZ(3))
OWN = Call("same", (AT,), DataTypes.TIMESTAMP_LTZ(3), user_function=object())
TRUE = Literal(True, DataTypes.BOOLEAN())


def above(computed=(), condition=None):
    """Return a source, and the operator whose columns a WATERMARK FOR is over."""
    source = Transformation(1, "s", SourceSpec(Given(), WatermarkStrategy.no_watermarks()))
    columns = Transformation(2, "c", ToSqlSpec(NUMBERED.names, NUMBERED.types, "t"), [Edge(source)])
    calc = CalcSpec(NUMBERED, (InputRef(0, DataTypes.INT()), *computed), condition)
    return source, Transformation(3, "calc", calc, [Edge(columns)])


def test_what_is_computed_of_a_row_is_one_expression_at_the_source():
    source, calc = above((MINUS,))
    assert push_watermarks(calc, AT, AT, 7, "UTC")
    strategy = source.spec.strategy
    assert strategy.idle_timeout_ms == 7
    batch = Columns.from_rows(Rows([Row(n=1, ms=1_000), Row(n=2, ms=3_000)]))
    assert strategy.generator().times_of(batch) == (2_995, 2_995)
    assert strategy.generator.schema.names == ("ms",)
    assert push_watermarks(calc, AT, AT, 7, "UTC"), "another query of the same source"
    assert not push_watermarks(calc, AT, AT, 8, "UTC")
    assert source.spec.strategy == strategy


@pytest.mark.parametrize(
    ("computed", "condition", "watermark"),
    [((MINUS,), None, OWN), ((MINUS,), None, NOW), ((MINUS,), TRUE, AT)],
    ids=["a user's function", "the time of day", "rows that are left out"],
)
def test_what_does_not_hang_on_the_row_alone_stays_behind_the_source(computed, condition, watermark):
    source, calc = above(computed, condition)
    assert not push_watermarks(calc, AT, watermark, None, "UTC")
    assert source.spec.strategy == WatermarkStrategy.no_watermarks()
