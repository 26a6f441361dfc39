"""A job is seen and steered by one gateway, whether it runs here, in another process, or has ended."""

from __future__ import annotations

import tempfile
import time

import pytest
from click.testing import CliRunner

from millstream.base.errors import ConfigurationError, JobRequestError
from millstream.cli.main import main
from millstream.common import Types, WatermarkStrategy
from millstream.common.state import ValueStateDescriptor
from millstream.config.configuration import Configuration
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.functions import KeyedProcessFunction, RuntimeContext
from millstream.runtime.checkpoint.restore import find_saved
from millstream.runtime.control import views
from millstream.runtime.control.archive import JobArchive
from millstream.runtime.control.channel import find_jobs
from millstream.runtime.control.codec import KEPT_VIEWS
from millstream.runtime.control.commands import Cancel, QueryState, Stop, TriggerCheckpoint


class Count(KeyedProcessFunction):
    """Counts by key; the first attempt fails at the fiftieth record."""

    def open(self, runtime_context: RuntimeContext):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = runtime_context.get_metrics_group().counter("seen")
        self.attempt = runtime_context.get_attempt_number()

    def process_element(self, value, ctx):
        if self.attempt == 0 and value == 50:
            raise ValueError("the fiftieth")
        self.seen.inc()
        self.count.update((self.count.value() or 0) + 1)
        yield value


@pytest.fixture
def start(tmp_path):  # which is made before `tempdir` moves
    clients = []
    with tempfile.TemporaryDirectory(dir="/tmp") as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", directory)

        def start_job(**options):
            configuration = Configuration.from_dict(
                {
                    "execution.target": "local",
                    "parallelism.default": 2,
                    "restart-strategy.type": "fixed-delay",
                    "restart-strategy.fixed-delay.delay": "1 ms",
                    "s3.secret-key": "hush",
                    **options,
                }
            )
            env = StreamExecutionEnvironment.get_execution_environment(configuration)
            source = DataGeneratorSource(
                lambda index: index, 10**9, RateLimiterStrategy.per_second(1_000), Types.LONG()
            )
            stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
            stream.key_by(lambda value: value % 4).process(Count()).uid("count").name("Count").print()
            clients.append(env.execute_async("counting"))
            return clients[-1]

        yield start_job
        for client in clients:
            if not client.get_job_status().result().is_terminal_state():
                client.cancel().result()


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_job_is_seen_from_another_process_and_behind_its_end(start, tmp_path):
    start(**{"execution.checkpointing.interval": "20 ms", "execution.checkpointing.dir": str(tmp_path)})
    (job,) = find_jobs()
    wait_until(lambda: job.view(views.JobView).restarts == 1 and job.view(views.JobView).status == "RUNNING")
    wait_until(lambda: job.view(views.CheckpointsView).counts.restored == 1)

    path = job.perform(TriggerCheckpoint()).result(20)
    assert find_saved(path).manifest.kind == "checkpoint"

    def count_of_one():
        return job.perform(QueryState("count", "count", "1")).result(20)

    # The attempt goes on from a checkpoint that may be from before the first record.
    wait_until(lambda: count_of_one().type == "int" and int(count_of_one().value) > 1)

    seen = job.view(views.JobView)
    assert [vertex.name for vertex in seen.plan.vertices] == ["numbers", "Count -> Print to Std. Out"]
    assert [(edge.ship_strategy, edge.source == seen.vertices[0].vertex_id) for edge in seen.plan.edges] == [
        ("HASH", True)
    ]
    assert {subtask.status for vertex in seen.vertices for subtask in vertex.subtasks} == {"RUNNING"}
    assert seen.status_counts == {"RUNNING": 4}
    assert [slot.slot for slot in seen.slots] == [0, 1]
    assert list(seen.timestamps) == ["CREATED", "RUNNING", "FAILING", "RESTARTING"]

    checkpoints = job.view(views.CheckpointsView)
    assert checkpoints.counts.completed >= 1
    assert checkpoints.latest_completed.state_size > 0
    assert len(checkpoints.latest_completed.slots) == 2
    assert checkpoints.config.interval_ms == 20

    (failure,) = job.view(views.ExceptionsView).failures
    assert failure.failure.exception_name == "UserFunctionError"
    assert failure.failure.stacktrace.rstrip().endswith("ValueError: the fiftieth")
    assert "in process_element" in failure.failure.stacktrace
    assert (failure.failure.attempt, failure.vertex_name) == (0, "Count -> Print to Std. Out")

    epochs = job.view(views.EpochsView).epochs
    assert {each.attempt for each in epochs} == {0, 1}
    assert all(len(each.levels_ms) == 2 for each in epochs)

    options = {each.key: each for each in job.view(views.ConfigView).options}
    assert (options["s3.secret-key"].value, options["parallelism.default"].value) == ("***", "2")
    assert options["execution.checkpointing.timeout"].origin == "default"

    savepoint = job.perform(Stop(str(tmp_path / "savepoints"))).result(20)
    assert find_saved(savepoint).manifest.is_savepoint
    with pytest.raises(JobRequestError, match="does not answer"):
        job.view(views.JobView)
    (ended,) = JobArchive().jobs()
    last = ended.view(views.JobView)
    assert (last.status, last.restarts, last.ended_ms is not None) == ("FINISHED", 1, True)
    assert ended.view(views.CheckpointsView).latest_savepoint.path == savepoint
    assert ended.view(views.CheckpointsView).latest_savepoint.stops
    assert all(ended.view(kind) is not None for kind in KEPT_VIEWS.values())
    with pytest.raises(JobRequestError, match="no ThreadsView is kept"):
        ended.view(views.ThreadsView)
    assert "FINISHED    counting  (ended " in CliRunner().invoke(main, ["list", "--all"]).stdout


def test_counters_go_on_over_attempts(start, tmp_path):
    start(**{"execution.checkpointing.interval": "20 ms", "execution.checkpointing.dir": str(tmp_path)})
    (job,) = find_jobs()
    wait_until(lambda: job.view(views.JobView).restarts == 1 and job.view(views.JobView).status == "RUNNING")
    wait_until(lambda: job.view(views.EpochsView).epochs[-1].attempt == 1)
    read = job.view(views.JobView).records_read
    wait_until(lambda: job.view(views.JobView).records_read > read)
    job.perform(Cancel()).result(20)
    (ended,) = JobArchive().jobs()
    given = {
        each.subtask: each.value
        for each in ended.view(views.MetricsView).metrics
        if (each.name, each.operator) == ("numRecordsOut", "numbers")
    }
    read = ended.view(views.JobView).records_read
    assert sum(given.values()) == read  # of both attempts
    assert read > sum(each.records for each in ended.view(views.EpochsView).epochs if each.attempt == 1)


def test_a_checkpoint_of_a_job_that_makes_none_is_refused_with_what_to_do(start):
    start()
    (job,) = find_jobs()
    with pytest.raises(JobRequestError, match="the job makes none") as raised:
        job.perform(TriggerCheckpoint()).result(20)
    assert raised.value.reason == ConfigurationError.code
    assert "execution.checkpointing.interval" in raised.value.hint
