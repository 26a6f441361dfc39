"""Sources that are read one after the other."""

from __future__ import annotations

import pytest

from millstream.base.errors import ConfigurationError, SourceError, StateIncompatibleError, TypeMismatchError
from millstream.common import Duration, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.connectors.collection import CollectionSource
from millstream.datastream import ProcessFunction
from millstream.datastream.connectors.base import Boundedness, PlanRequest, RangeEnd
from millstream.datastream.connectors.datagen import DataGeneratorSource
from millstream.datastream.connectors.file_system import FileSource, StreamFormat
from millstream.datastream.connectors.hybrid_source import HybridSource, HybridSourceBuilder
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.testing import FailurePoint, MiniCluster, SourceRun, check_source


def history(tmp_path, *contents):
    for number, text in enumerate(contents):
        (tmp_path / f"{number}.txt").write_text(text)
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path)).build()


def letters(count, letter="a"):
    return "".join(f"{letter}{number}\n" for number in range(count))


def test_files_then_numbers_keep_the_contract(tmp_path):
    files = history(tmp_path, letters(13), "", letters(5, "b"))
    source = HybridSource.builder(files).add_source(NumberSequenceSource(1, 40)).build()
    expected = [*letters(13).split(), *letters(5, "b").split(), *range(1, 41)]
    check_source(source, expected=expected, parallelisms=(1, 3), budgets=(2, 100_000))


@pytest.mark.parametrize("count", [0, 1, 30])
def test_sources_without_records_are_passed_over(count):
    empty, some = CollectionSource([]), CollectionSource([(number,) for number in range(count)])
    source = HybridSource.builder(empty).add_source(some).add_source(empty).add_source(empty).build()
    expected = [(number,) for number in range(count)]
    check_source(source, expected=expected, parallelisms=(1, 2), budgets=(3, 100_000))


def test_one_source_is_read_as_it_is():
    check_source(
        HybridSource.builder(NumberSequenceSource(1, 30)).build(), expected=range(1, 31), parallelisms=(2,)
    )


def from_the_end(snapshot):
    """The next source begins where a number sequence ended: at a position that only its end tells."""
    assert snapshot == []
    return NumberSequenceSource(31, 60)


def test_a_source_that_is_made_at_the_switch_keeps_the_contract():
    first = NumberSequenceSource(1, 30)
    source = HybridSource.builder(first).add_source_factory(from_the_end, Boundedness.BOUNDED).build()
    check_source(source, expected=range(1, 61), parallelisms=(1, 3), budgets=(4, 100_000))


def test_a_source_that_was_made_is_in_checkpoints():
    made = []

    def factory(snapshot):
        made.append(snapshot)
        return NumberSequenceSource(4, 9)

    builder = HybridSource.builder(NumberSequenceSource(1, 3))
    source = builder.add_source_factory(factory, Boundedness.BOUNDED).build()
    enumerator = source.build_enumerator(1, None)
    for finished in (True, False):
        planned = enumerator.plan(PlanRequest(1, 10, 0)).ranges[0][0]
        enumerator.advance([RangeEnd(planned.split_id, 3, finished, 3)])
    rest = source.build_enumerator(2, enumerator.snapshot())
    ranges = [each for planned in rest.plan(PlanRequest(2, 10, 0)).ranges.values() for each in planned]
    assert [each.start for each in ranges] == [3]
    assert made == [[]]


def test_an_unbounded_source_comes_last():
    endless = DataGeneratorSource(lambda index: -index - 1, None)
    source = HybridSource.builder(NumberSequenceSource(1, 5)).add_source(endless).build()
    assert source.get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    check_source(source, records=100, parallelisms=(1, 2), budgets=(20,))
    with pytest.raises(ConfigurationError, match="source 2 of a HybridSource does not end"):
        HybridSource.builder(NumberSequenceSource(1, 5)).add_source(endless).add_source(
            NumberSequenceSource(1, 5)
        )


def test_nothing_of_the_next_comes_before_all_of_the_one_before(tmp_path):
    files = history(tmp_path, letters(100), letters(3, "b"))
    source = HybridSource.builder(files).add_source(NumberSequenceSource(1, 40)).build()
    options = {"millstream.epoch.fixed-records": 7}
    with MiniCluster(parallelism=2, options=options) as cluster:
        stream = cluster.environment().from_source(source, WatermarkStrategy.no_watermarks(), "both")
        found = list(cluster.collect(stream.map(lambda value: value).set_parallelism(1)))
    kinds = [type(value) for value in found]
    assert kinds == [str] * 103 + [int] * 40


class InSeconds(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return int(value) * 1000


class Watermarks(ProcessFunction):
    def process_element(self, value, ctx):
        yield int(value), ctx.timer_service().current_watermark()


@pytest.mark.parametrize("parallelism", [1, 2])
def test_the_watermark_does_not_go_back_at_the_switch_and_late_records_are_late(tmp_path, parallelism):
    files = history(tmp_path, "".join(f"{number}\n" for number in range(1, 21)))
    # The second source begins before the first has ended: 15 to 20 come again, behind the watermark.
    source = HybridSource.builder(files).add_source(NumberSequenceSource(15, 40)).build()
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    strategy = strategy.with_timestamp_assigner(InSeconds())
    with MiniCluster(parallelism=parallelism, options={"millstream.epoch.fixed-records": 4}) as cluster:
        stream = cluster.environment().from_source(source, strategy, "both")
        found = list(cluster.collect(stream.process(Watermarks()).set_parallelism(1)))
    assert len(found) == 46
    marks = [mark for _, mark in found]
    assert marks == sorted(marks)
    if parallelism == 1:
        assert 18_999 <= dict(found[20:])[15] < 40_000
    assert max(marks) > 18_999


def test_a_job_that_fails_at_the_switch_loses_nothing(tmp_path):
    files = history(tmp_path, letters(20))
    source = HybridSource.builder(files).add_source(NumberSequenceSource(1, 20)).build()
    for checkpoint in range(1, 6):
        with MiniCluster(options={"millstream.epoch.fixed-records": 10}) as cluster:
            cluster.fail_at(FailurePoint.AFTER_CHECKPOINT, checkpoint)
            stream = cluster.environment().from_source(source, WatermarkStrategy.no_watermarks(), "both")
            found = list(cluster.collect(stream))
        assert found == [*letters(20).split(), *range(1, 21)]


def test_a_later_source_that_is_missing_fails_when_it_is_its_turn(tmp_path):
    missing = FileSource.for_record_stream_format(
        StreamFormat.text_line_format(), str(tmp_path / "missing")
    ).build()
    run = SourceRun(HybridSource.builder(NumberSequenceSource(1, 3)).add_source(missing).build(), 1, 10)
    run.epoch()
    with pytest.raises(SourceError, match="missing"):
        run.epoch()


class Changed(NumberSequenceSource):
    snapshot_version = 2


def test_snapshots_of_the_sources_have_their_versions():
    run = SourceRun(HybridSource.builder(NumberSequenceSource(1, 9)).build(), 1, 3)
    run.epoch()
    with pytest.raises(
        StateIncompatibleError, match='source "Changed" has version 1, this program reads version 2'
    ):
        HybridSource.builder(Changed(1, 9)).build().build_enumerator(1, run.snapshot())


def test_sources_are_told_of_the_checkpoints_that_hold_their_end():
    told = []

    class Told(NumberSequenceSource):
        def build_enumerator(self, parallelism, restored):
            enumerator = super().build_enumerator(parallelism, restored)
            enumerator.checkpoint_completed = lambda checkpoint_id: told.append((self._start, checkpoint_id))
            enumerator.close = lambda: told.append((self._start, "closed"))
            return enumerator

    source = HybridSource.builder(Told(1, 3)).add_source(Told(4, 6)).build()
    enumerator = source.build_enumerator(1, None)
    planned = enumerator.plan(PlanRequest(1, 10, 0)).ranges[0][0]
    enumerator.advance([RangeEnd(planned.split_id, 4, True, 3)])
    enumerator.checkpoint_completed(1)
    enumerator.plan(PlanRequest(1, 10, 0))
    enumerator.checkpoint_completed(2)
    enumerator.close()
    assert told == [(1, 1), (1, 2), (1, "closed"), (4, 2), (4, "closed")]


def test_mistakes_are_named():
    assert isinstance(HybridSource.builder(NumberSequenceSource(1, 3)), HybridSourceBuilder)
    with pytest.raises(TypeMismatchError, match="not a Source"):
        HybridSource.builder("numbers")
    with pytest.raises(TypeMismatchError, match="add_source_factory"):
        HybridSource.builder(NumberSequenceSource(1, 3)).add_source(lambda snapshot: None)
    with pytest.raises(TypeMismatchError, match="takes a callable and a Boundedness"):
        HybridSource.builder(NumberSequenceSource(1, 3)).add_source_factory(lambda snapshot: None, True)
