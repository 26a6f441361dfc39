"""Several hundred seeds over all jobs: nothing is lost, nothing repeated, whatever fails."""

from __future__ import annotations

import pytest
from verify_jobs import JOBS, captured

from millstream.common.crash_points import SLOT_POINTS, STORAGE_POINTS
from millstream.verify.faults import FaultKind
from millstream.verify.scenario import EVERYTHING
from millstream.verify.verifier import Summary, Verifier

SEEDS = 170
AT_ONCE = 34


@pytest.fixture(scope="module")
def verifiers():
    return {name: Verifier(captured(build)) for name, (build, _) in JOBS.items()}


@pytest.fixture(scope="module")
def everything():
    return Summary()


@pytest.mark.parametrize("name", JOBS)
def test_the_undisturbed_run_gives_what_plain_python_gives(verifiers, name):
    verifier = verifiers[name]
    assert list(verifier.reference.outputs.values()) == JOBS[name][1]()
    assert verifier.vary == EVERYTHING, verifier.dependencies


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
@pytest.mark.parametrize("name", JOBS)
def test_seeds(verifiers, everything, name, first):
    first += 1_000 * list(JOBS).index(name)  # the same number stands for much the same in every job
    for result in verifiers[name].run(range(first, first + AT_ONCE)):
        everything.add(result)
        assert not result.failed, (result.seed, result.error, *map(str, result.differences), *result.trace)


def test_the_seeds_were_many_and_hit_all_kinds_of_faults_at_many_places(everything):
    assert everything.seeds == SEEDS * len(JOBS) >= 500
    assert {kind for _, kind in everything.faults} == {kind.value for kind in FaultKind}
    places = {point for point, _ in everything.faults}
    assert places >= {*SLOT_POINTS, *STORAGE_POINTS} - {"storage.read", "sink.compact", "sink.compacted"}
    assert everything.faults.total() > everything.seeds
    assert everything.restarts > everything.seeds // 2
