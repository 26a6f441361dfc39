"""A carrier that stays takes no core from others for long, ends with its job, and changes no result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import SparkContext

from millstream.base.errors import JobExecutionError
from millstream.common import WatermarkStrategy
from millstream.common.job_status import JobStatus
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.functions import SinkFunction

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SETTINGS = {"millstream.epoch.carrier-hold": "60 s"}  # a stay that ends, ends for another reason


class Append(SinkFunction):
    """Writes each record as a line of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def invoke(self, value, context):
        with self.path.open("a") as file:
            file.write(f"{value}\n")


def lines(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def begin(environment, path, *, per_second=None, count=None, name="job"):
    """Begin a job with an exchange that writes numbers to a file; without a count it never ends."""
    rate = RateLimiterStrategy.per_second(per_second) if per_second else None
    source = DataGeneratorSource(lambda index: index, count, rate)
    numbers = environment.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda value: value % 7).map(lambda value: value).add_sink(Append(path))
    return environment.execute_async(name)


def spark() -> SparkContext:
    context = SparkContext._active_spark_context
    assert context is not None
    return context


def active_jobs() -> list[int]:
    return spark().statusTracker().getActiveJobsIds()


def descriptions() -> list[str]:
    """Return what Spark shows of the jobs it has run, the latest first."""
    jobs = spark()._jsc.sc().statusStore().jobsList(None)
    found = [jobs.apply(number).description() for number in range(jobs.size())]
    return [each.get() for each in found if each.isDefined()]


@pytest.fixture
def begin_job(new_environment):
    """Begin jobs that are cancelled at the end of the test."""
    clients = []

    def start(target, path, **more):
        clients.append(begin(new_environment(target, int(target[6]), SETTINGS), path, **more))
        return clients[-1]

    yield start
    for client in clients:
        if not client.get_job_status().result().is_globally_terminal_state():
            client.cancel().result()


@pytest.mark.parametrize("target", ["local[1]", "local[2]"])
def test_two_jobs_and_a_query_of_spark_all_get_on(begin_job, processes, tmp_path, target):
    paths = [tmp_path / "first", tmp_path / "second"]
    clients = [begin_job(target, path, per_second=200, name=path.name) for path in paths]
    processes.wait_until(lambda: all(map(lines, paths)), "both jobs write")
    for _ in range(3):
        assert spark().parallelize(range(100), 4).map(lambda value: value * 2).sum() == 9_900
        before = [len(lines(path)) for path in paths]
        processes.wait_until(
            lambda before=before: all(
                len(lines(path)) > many for path, many in zip(paths, before, strict=True)
            ),
            "both jobs go on",
        )
    for client, path in zip(clients, paths, strict=True):
        assert client.get_job_status().result() is JobStatus.RUNNING
        client.cancel().result()
        assert len(set(lines(path))) == len(lines(path)), "no number is there twice"


def test_job_without_input_leaves_spark_no_task(begin_job, processes, tmp_path):
    path = tmp_path / "out"
    client = begin_job("local[2]", path, per_second=0.05)
    processes.wait_until(lambda: lines(path), "the first record is there")
    processes.wait_until(lambda: not active_jobs(), "nothing of Spark's runs", seconds=15)
    assert client.get_job_status().result() is JobStatus.RUNNING


def test_job_is_cancelled_while_a_carrier_stays_and_nothing_is_left(begin_job, processes, tmp_path):
    path = tmp_path / "out"
    client = begin_job("local[2]", path, per_second=500)
    processes.wait_until(lambda: len(lines(path)) > 200, "records flow")
    client.cancel().result()
    with pytest.raises(JobExecutionError, match="the job was cancelled"):
        client.get_job_execution_result().result()
    processes.wait_until_no_slot()
    processes.wait_until(lambda: not active_jobs(), "nothing of Spark's runs", seconds=15)


def test_one_job_of_spark_carries_many_epochs_and_says_which(new_environment, tmp_path):
    path = tmp_path / "out"
    options = {**SETTINGS, "millstream.epoch.fixed-records": 10}
    begin(
        new_environment("local[2]", 2, options), path, count=2_000, name="many"
    ).get_job_execution_result().result()
    assert sorted(lines(path)) == list(range(2_000))
    mine = [each for each in descriptions() if each.startswith("many: ")]
    assert "many: epochs from 1 on" in mine
    assert len(mine) < 20, "of a hundred epochs"


def test_without_a_stay_each_epoch_is_a_job(new_environment, tmp_path):
    path = tmp_path / "out"
    options = {"millstream.epoch.carrier-hold": 0, "millstream.epoch.fixed-records": 100}
    begin(
        new_environment("local[2]", 2, options), path, count=1_000, name="single"
    ).get_job_execution_result().result()
    assert sorted(lines(path)) == list(range(1_000))
    assert {f"single: epoch {number}" for number in range(1, 6)} <= set(descriptions())
    assert not [each for each in descriptions() if each.startswith("single: epochs")]


class Swell:
    """Makes much of some records: their epochs are too large for a carrier."""

    def __call__(self, value):
        return [value, "x" * 50_000] if value % 300 == 150 else [value]


def test_large_epochs_between_small_ones_lose_and_double_nothing(new_environment, tmp_path):
    path = tmp_path / "out"
    options = {**SETTINGS, "millstream.epoch.fixed-records": 10, "millstream.epoch.carried-bytes": 10_000}
    environment = new_environment("local[2]", 2, options)
    source = DataGeneratorSource(lambda index: index, 1_200)
    numbers = environment.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    keyed = numbers.flat_map(Swell()).key_by(lambda value: len(str(value)))
    keyed.map(lambda value: len(value) if isinstance(value, str) else value).add_sink(Append(path))
    environment.execute("swelling")
    assert sorted(lines(path)) == sorted([*range(1_200), *[50_000] * 4])
    mine = [each for each in descriptions() if each.startswith("swelling: ")]
    assert [each for each in mine if "from" not in each], "large epochs are jobs of their own"
    assert [each for each in mine if "from" in each]


def test_python_worker_that_is_killed_in_local_mode_costs_no_record(new_environment, processes, tmp_path):
    path = tmp_path / "out"
    options = {
        **SETTINGS,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 20,
        "restart-strategy.fixed-delay.delay": "10 ms",
        "execution.checkpointing.interval": "50 ms",
    }
    client = begin(new_environment("local[2]", 2, options), path, per_second=200, count=2_000)
    for wanted in (200, 700, 1_200):
        processes.wait_until(lambda wanted=wanted: len(set(lines(path))) > wanted, "records flow")
        daemons = processes.find("pyspark.daemon")
        for worker in [pid for pid in daemons if _parent(pid) in daemons]:
            os.kill(worker, signal.SIGKILL)
    client.get_job_execution_result().result()
    assert sorted(set(lines(path))) == list(range(2_000)), (
        "a sink that does not wait for checkpoints may double"
    )


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


PROGRAM = """
import sys
sys.path.append({tests!r})
from pathlib import Path
from test_staying import SETTINGS, begin
from millstream.common import Configuration
from millstream.datastream import StreamExecutionEnvironment

configuration = Configuration.from_dict({{"execution.target": "local[2]", **SETTINGS}})
environment = StreamExecutionEnvironment.get_execution_environment(configuration)
client = begin(environment, Path({path!r}), per_second=500)
"""
WAITS = "client.get_job_execution_result().result()\n"
STOPS = """
import time
from pyspark import SparkContext
while len(Path({path!r}).read_text().splitlines() if Path({path!r}).exists() else ()) < 200:
    time.sleep(0.05)
SparkContext._active_spark_context.stop()
try:
    client.get_job_execution_result().result()
except Exception as error:
    print(error)
open({ended!r}, "w").close()
open({leave!r}).close()
"""


def test_task_ends_with_a_driver_that_is_killed(marked, tmp_path):
    path = tmp_path / "out"
    program = PROGRAM.format(tests=str(Path(__file__).parent), path=str(path)) + WAITS
    driver = subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, "MILLSTREAM_TEST_RUN": marked.mark}
    )
    try:
        marked.wait_until(lambda: len(lines(path)) > 200, "records flow")
    finally:
        driver.kill()
        driver.wait()
    marked.wait_until(lambda: not marked.find(""), "everything ended", seconds=30)


def test_context_that_is_stopped_in_a_stay_ends_the_job_and_its_slots_and_is_named(marked, tmp_path):
    path, ended, leave = tmp_path / "out", tmp_path / "ended", tmp_path / "leave"
    os.mkfifo(leave)
    program = (PROGRAM + STOPS).format(
        tests=str(Path(__file__).parent), path=str(path), ended=str(ended), leave=str(leave)
    )
    driver = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "MILLSTREAM_TEST_RUN": marked.mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        marked.wait_until(ended.exists, "the job ended")
        marked.wait_until_no_slot()  # while the program goes on
        leave.write_text("")
        told, said = driver.communicate(timeout=60)
    finally:
        driver.kill()
        driver.wait()
    assert "Spark's context was stopped while the job ran" in told
    assert "Traceback" not in said, said
    assert driver.returncode == 0
