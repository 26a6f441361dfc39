from concurrent.futures import Future

import pytest

from millstream.base.errors import JobExecutionError
from millstream.common.job_client import JobClient
from millstream.common.job_execution_result import JobExecutionResult
from millstream.common.job_id import JobID
from millstream.common.job_status import JobStatus


class FakeJob:
    job_id = "ab" * 16

    def __init__(self, failure=None):
        self.state = "RUNNING"
        self.failure = failure
        self.waited = 0
        self.savepoints = []
        self.path = Future()

    def status(self):
        return self.state

    def cancel(self):
        self.state = "CANCELED"
        self.failure = JobExecutionError("job was cancelled")

    def savepoint(self, directory=None, *, stop=False, drain=False):
        self.savepoints.append((directory, stop, drain))
        return self.path

    def wait(self):
        self.waited += 1
        if self.failure:
            raise self.failure
        return JobExecutionResult(JobID(self.job_id), 12)


def test_a_client_tells_id_status_and_result():
    job = FakeJob()
    client = JobClient(job, job.wait)
    assert str(client.get_job_id()) == job.job_id
    assert client.get_job_status().result() is JobStatus.RUNNING
    result = client.get_job_execution_result()
    assert not result.done()
    job.state = "FINISHED"
    assert result.done()
    assert (result.result().get_net_runtime(), result.result().get_net_runtime()) == (12, 12)
    assert job.waited == 1


def test_a_failed_jobs_result_raises_each_time():
    job = FakeJob(JobExecutionError("job failed"))
    result = JobClient(job, job.wait).get_job_execution_result()
    for _ in range(2):
        with pytest.raises(JobExecutionError, match="job failed"):
            result.result()
    assert isinstance(result.exception(), JobExecutionError)


def test_cancelling_is_done_when_the_job_has_ended_and_raises_nothing():
    job = FakeJob()
    cancelled = JobClient(job, job.wait).cancel()
    assert cancelled.result() is None
    assert job.waited == 1


def test_a_savepoint_is_asked_for_and_its_path_comes_later():
    job = FakeJob()
    client = JobClient(job, job.wait)
    made = client.trigger_savepoint("/here")
    stopped = client.stop_with_savepoint(True)
    assert job.savepoints == [("/here", False, False), (None, True, True)]
    assert not made.done()
    job.path.set_result("/here/savepoint")
    assert (made.result(), stopped.result()) == ("/here/savepoint", "/here/savepoint")


@pytest.mark.parametrize("status", JobStatus)
def test_only_failed_cancelled_and_finished_jobs_have_ended_for_good(status):
    assert status.is_globally_terminal_state() == (status.name in {"FAILED", "CANCELED", "FINISHED"})
