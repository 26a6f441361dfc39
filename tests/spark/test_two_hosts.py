"""Jobs on a cluster of two hosts that share an installation and one directory, and lose one another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from two_hosts import ROOT, Cluster, Host, NotPermittedError, make_hosts

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

KEYS = 20
PROGRAM = """
import sys
from millstream.common import Configuration, Encoder, Types, WatermarkStrategy
from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import FileSink, RollingPolicy
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.state import ValueStateDescriptor

target, gateway, directory, checkpoints = sys.argv[1:5]
records, keys = map(int, sys.argv[5:])

class Count(KeyedProcessFunction):
    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
    def process_element(self, value, context):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{context.get_current_key()}:{count}"

options = {
    "execution.target": target,
    "execution.checkpointing.interval": "500 ms", "execution.checkpointing.dir": checkpoints,
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 10,
    "restart-strategy.fixed-delay.delay": "50 ms",
    "millstream.slot.timeout": "5 s", "millstream.slot.lease": "12 s",
    "spark.driver.host": gateway, "spark.driver.bindAddress": gateway,
    "spark.cores.max": 2, "spark.scheduler.minRegisteredResourcesRatio": "1.0"}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
env.set_parallelism(2)
source = DataGeneratorSource(lambda index: index, records, RateLimiterStrategy.per_second(2_000), Types.LONG())
stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
counted = stream.key_by(lambda value: value % keys).process(Count(), Types.STRING()).uid("count")
sink = FileSink.for_row_format(directory, Encoder.simple_string_encoder())
sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
counted.sink_to(sink.build()).uid("files")
env.execute("counting")
"""


@dataclass
class Setting:
    """The hosts, their cluster, and what they share."""

    gateway: str
    hosts: list[Host]
    cluster: Cluster
    shared: Path
    environment: dict[str, str]

    def start_job(self, name: str, records: int) -> Job:
        """Start a driver on this machine."""
        return Job(self, name, records)


class Job:
    """A job that counts numbers for each key, and its driver."""

    def __init__(self, setting: Setting, name: str, records: int) -> None:
        self.records = records
        self.output = setting.shared / name
        program = setting.shared / "program.py"
        program.write_text(PROGRAM)
        self._log = setting.shared / f"{name}.log"
        checkpoints = setting.shared / f"{name}-checkpoints"
        arguments = [setting.cluster.url, setting.gateway, self.output, checkpoints, records, KEYS]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, program, *map(str, arguments)],
                env=setting.environment,
                stdout=log,
                stderr=log,
            )

    def lines(self) -> Counter[str]:
        """Return what readers of the output see."""
        files = [
            path for path in self.output.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))
        ]
        return Counter(line for path in files for line in path.read_text().splitlines())

    def log(self) -> str:
        """Return what the driver said."""
        return self._log.read_text()

    def has_more_than(self, lines: int) -> bool:
        """Tell whether more than so many lines are visible."""
        assert self.process.poll() in (None, 0), self.log()
        return self.lines().total() > lines

    def check_end(self) -> None:
        """Wait for the end: each count of each key is there once."""
        assert self.process.wait(timeout=200) == 0, self.log()
        assert self.lines() == Counter(
            f"{key}:{count}"
            for key in range(KEYS)
            for count in range(1, len(range(key, self.records, KEYS)) + 1)
        )


@pytest.fixture(scope="module")
def mark() -> str:
    return uuid.uuid4().hex


@pytest.fixture(scope="module")
def setting(tmp_path_factory, mark) -> Iterator[Setting]:
    directory = tmp_path_factory.mktemp("hosts")
    shared = directory / "shared"
    shared.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MILLSTREAM_TEST_RUN": mark}
    try:
        with make_hosts(directory, shared) as (gateway, hosts):
            cluster = Cluster(shared, gateway, hosts, environment)
            try:
                yield Setting(gateway, hosts, cluster, shared, environment)
            finally:
                cluster.stop()
    except NotPermittedError as error:
        pytest.skip(f"no hosts of namespaces here: {error}")


@pytest.fixture
def processes_of_hosts(setting, mark, processes):
    """Processes of the hosts and the drivers."""
    return type(processes)(mark)


@pytest.fixture
def start_job(setting) -> Iterator:
    jobs: list[Job] = []

    def start(name: str, records: int) -> Job:
        jobs.append(setting.start_job(name, records))
        return jobs[-1]

    yield start
    for job in jobs:
        job.process.kill()
        job.process.wait()


def slots_by_host(setting, found) -> list[list[int]]:
    return [[pid for pid in found.slots() if host.has(pid)] for host in setting.hosts]


def lose(setting, found, job, how) -> tuple[list[int], int]:
    """Wait until the job runs on both hosts, then lose the second; return its slots and the lines until then."""
    found.wait_until(lambda: job.has_more_than(0), "the first output", seconds=150)
    slots = slots_by_host(setting, found)
    assert [len(each) for each in slots] == [1, 1], "a slot on each host"
    how(setting.hosts[1])
    return slots[1], job.lines().total()


def test_executor_of_one_host_that_is_killed_is_replaced(setting, processes_of_hosts, start_job):
    found = processes_of_hosts
    job = start_job("executor", 30_000)

    def kill_executor(host):
        (executor,) = [
            pid for pid in found.find("CoarseGrainedExecutorBackend --driver-url") if host.has(pid)
        ]
        os.kill(executor, signal.SIGKILL)

    lost, before = lose(setting, found, job, kill_executor)
    found.wait_until(lambda: job.has_more_than(before), "output after the loss", seconds=60)
    assert not set(lost) & set(found.slots())
    assert "repeated in 50 ms" in job.log()
    job.check_end()


def test_host_that_is_cut_off_goes_on_unheard_and_ends_by_its_lease(setting, processes_of_hosts, start_job):
    found = processes_of_hosts
    job = start_job("cut", 50_000)
    zombies, before = lose(setting, found, job, Host.cut)
    time.sleep(2)
    assert set(zombies) <= set(found.slots()), "they have not noticed"
    # It was noticed within the slot's time-out, not within Spark's minutes.
    found.wait_until(lambda: job.has_more_than(before + 4_000), "output after the loss", seconds=60)
    assert len(slots_by_host(setting, found)[0]) == 2, "both slots on the host that is left"
    assert "repeated in 50 ms" in job.log()
    found.wait_until(
        lambda: not set(zombies) & set(found.slots()), "slots that nobody asks have ended", seconds=40
    )
    setting.hosts[1].mend()
    job.check_end()


def test_host_that_is_lost_with_all_its_processes_is_done_without(setting, processes_of_hosts, start_job):
    found = processes_of_hosts
    job = start_job("lost", 40_000)

    def lose_all(host):
        host.cut()  # first, so that nobody is told of connections that end
        host.end()

    lost, before = lose(setting, found, job, lose_all)
    assert not set(lost) & set(found.slots())
    found.wait_until(lambda: job.has_more_than(before), "output after the loss", seconds=60)
    assert "repeated in 50 ms" in job.log()
    job.check_end()
