"""The recipe for Spark standalone: two hosts that have Spark and Python, and get millstream with the job."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from two_hosts import NotPermittedError, make_hosts

from servers.process import free_port

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROOT = Path(__file__).parents[2]
RECORDS, KEYS = 8_000, 20
PROGRAM = """
import socket, sys
import helper
import millstream
from millstream.common import Encoder, Types, WatermarkStrategy
from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.connectors.file_system import FileSink, RollingPolicy
from millstream.datastream.state import ValueStateDescriptor

class Count(KeyedProcessFunction):
    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
        here = __import__("millstream").__file__
        self.where = f"{socket.gethostname()} {here} {helper.VALUE}"
    def process_element(self, value, context):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{context.get_current_key()}:{count} {self.where}"

output, records, keys = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda index: index, records, RateLimiterStrategy.per_second(800), Types.LONG())
stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
counted = stream.key_by(lambda value: value % keys).process(Count(), Types.STRING()).uid("count")
sink = FileSink.for_row_format(output, Encoder.simple_string_encoder())
counted.sink_to(sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()).uid("files")
env.execute("counting")
"""


@pytest.fixture(scope="module")
def environment_archive(tmp_path_factory):
    directory = tmp_path_factory.mktemp("packed")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(directory), str(ROOT)]
    subprocess.run(pip, check=True, timeout=280)
    (wheel,) = directory.glob("*.whl")
    archive = directory / "environment.tgz"
    command = [sys.executable, str(ROOT / "deploy" / "pack.py"), str(archive), "--millstream", str(wheel)]
    subprocess.run(command, check=True, timeout=280)
    return archive


def wait_until(condition, log: Path, seconds: float = 180):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    return found


def read_lines(output: Path) -> list[str]:
    visible = [path for path in output.rglob("*") if path.is_file() and path.name[0] not in "._"]
    return [line for path in visible for line in path.read_text().splitlines()]


def test_a_job_on_two_hosts_that_have_only_spark_and_python(tmp_path, environment_archive):
    private, shared = tmp_path / "private", tmp_path / "shared"
    private.mkdir()
    shared.mkdir()
    bare = {name: os.environ[name] for name in ("PATH", "JAVA_HOME", "LANG") if name in os.environ}
    bare |= {"PYTHON": sys.executable, "SPARK_NO_DAEMONIZE": "1"}
    script = str(ROOT / "deploy" / "standalone" / "spark.sh")
    started: list[subprocess.Popen[bytes]] = []
    master_log, log = shared / "master.log", shared / "job.log"
    try:
        with make_hosts(private, shared) as (gateway, hosts):
            port = free_port()
            with master_log.open("wb") as stream:
                arguments = ["master", "--host", gateway, "--port", str(port), "--webui-port", "0"]
                started.append(subprocess.Popen([script, *arguments], env=bare, stdout=stream, stderr=stream))
            url = f"spark://{gateway}:{port}"
            wait_until(lambda: f"Starting Spark master at {url}" in master_log.read_text(), master_log)
            for host in hosts:
                arguments = [
                    "worker",
                    "--host",
                    host.address,
                    "--webui-port",
                    "0",
                    "--cores",
                    "1",
                    "--memory",
                    "1g",
                ]
                arguments += ["--work-dir", "/tmp/work", url]
                started.append(host.start([script, *arguments], bare, shared / f"{host.name}.log"))
            wait_until(lambda: master_log.read_text().count("Registering worker") == 2, master_log)

            (shared / "job.py").write_text(PROGRAM)
            (shared / "helper.py").write_text("VALUE = 'helped'\n")
            options = {
                "execution.checkpointing.interval": "500 ms",
                "high-availability.storageDir": str(shared / "ha"),
                "rest.port": "0",
                "spark.archives": f"{environment_archive}#environment",
                "spark.executorEnv.PYTHONPATH": "./environment",
                "spark.driver.host": gateway,
                "spark.driver.bindAddress": gateway,
                "spark.cores.max": "2",
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            }
            command = [sys.executable, "-m", "millstream.cli", "run-application", "--target", url, "-p", "2"]
            command += [f"-D{key}={value}" for key, value in options.items()]
            command += ["--py-files", str(shared / "helper.py"), str(shared / "job.py")]
            command += [str(shared / "out"), str(RECORDS), str(KEYS)]
            with log.open("wb") as stream:
                application = subprocess.Popen(command, stdout=stream, stderr=stream, cwd=shared)
            started.append(application)
            wait_until(lambda: read_lines(shared / "out"), log)
            pid = application.pid
            driver = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
            os.kill(driver, signal.SIGKILL)
            assert application.wait(240) == 0, log.read_text()
    except NotPermittedError as error:
        pytest.skip(f"namespaces cannot be made here: {error}")
    finally:
        for process in started:
            process.kill()
            process.wait()
    lines = read_lines(shared / "out")
    counted = sorted(line.split()[0] for line in lines)
    assert counted == sorted(f"{key}:{n}" for key in range(KEYS) for n in range(1, RECORDS // KEYS + 1))
    assert {line.split()[1] for line in lines} == {"host0", "host1"}
    assert all(
        re.search(r"/tmp/work/app-[^/]+/\d+/(\./)?environment/millstream/__init__.py$", line.split()[2])
        for line in lines
    )
    assert {line.split()[3] for line in lines} == {"helped"}
    assert "the driver was ended by signal 9" in log.read_text()
