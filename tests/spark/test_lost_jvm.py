"""The JVM of Spark's driver is killed: the job goes on in another, or ends and says why; nothing is lost or doubled."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = """
import contextlib, pathlib, sys, threading, time
from pyspark import SparkContext
from millstream.common import Configuration, Encoder, Types, WatermarkStrategy
from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.connectors.file_system import FileSink
from millstream.datastream.state import ValueStateDescriptor

directory, master, session, kills = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
RECORDS = 8_000

class Count(KeyedProcessFunction):
    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
    def process_element(self, value, context):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value % 7}:{count}"

def newest():
    newest = 0
    for path in pathlib.Path(directory, "ha").glob("*.recovery"):
        with contextlib.suppress(FileNotFoundError):  # the next one has taken its place
            newest = max(newest, path.stat().st_mtime_ns)
    return newest

def wait_for(condition):
    while not condition():
        time.sleep(0.02)

def kill():
    killed = None
    for _ in range(kills):
        wait_for(lambda: SparkContext._gateway not in (None, killed))
        stamp, gateway = newest(), SparkContext._gateway
        wait_for(lambda: newest() > stamp)  # a checkpoint of this JVM's is there, and the next is on its way
        time.sleep(0.4)
        print("killed", gateway.proc.pid, flush=True)
        gateway.proc.kill()
        killed = gateway

if session == "given":
    from millstream.runtime.spark.session import SessionConfig, open_session
    handle = open_session(SessionConfig(master=master))  # as any program may: millstream finds it
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({
    "high-availability.storageDir": directory + "/ha",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 5,
    "restart-strategy.fixed-delay.delay": "100 ms",
    "execution.checkpointing.interval": "200 ms"}))
env.set_parallelism(2)
source = DataGeneratorSource(lambda index: index, RECORDS, RateLimiterStrategy.per_second(2000), Types.LONG())
stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").key_by(lambda value: value % 7)
sink = FileSink.for_row_format(directory + "/out", Encoder.simple_string_encoder()).build()
stream.process(Count(), Types.STRING()).sink_to(sink)
threading.Thread(target=kill, daemon=True).start()
client = env.execute_async("counting")
client.get_job_execution_result().result()
print("restarts", len(client.get_failures().result()), flush=True)
"""

EXPECTED = Counter(f"{key}:{count}" for key in range(7) for count in range(1, len(range(key, 8_000, 7)) + 1))


def start(tmp_path: Path, master: str, session: str, kills: int, *, recover: bool = False):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "millstream.cli.main", "run", "--target", master]
    command += ["--recover"] if recover else []
    return subprocess.run(
        [*command, str(program), str(tmp_path), master, session, str(kills)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def lines(directory: Path) -> Counter[str]:
    files = [path for path in directory.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    return Counter(line for path in files for line in path.read_text().splitlines())


@pytest.mark.parametrize(
    ("master", "kills"), [("local[2]", 1), pytest.param("local-cluster[2,1,1024]", 2, marks=pytest.mark.long)]
)
def test_a_job_whose_jvm_is_killed_goes_on_in_another(tmp_path, master, kills):
    ended = start(tmp_path, master, "own", kills)
    assert ended.returncode == 0, ended.stderr
    assert f"restarts {kills}" in ended.stdout
    assert len(set(ended.stdout.split("killed ")[1:])) == kills, "another process each time"
    assert "the JVM of Spark's driver has ended, and another is started" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert lines(tmp_path / "out") == EXPECTED


def test_a_job_in_a_session_of_the_program_ends_and_can_be_recovered(tmp_path):
    ended = start(tmp_path, "local[2]", "given", 1)
    assert ended.returncode == 75, ended.stderr
    assert "the JVM of the Spark session that the program opened has ended" in ended.stderr
    assert "--recover" in ended.stderr
    assert list((tmp_path / "ha").glob("*.recovery"))
    again = start(tmp_path, "local[2]", "given", 0, recover=True)
    assert again.returncode == 0, again.stderr
    assert lines(tmp_path / "out") == EXPECTED
