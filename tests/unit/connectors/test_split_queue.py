"""Splits that wait in a queue: who gets the next one, and when."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.connectors.split_queue import QueueSnapshot, SplitQueue
from millstream.spi.source import PlanRequest, RangeEnd


@dataclass(frozen=True)
class File:
    split_id: str
    size_bytes: int


def queue(*sizes, parallelism=2, snapshot=None):
    made = SplitQueue(parallelism, snapshot or QueueSnapshot())
    made.add(File(name, size) for name, size in zip("abcdefgh", sizes, strict=False))
    return made


def planned(splits, budget):
    ranges = splits.plan(PlanRequest(2, budget, 0), lambda split, turn: split.split_id)
    return {subtask: [each.split_id for each in of_subtask] for subtask, of_subtask in ranges.items()}


def read(splits, split_id, records, *, finished=False):
    splits.advance([RangeEnd(split_id, (records,), finished, records)])


def test_as_long_as_nobody_knows_how_large_records_are_a_large_split_is_enough():
    splits = queue(10_000, 10_000, 10_000)
    assert planned(splits, 100) == {0: ["a"], 1: ["b"]}
    read(splits, "a", 90)
    assert planned(splits, 100) == {0: ["a"], 1: ["b"]}


def test_a_subtask_gets_the_next_split_in_the_epoch_in_which_it_comes_to_the_end_of_one():
    splits = queue(10_000, 10_000, 10_000, 10_000, 10_000)
    planned(splits, 60)
    read(splits, "a", 100, finished=True)  # records of 100 bytes
    read(splits, "b", 30)
    assert planned(splits, 60) == {0: ["c"], 1: ["b"]}, "70 of b are left"
    read(splits, "b", 20)
    assert planned(splits, 60) == {0: ["c"], 1: ["b", "d"]}
    read(splits, "b", 50, finished=True)
    read(splits, "d", 10)
    read(splits, "c", 60)
    assert planned(splits, 60) == {0: ["c", "e"], 1: ["d"]}


def test_splits_of_few_records_are_planned_until_they_are_enough():
    splits = queue(10_000, *[1_000] * 7, parallelism=1)
    planned(splits, 10)
    read(splits, "a", 100, finished=True)
    assert planned(splits, 35) == {0: ["b", "c", "d", "e"]}


def test_what_was_read_before_a_restart_says_nothing_of_how_large_records_are():
    begun = QueueSnapshot(
        (File("a", 10_000), File("b", 10_000), File("c", 10_000)), {"a": (9_900,)}, {"a": 0}, 1
    )
    splits = SplitQueue(1, begun)
    assert planned(splits, 50) == {0: ["a"]}
    read(splits, "a", 1, finished=True)  # the last one
    assert planned(splits, 50) == {0: ["b"]}
    read(splits, "b", 100, finished=True)
    assert planned(splits, 50) == {0: ["c"]}


def test_files_without_records_are_no_reason_to_divide_by_nothing():
    splits = queue(0, 500, 0, parallelism=1)
    assert planned(splits, 10) == {0: ["a", "b"]}
    read(splits, "a", 0, finished=True)
    read(splits, "b", 0, finished=True)
    assert planned(splits, 10) == {0: ["c"]}
