"""Jobs on clusters of processes, and drivers and executors that are killed; each in an interpreter of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home

import millstream
from millstream.runtime.spark import java, jvm

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = str(Path(millstream.__file__).resolve().parents[1])
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
PROGRAM = """
import json, os, sys
from pathlib import Path
from millstream.common import WatermarkStrategy
from millstream.config.configuration import Configuration
from millstream.datastream import MapFunction, StreamExecutionEnvironment
from millstream.datastream.connectors.number_seq import NumberSequenceSource

RUNNING = Path(__file__).with_name("running").resolve()

class Counting(MapFunction):
    def __init__(self):
        self.opened = self.count = 0
    def open(self, runtime_context):
        self.opened += 1
        self.subtask = runtime_context.get_index_of_this_subtask()
    def map(self, value):
        self.count += 1
        return [self.subtask, os.getpid(), id(self), self.opened, self.count]

def numbers(last):
    options = {"execution.target": sys.argv[1], "millstream.epoch.fixed-records": 10,
               "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
               "spark.cores.max": 2, "spark.scheduler.minRegisteredResourcesRatio": "1.0"}
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    environment.set_parallelism(2)
    source = NumberSequenceSource(1, last)
    return environment, environment.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")

def count():
    # behind an exchange, so that blocks travel as well
    with numbers(60)[1].rebalance().map(Counting()).execute_and_collect() as records:
        print(json.dumps(sorted(records)), flush=True)

def tell_and_drop(value):
    RUNNING.touch()
    return False

def run_for_ever():
    environment, stream = numbers(10**15)
    stream.key_by(lambda value: value % 5).filter(tell_and_drop).print()
    try:
        environment.execute("endless")
    except Exception as error:
        print(json.dumps([type(error).__name__, str(error), type(error.__cause__).__name__]), flush=True)

if __name__ == "__main__":
    for step in sys.argv[2:]:
        globals()[step]()
    sys.stdin.readline()  # until the test has looked
"""


class Driver:
    """A program in an interpreter of its own."""

    def __init__(self, directory: Path, mark: str, *arguments: str) -> None:
        script = directory / "program.py"
        script.write_text(PROGRAM)
        self._errors = directory / "errors"
        self._running = directory / "running"
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(script), *arguments],
                env={**os.environ, "PYTHONPATH": ROOT, "MILLSTREAM_TEST_RUN": mark},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def read(self):
        """Return the next line of output, decoded."""
        line = self.process.stdout.readline()
        assert line, self._errors.read_text()
        return json.loads(line)

    def is_running_records(self) -> bool:
        """Tell whether the endless job has run one."""
        return self._running.exists()

    def end(self) -> None:
        try:
            self.process.communicate("\n", timeout=30)
        finally:
            self.process.kill()


@pytest.fixture
def start(tmp_path, marked) -> Iterator:
    drivers: list[Driver] = []

    def start(*arguments: str) -> Driver:
        drivers.append(Driver(tmp_path, marked.mark, *arguments))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.process.kill()
        driver.process.communicate()


def check_members(records) -> None:
    """One process, one instance, opened once, in each subtask; every record counted by it."""
    for subtask in range(2):
        seen = [record for record in records if record[0] == subtask]
        assert len({tuple(record[1:4]) for record in seen}) == 1
        assert seen[0][3] == 1
        assert [record[4] for record in seen] == list(range(1, 31))
    assert len({record[1] for record in records}) == 2


def test_local_cluster_keeps_members_and_loses_a_job_with_its_executors(start, marked):
    driver = start(LOCAL_CLUSTER, "count", "run_for_ever")
    check_members(driver.read())
    # Slots lost while they are being started would only be started again.
    marked.wait_until(driver.is_running_records, "the second job runs records")
    for executor in marked.find(
        "CoarseGrainedExecutorBackend"
    ):  # Spark may put both slots beside one of them
        os.kill(executor, signal.SIGKILL)
    assert_slot_lost(driver.read())
    marked.wait_until_no_slot()
    driver.end()


def assert_slot_lost(outcome) -> None:
    kind, message, cause = outcome
    assert (kind, cause) == ("JobExecutionError", "SlotLostError")
    assert 'job "endless" failed' in message and "[SLOT_LOST]" in message


def test_slots_end_when_the_driver_is_killed(start, marked):
    driver = start("local[2]", "run_for_ever")
    marked.wait_until(driver.is_running_records, "the job runs records")
    assert len(marked.slots()) == 2
    driver.process.kill()
    marked.wait_until_no_slot()


@pytest.fixture
def standalone(tmp_path, marked) -> Iterator[str]:
    """A master and two workers on the loopback interface; the master's URL."""
    scratch = tmp_path / "spark"
    scratch.mkdir()
    runtime = java.find_java()
    # As for a local cluster: executors get a SPARK_HOME that can be written to and a Java that starts them.
    environment = {
        **os.environ,
        **jvm._jvm_environment(runtime, {"spark.master": LOCAL_CLUSTER}, str(scratch)),
    }
    environment["MILLSTREAM_TEST_RUN"] = marked.mark
    command = [
        runtime.path,
        *jvm._module_options(runtime.version),
        "-Xmx256m",
        "-Dspark.master.rest.enabled=false",
        "-cp",
        os.path.join(_find_spark_home(), "jars", "*"),
    ]
    running: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> Path:
        log = tmp_path / f"{name}{len(running)}.log"
        with log.open("w") as stream:
            running.append(
                subprocess.Popen(
                    [*command, f"org.apache.spark.deploy.{name.lower()}.{name}", "--host", "127.0.0.1",
                     "--port", "0", "--webui-port", "0", *arguments],
                    env=environment, stdout=stream, stderr=stream,
                )
            )  # fmt: skip
        return log

    try:
        log = start("Master")
        marked.wait_until(
            lambda: re.search(r"Starting Spark master at (spark://\S+)", log.read_text()), "master"
        )
        url = re.findall(r"Starting Spark master at (spark://\S+)", log.read_text())[0]
        for number in range(2):
            start(
                "Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / f"work{number}"), url
            )
        marked.wait_until(lambda: log.read_text().count("Registering worker") == 2, "two workers")
        yield url
    finally:
        for process in running:
            process.kill()
            process.wait()


def test_standalone_cluster_keeps_members(start, marked, standalone):
    driver = start(standalone, "count")
    check_members(driver.read())
    assert len(marked.find("CoarseGrainedExecutorBackend")) == 2
    marked.wait_until_no_slot()
    driver.end()
