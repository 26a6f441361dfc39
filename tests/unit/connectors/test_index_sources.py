from __future__ import annotations

import threading
from collections import Counter

import numpy
import pandas
import pyarrow
import pytest

from millstream.base.errors import ConfigurationError, NotSerializableError, TypeMismatchError
from millstream.connectors.collection import CollectionSource
from millstream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.connectors.number_sequence import NumberSequenceSource
from millstream.spi.source import Boundedness
from millstream.testing import SourceRun


def double(index: int) -> int:
    return 2 * index


class Doubler:
    def map(self, index: int) -> int:
        return 2 * index


@pytest.mark.parametrize("parallelism", [1, 2, 3, 8])
@pytest.mark.parametrize("budget", [1, 4, 1_000])
def test_sequence_holds_both_ends_and_every_number_once(parallelism, budget):
    run = SourceRun(NumberSequenceSource(-3, 9), parallelism, budget=budget)
    assert run.run() == list(range(-3, 10))  # consecutive parts, in order


def test_sequence_over_all_longs_can_be_planned():
    run = SourceRun(NumberSequenceSource(-(2**63), 2**63 - 1), 2, budget=2)
    run.epoch()
    assert run.read == [[-(2**63), -(2**63) + 1], [0, 1]]


def test_sequence_goes_on_from_a_snapshot_at_another_parallelism():
    first = SourceRun(NumberSequenceSource(1, 20), 2, budget=3)
    first.epoch()
    second = SourceRun(NumberSequenceSource(1, 20), 3, budget=4, restored=first.snapshot())
    assert sorted([*first.read[0], *first.read[1], *second.run()]) == list(range(1, 21))


def test_last_range_ends_the_subtask_in_the_same_plan():
    run = SourceRun(NumberSequenceSource(1, 4), 2, budget=10)
    assert run.epoch().finished == {0, 1}


def test_sequence_that_ends_before_it_starts_is_refused():
    with pytest.raises(ConfigurationError, match="starts at 5, after its end 4"):
        NumberSequenceSource(5, 4)


def test_large_ranges_are_emitted_in_batches():
    source = NumberSequenceSource(0, 9_999)
    sizes = []
    enumerator = source.build_enumerator(1, None)
    from millstream.spi.source import PlanRequest

    (split_range,) = enumerator.plan(PlanRequest(1, 1_000_000, 0)).ranges[0]
    source.build_reader(0, 1).read(split_range, lambda batch: not sizes.append(len(batch)))
    assert sizes == [4_096, 4_096, 1_808]


def test_collection_is_read_in_order_and_later_changes_are_not_seen():
    values = [[1], [2], [3]]
    source = CollectionSource(values)
    values[0].append(9)
    assert source.max_parallelism() == 1
    assert SourceRun(source, 1, budget=2).run() == [[1], [2], [3]]


def test_empty_collection_ends_at_once():
    assert SourceRun(CollectionSource([]), 1, budget=2).epoch().finished == {0}


def test_value_that_cannot_be_pickled_is_named_where_it_is_declared():
    with pytest.raises(NotSerializableError, match="cannot be pickled"):
        CollectionSource([threading.Lock()])


@pytest.mark.parametrize("function", [double, Doubler()])
def test_generator_is_given_every_index_once(function):
    source = DataGeneratorSource(function, 10)
    assert source.get_boundedness() is Boundedness.BOUNDED
    run = SourceRun(source, 3, budget=2)
    assert run.run() == [2 * index for index in range(10)]


def rows_of(batch: dict[str, numpy.ndarray]):
    index = batch["index"]
    return {"index": index, "twice": 2 * index}


def frame_of(frame: pandas.DataFrame):
    frame["twice"] = 2 * frame["index"]
    return frame


@pytest.mark.parametrize("function", [rows_of, frame_of])
@pytest.mark.parametrize("budget", [1, 7, 1_000])
def test_generator_of_batches_gives_a_row_for_every_index(function, budget):
    run = SourceRun(DataGeneratorSource(function, 100), 3, budget=budget, rereads=True)
    assert [tuple(row) for row in run.run()] == [(index, 2 * index) for index in range(100)]


def test_generator_of_batches_is_asked_for_large_ones_and_keeps_to_its_rate():
    def sized(batch: pyarrow.RecordBatch):
        return {"index": batch["index"], "together": numpy.full(batch.num_rows, batch.num_rows)}

    rows = SourceRun(DataGeneratorSource(sized, 120_000), 1, budget=1_000_000).run()
    assert Counter(row.together for row in rows) == {50_000: 100_000, 20_000: 20_000}
    run = SourceRun(DataGeneratorSource(sized, None, RateLimiterStrategy.per_second(100)), 2, budget=1_000)
    run.epoch(0)
    run.epoch(1_000)
    assert sorted(row.index for row in [*run.read[0], *run.read[1]]) == list(range(101))


def test_generator_of_batches_must_give_a_row_for_each_index():
    def fewer(batch: pyarrow.RecordBatch):
        return batch.slice(1)

    with pytest.raises(
        TypeMismatchError,
        match=r"fewer \(test_index_sources.py:\d+\) returned 9 rows for the 10 indices from 0 on",
    ):
        SourceRun(DataGeneratorSource(fewer, 10), 1, budget=100).run()


def test_generator_annotated_with_anything_else_gets_an_index():
    def typed(index: NotImported) -> int:  # noqa: F821 - that is what is tested
        return 2 * index

    assert SourceRun(DataGeneratorSource(typed, 3), 1, budget=10).run() == [0, 2, 4]


def generator(per_second, parallelism, budget=1_000, count=None):
    source = DataGeneratorSource(double, count, RateLimiterStrategy.per_second(per_second))
    return SourceRun(
        source, parallelism, budget=budget, restored=source.build_enumerator(parallelism, None).snapshot()
    )


def test_unbounded_generator_covers_all_indices_and_never_ends():
    source = DataGeneratorSource(double)
    assert source.get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    run = SourceRun(source, 2, budget=3)
    run.epoch(0)
    run.epoch(1_000)
    assert sorted(run.read[0] + run.read[1]) == [2 * index for index in range(12)]
    assert run.epoch(2_000).finished == frozenset()


def test_a_source_with_a_rate_gives_records_in_steps_and_to_all_subtasks_alike():
    run = generator(1_000, 2)
    planned = [
        run.epoch(now_ms) for now_ms in range(501)
    ]  # an epoch each millisecond, as long as any is ready
    given = [now_ms for now_ms, plan in enumerate(planned) if plan.ranges]
    assert given == list(range(0, 501, 10))
    assert {plan.next_ms for plan in planned[11:20]} == {20}
    assert not any(plan.backlog for plan in planned)
    counts = [len(values) for values in run.read]
    assert sum(counts) == 501
    assert max(counts) - min(counts) <= 1


def test_rate_is_kept_over_all_subtasks():
    run = generator(100, 3)
    for now_ms in range(0, 2_001, 50):
        run.epoch(now_ms)
    counts = [len(values) for values in run.read]
    assert sum(counts) == 1 + 200
    assert max(counts) - min(counts) <= 1 + 200 // 3 // 10


def test_stall_is_made_up_for_one_second_at_most():
    run = generator(100, 1)
    run.epoch(0)
    run.epoch(60_000)
    assert len(run.read[0]) == 1 + 100


def test_next_record_is_announced_when_it_is_due_but_not_too_often():
    assert generator(2, 1).epoch(0).next_ms == 500
    assert generator(1_000_000, 1).epoch(0).next_ms == 10


def test_rate_below_one_a_second_still_produces():
    run = generator(0.5, 1, count=3)
    now_ms, plan = 0, run.epoch(0)
    while not run.finished:
        now_ms = plan.next_ms
        plan = run.epoch(now_ms)
    assert (run.read[0], now_ms) == ([0, 2, 4], 4_000)


@pytest.mark.parametrize("rate", [0, -1])
def test_rate_must_be_positive(rate):
    with pytest.raises(ConfigurationError, match="not positive"):
        RateLimiterStrategy.per_second(rate)
