"""Topics of MQTT as a source, from a real broker."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import uuid
from typing import Any

import pytest

from millstream.base.errors import JobExecutionError, MalformedRecordError, MillstreamError, SourceError
from millstream.common.serialization import SimpleStringSchema
from millstream.common.time import Time
from millstream.datastream.connectors.mqtt import (
    MalformedPolicy,
    MqttAcknowledgement,
    MqttMessage,
    MqttSource,
    MqttSourceBuilder,
    Patience,
)
from millstream.testing import FailurePoint, MiniCluster, check_source_function
from servers.mqtt import MqttServer

SHORT = Patience(total_s=0.3)
IDLE = {"millstream.execution.stop-when-idle": "1500 ms"}
ON_RECEIPT, ON_CHECKPOINT = MqttAcknowledgement.ON_RECEIPT, MqttAcknowledgement.ON_CHECKPOINT


def new_name() -> str:
    return f"client-{uuid.uuid4().hex[:12]}"


def builder(server: MqttServer, *topics: str) -> MqttSourceBuilder:
    new = MqttSource.builder().set_broker(server.url).set_topics(*topics).set_client_id(new_name())
    return new.set_value_only_deserializer(SimpleStringSchema()).set_patience(SHORT)


def texts(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def collect(source: MqttSource, **options: Any) -> list[Any]:
    with MiniCluster(parallelism=1, options={**IDLE, **options}) as cluster:
        return cluster.collect(cluster.environment().add_source(source))


def subscribe(server: MqttServer, source: MqttSource) -> None:
    """Open the source's session, so that the broker keeps messages for it from now on."""
    declared = source._declared
    server.open_session(declared.settings.client_id, *declared.filters)


def cause_of(error: BaseException) -> BaseException:
    while error.__cause__ is not None and not isinstance(error, (SourceError, MalformedRecordError)):
        error = error.__cause__
    return error


def failing(source: MqttSource, **options: Any) -> str:
    with pytest.raises((JobExecutionError, MillstreamError)) as failed:
        collect(
            source,
            **{"restart-strategy.type": "none", "millstream.execution.stop-when-idle": "30 s", **options},
        )
    return str(cause_of(failed.value))


@pytest.mark.parametrize("acknowledgement", [ON_RECEIPT, ON_CHECKPOINT])
def test_what_came_while_no_job_ran_is_read_once_and_acknowledged(mqtt, acknowledgement):
    topic = mqtt.new_topic()
    source = builder(mqtt, topic).set_acknowledgement(acknowledgement).set_receive_maximum(20).build()
    subscribe(mqtt, source)
    mqtt.publish(topic, texts(300))

    assert collect(source, **{"execution.checkpointing.interval": "20 ms"}) == texts(300)
    mqtt.publish(topic, ["last"])
    assert collect(source) == ["last"]


@pytest.mark.long
def test_without_checkpoints_messages_are_acknowledged_at_once(mqtt):
    topic = mqtt.new_topic()
    source = builder(mqtt, topic).set_receive_maximum(20).build()
    subscribe(mqtt, source)
    mqtt.publish(topic, texts(300))

    assert collect(source, **{"execution.checkpointing.interval": None}) == texts(300)
    assert collect(source) == []


@pytest.mark.long
@pytest.mark.parametrize("point", [FailurePoint.BEFORE_CHECKPOINT, FailurePoint.AFTER_CHECKPOINT])
def test_acknowledged_on_checkpoints_nothing_is_lost_when_a_job_fails(mqtt, point):
    topic = mqtt.new_topic()
    source = builder(mqtt, topic).build()
    subscribe(mqtt, source)
    mqtt.publish(topic, texts(100))
    with MiniCluster(parallelism=1, options={**IDLE, "millstream.epoch.fixed-records": 10}) as cluster:
        cluster.fail_at(point, 3)
        found = cluster.collect(cluster.environment().add_source(source))

    assert set(found) == set(texts(100))


@pytest.mark.long
def test_from_receipt_on_every_message_comes_once_wherever_jobs_fail(mqtt):
    def build() -> MqttSource:
        topic = mqtt.new_topic()
        source = builder(mqtt, topic).set_acknowledgement(ON_RECEIPT).build()
        subscribe(mqtt, source)
        mqtt.publish(topic, texts(50))
        return source

    check_source_function(build, texts(50), idle="2 s")


@pytest.mark.long
def test_wildcards_metadata_and_retained_messages(mqtt):
    plant = mqtt.new_topic()
    mqtt.publish(f"{plant}/a/state", ["on"], retain=True)
    source = builder(mqtt, f"{plant}/+/state", f"{plant}/b/#").set_with_metadata().build()

    assert collect(source) == [MqttMessage("on", f"{plant}/a/state", 1, True, {})]
    mqtt.publish(f"{plant}/c/state", ["off"], qos=2)
    mqtt.publish(f"{plant}/c/other", ["not read"])
    mqtt.publish(f"{plant}/b/x/y", ["5"], qos=0)
    found = collect(source)  # the retained message does not come again
    assert found == [MqttMessage("off", f"{plant}/c/state", 1, False, {})]


@pytest.mark.long
def test_messages_of_qos_0_come_while_the_job_runs(mqtt):
    topic = mqtt.new_topic()
    source = builder(mqtt, topic).set_qos(0).set_client_id("").build()
    timer = threading.Timer(0.4, lambda: mqtt.publish(topic, texts(20), qos=0))
    timer.start()

    assert collect(source, **{"millstream.execution.stop-when-idle": "2 s"}) == texts(20)
    timer.join()


@pytest.mark.long
@pytest.mark.parametrize("acknowledgement", [ON_RECEIPT, ON_CHECKPOINT])
def test_subtasks_share_the_messages(mqtt, acknowledgement):
    topic = mqtt.new_topic()
    new = builder(mqtt, topic).set_shared_group(new_name()).set_with_metadata()
    source = new.set_acknowledgement(acknowledgement).build()
    readers = []
    with MiniCluster(parallelism=2, options=IDLE) as cluster:
        cluster.collect(cluster.environment().add_source(source))
        mqtt.publish(topic, texts(100))
        stream = cluster.environment().add_source(source)
        readers = cluster.collect(stream.map(lambda message: message.value))

    assert sorted(readers) == sorted(texts(100))


@pytest.mark.long
def test_fewer_subtasks_would_leave_sessions_unread(mqtt, tmp_path):
    source = builder(mqtt, mqtt.new_topic()).set_shared_group("g").build()
    with MiniCluster(parallelism=2) as cluster:
        environment = cluster.environment()
        environment.add_source(source).uid("source").print()
        job = environment.execute_async()
        time.sleep(0.5)
        path = job.stop_with_savepoint(False, str(tmp_path)).result()
    options = {**IDLE, "execution.savepoint.path": path, "restart-strategy.type": "none"}
    with MiniCluster(parallelism=1, options=options) as cluster:
        environment = cluster.environment()
        environment.add_source(source).uid("source").print()
        with pytest.raises((JobExecutionError, MillstreamError)) as failed:
            environment.execute()
    assert "had more subtasks" in str(cause_of(failed.value))


@pytest.mark.long
@pytest.mark.parametrize("acknowledgement", [ON_RECEIPT, ON_CHECKPOINT])
def test_broker_is_restarted_while_a_job_reads(mqtt, acknowledgement):
    topic = mqtt.new_topic()
    new = builder(mqtt, topic).set_acknowledgement(acknowledgement).set_patience(Patience(total_s=30))
    source = new.set_receive_maximum(50).build()
    subscribe(mqtt, source)
    options = {
        "millstream.execution.stop-when-idle": "3 s",
        "millstream.epoch.fixed-records": 20,
        "execution.checkpointing.interval": "50 ms",
    }
    mqtt.publish(topic, texts(2_000))
    found: list[Any] = []
    with MiniCluster(parallelism=1, options=options) as cluster:
        job = threading.Thread(
            target=lambda: found.extend(cluster.collect(cluster.environment().add_source(source)))
        )
        job.start()
        for _ in range(3):
            time.sleep(0.3)
            mqtt.stop()
            mqtt.start()
        mqtt.publish(topic, ["last"])
        job.join()

    assert set(found) == {*texts(2_000), "last"}


class TestMalformed:
    def test_it_fails_the_job_and_is_named(self, mqtt):
        topic = mqtt.new_topic()
        source = builder(mqtt, topic).build()
        subscribe(mqtt, source)
        mqtt.publish(topic, ["a", b"\xff"])

        assert f"topic {topic}, does not parse" in failing(source)

    @pytest.mark.long
    def test_it_is_skipped(self, mqtt):
        topic = mqtt.new_topic()
        source = builder(mqtt, topic).set_malformed_policy(MalformedPolicy.skip()).build()
        subscribe(mqtt, source)
        mqtt.publish(topic, ["a", b"\xff", "b"])

        assert collect(source) == ["a", "b"]


class TestTrouble:
    def test_broker_that_is_down(self, mqtt, caplog):
        said = failing(builder(mqtt, "t").set_broker("mqtt://me:secret-word@127.0.0.1:1").build())

        assert "mqtt://127.0.0.1:1" in said and "Check that the broker runs" in said
        assert "secret-word" not in said + caplog.text

    def test_broker_that_answers_nothing(self, mqtt, monkeypatch):
        monkeypatch.setattr("millstream.connectors.mqtt.session._ANSWER_S", 0.3)
        mqtt.pause()

        assert "no answer within" in failing(builder(mqtt, "t").build())

    def test_wrong_password(self, mqtt, caplog):
        said = failing(builder(mqtt, "t").set_broker(mqtt.login_url("me:false-word")).build())

        assert "Check user and password" in said
        assert "false-word" not in said + caplog.text

    @pytest.mark.long
    def test_login_that_fits(self, mqtt):
        topic = f"allowed/{mqtt.new_topic()}"
        source = builder(mqtt, topic).set_broker(mqtt.login_url()).build()
        subscribe(mqtt, source)
        mqtt.publish(topic, ["a"])  # a listener without login has no list of rights
        assert collect(source) == ["a"]

    @pytest.mark.long
    def test_another_client_takes_the_session_over(self, mqtt):
        source = builder(mqtt, mqtt.new_topic()).set_client_id(name := new_name()).build()
        other = builder(mqtt, mqtt.new_topic()).set_client_id(name).build()
        said: list[str] = []
        options = {"millstream.execution.stop-when-idle": "20 s"}
        threads = [
            threading.Thread(target=lambda each=each: said.append(failing(each, **options)))
            for each in (source, other)
        ]
        for thread in threads:
            thread.start()
        while not said:
            time.sleep(0.1)
        mqtt.stop()  # the other one is alone now
        for thread in threads:
            thread.join()

        assert "Does another client have the same id?" in said[0]

    def test_tls(self, mqtt):
        topic = mqtt.new_topic()
        tls = f"mqtts://127.0.0.1:{mqtt.tls_port}"
        new = builder(mqtt, topic).set_broker(tls)
        source = new.set_certificate_authority(str(mqtt.certificate)).build()
        subscribe(mqtt, source)
        mqtt.publish(topic, ["a"])

        assert collect(source) == ["a"]
        unknown = builder(mqtt, topic).set_broker(tls).build()
        assert "which authority signed the certificate" in failing(unknown)


@pytest.mark.long
def test_session_is_forgotten_when_it_expires(mqtt):
    topic = mqtt.new_topic()
    source = builder(mqtt, topic).set_session_expiry(Time.seconds(1)).build()
    assert collect(source) == []
    time.sleep(3)
    mqtt.publish(topic, ["a"])

    assert collect(source) == []


PROGRAM = """
import os, signal, sys
from millstream.base.crash_points import set_crash_hook
from millstream.common import Configuration, Encoder, SimpleStringSchema, Types
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import FileSink, RollingPolicy
from millstream.datastream.connectors.mqtt import MqttAcknowledgement, MqttSource

directory, url, topic, acknowledgement, place, count = sys.argv[1:]


class Kill:
    reached = 0

    def reach(self, name, detail):
        if name == place:
            self.reached += 1
            if self.reached == int(count):
                os.kill(os.getpid(), signal.SIGKILL)

    def around(self, name, detail, action):
        return action()


set_crash_hook(Kill())
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({
    "high-availability.storageDir": directory + "/ha",
    "execution.checkpointing.dir": directory + "/checkpoints",
    "execution.checkpointing.interval": "1 ms",
    "millstream.execution.stop-when-idle": "5 s",
    "millstream.epoch.fixed-records": 50}))
source = MqttSource.builder().set_broker(url).set_topics(topic).set_client_id(topic)
source = source.set_acknowledgement(MqttAcknowledgement[acknowledgement])
source = source.set_value_only_deserializer(SimpleStringSchema()).build()
sink = FileSink.for_row_format(directory + "/found", Encoder.simple_string_encoder())
sink = sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
env.add_source(source, "numbers").map(str, Types.STRING()).sink_to(sink)
env.execute("from mqtt")
"""


@pytest.mark.long
@pytest.mark.parametrize("acknowledgement", [ON_RECEIPT, ON_CHECKPOINT])
@pytest.mark.parametrize(
    ("place", "count"), [("manifest.write", 3), ("manifest.published", 3), ("sink.committed", 2)]
)
def test_processes_are_killed(mqtt, tmp_path, acknowledgement, place, count):
    topic = mqtt.new_topic()
    subscribe(mqtt, builder(mqtt, topic).set_client_id(topic).build())
    mqtt.publish(topic, texts(1_000))

    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def run(*flags: str, place: str = "nowhere") -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-m",
            "millstream.cli.main",
            "run",
            "--target",
            "local",
            *flags,
            str(program),
        ]
        arguments = [str(tmp_path), mqtt.url, topic, acknowledgement.name, place, str(count)]
        return subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=100, check=False
        )

    killed = run(place=place)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    ended = run("--recover")
    assert ended.returncode == 0, ended.stderr
    files = [path for path in (tmp_path / "found").rglob("*") if path.is_file()]
    found = [line for path in files for line in path.read_text().splitlines()]
    assert set(found) == set(texts(1_000))
