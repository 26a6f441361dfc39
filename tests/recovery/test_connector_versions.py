"""Jobs go on from savepoints of older versions of their connectors, and say so where they cannot."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from recovery_support import Tap, resume, run_to_savepoint

from millstream.base.errors import MillstreamError, StateIncompatibleError
from millstream.common import WatermarkStrategy
from millstream.connectors.two_phase import TwoPhaseCommitSink
from millstream.datastream.connectors.base import (
    Boundedness,
    RangeEnd,
    Rows,
    Source,
    SourcePlan,
    SourceReader,
    SplitEnumerator,
    SplitRange,
)

COUNT = 300


class Numbers(Source):
    """Counts; its snapshot is the next number."""

    def get_boundedness(self):
        return Boundedness.BOUNDED

    def build_enumerator(self, parallelism, restored):
        return Counting(restored or 0)

    def build_reader(self, subtask_index, parallelism):
        return NumberReader()

    def max_parallelism(self):
        return 1


class Counting(SplitEnumerator):
    def __init__(self, next_number):
        self.next_number = next_number

    def plan(self, request):
        if self.next_number == COUNT:
            return SourcePlan(finished=frozenset({0}))
        return SourcePlan(
            {0: [SplitRange("n", None, self.next_number, max_records=request.max_records)]}, backlog=True
        )

    def advance(self, ends):
        for end in ends:
            self.next_number = end.position

    def snapshot(self):
        return self.next_number


class NumberReader(SourceReader):
    def read(self, split_range, emit):
        stop = min(split_range.start + split_range.max_records, COUNT)
        emit(Rows(list(range(split_range.start, stop))))
        return RangeEnd("n", stop, stop == COUNT, stop - split_range.start)


class NamedNumbers(Numbers):
    """Version 3: the snapshot is a dict."""

    snapshot_version = 3

    def build_enumerator(self, parallelism, restored):
        return NamedCounting(0 if restored is None else restored["next"])

    def upgrade_snapshot(self, version, snapshot):
        assert (version, type(snapshot)) == (1, int)
        return {"next": snapshot}


class NamedCounting(Counting):
    def snapshot(self):
        return {"next": self.next_number}


class Refusing(Numbers):
    snapshot_version = 2


class Lines(TwoPhaseCommitSink):
    """Transactions are names of hidden files."""

    def __init__(self, directory):
        self.directory = directory

    def open(self, context):
        self.context = context

    def begin_transaction(self):
        return self.context.new_name()

    def path(self, transaction):
        return Path(self.directory, f".{transaction}")

    def invoke(self, transaction, value, context):
        with self.path(transaction).open("a") as file:
            print(value, file=file)

    def commit(self, committable):
        if self.path(committable).exists():
            self.path(committable).rename(Path(self.directory, committable))

    def abort(self, committable):
        self.path(committable).unlink(missing_ok=True)

    def recover_and_abort(self, transaction):
        self.abort(transaction)


class Structured(Lines):
    """Version 2 of both: transactions are tuples."""

    snapshot_version = 2
    committable_version = 2

    def upgrade_snapshot(self, version, snapshot):
        assert version == 1
        return tuple(("file", name) for name in snapshot)

    def upgrade_committable(self, version, committable):
        assert version == 1
        return ("file", committable)

    def begin_transaction(self):
        return ("file", self.context.new_name())

    def path(self, transaction):
        kind, name = transaction
        assert kind == "file"
        return super().path(name)

    def commit(self, committable):
        if self.path(committable).exists():
            self.path(committable).rename(Path(self.directory, committable[1]))


class RefusesCommittables(Lines):
    committable_version = 2


class RefusesSnapshots(Lines):
    snapshot_version = 5


def numbers(source):
    return lambda env: (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers").map(Tap())
    )


def test_a_source_goes_on_from_the_snapshot_of_an_older_version(tmp_path):
    before, path = run_to_savepoint(numbers(Numbers()), tmp_path, at=50)
    assert 50 <= sum(before.values()) < COUNT
    after = resume(path, numbers(NamedNumbers()))
    assert before + after == Counter(range(COUNT))


def test_one_of_its_own_version_is_not_upgraded(tmp_path):
    before, path = run_to_savepoint(numbers(NamedNumbers()), tmp_path, at=50)
    assert before + resume(path, numbers(NamedNumbers())) == Counter(range(COUNT))


def test_a_source_that_does_not_upgrade_says_so(tmp_path):
    _, path = run_to_savepoint(numbers(Numbers()), tmp_path, at=50)
    with pytest.raises(StateIncompatibleError) as raised:
        resume(path, numbers(Refusing()))
    text = str(raised.value)
    assert 'snapshot of source "Refusing" has version 1, this program reads version 2' in text
    assert '"numbers" (uid "numbers") of savepoint' in text
    assert "Override upgrade_snapshot(version, ...)" in text


def test_a_newer_version_than_the_program_has_is_refused(tmp_path):
    _, path = run_to_savepoint(numbers(NamedNumbers()), tmp_path, at=50)
    with pytest.raises(StateIncompatibleError, match="has version 3, this program reads versions up to 1"):
        resume(path, numbers(Numbers()))


def lines(sink):
    def build(env):
        stream = env.from_source(Numbers(), WatermarkStrategy.no_watermarks(), "numbers").uid("n").map(Tap())
        stream.sink_to(sink).uid("lines")
        return stream

    return build


def written(directory):
    return Counter(
        int(line) for path in directory.iterdir() if path.name[0] != "." for line in path.read_text().split()
    )


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def savepoint_with_committables(out, tmp_path):
    """Return a savepoint whose transactions were not committed by the job that made it."""
    _, path = run_to_savepoint(lines(Held(str(out))), tmp_path, at=50)
    return path


class Held(Lines):
    """Commits nothing: as if the driver were gone before."""

    def commit(self, committable):
        pass


def test_a_sink_commits_what_an_older_version_left_and_drops_its_open_transaction(tmp_path, out):
    path = savepoint_with_committables(out, tmp_path)
    assert not written(out)
    resume(path, lines(Structured(str(out))), execution_checkpointing_interval=1)
    assert written(out) == Counter(range(COUNT))


@pytest.mark.parametrize(
    "sink, said",
    [
        (
            RefusesCommittables,
            'committable of sink "RefusesCommittables" has version 1, this program reads version 2',
        ),
        (
            RefusesSnapshots,
            'writer\'s snapshot of sink "RefusesSnapshots" has version 1, this program reads version 5',
        ),
    ],
)
def test_a_sink_that_does_not_upgrade_says_so(tmp_path, out, sink, said):
    path = savepoint_with_committables(out, tmp_path)
    with pytest.raises(MillstreamError) as raised:
        resume(path, lines(sink(str(out))), restart__strategy_type="none")
    chain, error = [], raised.value
    while error is not None:
        chain.append(str(error))
        error = error.__cause__
    assert said in "\n".join(chain)
    assert "upgrade_" in "\n".join(chain)
