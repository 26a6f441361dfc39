"""The mini cluster: programs run in it as outside, failures come where they are planned, nothing stays behind."""

from __future__ import annotations

import os
import sys
from collections import Counter

import pytest

from millstream.base.crash_points import set_crash_hook
from millstream.base.errors import ConfigurationError, JobExecutionError, NotSupportedError
from millstream.common import Time, Types, WatermarkStrategy
from millstream.connectors.number_sequence import NumberSequenceSource
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.functions import KeyedProcessFunction
from millstream.datastream.state import ValueStateDescriptor
from millstream.graph.launcher import set_launcher_override
from millstream.testing.cluster import MiniCluster
from millstream.testing.failures import FailurePoint, InjectedFailure

NUMBERS = 200
SMALL_EPOCHS = {"millstream.epoch.fixed-records": 10}


class RunningSum(KeyedProcessFunction):
    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.INT()))

    def process_element(self, value, ctx):
        self.sum.update((self.sum.value() or 0) + value)
        yield self.sum.value()


def sums(cluster, tapped=False, options=None):
    numbers = cluster.environment(options=options).from_source(
        NumberSequenceSource(1, NUMBERS), WatermarkStrategy.no_watermarks(), "numbers"
    )
    if tapped:
        numbers = numbers.map(cluster.tap())
    return numbers.key_by(lambda number: number % 3).process(RunningSum())


def expected():
    totals, results = Counter(), []
    for number in range(1, NUMBERS + 1):
        totals[number % 3] += number
        results.append(totals[number % 3])
    return sorted(results)


@pytest.mark.parametrize("virtual_time", [False, True])
@pytest.mark.parametrize("point", FailurePoint)
@pytest.mark.parametrize("occurrence", [1, 4])
def test_results_are_right_wherever_the_job_fails(point, occurrence, virtual_time):
    # The source is read by one subtask: with two, sums on the way depend on who comes first.
    with MiniCluster(options=SMALL_EPOCHS, virtual_time=virtual_time) as cluster:
        cluster.fail_at(point, occurrence)
        assert sorted(cluster.collect(sums(cluster))) == expected()
        assert len(cluster.failures) == 1
        assert cluster.failures[0].startswith(point.name)
        (job,) = cluster.jobs
        assert job.status() == "FINISHED"
        assert ["injected at" in failure.message for failure in job.failures()] == [True]


def test_functions_fail_behind_as_many_records_as_planned():
    with MiniCluster(options=SMALL_EPOCHS) as cluster:
        cluster.fail_after(25, 1, 60)
        assert sorted(cluster.collect(sums(cluster, tapped=True))) == expected()
        assert len(cluster.failures) == 3
        assert cluster.records_tapped > NUMBERS, "records are read again after a failure"
        cluster.fail_after()
        before = cluster.records_tapped
        assert sorted(cluster.collect(sums(cluster, tapped=True))) == expected()
        assert cluster.records_tapped == before + NUMBERS


def test_a_job_with_a_restart_strategy_of_its_own_keeps_it():
    with MiniCluster(options={"restart-strategy.type": "none"}) as cluster:
        cluster.fail_at(FailurePoint.AFTER_EPOCH)
        with pytest.raises(JobExecutionError) as raised:
            cluster.collect(sums(cluster))
        assert isinstance(raised.value.__cause__, InjectedFailure)


def test_what_jobs_print_is_kept(capsys):
    with MiniCluster() as cluster:
        environment = cluster.environment()
        environment.from_collection([1, 2]).print()
        environment.execute()
        assert cluster.printed == ["1", "2"]
    assert capsys.readouterr().out == ""


class AfterAnHour(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(
            ctx.timer_service().current_processing_time() + 3_600_000
        )

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key()


def test_virtual_time_passes_without_waiting():
    with MiniCluster(virtual_time=True) as cluster:
        environment = cluster.environment()
        one_in_hours = DataGeneratorSource(int, 2, RateLimiterStrategy.per_second(1 / 10_000))
        numbers = environment.from_source(one_in_hours, WatermarkStrategy.no_watermarks(), "numbers")
        slow = numbers.key_by(lambda number: number).process(AfterAnHour())
        began = cluster.clock.monotonic()
        with slow.execute_and_collect() as results:
            assert next(results) == 0
        assert cluster.clock.monotonic() - began > 3_600


def test_jobs_that_still_run_are_cancelled_and_nothing_is_left():
    with MiniCluster() as cluster:
        environment = cluster.environment()
        endless = environment.from_source(
            DataGeneratorSource(lambda index: index, None), WatermarkStrategy.no_watermarks(), "endless"
        )
        endless.filter(lambda number: False).print()
        environment.execute_async()
        directory, (job,) = cluster.directory, cluster.jobs
        assert job.status() in ("CREATED", "RUNNING")
    assert job.status() == "CANCELED"
    assert not os.path.exists(directory)
    assert set_crash_hook(None) is None
    assert set_launcher_override(None) is None


def test_environments_have_the_options_of_their_cluster_and_their_own():
    options = {"execution.checkpointing.interval": None, "pipeline.max-parallelism": 16}
    with MiniCluster(parallelism=3, options=options) as cluster:
        environment = cluster.environment(options={"pipeline.max-parallelism": 8})
        assert (environment.get_parallelism(), environment.get_max_parallelism()) == (3, 8)
        assert cluster.environment(5).get_parallelism() == 5
        assert not environment.get_checkpoint_config().is_checkpointing_enabled()
        checkpointed = cluster.environment(options={"execution.checkpointing.interval": "2 s"})
        assert checkpointed.get_checkpoint_interval() == 2_000


def test_something_may_be_done_when_so_many_records_have_passed(tmp_path):
    with MiniCluster(options=SMALL_EPOCHS) as cluster:
        paths = []

        def ask():
            paths.append(cluster.job().savepoint(str(tmp_path), stop=True))

        cluster.do_after(50, ask)
        before = cluster.collect(sums(cluster, tapped=True))
        path = paths[0].result(10)
        assert 50 <= len(before) < NUMBERS
        options = {"execution.state-recovery.path": path}
        assert sorted(before + cluster.collect(sums(cluster, tapped=True, options=options))) == expected()


def test_a_cluster_that_does_not_run_says_so():
    with pytest.raises(ConfigurationError, match="does not run"):
        MiniCluster().environment()


def test_what_spark_cannot_do_is_refused():
    with pytest.raises(NotSupportedError, match="virtual time"):
        MiniCluster("local[2]", virtual_time=True)
    with pytest.raises(NotSupportedError, match="functions run elsewhere"):
        MiniCluster("local[2]").tap()


@pytest.mark.spark
@pytest.mark.parametrize("point", [FailurePoint.AFTER_EPOCH, FailurePoint.AFTER_CHECKPOINT])
def test_the_same_on_spark(point):
    module = sys.modules[__name__]
    with MiniCluster("local[2]", options=SMALL_EPOCHS, by_value=[module]) as cluster:
        cluster.fail_at(point, 2)
        assert sorted(cluster.collect(sums(cluster))) == expected()
        assert len(cluster.failures) == 1


def test_windows_in_virtual_processing_time_are_as_long_as_they_say():
    from millstream.datastream.window import TumblingProcessingTimeWindows

    with MiniCluster(virtual_time=True) as cluster:
        ones = cluster.environment().from_collection([("a", 1)] * 3)
        windows = ones.key_by(lambda pair: pair[0]).window(TumblingProcessingTimeWindows.of(Time.days(1)))
        totals = windows.reduce(lambda left, right: (left[0], left[1] + right[1]))
        # As in Flink: the input's end brings event time to its end, not processing time.
        assert cluster.collect(totals) == []
