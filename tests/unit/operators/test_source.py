from __future__ import annotations

import pytest

from millstream.base.time import MAX_TIMESTAMP
from millstream.common import Duration, WatermarkStrategy
from millstream.operators.base import EpochTime, OperatorContext, OperatorReport, RestoreScope
from millstream.operators.budget import EpochLimits
from millstream.operators.source import SourceOperator, SourceSpec
from millstream.spi.batch import IDLE, Rows, Watermark
from millstream.spi.source import Boundedness, RangeEnd, Source, SourceReader, SplitRange
from millstream.testing.recorder import Record, Recorder, SideRecord


class Stamped(Source):
    """A split range holds the timestamps of its records; each record is its own timestamp."""

    def get_boundedness(self):
        return Boundedness.CONTINUOUS_UNBOUNDED

    def build_enumerator(self, parallelism, restored):
        raise NotImplementedError

    def build_reader(self, subtask_index, parallelism):
        return _Reader()


class _Reader(SourceReader):
    def read(self, split_range, emit):
        stamps = split_range.split
        emit(Rows(list(stamps), list(stamps)))
        return RangeEnd(split_range.split_id, len(stamps), split_range.stop == "end", len(stamps))


def told(element):
    """Return a record's value, or a watermark or status as a word."""
    if isinstance(element, Record):
        return element.value
    if isinstance(element, SideRecord):
        return element.tag_id, element.value
    if isinstance(element, Watermark):
        return "Wend" if element.timestamp_ms == MAX_TIMESTAMP else f"W{element.timestamp_ms}"
    return "idle" if element is IDLE else "active"


class Subject:
    def __init__(self, strategy=None, *, batch=False, source=None, side_outputs=frozenset()):
        self.time = EpochTime(0)
        self.output = Recorder()
        strategy = strategy or WatermarkStrategy.for_monotonous_timestamps()
        built = SourceSpec(source or Stamped(), strategy).build()
        assert isinstance(built, SourceOperator)
        self.operator = built
        context = OperatorContext(
            "job", "Source", "id", 0, 1, 128, 0, self.time, batch=batch, side_outputs=side_outputs
        )
        built.setup(context, self.output)
        built.open()

    def epoch(self, *ranges, now_ms=0, finished=False, held=frozenset()):
        self.time.now_ms = now_ms
        self.operator.read_ranges(ranges, finished=finished, held=held)
        self.report = OperatorReport()
        self.operator.end_epoch(self.report, checkpoint=False)
        return [told(element) for element in self.output.take()]


def part(split_id, *stamps, ends=False, file=False):
    return SplitRange(split_id, stamps, stop="end" if ends else None, sequential=file)


IDLE_AFTER_A_SECOND = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_seconds(1))


def test_watermark_is_the_lowest_of_the_splits():
    subject = Subject()
    assert subject.epoch(part("a", 10), part("b", 5)) == [10, 5, "W4"]
    assert subject.epoch(part("b", 20)) == [20, "W9"]


def test_partition_holds_back_from_when_it_is_planned_a_file_from_when_it_is_begun():
    assert Subject().epoch(part("a", 10), part("b", 5)) == [10, 5, "W4"]
    assert Subject().epoch(part("a", 10, file=True), part("b", 15, file=True)) == [10, "W9", 15]


def test_split_that_has_ended_holds_nothing_back():
    subject = Subject()
    assert subject.epoch(part("a", 10, ends=True), part("b", 30)) == [10, 30, "W29"]
    assert subject.epoch(part("b", 40, ends=True)) == [40, "W39"]
    ended = [(split.split_id, split.finished) for split in subject.report.splits]
    assert ended == [("b", True)]


def test_silent_split_holds_back_until_idleness_releases_it():
    subject = Subject(IDLE_AFTER_A_SECOND)
    assert subject.epoch(part("a", 10), part("b", 5)) == [10, 5, "W4"]
    assert subject.operator.next_processing_time() == 1_000
    assert subject.epoch(part("a", 20), now_ms=999) == [20]
    assert subject.epoch(now_ms=1_000) == ["W19"]
    assert subject.epoch(now_ms=1_999) == ["idle"]
    assert subject.epoch(part("b", 21, 22), now_ms=2_000) == ["active", 21, 22, "W21"]


def test_subtask_without_a_split_is_idle_after_the_timeout_and_never_without_one():
    subject = Subject(IDLE_AFTER_A_SECOND)
    assert subject.epoch(now_ms=999) == []
    assert subject.operator.next_processing_time() == 1_000
    assert subject.epoch(now_ms=1_000) == ["idle"]
    assert subject.operator.next_processing_time() is None
    patient = Subject()
    assert patient.epoch(now_ms=10**9) == []
    assert patient.operator.next_processing_time() is None


def test_silence_of_a_split_that_is_held_back_on_purpose_is_not_idleness():
    subject = Subject(IDLE_AFTER_A_SECOND)
    subject.epoch(part("a", 10), part("b", 5))
    assert subject.epoch(part("b", 6), now_ms=900, held=frozenset({"a"})) == [6, "W5"]
    assert subject.epoch(part("b", 7), now_ms=1_800, held=frozenset({"a"})) == [7, "W6"]
    assert subject.epoch(part("b", 99), now_ms=2_700) == [99, "W9"]
    assert subject.epoch(now_ms=2_800) == ["W98"]


def test_final_watermark_comes_once_and_nothing_after_it():
    subject = Subject(IDLE_AFTER_A_SECOND)
    assert subject.epoch(part("a", 10), finished=True) == [10, "W9", "Wend"]
    assert subject.report.made_watermark_ms == MAX_TIMESTAMP
    assert subject.epoch(now_ms=10**6, finished=True) == []
    assert subject.epoch(now_ms=10**6) == []
    assert subject.operator.next_processing_time() is None


def test_end_wakes_an_idle_source_before_the_final_watermark():
    subject = Subject(IDLE_AFTER_A_SECOND)
    subject.epoch(now_ms=1_000)
    assert subject.epoch(finished=True, now_ms=1_001) == ["active", "Wend"]


def test_batch_mode_has_the_final_watermark_only():
    subject = Subject(IDLE_AFTER_A_SECOND, batch=True)
    assert subject.epoch(part("a", 10), part("b", 5)) == [10, 5]
    assert subject.epoch(now_ms=9_999) == []
    assert subject.epoch(part("a", 3), finished=True) == [3, "Wend"]


def test_report_tells_what_changed_of_each_split():
    subject = Subject()
    subject.epoch(part("a", 10, 7), part("b", 5), now_ms=100)
    told = {split.split_id: split for split in subject.report.splits}
    assert (told["a"].watermark_ms, told["a"].max_timestamp_ms) == (9, 10)
    assert (told["a"].last_record_ms, told["a"].advanced_ms) == (100, 100)
    assert subject.report.made_watermark_ms == 4
    subject.epoch(part("b", 4), now_ms=200)
    (only,) = subject.report.splits
    assert (only.split_id, only.last_record_ms, only.advanced_ms) == ("b", 200, 100)
    assert subject.report.made_watermark_ms is None
    subject.epoch(now_ms=300)
    assert subject.report == OperatorReport(max_timestamp_ms=10)


@pytest.mark.parametrize("rescaled", [True, False])
def test_split_that_another_subtask_reads_since_a_restore_holds_back_no_longer_than_its_records(rescaled):
    former = Subject()
    former.operator.context.budget.begin(EpochLimits(records=1))
    assert former.epoch(part("a", 10, 20)) == [10]
    subject = Subject()
    scope = RestoreScope(0, 0, 1, lambda key: True, rescaled=rescaled)
    subject.operator.restore_state(former.operator.snapshot_state(), scope)
    assert subject.epoch(part("b", 15)) == [20, 15, "W14"]
    assert subject.epoch(part("b", 90)) == [90, "W89" if rescaled else "W19"]


class _Aside(SourceReader):
    def read(self, split_range, emit):
        stamps = list(split_range.split)
        self.context.emit_side("read", Rows([-stamp for stamp in stamps]))
        self.context.emit_side("unread", Rows(["nobody"]))
        emit(Rows(stamps, stamps))
        return RangeEnd(split_range.split_id, len(stamps), split_range.stop == "end", len(stamps))


class WithSideOutput(Stamped):
    def build_reader(self, subtask_index, parallelism):
        return _Aside()


def test_what_a_reader_gives_aside_is_in_order_and_in_the_epochs_budget_and_held_in_checkpoints():
    subject = Subject(source=WithSideOutput(), side_outputs=frozenset({"read"}))
    assert subject.epoch(part("a", 10)) == [("read", -10), 10, "W9"]
    subject.operator.context.budget.begin(EpochLimits(records=2))
    assert subject.epoch(part("a", 20, 30, 40)) == [("read", -20), ("read", -30)]
    assert subject.operator.held == 4
    assert subject.report.ranges_left_early
    restored = Subject(source=WithSideOutput(), side_outputs=frozenset({"read"}))
    scope = RestoreScope(0, 0, 1, lambda key: True)
    restored.operator.restore_state(subject.operator.snapshot_state(), scope)
    held = [("read", -40), 20, 30, 40, "W39"]
    assert restored.epoch(part("a", 50, ends=True)) == [*held, ("read", -50), 50, "W49"]
