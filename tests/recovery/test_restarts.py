"""What becomes of a job that fails: its statuses, its failures, and what the restart strategy makes of them."""

from __future__ import annotations

from collections import Counter

import pytest
from recovery_programs import RECORDS, plain
from recovery_support import FAULTS, multiset, new_environment, running

from millstream.base.errors import JobExecutionError
from millstream.common.job_status import JobStatus
from millstream.runtime.control.views import ExceptionsView, JobView

NO_RESTART = {"restart__strategy_type": "none"}
RATE = {
    "restart__strategy_type": "failure-rate",
    "restart__strategy_failure__rate_max__failures__per__interval": 2,
    "restart__strategy_failure__rate_failure__rate__interval": "10 s",
    "restart__strategy_failure__rate_delay": "1 s",
}
GROWING = {
    "restart__strategy_type": "exponential-delay",
    "restart__strategy_exponential__delay_initial__backoff": "1 s",
    "restart__strategy_exponential__delay_max__backoff": "3 s",
    "restart__strategy_exponential__delay_backoff__multiplier": 2.0,
    "restart__strategy_exponential__delay_jitter__factor": 0.0,
}


def fail(*gaps, **options):
    """Run a program that fails; return its supervisor, its results and its error."""
    FAULTS.arm(*gaps)
    found, failure = [], None
    with running() as launcher, plain(new_environment(**options)).execute_and_collect() as results:
        try:
            for each in results:
                found.append(each)
        except JobExecutionError as error:
            failure = error
        (job,) = launcher.jobs
    return job._supervisor, multiset(found), failure


def statuses(supervisor):
    return [status for status, _ in supervisor.history]


ONCE_MORE = ["FAILING", "RESTARTING", "CREATED", "RUNNING"]


def test_job_without_failure():
    supervisor, found, failure = fail()
    assert statuses(supervisor) == ["CREATED", "RUNNING", "FINISHED"]
    assert (supervisor.failures, found, failure) == ([], Counter(RECORDS), None)


def test_job_without_restarts_fails_with_its_cause():
    supervisor, _, failure = fail(20, **NO_RESTART)
    assert statuses(supervisor) == ["CREATED", "RUNNING", "FAILING", "FAILED"]
    assert isinstance(failure.__cause__.__cause__ or failure.__cause__, Exception)
    assert "record 20" in str(failure.__cause__)


def test_every_failure_is_kept_with_attempt_time_and_cause():
    supervisor, found, failure = fail(20, 5, execution_checkpointing_interval=1)
    assert statuses(supervisor) == ["CREATED", "RUNNING", *ONCE_MORE, *ONCE_MORE, "FINISHED"]
    assert failure is None
    assert found == Counter(RECORDS)
    assert [each.attempt for each in supervisor.failures] == [0, 1]
    assert ["record 20" in str(each.error) for each in supervisor.failures] == [True, False]
    times = [each.time_ms for each in supervisor.failures]
    assert times == sorted(times)
    assert next(at for status, at in supervisor.history if status == "RESTARTING") >= times[0]


def test_a_client_is_told_of_the_last_failures_with_their_causes():
    environment = new_environment(web_exception__history__size=2, restart__strategy_fixed__delay_attempts=3)
    FAULTS.arm(5, 5, 5)
    with running() as launcher:
        plain(environment).name("tapped").print()
        client = environment.execute_async()
        client.get_job_execution_result().result()
    failures = client.get_failures().result()
    assert [(each.attempt, each.restart_delay_ms) for each in failures] == [(1, 0), (2, 0)]
    assert all(each.exception_name == "UserFunctionError" for each in failures)
    assert [each.message for each in failures] == [
        f'millstream.testing.failures.InjectedFailure: injected at record {count} in operator "tapped", subtask 0'
        for count in (10, 15)
    ]
    assert all("_current.tick()" in each.stacktrace for each in failures)
    assert all((each.operator, each.subtask) == ("tapped", 0) for each in failures)
    assert failures[0].timestamp_ms < failures[1].timestamp_ms
    gateway = launcher.jobs[0].gateway
    exceptions = gateway.view(ExceptionsView)
    assert (gateway.view(JobView).restarts, exceptions.total) == (3, 3)
    assert [each.failure for each in reversed(exceptions.failures)] == failures


def test_fixed_number_of_restarts_is_kept_to():
    supervisor, _, failure = fail(5, 5, 5, restart__strategy_fixed__delay_attempts=2)
    assert len(supervisor.failures) == 3
    assert statuses(supervisor)[-2:] == ["FAILING", "FAILED"]
    assert failure is not None


def test_failures_may_be_as_frequent_as_the_rate_allows():
    supervisor, _, failure = fail(5, 5, **RATE)
    assert failure is None
    assert statuses(supervisor)[-1] == "FINISHED"
    supervisor, _, failure = fail(5, 5, 5, **RATE)
    assert statuses(supervisor)[-1] == "FAILED"


def test_delays_grow_from_failure_to_failure_up_to_the_longest():
    supervisor, _, _ = fail(5, 5, 5, 5, **GROWING)
    begun = [at for status, at in supervisor.history if status == "RESTARTING"]
    again = [at for status, at in supervisor.history if status == "CREATED"][1:]
    # The clock moves a little whenever it is looked at.
    assert [round((end - start) / 1000) for start, end in zip(begun, again, strict=True)] == [1, 2, 3, 3]


def test_cancelled_job_is_cancelling_until_it_has_ended():
    seen = []
    with running() as launcher:
        client_environment = new_environment()
        FAULTS.arm()

        def cancel():
            launcher.job().cancel()
            seen.append(launcher.job().status())

        launcher.do_after(20, cancel)
        plain(client_environment).print()
        client = client_environment.execute_async()
        with pytest.raises(JobExecutionError, match="cancelled"):
            client.get_job_execution_result().result()
    assert seen == ["CANCELLING"]
    assert client.get_job_status().result() is JobStatus.CANCELED
    assert statuses(launcher.jobs[0]._supervisor) == ["CREATED", "RUNNING", "CANCELLING", "CANCELED"]


def test_job_that_waits_for_its_restart_can_be_cancelled():
    environment = new_environment(restart__strategy_fixed__delay_delay="1 h")
    FAULTS.arm(20)
    with running() as launcher:
        plain(environment).print()
        # On this clock the hour would pass at once.
        launcher.clock.wait = lambda seconds, wake=None: launcher.job().cancel()
        client = environment.execute_async()
        with pytest.raises(JobExecutionError, match="cancelled"):
            client.get_job_execution_result().result()
    supervisor = launcher.jobs[0]._supervisor
    assert statuses(supervisor) == ["CREATED", "RUNNING", "FAILING", "RESTARTING", "CANCELLING", "CANCELED"]
    assert len(supervisor.failures) == 1
