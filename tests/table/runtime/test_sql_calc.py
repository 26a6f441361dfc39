"""Filters and projections, watermarks by expression, grouping sets, windows of rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pyarrow as pa
from sql_runs import AFTER, BEFORE, DELETE, INSERT, SqlRun, schema_of

from millstream.operators.base import EpochTime, OperatorContext, OperatorReport
from millstream.spi.batch import Columns, Watermark
from millstream.table.expressions.rex import Call, InputRef, Literal
from millstream.table.plan.logical import WindowKind
from millstream.table.runtime.specs import (
    CalcSpec,
    DropBeforeSpec,
    ExpandSpec,
    RowtimeSpec,
    WindowAssignSpec,
)
from millstream.testing.recorder import Recorder
from millstream.types.datatypes import DataTypes as D

NUMBERS = schema_of(D.BIGINT(), D.BIGINT())
T0 = datetime(2024, 1, 1)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def test_a_calc_filters_then_projects_and_keeps_kinds() -> None:
    total = Call("+", (InputRef(0, D.BIGINT()), InputRef(1, D.BIGINT())), D.BIGINT())
    condition = Call(">", (InputRef(0, D.BIGINT()), Literal(1, D.BIGINT(False))), D.BOOLEAN())
    run = SqlRun(CalcSpec(NUMBERS, (total, InputRef(1, D.BIGINT())), condition), [NUMBERS], [()], Random(0))
    run.push(
        0, [(INSERT, (1, 2)), (INSERT, (2, 3)), (INSERT, (None, 3)), (BEFORE, (2, 3)), (AFTER, (5, None))]
    )
    run.fold()
    assert run.emitted == [(INSERT, (5, 3)), (BEFORE, (5, 3)), (AFTER, (None, None))]


def test_a_calc_computes_constants_for_every_row() -> None:
    run = SqlRun(CalcSpec(NUMBERS, (Literal(7, D.INT(False)),)), [NUMBERS], [()], Random(0))
    run.push(0, [(INSERT, (1, 2)), (INSERT, (2, 3))])
    run.fold()
    assert run.emitted == [(INSERT, (7,)), (INSERT, (7,))]


def test_watermarks_are_the_largest_so_far() -> None:
    schema = schema_of(D.TIMESTAMP(3))
    run = SqlRun(RowtimeSpec(schema, 0, InputRef(0, D.TIMESTAMP(3))), [schema], [()], Random(0))
    base = 1_704_067_200_000
    for times in ([3, 1], [2], [None], [7]):
        run.push(0, [(INSERT, (None if each is None else at(each),)) for each in times])
    marks = [each.timestamp_ms - base for each in run.harness.take_elements() if isinstance(each, Watermark)]
    assert marks == [3_000, 7_000]


def test_a_silent_stream_is_idle_until_a_row_comes() -> None:
    schema = schema_of(D.TIMESTAMP(3))
    spec = RowtimeSpec(schema, 0, InputRef(0, D.TIMESTAMP(3)), idle_timeout_ms=1_000)
    run = SqlRun(spec, [schema], [()], Random(0))
    run.push(0, [(INSERT, (at(1),))])
    run.harness.take_elements()
    assert run.harness.next_processing_time == 1_000
    run.harness.set_processing_time(1_000)
    assert [str(each) for each in run.harness.take_elements()] == ["StreamStatus.IDLE"]
    run.push(0, [(INSERT, (at(0),))])
    assert str(run.harness.take_elements()[0]) == "StreamStatus.ACTIVE"


def test_what_makes_watermarks_behind_a_source_tells_of_event_time() -> None:
    schema = schema_of(D.TIMESTAMP(3))
    spec = RowtimeSpec(schema, 0, InputRef(0, D.TIMESTAMP(3)), idle_timeout_ms=1_000)
    strategy = spec.watermark_strategy
    assert strategy is not None
    assert (strategy.generator is not None, strategy.idle_timeout_ms) == (True, 1_000)
    time, operator = EpochTime(0), spec.build()
    operator.setup(OperatorContext("j", "o", "id", 0, 1, 128, 0, time), Recorder())
    operator.open()
    told = []
    for rows in ([at(3), at(1)], [], [None], [at(2)]):
        operator.process(Columns(pa.record_batch([pa.array(rows, pa.timestamp("ms"))], ["f0"])))
        report = OperatorReport()
        operator.end_epoch(report, checkpoint=False)
        told += [(split.max_timestamp_ms, split.watermark_ms, split.stamped) for split in report.splits]
    latest_ms = 1_704_067_203_000
    assert told == [(latest_ms, latest_ms, True), (latest_ms, latest_ms, False), (latest_ms, latest_ms, True)]
    assert replace(spec, pushed=True).watermark_strategy is None


def test_watermarks_that_a_source_made_are_handed_on_if_they_advance() -> None:
    schema, output = schema_of(D.TIMESTAMP(3)), Recorder()
    operator = RowtimeSpec(schema, 0, InputRef(0, D.TIMESTAMP(3)), pushed=True).build()
    operator.setup(OperatorContext("j", "o", "id", 0, 1, 128, 0, EpochTime(0)), output)
    operator.open()
    operator.watermark_ms = 5  # of a checkpoint of before: the source itself had made none then
    operator.process(Columns(pa.record_batch([pa.array([at(9)], pa.timestamp("ms"))], ["f0"])))
    for timestamp_ms in (4, 5, 7):
        operator.process_watermark(timestamp_ms)
    assert [each.timestamp_ms for each in output.take() if isinstance(each, Watermark)] == [7]


def test_before_rows_are_dropped() -> None:
    run = SqlRun(DropBeforeSpec(), [NUMBERS], [()], Random(0), key=lambda row: row[0])
    run.push(0, [(INSERT, (1, 2)), (BEFORE, (1, 2)), (AFTER, (1, 3)), (DELETE, (1, 3))])
    run.fold()
    assert [kind for kind, _ in run.emitted] == [INSERT, AFTER, DELETE]


def test_grouping_sets_have_a_copy_each_with_the_number_of_the_set() -> None:
    run = SqlRun(ExpandSpec(NUMBERS, (0, 1), ((0, 1), (0,), ()), (1,)), [NUMBERS], [()], Random(0))
    run.push(0, [(INSERT, (1, 2))])
    run.fold()
    assert [row for _, row in run.emitted] == [(1, 2, 0, 2), (1, None, 1, 2), (None, None, 3, 2)]


def windows(kind: WindowKind, seconds: float, **settings: int) -> list[tuple[float, float, float]]:
    schema = schema_of(D.TIMESTAMP(3))
    run = SqlRun(WindowAssignSpec(schema, kind, 0, **settings), [schema], [()], Random(0))
    run.push(0, [(INSERT, (at(seconds),)), (INSERT, (None,))])
    run.fold()
    return [tuple((each - T0).total_seconds() for each in row[1:]) for _, row in run.emitted]


def test_windows_of_a_row() -> None:
    assert windows(WindowKind.TUMBLE, 13, size_ms=10_000) == [(10, 20, 19.999)]
    assert windows(WindowKind.TUMBLE, 13, size_ms=10_000, offset_ms=4_000) == [(4, 14, 13.999)]
    assert windows(WindowKind.HOP, 13, size_ms=10_000, slide_ms=5_000) == [(5, 15, 14.999), (10, 20, 19.999)]
    assert windows(WindowKind.HOP, 13, size_ms=10_000, slide_ms=4_000) == [
        (4, 14, 13.999),
        (8, 18, 17.999),
        (12, 22, 21.999),
    ]
    assert windows(WindowKind.CUMULATE, 13, size_ms=10_000, slide_ms=2_000) == [
        (10, 14, 13.999),
        (10, 16, 15.999),
        (10, 18, 17.999),
        (10, 20, 19.999),
    ]


def test_windows_of_moments_follow_the_clocks_of_the_session() -> None:
    schema = schema_of(D.TIMESTAMP_LTZ(3))
    spec = WindowAssignSpec(schema, WindowKind.TUMBLE, 0, size_ms=86_400_000, shift_zone="Asia/Shanghai")
    run = SqlRun(spec, [schema], [()], Random(0))
    import pyarrow as pa

    moment = pa.array([datetime(2024, 1, 1, 20)], pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    run.harness.push_columns(pa.RecordBatch.from_arrays([moment], ["f0"]))
    ((_, start, end, time),) = run.harness.take()
    assert (start, end) == (datetime(2024, 1, 2), datetime(2024, 1, 3))
    assert time.to_epoch_milli() == 1_704_124_800_000 + 86_400_000 - 1
