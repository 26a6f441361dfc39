"""The recipe for YARN, on Hadoop's mini cluster: client and cluster mode, application master killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from servers.process import free_port
from servers.yarn import YarnServer

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(2400)]

ROOT = Path(__file__).parents[2]
RECORDS, KEYS = 4_000, 20
PROGRAM = """
import sys
import millstream
from millstream.common import Encoder, Types, WatermarkStrategy
from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.connectors.file_system import FileSink, RollingPolicy
from millstream.datastream.state import ValueStateDescriptor

class Count(KeyedProcessFunction):
    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.where = __import__("millstream").__file__
    def process_element(self, value, context):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{context.get_current_key()}:{count} {self.where}"

output, records, keys = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda index: index, records, RateLimiterStrategy.per_second(200), Types.LONG())
stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
counted = stream.key_by(lambda value: value % keys).process(Count(), Types.STRING()).uid("count")
sink = FileSink.for_row_format(output, Encoder.simple_string_encoder())
counted.sink_to(sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()).uid("files")
env.execute("counting")
"""


@pytest.fixture(scope="module")
def yarn(tmp_path_factory):
    server = YarnServer(tmp_path_factory.mktemp("yarn"))
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="module")
def environment_archive(tmp_path_factory):
    directory = tmp_path_factory.mktemp("packed")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(directory), str(ROOT)]
    subprocess.run(pip, check=True, timeout=280)
    (wheel,) = directory.glob("*.whl")
    archive = directory / "environment.tgz"
    command = [sys.executable, str(ROOT / "deploy" / "pack.py"), str(archive), "--millstream", str(wheel)]
    subprocess.run([*command, "hdfs-native>=0.14,<0.15"], check=True, timeout=280)
    return archive


def read_lines(output: Path) -> list[str]:
    visible = [path for path in output.rglob("*") if path.is_file() and path.name[0] not in "._"]
    return [line for path in visible for line in path.read_text().splitlines()]


def check_counts(lines: list[str]) -> None:
    wanted = sorted(f"{key}:{n}" for key in range(KEYS) for n in range(1, RECORDS // KEYS + 1))
    assert sorted(line.split()[0] for line in lines) == wanted


def wait_until(condition, story, seconds: float = 900):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, story()
        time.sleep(0.2)
    return found


def program_in(directory: Path) -> Path:
    program = directory / "job.py"
    program.write_text(PROGRAM)
    return program


def test_client_mode(yarn, tmp_path):
    options = {
        "execution.checkpointing.interval": "500 ms",
        "high-availability.storageDir": f"{yarn.uri}/client",
        "rest.port": str(free_port()),
        "spark.executor.instances": "2",
        "spark.executor.memory": "512m",
        "spark.executor.memoryOverhead": "256m",
        "spark.yarn.am.memory": "384m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.yarn.jars": f"local:{spark_home()}/jars/*",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    }
    command = [sys.executable, "-m", "millstream.cli", "run-application", "--target", "yarn", "-p", "2"]
    command += [f"-D{key}={value}" for key, value in options.items()]
    command += [str(program_in(tmp_path)), str(tmp_path / "out"), str(RECORDS), str(KEYS)]
    environment = os.environ | yarn.environment
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=900, env=environment, cwd=tmp_path
    )
    assert ended.returncode == 0, ended.stderr + yarn.logs()
    check_counts(read_lines(tmp_path / "out"))


def spark_home() -> str:
    import pyspark

    return os.path.dirname(pyspark.__file__)


def test_cluster_mode_with_its_application_master_killed(yarn, tmp_path, environment_archive):
    program = program_in(tmp_path)
    output, log = tmp_path / "out", tmp_path / "log"
    settings = {
        "spark.yarn.jars": f"local:{spark_home()}/jars/*",
        "spark.executor.memoryOverhead": "256m",
        "spark.driver.memoryOverhead": "512m",
        "spark.yarn.appMasterEnv.PYSPARK_PYTHON": sys.executable,
        "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    }
    command = [str(ROOT / "deploy" / "yarn" / "submit.sh"), "--name", "counting on YARN"]
    command += [
        "--num-executors",
        "2",
        "--executor-cores",
        "1",
        "--executor-memory",
        "512m",
        "--driver-memory",
        "512m",
    ]
    command += [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    command += ["--", "-p", "2", "-D", "execution.checkpointing.interval=500 ms", str(program), str(output)]
    before = {each["id"] for each in yarn.applications()}
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        **yarn.environment,
        "PYTHON": sys.executable,
        "PYSPARK_PYTHON": sys.executable,
        "ENVIRONMENT": str(environment_archive),
        "STORAGE": f"{yarn.uri}/cluster",
    }
    with log.open("wb") as stream:
        submitted = subprocess.Popen(
            [*command, str(RECORDS), str(KEYS)], env=environment, stdout=stream, stderr=stream, cwd=tmp_path
        )
    try:

        def story() -> str:
            return log.read_text()[-6000:] + yarn.logs()

        wait_until(lambda: submitted.poll() is not None or len(read_lines(output)) > RECORDS // 10, story)
        (master,) = yarn.application_masters()
        os.kill(master, signal.SIGKILL)
        assert submitted.wait(900) == 0, story()
    finally:
        submitted.kill()
        submitted.wait()
    (application,) = (each for each in yarn.applications() if each["id"] not in before)
    assert (application["finalStatus"], application["name"]) == ("SUCCEEDED", "counting on YARN")
    lines = read_lines(output)
    check_counts(lines)
    # Where YARN has unpacked the archive; the name "environment" in a container is a link to it.
    assert {line.split()[1].rpartition("/environment.tgz/")[2] for line in lines} == {
        "millstream/__init__.py"
    }
