"""Jobs from Redis to Redis: the server is killed meanwhile, slots are killed, TLS."""

from __future__ import annotations

import subprocess
import threading
import time

import pytest

from millstream.base.errors import SourceError
from millstream.common import WatermarkStrategy
from millstream.common.serialization import SimpleStringSchema
from millstream.datastream.connectors.redis import (
    DeliveryGuarantee,
    Patience,
    RedisCommand,
    RedisOffsetsInitializer,
    RedisSink,
    RedisStreamSource,
)
from millstream.testing import FailurePoint, MiniCluster
from servers.redis import RedisServer

RECORDS = 4_000


def copy_numbers(url: str, cluster: MiniCluster) -> None:
    """Run a job that copies the stream `numbers` to the list `copied`, exactly once."""
    environment = cluster.environment()
    source = (
        RedisStreamSource.builder()
        .set_url(url)
        .set_streams("numbers")
        .set_value_only_deserializer(SimpleStringSchema())
        .set_bounded(RedisOffsetsInitializer.latest())
        .set_patience(Patience(total_s=30))
        .build()
    )
    sink = (
        RedisSink.builder()
        .set_url(url)
        .set_command(RedisCommand.list_item("copied"))
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_patience(Patience(total_s=30))
        .build()
    )
    environment.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").sink_to(sink)
    environment.execute()


def kill_while_running(server: RedisServer, job: threading.Thread) -> int:
    """Kill it again and again; from this thread, as servers end with the thread that started them."""
    kills = 0
    job.join(0.2)
    while job.is_alive():
        server.stop()
        time.sleep(0.2)
        server.start()
        kills += 1
        job.join(0.2)
    return kills


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        None,
        pytest.param(FailurePoint.BEFORE_COMMIT, marks=pytest.mark.long),
        pytest.param(FailurePoint.AFTER_COMMIT, marks=pytest.mark.long),
    ],
)
def test_nothing_is_lost_or_doubled_when_server_and_slots_are_killed(redis_database, point):
    redis_database.add("numbers", range(RECORDS))
    with MiniCluster(parallelism=1, options={"millstream.epoch.fixed-records": 50}) as cluster:
        if point is not None:
            cluster.fail_at(point, 5)
        job = threading.Thread(target=copy_numbers, args=(redis_database.url, cluster))
        job.start()
        assert kill_while_running(redis_database.server, job) > 0
    client = redis_database.client()

    assert client.lrange("copied", 0, -1) == [b"%d" % number for number in range(RECORDS)]
    assert client.keys("millstream:staged*") == []


def test_tls(tmp_path):
    certificate, key = tmp_path / "server.crt", tmp_path / "server.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    server = RedisServer(tmp_path)
    tls = ["--tls-cert-file", str(certificate), "--tls-key-file", str(key), "--tls-auth-clients", "no"]
    server.tls = [*tls, "--tls-ca-cert-file", str(certificate)]
    server.start()
    try:
        url = f"rediss://127.0.0.1:{server.tls_port}/0"
        with server.client().pipeline() as pipeline:
            pipeline.xadd("numbers", {"value": "7"})
            pipeline.execute()
        with MiniCluster(parallelism=1) as cluster:
            copy_numbers(f"{url}?ssl_ca_certs={certificate}", cluster)
        unknown = RedisStreamSource.builder().set_url(url).set_streams("numbers").build()
        with pytest.raises(SourceError, match="certificates"):
            unknown.build_enumerator(1, None)
        assert server.client().lrange("copied", 0, -1) == [b"7"]
    finally:
        server.stop()
