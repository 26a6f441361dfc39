"""Several hundred seeds over all jobs: nothing is lost, nothing repeated, whatever fails."""

from __future__ import annotations

import os
import pickle
import time

import pytest
from verify_jobs import JOBS, captured

from millstream.base.crash_points import SLOT_POINTS, STORAGE_POINTS
from millstream.verify.faults import FaultKind
from millstream.verify.scenario import EVERYTHING
from millstream.verify.verifier import Summary, Verifier

pytestmark = pytest.mark.usefixtures("some_form")

SEEDS = 170
AT_ONCE = 34


@pytest.fixture(scope="module")
def verifiers():
    return {name: Verifier(captured(build)) for name, (build, _) in JOBS.items()}


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    """Return where each part leaves what it counted: the workers of a run share it."""
    base = tmp_path_factory.getbasetemp()
    directory = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "seeds"
    directory.mkdir(exist_ok=True)
    return directory


@pytest.mark.parametrize("name", JOBS)
def test_the_undisturbed_run_gives_what_plain_python_gives(verifiers, name):
    verifier = verifiers[name]
    assert list(verifier.reference.outputs.values()) == JOBS[name][1]()
    assert verifier.vary == EVERYTHING, verifier.dependencies


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
@pytest.mark.parametrize("name", JOBS)
def test_seeds(verifiers, counts, name, first):
    first += 1_000 * list(JOBS).index(name)  # the same number stands for much the same in every job
    counted = Summary()
    try:
        for result in verifiers[name].run(range(first, first + AT_ONCE)):
            counted.add(result)
            assert not result.failed, (
                result.seed,
                result.error,
                *map(str, result.differences),
                *result.trace,
            )
    finally:
        unfinished = counts / f".{first}"
        unfinished.write_bytes(pickle.dumps((counted.seeds, counted.faults, counted.restarts)))
        unfinished.rename(counts / str(first))


def test_the_seeds_were_many_and_hit_all_kinds_of_faults_at_many_places(counts):
    parts = len(JOBS) * len(range(0, SEEDS, AT_ONCE))
    deadline = time.monotonic() + 250
    while len(done := [path for path in counts.iterdir() if path.name.isdecimal()]) < parts:
        assert time.monotonic() < deadline, "the seeds of the other worker did not end"
        time.sleep(0.5)
    everything = Summary()
    for path in done:
        seeds, faults, restarts = pickle.loads(path.read_bytes())
        everything.seeds += seeds
        everything.faults.update(faults)
        everything.restarts += restarts
    assert everything.seeds == SEEDS * len(JOBS) >= 500
    assert {kind for _, kind in everything.faults} == {kind.value for kind in FaultKind}
    places = {point for point, _ in everything.faults}
    assert places >= {*SLOT_POINTS, *STORAGE_POINTS} - {"storage.read", "sink.compact", "sink.compacted"}
    assert everything.faults.total() > everything.seeds
    assert everything.restarts > everything.seeds // 2
