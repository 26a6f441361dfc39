"""Sources, watermarks and sinks that have columns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.errors import ConfigurationError, MillstreamError, TypeMismatchError
from millstream.base.time import Duration
from millstream.common import Types, WatermarkStrategy
from millstream.common.watermark_strategy import FieldTimestamps, TimestampAssigner, WatermarkGenerator
from millstream.operators.base import EpochTime, OperatorContext, OperatorReport, Output
from millstream.operators.column_times import times_of
from millstream.operators.simple import IdentitySpec
from millstream.operators.sink import SinkSpec
from millstream.operators.source import SourceSpec
from millstream.operators.watermarks import WatermarksSpec
from millstream.spi.batch import Columns, Rows, Watermark
from millstream.spi.sink import Sink, SinkWriter
from millstream.spi.source import Boundedness, RangeEnd, Source, SourceReader, SplitRange
from millstream.types.row import Row

BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5))


class Recorder(Output):
    def __init__(self):
        self.events = []

    def emit(self, batch):
        self.events += batch.pieces()

    def emit_side(self, tag_id, batch):
        raise AssertionError(tag_id)

    def emit_watermark(self, timestamp_ms):
        self.events.append(Watermark(timestamp_ms))

    def emit_status(self, status):
        self.events.append(status)


class _WantsColumns(Recorder):
    wants_columns = True


def started(spec, *, wants_columns=False):
    operator, output = spec.build(), _WantsColumns() if wants_columns else Recorder()
    operator.setup(OperatorContext("job", "op", "id", 0, 1, 128, 0, EpochTime()), output)
    operator.open()
    return operator, output


def columns(*numbers, stamps=None):
    return Columns.from_rows(Rows([Row(at=n, n=str(n)) for n in numbers], stamps))


class Given(Source):
    """Emits the batches it was given; tells whether columns are wanted."""

    def __init__(self, *batches):
        self.batches = batches

    def get_boundedness(self):
        return Boundedness.BOUNDED

    def build_enumerator(self, parallelism, restored):
        raise NotImplementedError

    def build_reader(self, subtask_index, parallelism):
        self.reader = _Reader(self.batches)
        return self.reader


class _Reader(SourceReader):
    def __init__(self, batches):
        self.batches = batches

    def open(self):
        self.wanted = self.wants_columns

    def read(self, split_range, emit):
        for batch in self.batches:
            emit(batch)
        return RangeEnd(split_range.split_id, 1, True, sum(map(len, self.batches)))


@pytest.mark.parametrize("strategy", [BOUNDED, BOUNDED.with_timestamp_assigner("at")])
def test_columns_stay_columns_and_their_largest_time_makes_the_watermark(strategy):
    field = strategy.timestamp_assigner is not None
    batch = columns(3, 9, 6, stamps=None if field else [3, 9, 6])
    source = Given(batch)
    operator, output = started(SourceSpec(source, strategy), wants_columns=True)
    assert source.reader.wanted
    operator.read_ranges([SplitRange("0", None)], finished=False)
    assert output.events == [columns(3, 9, 6, stamps=[3, 9, 6]), Watermark(3)]
    report = OperatorReport()
    operator.end_epoch(report, checkpoint=False)
    assert report.max_timestamp_ms == 9


def test_a_reader_is_told_that_rows_are_wanted():
    source = Given()
    started(SourceSpec(source, WatermarkStrategy.no_watermarks()))
    assert source.reader.wanted is False


class Doubled(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return 2 * value.at


class AtEachRecord(WatermarkGenerator):
    def on_event(self, value, timestamp_ms, output):
        output.emit_watermark(timestamp_ms - 1)

    def on_periodic_emit(self, output):
        pass


def test_who_looks_at_each_record_sees_rows():
    operator, output = started(WatermarksSpec(BOUNDED.with_timestamp_assigner(Doubled())))
    operator.process(columns(3, 9))
    assert output.events == [Rows([Row(at=3, n="3"), Row(at=9, n="9")], [6, 18])]
    strategy = WatermarkStrategy.for_generator(AtEachRecord).with_timestamp_assigner("at")
    operator, output = started(WatermarksSpec(strategy))
    operator.process(columns(3, 9))
    assert output.events == [
        Rows([Row(at=3, n="3")], [3]),
        Watermark(2),
        Rows([Row(at=9, n="9")], [9]),
        Watermark(8),
    ]


MOMENTS = st.datetimes(datetime(1950, 1, 1), datetime(2200, 1, 1))
TIMES = {
    "ms": (st.integers(-(2**62), 2**62), pa.int64()),
    "small": (st.integers(-(2**31), 2**31 - 1), pa.int32()),
    "unsigned": (st.integers(0, 2**63 - 1), pa.uint64()),
    "naive": (MOMENTS, pa.timestamp("us")),
    "seconds": (MOMENTS.map(lambda moment: moment.replace(microsecond=0)), pa.timestamp("s")),
    "zoned": (MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC)), pa.timestamp("us", "UTC")),
}


@pytest.mark.parametrize("name", TIMES)
@given(st.data())
def test_a_column_of_times_is_what_each_record_gives(name, data):
    values, kind = TIMES[name]
    rows = Rows([Row(at=value) for value in data.draw(st.lists(values, min_size=1))])
    batch = Columns.from_rows(rows, pa.schema([("at", kind)]))
    assigner = FieldTimestamps("at")
    expected = [assigner.extract_timestamp(row, 0) for row in rows.values]
    assert times_of(batch, "at").to_pylist() == expected


def test_event_time_of_a_field_is_in_epoch_milliseconds():
    assigner = FieldTimestamps("at")
    moment = datetime(1970, 1, 1, 1, 0, 0, 1_999)
    east = timezone(timedelta(hours=1))
    for value, expected in [(7, 7), (7.9, 7), (moment, 3_600_001), (moment.replace(tzinfo=east), 1)]:
        assert assigner.extract_timestamp(Row(at=value), 0) == expected
        assert assigner.extract_timestamp({"at": value}, 0) == expected


@pytest.mark.parametrize(
    ("record", "named"),
    [
        (Row(n=1), "no field 'at'"),
        ((1, 2), "tuple has no field 'at'"),
        (Row(at=None), "no event time: None"),
        (Row(at=True), "no event time: True"),
        (Row(at="2013"), "no event time"),
    ],
)
def test_a_record_without_event_time_is_named(record, named):
    with pytest.raises(TypeMismatchError, match=named):
        FieldTimestamps("at").extract_timestamp(record, 0)
    if isinstance(record, Row):
        operator, _ = started(WatermarksSpec(BOUNDED.with_timestamp_assigner("at")))
        with pytest.raises(MillstreamError, match=named):
            operator.process(Columns.from_rows(Rows([record])))


def test_a_column_beyond_what_event_time_holds_is_no_event_time():
    batch = Columns.from_rows(Rows([Row(at=2**63)]), pa.schema([("at", pa.uint64())]))
    assert times_of(batch, "at") is None
    assert times_of(batch, "no such") is None


def test_an_assigner_is_one_or_a_name():
    with pytest.raises(ConfigurationError, match="name a field"):
        BOUNDED.with_timestamp_assigner(lambda value, stamp: 1)


class Keeping(Sink):
    def __init__(self, *, takes_columns):
        self.takes_columns = takes_columns

    def build_writer(self, context):
        self.writer = _Writer()
        self.writer.takes_columns = self.takes_columns
        return self.writer


class _Writer(SinkWriter):
    def __init__(self):
        self.written = []

    def write(self, batch, *, watermark_ms, now_ms):
        self.written.append(batch)

    def prepare_commit(self, *, now_ms, checkpoint, end_of_input):
        return []


@pytest.mark.parametrize("wants", [True, False])
def test_who_hands_columns_on_wants_them_for_who_reads_it(wants):
    for spec in (WatermarksSpec(BOUNDED), IdentitySpec()):
        assert started(spec, wants_columns=wants)[0].wants_columns is wants
    assert started(SinkSpec(Keeping(takes_columns=wants)))[0].wants_columns is wants


def test_records_of_a_declared_type_are_checked_one_by_one():
    source = Given(columns(1))
    declared = Types.ROW_NAMED(["at", "n"], [Types.INT(), Types.STRING()])
    operator, output = started(SourceSpec(source, BOUNDED, declared), wants_columns=True)
    assert not source.reader.wanted
    operator.read_ranges([SplitRange("0", None)], finished=False)
    assert output.events[0] == columns(1).to_rows()
    operator, _ = started(SourceSpec(Given(columns(1)), BOUNDED, Types.INT()))
    with pytest.raises(TypeMismatchError):
        operator.read_ranges([SplitRange("0", None)], finished=False)


def test_a_writer_gets_the_form_that_it_takes():
    for takes_columns in (True, False):
        sink = Keeping(takes_columns=takes_columns)
        operator, _ = started(SinkSpec(sink))
        operator.process(columns(1))
        operator.process(Rows([2]))
        expected = columns(1) if takes_columns else columns(1).to_rows()
        assert sink.writer.written == [expected, Rows([2])]
