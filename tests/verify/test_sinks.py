"""Sinks under verify: what readers see at every moment, what is left, and each fault at each place of a sink's life."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from sink_jobs import SINK_JOBS, StagedLines, captured, is_prefix, numbered, text

from millstream.base.crash_points import DRIVER_POINTS, SLOT_POINTS
from millstream.common import Encoder
from millstream.datastream.connectors.file_system import FileSink
from millstream.verify.faults import Fault, FaultKind, kinds_at
from millstream.verify.run import simulate
from millstream.verify.scenario import EVERYTHING, Scenario
from millstream.verify.verifier import Verifier
from millstream.verify.watch import FilesWatch, SinkWatch

pytestmark = pytest.mark.usefixtures("some_form")

SEEDS = 30
COUNT = 60
BASE = Scenario(seed=3, parallelism=(2, 3, 1), epoch_records=12, interval_ms=10, retained=1)
POINTS = sorted(point for point in (*DRIVER_POINTS, *SLOT_POINTS) if point.startswith("sink."))
CELLS = [
    (name, point, kind)
    for name in SINK_JOBS
    for point in POINTS
    for kind in kinds_at(point)
    if not (name == "transactions" and "compact" in point)
]


@pytest.fixture(scope="module")
def verifiers():
    return {name: Verifier(captured(build), check=check) for name, (build, _, check) in SINK_JOBS.items()}


@pytest.mark.parametrize("name", SINK_JOBS)
def test_the_undisturbed_run_gives_what_plain_python_gives(verifiers, name):
    verifier = verifiers[name]
    assert list(verifier.reference.outputs.values()) == SINK_JOBS[name][1]()
    assert verifier.vary == EVERYTHING, verifier.dependencies


@pytest.mark.parametrize("first", range(0, SEEDS, 15))
@pytest.mark.parametrize("name", SINK_JOBS)
def test_seeds(verifiers, name, first):
    restarts = 0
    for result in verifiers[name].run(range(first, first + 15)):
        restarts += result.restarts
        assert not result.failed, (result.seed, result.error, *map(str, result.differences), *result.trace)
    assert restarts > 5


class Small:
    """A job with fewer records, what it gives, and how often its places are reached."""

    def __init__(self, name):
        build, gives, self.check = SINK_JOBS[name]
        self.program = captured(lambda environment: build(environment, COUNT))
        self.gives = gives(COUNT)
        undisturbed = simulate(self.program, BASE)
        self.expected = undisturbed.outputs
        self.reached = undisturbed.reached
        writes = [line for line in undisturbed.trace if " storage.write " in line]
        states = [nth for nth, line in enumerate(writes, 1) if re.search(r"/\d+-\d+-[0-9a-f]{8}$", line)]
        self.last_state = states[-1]  # of a slot, in the last checkpoint: all that is left is staged for it

    @cache
    def reached_with(self, fault):
        return self.run(fault).reached

    def run(self, *faults, **changes):
        outcome = simulate(self.program, replace(BASE, faults=faults, **changes), self.expected, self.check)
        assert outcome.error is None, (faults, outcome.error)
        assert outcome.violations == (), (*map(str, outcome.violations), *outcome.trace)
        assert list(outcome.outputs.values()) == self.gives, outcome.trace
        return outcome


@pytest.fixture(scope="module")
def small():
    return {name: Small(name) for name in SINK_JOBS}


@pytest.mark.parametrize(("name", "point", "kind"), CELLS, ids=lambda each: getattr(each, "value", each))
def test_each_fault_at_each_place_of_a_sink(small, name, point, kind):
    job = small[name]
    if (
        point == "sink.abort"
    ):  # in an attempt whose driver knows what is staged, and that it will not be committed
        faults = (Fault("storage.write", FaultKind.IO_ERROR, job.last_state), Fault(point, kind, 1))
        assert [fault for fault, _ in job.run(*faults).fired] == list(faults)
        return
    # Somewhere in the second half, where there is a checkpoint to go on from; another place for each kind.
    reached = job.reached[point]
    fault = Fault(point, kind, reached - list(FaultKind).index(kind) % ((reached + 1) // 2))
    outcome = job.run(fault)
    assert [fault for fault, _ in outcome.fired] == [fault]
    harmless = kind is FaultKind.DUPLICATE or (kind is FaultKind.HANG and "driver" in outcome.fired[0][1])
    assert outcome.restarts >= (0 if harmless else 1)


@pytest.mark.parametrize("name", SINK_JOBS)
@pytest.mark.parametrize("second", ["sink.open", "sink.commit", "sink.publish", "sink.precommitted"])
def test_a_fault_during_the_recovery_from_another(small, name, second):
    job = small[name]
    for point, kind in (
        ("sink.precommitted", FaultKind.HANG),
        ("manifest.published", FaultKind.KILL),
        ("sink.publish", FaultKind.KILL),
    ):
        first = Fault(point, kind, job.reached[point] // 2)
        reached = job.reached_with(first)[second]
        nth = first.nth + 1 if second == point else (3 * reached + 3) // 4
        assert len(job.run(first, Fault(second, FaultKind.KILL, nth)).fired) == 2


@pytest.mark.parametrize("parallelism", [(2,), (1, 3), (3, 1)])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_what_a_lost_driver_left_before_and_behind_its_first_checkpoint_is_gone_at_the_end(
    small, parallelism, nth
):
    job = small["transactions"]
    for point in ("sink.precommitted", "manifest.write", "user.function"):
        kind = FaultKind.KILL_DRIVER if point != "manifest.write" else FaultKind.KILL
        outcome = job.run(Fault(point, kind, nth), parallelism=parallelism)
        assert outcome.restarts == 1


def test_transactions_begun_behind_a_failed_checkpoint_are_in_none_and_dropped_all_the_same(small):
    job = small["transactions"]
    writes = job.run(tolerable_failures=3).reached["storage.write"]
    for nth in range(writes // 3, writes // 3 + 8):
        faults = (
            Fault("storage.write", FaultKind.IO_ERROR, nth),
            Fault("sink.precommitted", FaultKind.KILL, 4 * 5),
        )
        job.run(*faults, tolerable_failures=3)


class NamesNothing(StagedLines):
    """Tells nobody what is staged: only checkpoints know of its transactions."""

    def staged_transactions(self):
        return ()


def names_nothing(environment):
    environment.from_collection(list(map(text, numbered(COUNT)))).sink_to(NamesNothing())


def test_without_a_list_checkpoints_tell_of_all_but_those_begun_since():
    program = captured(names_nothing)
    base = Scenario(seed=1, epoch_records=6, interval_ms=1)
    reached = simulate(program, base).reached["sink.precommitted"]
    left = {}
    for nth in range(1, reached + 1):
        fault = Fault("sink.precommitted", FaultKind.KILL, nth)
        outcome = simulate(program, Scenario(seed=1, epoch_records=6, interval_ms=1, faults=(fault,)))
        assert outcome.error is None
        assert list(outcome.outputs.values()) == [Counter(map(text, numbered(COUNT)))]
        before = outcome.trace[: next(n for n, line in enumerate(outcome.trace) if "FAULT" in line)]
        recorded = any("_metadata" in line for line in before)
        left[nth] = [str(violation) for violation in outcome.violations]
        assert len(left[nth]) == (0 if recorded else 1), outcome.trace
    assert "1 staged are left" in left[1][0]


def test_readers_that_see_too_much_for_a_moment_are_noticed(tmp_path):
    right = Counter(["a", "b"])
    watch = FilesWatch("s", tmp_path, right, None)
    assert watch.look() == []
    (tmp_path / ".hidden").write_text("x\n")
    assert watch.look() == []
    (tmp_path / "one").write_text("a\n")
    assert watch.look() == []
    (tmp_path / "two").write_text("a\nb\n")
    assert "twice" in watch.look()[0]
    (tmp_path / "two").unlink()
    assert any("is gone" in wrong for wrong in watch.look())
    (tmp_path / "one").write_text("a\nb")
    assert "was changed" in watch.look()[0]
    assert watch.staged() == [str(tmp_path / ".hidden")]


def test_a_gap_is_noticed_by_a_check_and_what_is_taken_back_by_the_watch(tmp_path):
    sink = StagedLines(str(tmp_path))
    watch = SinkWatch("s", tmp_path, None, is_prefix, sink)
    path = Path(tmp_path, "a")
    path.write_text("1 0\n2 0\n")
    assert watch.look() == []
    path.write_text("1 0\n2 0\n2 2\n")
    assert "of key 2 readers see [0, 2]" in watch.look()[0]
    path.write_text("1 0\n")
    assert "had seen what is gone" in watch.look()[0]


def test_what_is_staged_in_the_end_is_a_violation(monkeypatch):
    from millstream.connectors.files.writer import FileWriter

    def build(environment):
        sink = FileSink.for_row_format("/nowhere", Encoder.simple_string_encoder()).build()
        environment.from_collection(["a", "b"]).sink_to(sink)

    monkeypatch.setattr(FileWriter, "_remove_leftovers", lambda *arguments, **more: None)
    program = captured(build)
    scenario = Scenario(
        epoch_records=1, interval_ms=1, faults=(Fault("sink.precommitted", FaultKind.KILL, 1),)
    )
    outcome = simulate(program, scenario)
    assert outcome.error is None
    assert "staged are left" in str(outcome.violations[0])
