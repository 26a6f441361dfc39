from __future__ import annotations

import pickle
from datetime import datetime

import pytest

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.base.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.common import Duration, WatermarkStrategy
from millstream.common.watermark_strategy import FieldTimestamps, TimestampAssigner, WatermarkGenerator
from millstream.operators.base import EpochTime, OperatorContext, OperatorReport
from millstream.operators.watermarks import WatermarksSpec
from millstream.spi.batch import ACTIVE, IDLE, Rows, Watermark
from millstream.testing.recorder import Record, Recorder
from millstream.types.row import NoSuchFieldError, Row

MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()


def told(element):
    """Return a record as (value, timestamp), or its value if it has none; a watermark or status as a word."""
    if isinstance(element, Record):
        return element.value if element.timestamp is None else tuple(element)
    if isinstance(element, Watermark):
        return "Wend" if element.timestamp_ms == MAX_TIMESTAMP else f"W{element.timestamp_ms}"
    return "idle" if element is IDLE else "active"


class Subject:
    """A watermark operator with a clock that stands still within an epoch."""

    def __init__(self, strategy, *, batch=False):
        self.time = EpochTime(1_000)
        self.output = Recorder()
        self.operator = WatermarksSpec(strategy).build()
        context = OperatorContext("job", "Timestamps", "id", 0, 1, 128, 0, self.time, batch=batch)
        self.operator.setup(context, self.output)
        self.operator.open()

    def epoch(self, *stamps, now_ms=None, then=None):
        """Give values that are their own timestamps; return what was handed on in the epoch."""
        if now_ms is not None:
            self.time.now_ms = now_ms
        if stamps:
            self.operator.process(Rows(list(stamps), list(stamps)))
        if then is not None:
            then(self.operator)
        self.report = OperatorReport()
        self.operator.end_epoch(self.report, checkpoint=False)
        return [told(element) for element in self.output.take()]


def stamped(*values):
    return [(value, value) for value in values]


class Doubled(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return 2 * value + (0 if record_timestamp == MIN_TIMESTAMP else 1)


class Punctuated(WatermarkGenerator):
    """Emits at multiples of ten, exactly there."""

    def on_event(self, value, timestamp_ms, output):
        if value % 10 == 0:
            output.emit_watermark(timestamp_ms)

    def on_periodic_emit(self, output):
        pass


class EveryRange(WatermarkGenerator):
    """Periodic: counts what it saw, and says idle on request."""

    def __init__(self):
        self.seen = 0

    def on_event(self, value, timestamp_ms, output):
        self.seen += 1

    def on_periodic_emit(self, output):
        if self.seen == 3:
            output.mark_idle()
        else:
            output.emit_watermark(self.seen)


def test_bounded_watermark_trails_the_largest_timestamp_by_the_bound_and_a_millisecond():
    subject = Subject(WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5)))
    assert subject.epoch(20, 30, 10) == [*stamped(20, 30, 10), "W24"]
    assert subject.epoch(25) == stamped(25)
    assert subject.epoch(31) == [*stamped(31), "W25"]


def test_periodic_generator_emits_once_at_the_end_of_the_epoch_however_many_batches_came():
    subject = Subject(MONOTONOUS)
    again = [7, 8]
    assert subject.epoch(5, then=lambda operator: operator.process(Rows(again, list(again)))) == [
        *stamped(5, 7, 8),
        "W7",
    ]


def test_punctuated_generator_emits_exactly_behind_its_record():
    subject = Subject(WatermarkStrategy.for_generator(Punctuated))
    assert subject.epoch(9, 10, 11, 20) == [*stamped(9, 10), "W10", *stamped(11, 20), "W20"]


def test_punctuated_watermark_that_does_not_advance_is_ignored():
    subject = Subject(WatermarkStrategy.for_generator(Punctuated))
    assert subject.epoch(20, 10, 30) == [*stamped(20), "W20", *stamped(10, 30), "W30"]


def test_generator_of_ones_own_is_periodic_too_and_may_say_that_it_is_idle():
    subject = Subject(WatermarkStrategy.for_generator(EveryRange))
    assert subject.epoch(5, 6) == [*stamped(5, 6), "W2"]
    assert subject.epoch(7) == [*stamped(7), "idle"]
    assert subject.epoch(8) == ["active", *stamped(8), "W4"]


def test_generators_are_made_for_each_split_not_shared():
    made = []

    def make():
        made.append(Punctuated())
        return made[-1]

    strategy = WatermarkStrategy.for_generator(make)
    Subject(strategy), Subject(strategy)
    assert len({id(each) for each in made}) == 2


def test_factory_that_makes_no_generator_is_refused():
    with pytest.raises(TypeMismatchError, match="watermark generators returned"):
        Subject(WatermarkStrategy.for_generator(object))


def test_assigner_replaces_timestamps_and_is_told_those_that_were_there():
    subject = Subject(MONOTONOUS.with_timestamp_assigner(Doubled()))
    assert subject.epoch(4) == [(4, 9), "W8"]
    assert subject.epoch(then=lambda operator: operator.process(Rows([6]))) == [(6, 12), "W11"]


def test_timestamps_stay_without_an_assigner():
    assert Subject(WatermarkStrategy.no_watermarks()).epoch(4, 5) == stamped(4, 5)


def test_records_without_timestamps_pass_and_make_no_watermark():
    """As in Flink, where PyFlink's own examples give files such a strategy."""
    subject = Subject(MONOTONOUS)
    assert subject.epoch(then=lambda operator: operator.process(Rows(["a"]))) == ["a"]
    assert subject.report.splits[0].stamped is False


def test_watermarks_from_above_are_swallowed_but_for_the_final_one():
    subject = Subject(WatermarkStrategy.no_watermarks())
    assert subject.epoch(5, then=lambda operator: operator.process_watermark(99)) == stamped(5)
    assert subject.epoch(then=lambda operator: operator.process_watermark(MAX_TIMESTAMP)) == ["Wend"]
    assert subject.report.splits[0].finished
    assert subject.report.made_watermark_ms == MAX_TIMESTAMP


def test_status_from_above_is_swallowed():
    assert Subject(MONOTONOUS).epoch(then=lambda operator: operator.process_status(IDLE)) == []
    assert Subject(MONOTONOUS).epoch(then=lambda operator: operator.process_status(ACTIVE)) == []


def test_stream_is_idle_after_the_timeout_and_active_with_its_next_record():
    """::

    now        1.0 s   5   1.9 s   2.0 s   2.5 s   6
    timeout            |-- 1 s -----|
    """
    subject = Subject(MONOTONOUS.with_idleness(Duration.of_seconds(1)))
    assert subject.epoch(5) == [*stamped(5), "W4"]
    assert subject.operator.next_processing_time() == 2_000
    assert subject.epoch(now_ms=1_999) == []
    assert subject.epoch(now_ms=2_000) == ["idle"]
    assert subject.operator.next_processing_time() is None
    assert subject.epoch(6, now_ms=2_500) == ["active", *stamped(6), "W5"]


def test_batch_mode_stamps_records_and_makes_no_watermark_and_no_idleness():
    strategy = WatermarkStrategy.for_generator(Punctuated).with_idleness(Duration.of_millis(1))
    subject = Subject(strategy.with_timestamp_assigner(Doubled()), batch=True)
    assert subject.epoch(10) == [(10, 21)]
    assert subject.epoch(now_ms=9_999) == []
    assert subject.operator.next_processing_time() is None
    assert subject.epoch(then=lambda operator: operator.process_watermark(MAX_TIMESTAMP)) == ["Wend"]


@pytest.mark.parametrize("wrong", ["12", None, True])
def test_timestamp_that_is_no_number_is_refused_with_the_record(wrong):
    class Wrong(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return wrong

    with pytest.raises(TypeMismatchError, match="assigner returned .* for 7"):
        Subject(MONOTONOUS.with_timestamp_assigner(Wrong())).epoch(7)


def test_strategy_refuses_what_makes_no_sense():
    second = Duration.of_seconds(1)
    with pytest.raises(ConfigurationError, match="bound of out-of-orderness is negative"):
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(-1))
    with pytest.raises(ConfigurationError, match="idle timeout is not positive"):
        MONOTONOUS.with_idleness(Duration.of_millis(0))
    with pytest.raises(ConfigurationError, match="drift of watermarks is negative"):
        MONOTONOUS.with_watermark_alignment("g", Duration.of_millis(-1))
    with pytest.raises(ConfigurationError, match="update interval"):
        MONOTONOUS.with_watermark_alignment("g", second, Duration.of_millis(0))
    with pytest.raises(ConfigurationError, match="for_generator was given"):
        WatermarkStrategy.for_generator(Punctuated())


def test_strategies_are_values_each_with_returns_a_new_one():
    base = WatermarkStrategy.for_monotonous_timestamps()
    aligned = base.with_watermark_alignment("g", Duration.of_seconds(2)).with_idleness(Duration.of_seconds(1))
    assert base == WatermarkStrategy.for_monotonous_timestamps()
    assert aligned.idle_timeout_ms == 1_000
    assert aligned.alignment is not None
    assert (aligned.alignment.group, aligned.alignment.max_drift_ms) == ("g", 2_000)
    assert aligned.alignment.update_interval_ms == 1_000


class Trailing(WatermarkGenerator):
    def __init__(self, bound):
        self.bound, self.largest = bound, 0

    def on_event(self, value, timestamp, output):
        self.largest = max(self.largest, timestamp)

    def on_periodic_emit(self, output):
        output.emit_watermark(self.largest - self.bound)


def trailing(bound):
    return WatermarkStrategy.for_generator(lambda: Trailing(bound))


def bounded(bound):
    return WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(bound - 1))


@pytest.mark.parametrize(
    ("before", "after", "watermarks"),
    [
        (bounded(10), bounded(10), ["W105"]),
        (bounded(10), bounded(3), ["W112"]),
        (bounded(10), bounded(50), []),
        (trailing(10), trailing(10), ["W105"]),
        (trailing(10), trailing(3), ["W112"]),
        (bounded(10), trailing(3), ["W112"]),
    ],
)
def test_a_restored_stream_goes_on_with_the_bound_that_the_program_has_now(before, after, watermarks):
    first = Subject(before)
    assert first.epoch(100)[-1] == "W90"
    second = Subject(after)
    second.operator.restore_state(pickle.loads(pickle.dumps(first.operator.snapshot_state())), None)
    second.operator.open()
    second.operator.watermark_ms = 90
    assert [event for event in second.epoch(115) if isinstance(event, str)] == watermarks


def test_a_restored_generator_goes_on_where_it_was_if_its_settings_are_the_same():
    first = Subject(trailing(10))
    first.epoch(100)
    second = Subject(trailing(10))
    second.operator.restore_state(pickle.loads(pickle.dumps(first.operator.snapshot_state())), None)
    second.operator.open()
    assert second.operator._split._generator.largest == 100


@pytest.mark.parametrize(
    "records",
    [
        [Row(at=5, user="a"), Row(at=7, user="b")],
        [Row(user="a", at=5), Row(user="b", at=-7)],
        [Row(at=5), Row(at=7.9)],
        [Row(at=5), Row(at=datetime(1970, 1, 1, 0, 0, 1))],
        [Row(at=5, user="a"), Row(user="b", at=7)],
        [Row(at=5), {"at": 7}],
        [Row("at", "at")(5, 9), Row("at", "at")(7, 9)],
    ],
)
def test_fields_of_many_rows_are_stamps_as_those_of_each_are(records):
    subject = Subject(MONOTONOUS.with_timestamp_assigner("at"))
    subject.operator.process(Rows(list(records), None))
    stamps = [element.timestamp for element in subject.output.take() if isinstance(element, Record)]
    assigner = FieldTimestamps("at")
    assert stamps == [assigner.extract_timestamp(record, MIN_TIMESTAMP) for record in records]


@pytest.mark.parametrize("last", [Row(at=True), Row(at="7"), Row(to=7), Row("at")()])
def test_a_row_without_a_time_in_its_field_is_an_error_among_many(last):
    subject = Subject(MONOTONOUS.with_timestamp_assigner("at"))
    with pytest.raises((TypeMismatchError, NoSuchFieldError)):
        subject.operator.process(Rows([Row(at=5), last], None))
