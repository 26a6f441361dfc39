"""The garbage collector's settings while jobs run in the program's own process, and afterwards."""

from __future__ import annotations

import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from millstream.runtime.slot.garbage import THRESHOLDS, RareCollections


@pytest.fixture(autouse=True)
def settings_of_the_process():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_settings_are_back_when_the_last_of_two_jobs_has_ended():
    gc.set_threshold(701, 11, 12)
    collections = RareCollections()
    collections.begin()
    collections.begin()
    assert gc.get_threshold() == THRESHOLDS
    assert gc.get_freeze_count() > 0
    collections.end()
    assert gc.get_threshold() == THRESHOLDS
    collections.end()
    assert gc.get_threshold() == (701, 11, 12)
    assert gc.get_freeze_count() == 0


def test_what_the_program_sets_while_a_job_runs_stays():
    collections = RareCollections()
    collections.begin()
    gc.set_threshold(5_000, 5, 5)
    collections.end()
    assert gc.get_threshold() == (5_000, 5, 5)


def test_a_collector_that_is_switched_off_and_what_is_frozen_stay_so():
    gc.set_threshold(0)
    gc.freeze()
    frozen = gc.get_freeze_count()
    collections = RareCollections()
    collections.begin()
    assert gc.get_threshold()[0] == 0
    collections.end()
    assert gc.get_threshold()[0] == 0
    assert gc.get_freeze_count() == pytest.approx(frozen, rel=0.01)


def test_local_jobs_run_with_rare_collections_also_two_at_once(new_environment, tmp_path):
    def thresholds(name, other):
        def look(_):
            (tmp_path / name).touch()
            deadline = time.monotonic() + 30
            while not (tmp_path / other).exists() and time.monotonic() < deadline:
                threading.Event().wait(0.01)
            return (tmp_path / other).exists(), gc.get_threshold()

        with new_environment("local").from_collection([0]).map(look).execute_and_collect() as results:
            return list(results)

    before = gc.get_threshold()
    with ThreadPoolExecutor(2) as jobs:
        running = [jobs.submit(thresholds, *names) for names in (("one", "other"), ("other", "one"))]
        seen = [job.result() for job in running]
    assert seen == [[(True, THRESHOLDS)], [(True, THRESHOLDS)]]
    assert gc.get_threshold() == before


def test_settings_are_back_after_a_job_that_fails(new_environment):
    before = gc.get_threshold()
    failing = new_environment("local").from_collection([0]).map(lambda _: 1 / 0)
    with pytest.raises(Exception, match="ZeroDivisionError"), failing.execute_and_collect() as results:
        list(results)
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
