"""What Spark and the machine can lose in the middle of an epoch: nothing of it is lost, nothing doubled.

In each test one subtask stops in the middle of an epoch, at a gate; a shuttle for each slot waits for it, or the one
task that carries the epoch, and stays for others or not. Something is lost, the test sees that it is, and opens the
gate. Spark repeats by itself what only carried blocks; what held state ends the attempt, and the next begins from the
last checkpoint.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from millstream.common import Encoder, Types, WatermarkStrategy
from millstream.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import FileSink
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.datastream.state import ValueStateDescriptor

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CLUSTER = "local-cluster[2,1,1024]"
RECORDS, KEYS = 2_000, 7
EXECUTOR = "CoarseGrainedExecutorBackend"
SLOT = "millstream.runtime.slot.process"


class Gate(MapFunction):
    """Stops the second subtask at its 300th record, until the gate is open."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.count = 0

    def open(self, runtime_context):
        self.guards = runtime_context.get_index_of_this_subtask() == 1

    def map(self, value):
        self.count += 1
        if self.guards and self.count == 300:
            (self.directory / "reached.partial").write_text(str(os.getpid()))
            os.replace(self.directory / "reached.partial", self.directory / "reached")
            while not (self.directory / "open").exists():
                time.sleep(0.01)
        return value


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, context):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{context.get_current_key()}:{count}"


EXPECTED = Counter(
    f"{key}:{count}"
    for key in range(KEYS)
    for count in range(1, len([value for value in range(RECORDS) if value % KEYS == key]) + 1)
)


def build(environment: StreamExecutionEnvironment, directory: Path) -> None:
    """Count numbers for each key, behind the gate and an exchange, into files."""
    source = NumberSequenceSource(0, RECORDS - 1)
    numbers = environment.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    counts = numbers.map(Gate(directory)).key_by(lambda value: value % KEYS).process(Count(), Types.STRING())
    sink = FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder()).build()
    counts.uid("count").sink_to(sink).uid("files")


def visible_lines(directory: Path) -> Counter[str]:
    files = [path for path in directory.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    return Counter(line for path in files for line in path.read_text().splitlines())


class Stopped:
    """A job whose second subtask stands at the gate.

    Attributes:
        slot: The process of the slot that stands there.
        stage: Spark's stage that runs meanwhile.
    """

    def __init__(self, environment: StreamExecutionEnvironment, directory: Path, processes: Any) -> None:
        self._directory = directory
        self._processes = processes
        build(environment, directory)
        self._client = environment.execute_async("counting")

    def wait_for_gate(self) -> None:
        """Wait until the subtask stands there, and learn where it does."""
        processes, reached = self._processes, self._directory / "reached"
        processes.wait_until(
            lambda: reached.exists() or self.failures, "a subtask stands at the gate", seconds=120
        )
        assert not self.failures, self.failures
        self.slot = int(reached.read_text())
        self.spark = SparkContext._active_spark_context
        assert self.spark is not None
        tracker = self.spark.statusTracker()
        processes.wait_until(tracker.getActiveStageIds, "Spark tells of the stage")
        (self.stage,) = tracker.getActiveStageIds()

    @property
    def failures(self) -> list[str]:
        """Why attempts have failed so far."""
        return [str(failure.error) for failure in self._client._job._supervisor.failures]

    def tasks(self) -> list[tuple[int, int, int, str]]:
        """Return partition, attempt, id and status of the stage's tasks."""
        store = self.spark._jsc.sc().statusStore()
        attempt = store.lastStageAttempt(self.stage).attemptId()
        tasks = store.taskList(self.stage, attempt, 100)
        found = [tasks.apply(number) for number in range(tasks.size())]
        return sorted((task.index(), task.attempt(), task.taskId(), task.status()) for task in found)

    def wait_for_first_subtask(self) -> None:
        """Wait until Spark has what the other subtask sends: the loss is in the middle of an exchange."""
        self._processes.wait_until(
            lambda: [task[3] for task in self.tasks() if task[0] == 0] == ["SUCCESS"],
            "the other subtask has done its level",
        )

    @property
    def waiting(self) -> int:
        """The partition whose task waits for the subtask at the gate: with a carrier there is only one."""
        return max(task[0] for task in self.tasks())

    def wait_for_repetition(self) -> None:
        """Wait until Spark has started the task again that stands at the gate."""
        self._processes.wait_until(
            lambda: any(
                task[1] >= 1 and task[3] == "RUNNING" for task in self.tasks() if task[0] == self.waiting
            ),
            "the task is repeated",
            seconds=60,
        )

    def cancel(self) -> None:
        """End the job if it has not ended: the next test is to find nothing of it."""
        if not self._client.get_job_status().result().is_globally_terminal_state():
            self._client.cancel().result()

    def wait_for_failure(self) -> None:
        """Wait until the attempt has failed."""
        self._processes.wait_until(lambda: self.failures, "the attempt has failed", seconds=90)

    def go_on(self) -> None:
        """Open the gate and wait for the end: each count of each key is there once."""
        (self._directory / "open").touch()
        self._client.get_job_execution_result().result()
        assert visible_lines(self._directory / "out") == EXPECTED
        self._processes.wait_until_no_slot()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory) -> Path:
    """Where Spark keeps what it has on disk."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture
def stop(new_environment, scratch, tmp_path, processes) -> Iterator[Callable[..., Stopped]]:
    def start(*, carried: bool = False, stays: bool = True, **more: str) -> Stopped:
        options = {
            "millstream.epoch.carried-bytes": 1 << 20 if carried else 0,
            "millstream.epoch.carrier-hold": "60 s" if stays else 0,
            "millstream.epoch.fixed-records": 100,
            "execution.checkpointing.interval": "1 ms",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 3,
            "restart-strategy.fixed-delay.delay": "10 ms",
            "spark.local.dir": str(scratch),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            **{f"millstream.slot.{key}": value for key, value in more.items()},
        }
        jobs.append(Stopped(new_environment(CLUSTER, 2, options), tmp_path, processes))
        jobs[-1].wait_for_gate()
        return jobs[-1]

    jobs: list[Stopped] = []
    yield start
    (tmp_path / "open").touch()  # whatever happened: no slot waits for ever
    for job in jobs:
        job.cancel()


def kill_all(processes, pids) -> None:
    """Kill, and see that they are gone."""
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    processes.wait_until(
        lambda: not any(Path(f"/proc/{pid}/fd").exists() and is_alive(pid) for pid in pids), "gone"
    )


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("carried", [False, True])
def test_slot_that_is_killed_ends_the_attempt(stop, processes, carried):
    job = stop(carried=carried)
    kill_all(processes, [job.slot])
    job.wait_for_failure()
    job.go_on()
    (failure,) = job.failures
    assert f"slot 1 (process {job.slot} on" in failure


def test_slot_that_ends_while_nobody_asks_it_is_missed_at_once(stop, processes):
    job = stop(timeout="600 s", lease="1800 s")  # it is pinged every 150 s
    job.wait_for_first_subtask()
    idle = [pid for pid in processes.find(SLOT) if pid != job.slot]
    kill_all(processes, idle)
    job.wait_for_failure()  # before anybody has a reason to ask it: the gate is shut
    job.go_on()
    (failure,) = job.failures
    assert f"slot 0 (process {idle[0]} on" in failure


def test_slot_that_waits_for_a_slower_one_is_asked_for_nothing_and_keeps_its_lease(stop):
    job = stop(lease="1 s")
    job.wait_for_first_subtask()
    time.sleep(3)
    job.go_on()
    assert job.failures == []


@pytest.mark.parametrize("carried", [False, pytest.param(True, marks=pytest.mark.long)])
def test_slot_that_hangs_is_taken_for_lost_after_its_time_out(stop, carried):
    job = stop(carried=carried, timeout="4 s")
    os.kill(job.slot, signal.SIGSTOP)
    job.wait_for_failure()
    job.go_on()
    assert "silent for 4 s" in job.failures[0]


@pytest.mark.parametrize(("carried", "stays"), [(False, False), (True, False), (True, True)])
def test_task_that_is_killed_is_repeated_and_nothing_runs_twice(stop, carried, stays):
    job = stop(carried=carried, stays=stays)
    assert [task[0] for task in job.tasks()] == ([0] if carried else [0, 1])
    (task,) = [task[2] for task in job.tasks() if task[0] == job.waiting]
    assert job.spark._jsc.sc().killTaskAttempt(task, True, "by a test")
    job.wait_for_repetition()
    assert (job.waiting, 0, task, "KILLED") in job.tasks()
    job.go_on()
    assert job.failures == []


@pytest.mark.parametrize("carried", [False, True])
def test_python_workers_that_are_killed_are_replaced_and_nothing_runs_twice(stop, processes, carried):
    job = stop(carried=carried)
    if not carried:
        job.wait_for_first_subtask()
    found = processes.find("pyspark.daemon")
    kill_all(processes, [pid for pid in found if parent(pid) in found])
    job.wait_for_repetition()
    assert (job.waiting, 0, "FAILED") in [(task[0], task[1], task[3]) for task in job.tasks()]
    job.go_on()
    assert job.failures == []


@pytest.mark.parametrize("carried", [False, True])
def test_daemons_of_python_workers_that_are_killed_are_replaced_and_nothing_runs_twice(
    stop, processes, carried
):
    job = stop(carried=carried)
    kill_all(processes, processes.find("pyspark.daemon"))
    job.wait_for_repetition()
    job.go_on()
    assert job.failures == []


def test_shuffle_files_that_are_removed_are_written_again_from_what_slots_keep(stop, scratch):
    job = stop()
    job.wait_for_first_subtask()
    files = list(scratch.rglob("shuffle_*"))
    assert {path.suffix for path in files} >= {".data", ".index"}
    for path in files:
        path.unlink()
    job.go_on()
    store = job.spark._jsc.sc().statusStore()
    assert store.lastStageAttempt(job.stage).attemptId() == 1, "Spark ran the stage once more"
    assert job.failures == []


def test_everything_on_spark_s_disks_is_removed_and_then_a_slot_is_lost(stop, scratch, processes):
    job = stop()
    job.wait_for_first_subtask()
    files = [path for path in scratch.rglob("*") if path.is_file()]
    assert any("broadcast" in str(path) for path in files), files
    for path in files:
        path.unlink()
    kill_all(processes, [job.slot])
    job.wait_for_failure()
    job.go_on()
    assert len(job.failures) == 1


@pytest.mark.parametrize("carried", [pytest.param(False, marks=pytest.mark.long), True])
def test_executor_that_is_killed_takes_its_slots_along_and_the_attempt_is_repeated(stop, processes, carried):
    job = stop(carried=carried)
    if not carried:
        job.wait_for_first_subtask()
    kill_all(processes, processes.find(EXECUTOR)[:1])
    job.wait_for_failure()
    job.go_on()
    assert len(job.failures) >= 1


@pytest.mark.parametrize("carried", [pytest.param(False, marks=pytest.mark.long), True])
def test_all_executors_are_killed_at_once(stop, processes, carried):
    job = stop(carried=carried)
    # Those of the test before were killed too, and on a loaded machine the second new one takes its time.
    processes.wait_until(lambda: len(processes.find(EXECUTOR)) == 2, "both executors are there")
    kill_all(processes, processes.find(EXECUTOR))
    job.wait_for_failure()
    job.go_on()
    assert len(job.failures) >= 1


PROGRAM = """
import sys
sys.path.append({tests!r})
from pathlib import Path
from test_losses import build
from millstream.datastream import StreamExecutionEnvironment

environment = StreamExecutionEnvironment.get_execution_environment()
environment.set_parallelism(2)
build(environment, Path({directory!r}))
environment.execute("counting")
"""


def test_driver_that_is_killed_goes_on_where_it_was(tmp_path, marked):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(tests=str(Path(__file__).parent), directory=str(tmp_path)))
    options = {
        "millstream.epoch.fixed-records": "100",
        "execution.checkpointing.interval": "1 ms",
        "high-availability.storageDir": str(tmp_path / "ha"),
    }
    command = [sys.executable, "-m", "millstream.cli.main", "run", "--target", "local[2]", "--recover"]
    command += [word for key, value in options.items() for word in ("-D", f"{key}={value}")]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*command, str(program)], env={**os.environ, "MILLSTREAM_TEST_RUN": marked.mark}
        )

    driver = start()
    try:
        marked.wait_until((tmp_path / "reached").exists, "a subtask stands at the gate", seconds=120)
        assert list((tmp_path / "ha").glob("*.recovery")), "there is a checkpoint to go on from"
        driver.kill()
        driver.wait()
        marked.wait_until_no_slot()
        (tmp_path / "open").touch()
        driver = start()
        assert driver.wait(timeout=200) == 0
    finally:
        driver.kill()
        driver.wait()
    assert visible_lines(tmp_path / "out") == EXPECTED
    marked.wait_until_no_slot()
