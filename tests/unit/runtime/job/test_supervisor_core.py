"""The supervisor by itself: attempts end as the test says, storage is in memory, the clock is moved by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from millstream.base.clock import ManualClock
from millstream.base.errors import (
    CheckpointDamagedError,
    CheckpointStorageError,
    ConfigurationError,
    DriverSupersededError,
    JobExecutionError,
    SessionLostError,
)
from millstream.base.interrupts import JobInterrupted
from millstream.graph.job_graph import JobGraph
from millstream.runtime.checkpoint.coordinator import CheckpointCoordinator
from millstream.runtime.checkpoint.restore import Saved
from millstream.runtime.checkpoint.settings import CheckpointSettings
from millstream.runtime.checkpoint.state_file import StateFileWriter
from millstream.runtime.job.steering import JobControl
from millstream.runtime.job.supervisor import JobSupervisor
from millstream.runtime.protocol.orders import WrittenState
from millstream.runtime.recovery.restart import FixedDelay
from millstream.testing import MemoryStores

GRAPH = JobGraph((), ())


class Results:
    """Where the end of the job is noted."""

    def __init__(self, log):
        self.log = log

    def begin(self, ended):
        self.ended = ended
        self.log.append(f"note {ended.status}")

    def commit(self, ended):
        self.log.append("noted")


class Attempt:
    """A job master that ends as it is told."""

    runtime_ms = 7
    is_committing = False
    accumulators = SimpleNamespace(results=dict)

    def __init__(self, job, number, restored):
        self.job = job
        self.number = number
        self.restored = restored

    def run(self):
        end = self.job.ends.pop(0)
        end = end() if callable(end) else end
        self.job.log.append(f"attempt {self.number}")
        if isinstance(end, BaseException):
            raise end

    def release(self):
        self.job.log.append("release")

    def abandon(self):
        return self.job.abandoned


class Job:
    """A supervisor and all around it; `ends` says how its attempts end: what they raise, None if they end well."""

    def __init__(
        self, *ends, attempts=10, delay_ms=500, interval_ms=10, restore_path=None, claim_behind=None, ha=False
    ):
        self.ends = list(ends)
        self.log = []
        self.clock = ManualClock(1_000)
        self.control = JobControl()
        self.stores = MemoryStores()
        self.owned_by = None
        self.began = []
        self.abandoned = True
        self.checkpoints = CheckpointCoordinator(
            CheckpointSettings(interval_ms=interval_ms, directory="/c", savepoint_directory="/s"),
            job_id="job",
            job_name="Job",
            job_graph=GRAPH,
            clock=self.clock,
            ownership=SimpleNamespace(check=self.check),
            open_store=self.stores,
        )
        self.results = Results(self.log) if ha else None
        self.supervisor = JobSupervisor(
            self.build,
            job_graph=GRAPH,
            checkpoints=self.checkpoints,
            strategy=FixedDelay(attempts, delay_ms),
            restore_path=restore_path,
            allow_non_restored=False,
            clock=self.clock,
            control=self.control,
            claim_behind=claim_behind,
            results=self.results,
            find_saved=self.find,
        )

    def check(self):
        if self.owned_by is not None:
            raise self.owned_by

    def build(self, number, restored):
        self.checkpoints.begin_attempt()
        self.began.append(None if restored is None else restored.order.checkpoint_id)
        return Attempt(self, number, restored)

    def find(self, path):
        if path == "/damaged":
            raise CheckpointDamagedError("it is damaged")
        other = CheckpointCoordinator(
            CheckpointSettings(interval_ms=10, directory="/old"),
            job_id="other",
            job_name="Job",
            job_graph=GRAPH,
            clock=self.clock,
            open_store=self.stores,
        )
        order = other.begin()
        return Saved(self.stores("/old/other"), "chk-1", self.complete(other, order))

    def complete(self, checkpoints, order):
        path = f"{order.directory}/{order.checkpoint_id}-0"
        file = self.stores(order.location).write(path, StateFileWriter().finish())
        return checkpoints.complete(
            order, epoch=1, written=[WrittenState(0, file, {}, order.base is not None)], driver_states={}
        )

    def checkpoint(self):
        """Make a checkpoint, as an attempt does."""
        return self.complete(self.checkpoints, self.checkpoints.begin())

    def run(self):
        self.supervisor.prepare()
        self.supervisor.run()
        return self

    @property
    def story(self):
        return [status for status, _ in self.supervisor.history]


def failing(error, job_of, *, checkpoints=1):
    """An attempt that makes checkpoints and then fails."""

    def end():
        for _ in range(checkpoints):
            job_of().checkpoint()
        return error

    return end


def test_an_attempt_that_ends_well_is_the_only_one():
    job = Job(None).run()
    assert job.story == ["CREATED", "RUNNING", "FINISHED"]
    assert job.log == ["attempt 0", "release"]
    assert job.supervisor.restarts == 0


def test_attempts_follow_one_another_after_the_delay_and_begin_from_the_newest_checkpoint():
    job = Job(ValueError("early"))
    job.ends += [
        failing(ValueError("later"), lambda: job, checkpoints=2),
        failing(ValueError("again"), lambda: job),
        None,
    ]
    job.run()
    assert job.began == [None, None, 2, 3]
    assert job.supervisor.restarts == 3
    times = [(status, at) for status, at in job.supervisor.history if status in ("RUNNING", "FINISHED")]
    assert times == [
        ("RUNNING", 1_000),
        ("RUNNING", 1_500),
        ("RUNNING", 2_000),
        ("RUNNING", 2_500),
        ("FINISHED", 2_500),
    ]
    assert [(failure.attempt, str(failure.error)) for failure in job.supervisor.failures] == [
        (0, "early"),
        (1, "later"),
        (2, "again"),
    ]
    assert job.log.count("release") == 4


def test_each_status_follows_one_from_which_it_may():
    job = Job(ValueError("a"), None).run()
    assert job.story == ["CREATED", "RUNNING", "FAILING", "RESTARTING", "CREATED", "RUNNING", "FINISHED"]


def test_the_last_error_is_raised_when_the_strategy_gives_up():
    job = Job(ValueError("one"), ValueError("two"), attempts=1)
    with pytest.raises(ValueError, match="two"):
        job.run()
    assert job.story[-3:] == ["RUNNING", "FAILING", "FAILED"]
    assert [failure.delay_ms for failure in job.supervisor.failures] == [500, None]


@pytest.mark.parametrize(
    "error",
    [ConfigurationError("x"), CheckpointDamagedError("x"), SessionLostError("x"), DriverSupersededError("x")],
)
def test_what_comes_again_however_often_one_tries_is_not_tried_again(error):
    job = Job(error)
    with pytest.raises(type(error)):
        job.run()
    assert job.story == ["CREATED", "RUNNING", "FAILING", "FAILED"]
    assert job.log == ["attempt 0", "release"]


def test_an_interruption_ends_the_job_without_another_attempt():
    job = Job(JobInterrupted())
    with pytest.raises(JobInterrupted):
        job.run()
    assert job.log == ["attempt 0", "release"]
    assert list(job.supervisor.failures) == []


def test_a_job_that_is_cancelled_while_it_runs_is_not_started_again():
    job = Job(None)
    job.ends = [lambda: (job.control.cancel.set(), JobExecutionError("the job was cancelled"))[1]]
    with pytest.raises(JobExecutionError):
        job.run()
    assert job.story == ["CREATED", "RUNNING", "CANCELLING", "CANCELED"]
    assert list(job.supervisor.failures) == []


def test_a_job_that_is_cancelled_while_it_waits_does_not_wait_to_the_end():
    job = Job(ValueError("a"), delay_ms=60_000)
    waited = []

    def wait(seconds, wake=None):
        waited.append(seconds)
        job.clock.advance(10)
        if len(waited) == 3:
            job.control.cancel.set()
        return True

    job.clock.wait = wait
    with pytest.raises(JobExecutionError, match="cancelled"):
        job.run()
    assert waited == [60.0, 59.99, 59.98], "woken for something else it waits for the rest"
    assert job.story == ["CREATED", "RUNNING", "FAILING", "RESTARTING", "CANCELLING", "CANCELED"]


def test_whoever_asks_sees_that_a_job_is_being_cancelled():
    job = Job(None)
    assert job.supervisor.status == "CREATED"
    job.control.cancel.set()
    assert job.supervisor.status == "CANCELLING"
    job.control.suspended = True
    assert job.supervisor.status == "CREATED"


def test_a_suspended_job_leaves_its_checkpoints_to_the_next_driver(caplog):
    job = Job(None, ha=True)

    def suspend():
        job.checkpoint()
        job.control.suspended = True
        job.control.cancel.set()
        return JobExecutionError("the job was suspended")

    job.ends = [suspend]
    with pytest.raises(JobExecutionError):
        job.run()
    assert job.story == ["CREATED", "RUNNING", "SUSPENDED"]
    assert "/c/job/chk-1/_metadata" in job.stores.files
    assert "noted" not in job.log
    assert "can be recovered" in caplog.text


@pytest.mark.parametrize("ended", [None, ValueError("a")])
def test_checkpoints_go_with_the_job(ended):
    job = Job(None, attempts=0)
    job.ends = [failing(ended, lambda: job)]
    try:
        job.run()
    except ValueError:
        assert ended is not None
    assert job.stores.files == {}


def test_the_end_is_noted_before_anything_is_removed_and_confirmed_behind():
    job = Job(None, ha=True)
    job.ends = [failing(None, lambda: job)]
    close = job.checkpoints.close
    job.checkpoints.close = lambda status: (job.log.append("remove"), close(status))[1]
    job.run()
    assert job.log == ["attempt 0", "release", "note FINISHED", "remove", "noted"]
    assert (job.results.ended.status, job.results.ended.runtime_ms) == ("FINISHED", 7)


def test_what_goes_wrong_when_the_end_is_noted_does_not_change_it(caplog):
    job = Job(None, ha=True)

    def away(ended):
        raise OSError("storage is away")

    job.results.begin = away
    job.run()
    assert job.story[-1] == "FINISHED"
    assert "storage is away" in caplog.text
    assert "noted" not in job.log


def test_a_job_that_lost_its_session_is_left_to_be_recovered():
    job = Job(None, ha=True)
    job.ends = [failing(SessionLostError("the JVM ended"), lambda: job)]
    with pytest.raises(SessionLostError):
        job.run()
    assert "/c/job/chk-1/_metadata" in job.stores.files
    assert job.log == ["attempt 0", "release"]


def test_a_driver_that_is_superseded_restarts_nothing_and_removes_nothing():
    job = Job(None)

    def lose():
        job.checkpoint()
        job.owned_by = DriverSupersededError("another one")
        return ValueError("my files are gone")

    job.ends = [lose]
    with pytest.raises(DriverSupersededError):
        job.run()
    assert job.story[-2:] == ["FAILING", "FAILED"]
    assert "/c/job/chk-1/_metadata" in job.stores.files
    assert [type(failure.error) for failure in job.supervisor.failures] == [DriverSupersededError]


def test_a_driver_that_is_superseded_at_the_end_has_not_finished():
    job = Job(None)

    def lose():
        job.owned_by = DriverSupersededError("another one")

    job.ends = [lose]
    with pytest.raises(DriverSupersededError):
        job.run()
    assert job.story[-1] == "FAILED"


def test_storage_that_cannot_say_whose_the_job_is_keeps_what_is_there(caplog):
    job = Job(None)

    def away():
        job.checkpoint()
        job.owned_by = CheckpointStorageError("storage is away")

    job.ends = [away]
    job.run()
    assert job.story[-1] == "FINISHED"
    assert "/c/job/chk-1/_metadata" in job.stores.files
    assert "whose the job is cannot be seen" in caplog.text


def test_a_checkpoint_that_only_seemed_to_fail_is_retracted_before_the_next_attempt():
    job = Job(None)

    def publish_and_fail():
        job.checkpoint()
        order = job.checkpoints.begin()
        job.stores(order.location).write(
            f"{order.manifest_directory}/_metadata", b"published, its answer lost"
        )
        return ValueError("a")

    job.ends = [publish_and_fail, lambda: job.log.append(str(sorted(job.stores.files)[:2]))]
    job.run()
    assert job.began == [None, 1]
    assert "chk-2" not in "".join(job.log)


def test_the_first_attempt_begins_from_what_the_job_is_restored_from():
    job = Job(ValueError("a"), None, restore_path="/old/other").run()
    assert job.began == [1, 1], "also the second, as there is no checkpoint of its own"
    assert "/old/other/chk-1/_metadata" in job.stores.files


def test_numbers_of_checkpoints_go_on_behind_the_restored_one():
    job = Job(None, restore_path="/old/other")
    job.ends = [failing(ValueError("a"), lambda: job), None]
    job.run()
    assert job.began == [1, 2]


def test_a_claimed_checkpoint_goes_when_there_are_enough_of_the_jobs_own():
    job = Job(None, restore_path="/old/other", claim_behind=2)
    seen = []

    def end():
        for _ in range(3):
            job.checkpoint()
            job.supervisor.epoch_ended()
            seen.append("/old/other/chk-1/_metadata" in job.stores.files)

    job.ends = [end]
    job.run()
    assert seen == [True, False, False]


def test_what_is_not_there_fails_before_the_first_attempt():
    job = Job(None, restore_path="/damaged")
    with pytest.raises(CheckpointDamagedError):
        job.supervisor.prepare()
    assert job.began == []


def test_a_superseded_driver_says_so_though_it_found_damage():
    job = Job(None, restore_path="/damaged")
    job.owned_by = DriverSupersededError("another one")
    with pytest.raises(DriverSupersededError):
        job.supervisor.prepare()


def test_a_job_that_was_interrupted_while_its_sinks_commit_is_left_as_it_is(caplog):
    def interrupt():
        job.checkpoint()
        job.supervisor.master.is_committing = True
        return KeyboardInterrupt()

    job = Job(interrupt, ha=True)
    with pytest.raises(KeyboardInterrupt):
        job.run()
    assert job.stores.files, "what says what is left to commit"
    assert not [line for line in job.log if line.startswith("note")]
    assert "while its sinks committed" in caplog.text


@pytest.mark.parametrize("abandoned", [True, False])
def test_a_job_whose_functions_do_not_return_is_cleaned_up_by_another_thread_or_not_at_all(abandoned):
    job = Job(None)
    job.supervisor.prepare()
    job.checkpoint()
    job.abandoned = abandoned
    job.control.cancel.set()
    assert job.supervisor.abandon() is abandoned
    assert (job.stores.files == {}) is abandoned
