"""Sources are told of complete checkpoints: which, when, in what order, and what becomes of what they raise."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field

import pytest
from recovery_support import Tap, resume, run, run_to_savepoint

from millstream.base.crash_points import set_crash_hook
from millstream.base.errors import CheckpointStorageError
from millstream.common import WatermarkStrategy
from millstream.connectors.number_sequence import NumberSequenceSource
from millstream.spi.source import SourceReader, SplitEnumerator


@dataclass
class Events:
    """What enumerator and readers did, in order; where they fail."""

    seen: list[tuple] = field(default_factory=list)
    fails: set[int] = field(default_factory=set)

    def of(self, what):
        return [rest[0] for name, *rest in self.seen if name == what]

    def completed(self, what, checkpoint_id, *rest):
        self.seen.append((what, checkpoint_id, *rest))
        if checkpoint_id in self.fails:
            raise ValueError(f"the broker does not take {checkpoint_id}")


EVENTS = Events()


@pytest.fixture(autouse=True)
def events():
    EVENTS.seen.clear()
    EVENTS.fails.clear()
    return EVENTS


class Told(NumberSequenceSource):
    """Numbers, by an enumerator and readers that take note of what happens to them."""

    def build_enumerator(self, parallelism, restored):
        return Enumerator(super().build_enumerator(parallelism, restored))

    def build_reader(self, subtask_index, parallelism):
        return Reader(super().build_reader(subtask_index, parallelism), subtask_index)


class Enumerator(SplitEnumerator):
    def __init__(self, numbers):
        self.numbers = numbers

    def plan(self, request):
        EVENTS.seen.append(("plan", None))
        return self.numbers.plan(request)

    def advance(self, ends):
        self.numbers.advance(ends)

    def snapshot(self):
        taken = self.numbers.snapshot()
        EVENTS.seen.append(("snapshot", repr(taken)))
        return taken

    def checkpoint_completed(self, checkpoint_id):
        EVENTS.completed("enumerator", checkpoint_id, repr(self.numbers.snapshot()))


class Reader(SourceReader):
    def __init__(self, numbers, subtask):
        self.numbers = numbers
        self.subtask = subtask
        self.read_so_far = 0

    def read(self, split_range, emit):
        end = self.numbers.read(split_range, emit)
        EVENTS.seen.append(("read", self.subtask))
        return end

    def checkpoint_completed(self, checkpoint_id):
        EVENTS.completed("reader", checkpoint_id, self.subtask)

    def close(self):
        EVENTS.seen.append(("close", self.subtask))


def build(env):
    return env.from_source(Told(1, 100), WatermarkStrategy.no_watermarks(), "told").map(Tap())


class Failing:
    """Has no room for some checkpoints."""

    def __init__(self, *checkpoints):
        self.checkpoints = checkpoints

    def reach(self, name, detail):
        if name == "manifest.write" and int(detail) in self.checkpoints:
            raise CheckpointStorageError(f"no room for {detail}")

    def around(self, name, detail, action):
        return action()


def test_enumerator_and_readers_are_told_of_each_checkpoint_up_to_the_last(events):
    assert run(build, parallelism=2, interval=1, epoch=10) == Counter(range(1, 101))
    told = events.of("enumerator")
    assert told == sorted(set(told))
    assert len(told) > 4
    assert events.of("reader") == [each for each in told for _ in range(2)]
    # The last checkpoint is told to the readers before they are closed.
    last = [event for event in events.seen if event[0] in ("reader", "close")][-4:]
    assert last == [("reader", told[-1], 0), ("close", 0), ("reader", told[-1], 1), ("close", 1)]


def test_the_enumerator_knows_what_its_snapshot_held_and_readers_have_read_nothing_since(events):
    run(build, interval=1, epoch=10)
    snapshots, read = [], False
    for name, *rest in events.seen:
        if name == "snapshot":
            snapshots.append(rest[0])
        elif name == "enumerator":
            assert rest[1] == snapshots[-1]
            read = False
        elif name == "read":
            read = True
        elif name == "reader":
            assert not read


def test_nobody_is_told_of_a_checkpoint_that_failed(events):
    before = set_crash_hook(Failing(2, 3, 5))
    try:
        run(build, interval=1, epoch=10, execution_checkpointing_tolerable__failed__checkpoints=2)
    finally:
        set_crash_hook(before)
    assert not {2, 3, 5} & {*events.of("enumerator"), *events.of("reader")}
    assert events.of("enumerator") == events.of("reader")
    assert {1, 4, 6} <= set(events.of("enumerator"))


def test_nobody_is_told_without_checkpoints(events):
    run(build, epoch=10)
    assert events.of("enumerator") == events.of("reader") == []


def test_what_it_raises_is_logged_and_the_next_checkpoint_comes(events, caplog):
    events.fails = {2}
    with caplog.at_level(logging.WARNING):
        assert run(build, interval=1, epoch=10) == Counter(range(1, 101))
    assert events.of("enumerator") == events.of("reader")
    assert {2, 3} < set(events.of("enumerator"))
    said = [record.getMessage() for record in caplog.records if "does not take 2" in record.getMessage()]
    assert [
        'source "told" could not do what it does when checkpoint 2 is complete: '
        "ValueError: the broker does not take 2" in said[0],
        'source "told", subtask 0, could not do' in said[1],
    ] == [True, True]


def test_a_savepoint_with_which_the_job_stops_is_told(events, tmp_path):
    _, path = run_to_savepoint(build, tmp_path, at=20)
    assert len(events.of("enumerator")) == len(events.of("reader")) == 1
    events.seen.clear()
    resume(path, build, interval=1, epoch=10)
    told = events.of("enumerator")
    assert told == events.of("reader") == sorted(set(told))


def test_a_savepoint_of_a_job_that_goes_on_is_not_told(events, tmp_path):
    run_to_savepoint(build, tmp_path, at=20, stop=False)
    assert events.of("enumerator") == events.of("reader") == []


def test_after_a_failure_the_numbers_go_on(events):
    assert run(build, interval=1, epoch=10, gaps=(25, 30)) == Counter(range(1, 101))
    told = events.of("enumerator")
    assert told == sorted(set(told))
    # What the driver was told of last, the readers of an attempt that failed were not.
    assert Counter(events.of("reader")) <= Counter(told)
