"""A real Prometheus scrapes a job."""

from __future__ import annotations

import time
import urllib.request

import pytest

from millstream.common import Types, WatermarkStrategy
from millstream.config.configuration import Configuration
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from servers.ports import free_port
from servers.prometheus import PrometheusServer, lint

pytestmark = pytest.mark.long


@pytest.fixture
def job_port(tmp_path):
    port = free_port()
    options = {
        "execution.target": "local",
        "metrics.reporters": "prom",
        "metrics.reporter.prom.factory.class": "org.apache.flink.metrics.prometheus.PrometheusReporterFactory",
        "metrics.reporter.prom.port": str(port),
        "execution.checkpointing.interval": "500 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    source = DataGeneratorSource(
        lambda index: index, 10**9, RateLimiterStrategy.per_second(1_000), Types.LONG()
    )
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    stream = env.from_source(source, strategy, "numbers").uid("numbers")
    stream.key_by(lambda value: value % 2).filter(lambda value: value < 0).uid("filter").print()
    client = env.execute_async("scraped")
    yield port
    client.cancel().result()


@pytest.fixture
def server(tmp_path, job_port):
    directory = tmp_path / "prometheus"
    directory.mkdir()
    prometheus = PrometheusServer(directory, f"127.0.0.1:{job_port}")
    prometheus.start()
    yield prometheus
    prometheus.close()


def test_prometheus_scrapes_without_a_warning_and_answers_for_throughput_and_checkpoints(server, job_port):
    rate = 'sum(rate(flink_taskmanager_job_task_operator_numRecordsOut{operator_name="numbers"}[10s]))'
    deadline = time.monotonic() + 60
    while not ((found := server.query(rate)) and found[0] > 500) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert 500 < server.query(rate)[0] < 2_000
    assert server.query("flink_jobmanager_job_numRestarts") == [0]
    assert server.query("flink_jobmanager_job_numberOfCompletedCheckpoints")[0] > 0
    assert server.query(
        'count by (job_name) (flink_taskmanager_job_task_numRecordsIn{job_name="scraped"})'
    ) == [2]
    (target,) = server.targets()
    assert (target["health"], target["lastError"]) == ("up", "")
    assert "level=warn" not in server.log()
    assert "level=error" not in server.log()

    with urllib.request.urlopen(f"http://127.0.0.1:{job_port}/metrics") as answer:
        complaints = lint(answer.read().decode())
    # Flink's names are what its dashboards ask for.
    assert [each for each in complaints if "'snake_case' not 'camelCase'" not in each] == []
