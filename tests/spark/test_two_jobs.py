"""Two jobs at once in one process: on one session, each for itself."""

import threading
import time

import pytest

from millstream.base.errors import ConfigurationError, JobExecutionError
from millstream.common.job_status import JobStatus
from millstream.datastream.functions import MapFunction


class WaitsFor(MapFunction):
    """Tells that it began, then waits for a file; gives up after a minute."""

    def __init__(self, began, until):
        self.began = began
        self.until = until

    def map(self, value):
        self.began.touch()
        deadline = time.monotonic() + 60
        while not self.until.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return value


def waiting(new_environment, target, began, until, options=None):
    environment = new_environment(target, 1, options)
    environment.from_collection([1, 2]).map(WaitsFor(began, until)).print()
    return environment.execute_async()


def end_of(client):
    return client.get_job_execution_result().result()


def wait_for(path):
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("targets", [("local[2]", "local[2]"), ("local", "local[2]"), ("local", "local")])
def test_two_jobs_run_side_by_side(new_environment, tmp_path, targets):
    first, second = tmp_path / "first", tmp_path / "second"
    clients = [
        waiting(new_environment, targets[0], first, second),  # each waits for the other
        waiting(new_environment, targets[1], second, first),
    ]
    for client in clients:
        end_of(client)


def test_a_job_cancels_only_itself(new_environment, tmp_path):
    first, second, never, later = (tmp_path / name for name in ("first", "second", "never", "later"))
    lost = waiting(new_environment, "local[2]", first, never)
    kept = waiting(new_environment, "local[2]", second, later)
    wait_for(first)
    wait_for(second)
    lost.cancel().result()
    assert lost.get_job_status().result() is JobStatus.CANCELED
    later.touch()
    end_of(kept)
    assert kept.get_job_status().result() is JobStatus.FINISHED


def test_a_job_that_fails_leaves_the_other_alone(new_environment, tmp_path):
    began, until = tmp_path / "began", tmp_path / "until"
    kept = waiting(new_environment, "local[2]", began, until)
    wait_for(began)
    environment = new_environment("local[2]", 2)
    environment.from_collection([1, 0]).map(lambda x: 1 // x).print()
    with pytest.raises(JobExecutionError):
        environment.execute()
    until.touch()
    end_of(kept)


def test_environments_executed_in_threads_that_begin_at_once(new_environment):
    results = {}

    def run(number):
        environment = new_environment("local[2]", 2)
        stream = (
            environment.from_collection(list(range(10))).key_by(lambda x: x % 2).map(lambda x: x * number)
        )
        with stream.execute_and_collect() as records:
            results[number] = sorted(records)

    threads = [threading.Thread(target=run, args=(number,)) for number in (1, 2, 3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert results == {number: [x * number for x in range(10)] for number in (1, 2, 3)}


def test_the_same_environment_executed_again_while_it_runs(new_environment, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    environment = new_environment("local[2]", 1)
    environment.from_collection([1]).map(WaitsFor(first, second)).print()
    one = environment.execute_async()
    environment.from_collection([1]).map(WaitsFor(second, first)).print()
    environment.execute()
    end_of(one)


def test_other_settings_are_refused_while_a_job_runs_and_taken_behind_it(new_environment, tmp_path):
    began, until = tmp_path / "began", tmp_path / "until"
    running = waiting(new_environment, "local[2]", began, until)
    wait_for(began)
    environment = new_environment("local[1]", 1, {"spark.some.setting": "x"})
    environment.from_collection([1]).print()
    with pytest.raises(JobExecutionError) as raised:
        environment.execute()
    error = raised.value.__cause__
    assert isinstance(error, ConfigurationError)
    assert "master is local[2], not local[1]" in error.message
    assert "spark.some.setting is not set, not x" in error.message
    until.touch()
    end_of(running)
    environment.from_collection([1]).print()
    environment.execute()
