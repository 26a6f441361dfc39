"""Streams of JetStream as a source, from a real server."""

from __future__ import annotations

import ssl
import subprocess
import time
from typing import Any

import pytest

from millstream.base.errors import ConfigurationError, MalformedRecordError, NotSupportedError, SourceError
from millstream.common import WatermarkStrategy
from millstream.common.serialization import SimpleStringSchema
from millstream.datastream import OutputTag
from millstream.datastream.connectors.nats import (
    MalformedPolicy,
    NatsMessage,
    NatsOffsetsInitializer,
    NatsStreamSource,
    NatsStreamSourceBuilder,
    Patience,
)
from millstream.spi.source import PlanRequest, SourceReaderContext
from millstream.testing import MiniCluster, SourceRun, check_source
from servers.nats import NatsServer, NatsStream

LATEST = NatsOffsetsInitializer.latest()
SHORT = Patience(total_s=0.3)
LONG = Patience(total_s=20)


def builder(stream: NatsStream) -> NatsStreamSourceBuilder:
    new = NatsStreamSource.builder().set_servers(stream.url).set_stream(stream.name)
    return new.set_value_only_deserializer(SimpleStringSchema()).set_patience(SHORT)


def texts(*numbers: int) -> list[str]:
    return list(map(str, numbers))


def read_all(source: NatsStreamSource, restored: Any = None) -> list[Any]:
    return SourceRun(source, 1, 1_000, restored=restored).run()


@pytest.mark.slow
def test_bounded_source_keeps_the_contract(nats):
    stream = nats.new_stream()
    stream.add(range(40))
    for sequence in (1, 20, 21, 40):
        stream.delete(sequence)
    wanted = [number for number in range(40) if number not in (0, 19, 20, 39)]

    check_source(builder(stream).set_bounded(LATEST).build(), expected=texts(*wanted), parallelisms=(1, 2))


@pytest.mark.slow
def test_unbounded_source_with_a_filter_keeps_the_contract(nats):
    stream = nats.new_stream()
    for number in range(0, 90, 10):
        stream.add(range(number, number + 10), "a" if number % 20 else "b")
    source = builder(stream).set_subject_filter(f"{stream.name}.a").build()

    wanted = [number for number in range(90) if number // 10 % 2]
    check_source(source, expected=texts(*wanted), parallelisms=(1, 2), budgets=(3, 1_000))


def test_nothing_to_read(nats):
    stream = nats.new_stream()
    assert read_all(builder(stream).set_bounded(LATEST).build()) == []
    stream.add(range(3))
    assert read_all(builder(stream).set_subject_filter(f"{stream.name}.x").set_bounded(LATEST).build()) == []


def test_range_ends_where_it_was_planned(nats):
    stream = nats.new_stream()
    stream.add(range(5))
    source = builder(stream).build()
    enumerator, reader = source.build_enumerator(1, None), source.build_reader(0, 1)
    reader.context = SourceReaderContext()
    reader.open()
    found: list[Any] = []
    try:
        for more in (range(5, 9), range(9, 9)):
            (planned,) = enumerator.plan(PlanRequest(1, 1_000, 0)).ranges[0]
            stream.add(more)
            end = reader.read(planned, lambda batch: found.append(batch.values) or True)
            assert end.position == planned.stop
            enumerator.advance([end])
    finally:
        reader.close()
        enumerator.close()
    assert found == [texts(*range(5)), texts(*range(5, 9))]


def test_large_messages_come_in_small_batches(nats):
    stream = nats.new_stream()
    stream.add([b"x" * 200_000] * 200)
    sizes: list[int] = []
    source = builder(stream).build()
    enumerator, reader = source.build_enumerator(1, None), source.build_reader(0, 1)
    reader.context = SourceReaderContext()
    reader.open()
    (planned,) = enumerator.plan(PlanRequest(1, 1_000, 0)).ranges[0]
    reader.read(planned, lambda batch: sizes.append(len(batch)) or True)
    reader.close()
    enumerator.close()

    assert sum(sizes) == 200
    assert max(sizes) <= 64


class TestOffsets:
    @pytest.mark.parametrize(
        ("start", "wanted"),
        [
            (NatsOffsetsInitializer.earliest(), [1, 2, 3]),
            (NatsOffsetsInitializer.sequence(3), [2, 3]),
            (NatsOffsetsInitializer.sequence(5), []),
            (NatsOffsetsInitializer.timestamp(0), [1, 2, 3]),
            (LATEST, []),
        ],
        ids=["earliest", "sequence", "next sequence", "zero", "latest"],
    )
    def test_start(self, nats, start, wanted):
        stream = nats.new_stream()
        stream.add(range(4))
        stream.delete(1)
        source = builder(stream).set_starting_offsets(start).set_bounded(LATEST).build()

        assert read_all(source) == texts(*wanted)

    def test_times(self, nats):
        stream = nats.new_stream()
        stream.add(range(3))
        time.sleep(0.02)
        middle = NatsOffsetsInitializer.timestamp(int(time.time() * 1_000))
        time.sleep(0.02)
        stream.add(range(3, 6))

        late = builder(stream).set_starting_offsets(middle).set_bounded(LATEST)
        assert read_all(late.build()) == texts(3, 4, 5)
        assert read_all(builder(stream).set_unbounded(middle).build()) == texts(0, 1, 2)

    def test_stop_before_a_sequence(self, nats):
        stream = nats.new_stream()
        stream.add(range(4))
        stop = NatsOffsetsInitializer.sequence(3)

        assert read_all(builder(stream).set_unbounded(stop).build()) == texts(0, 1)

    def test_what_comes_later_is_read_too(self, nats):
        stream = nats.new_stream()
        stream.add(range(2))
        run = SourceRun(builder(stream).set_starting_offsets(LATEST).build(), 1, 100)
        run.epoch()
        stream.add(range(2, 5))
        run.epoch()
        run.close()

        assert run.read[0] == texts(2, 3, 4)

    def test_start_behind_the_end(self, nats):
        start = NatsOffsetsInitializer.sequence(7)
        with pytest.raises(SourceError, match="start with message 7"):
            builder(nats.new_stream()).set_starting_offsets(start).build().build_enumerator(1, None)


class TestRecords:
    def test_subject_headers_and_times(self, nats):
        stream = nats.new_stream()
        before = int(time.time() * 1_000)
        stream.add(["tea"], "drinks", origin="Assam")
        run = SourceRun(builder(stream).set_with_metadata().set_bounded(LATEST).build(), 1, 100)
        (message,) = run.run()

        assert before <= message.timestamp_ms <= before + 10_000
        assert run.splits[stream.name][0][1] == message.timestamp_ms
        assert message == NatsMessage(
            "tea", f"{stream.name}.drinks", {"origin": "Assam"}, 1, message.timestamp_ms
        )

    def test_malformed_messages(self, nats):
        stream = nats.new_stream()
        stream.add([0, 1, b"\xff", 2])
        source = builder(stream).set_bounded(LATEST)
        with pytest.raises(MalformedRecordError, match=f"NATS stream {stream.name}, message 3"):
            read_all(source.build())

        skipping = source.set_malformed_policy(MalformedPolicy.skip()).set_with_metadata()
        assert [each.sequence for each in read_all(skipping.build())] == [1, 2, 4]

    def test_dead_letters(self, nats):
        stream = nats.new_stream()
        stream.add([0, b"\xff"])
        tag = OutputTag("malformed")
        source = builder(stream).set_malformed_policy(MalformedPolicy.dead_letters(tag)).set_bounded(LATEST)
        with MiniCluster(parallelism=1) as cluster:
            no_watermarks = WatermarkStrategy.no_watermarks()
            numbers = cluster.environment().from_source(source.build(), no_watermarks, "numbers")
            (letter,) = cluster.collect(numbers.get_side_output(tag))

        assert (letter.position, letter.message) == ("message 2", b"\xff")


class TestLoss:
    """added  0 … 9 │ 10 … 19          read up to 10 when something happens to the rest"""

    def position(self, stream: NatsStream) -> Any:
        stream.add(range(10))
        run = SourceRun(builder(stream).build(), 1, 1_000)
        run.epoch()
        snapshot = run.snapshot()
        run.close()
        return snapshot

    def go_on(self, stream: NatsStream, snapshot: Any, *, fail: bool = True) -> list[Any]:
        run = SourceRun(builder(stream).set_fail_on_data_loss(fail).build(), 1, 1_000, restored=snapshot)
        try:
            run.epoch()
        finally:
            run.close()
        return run.read[0]

    def test_messages_that_were_read_may_go(self, nats):
        stream = nats.new_stream()
        snapshot = self.position(stream)
        stream.add(range(10, 20))
        stream.purge(11)

        assert self.go_on(stream, snapshot) == texts(*range(10, 20))

    def test_message_that_was_deleted_is_no_loss(self, nats):
        stream = nats.new_stream()
        snapshot = self.position(stream)
        stream.add(range(10, 20))
        stream.delete(16)

        assert self.go_on(stream, snapshot) == texts(*range(10, 15), *range(16, 20))

    def test_messages_that_went_by_a_limit_are_missed(self, nats, caplog):
        stream = nats.new_stream(max_msgs=7)
        snapshot = self.position(stream)
        stream.add(range(10, 20))

        with pytest.raises(SourceError, match="up to 3 messages were removed before they were read"):
            self.go_on(stream, snapshot)
        assert self.go_on(stream, snapshot, fail=False) == texts(*range(13, 20))
        assert "up to 3 messages were removed" in caplog.text

    @pytest.mark.parametrize("purged", [13, 21])
    def test_messages_that_go_between_plan_and_reading_are_missed(self, nats, purged):
        stream = nats.new_stream()
        stream.add(range(20))
        source = builder(stream).build()
        enumerator, reader = source.build_enumerator(1, None), source.build_reader(0, 1)
        (planned,) = enumerator.plan(PlanRequest(1, 1_000, 0)).ranges[0]
        stream.purge(purged)
        reader.context = SourceReaderContext()
        reader.open()
        try:
            with pytest.raises(SourceError, match=f"up to {purged - 1} messages were removed"):
                reader.read(planned, lambda batch: True)
        finally:
            reader.close()
            enumerator.close()

    def test_stream_that_was_removed_or_made_anew_is_missed(self, nats):
        stream = nats.new_stream()
        snapshot = self.position(stream)
        stream.remove()
        with pytest.raises(SourceError, match="not there any more"):
            self.go_on(stream, snapshot)
        stream.make()
        stream.add(range(15))
        with pytest.raises(SourceError, match="made anew"):
            self.go_on(stream, snapshot, fail=False)


class TestTrouble:
    def test_server_that_is_down_is_named_without_its_password(self, nats):
        source = builder(nats.new_stream()).set_servers("nats://me:secret-word@127.0.0.1:1").build()

        with pytest.raises(SourceError, match="127.0.0.1:1") as failed:
            source.build_enumerator(1, None)
        assert "secret-word" not in str(failed.value) + repr(source) + repr(failed.value.__cause__)
        with pytest.raises(ConfigurationError) as refused:
            NatsStreamSource.builder().set_servers("nats://me:secret-word@host:secret-port")
        assert "secret" not in str(refused.value)

    def test_server_is_restarted_in_the_middle(self, nats, caplog):
        stream = nats.new_stream()
        stream.add(range(5))
        run = SourceRun(builder(stream).set_patience(LONG).build(), 1, 100)
        run.epoch()
        nats.stop()
        nats.start()
        stream.add(range(5, 8))
        run.epoch()
        run.close()

        assert run.read[0] == texts(*range(8))

    def test_consumer_that_was_removed_is_made_anew(self, nats):
        stream = nats.new_stream()
        stream.add(range(5))
        run = SourceRun(builder(stream).set_patience(LONG).build(), 1, 2)
        run.epoch()
        for consumer in nats.ask(f"CONSUMER.NAMES.{stream.name}")["consumers"]:
            nats.ask(f"CONSUMER.DELETE.{stream.name}.{consumer}")
        run.epoch()
        run.epoch()
        run.close()

        assert run.read[0] == texts(*range(5))

    def test_no_stream(self, nats):
        missing = NatsStream(nats, "nowhere")
        with pytest.raises(SourceError, match='no stream "nowhere"'):
            builder(missing).build().build_enumerator(1, None)

    def test_stream_whose_messages_go_when_they_are_read(self, nats):
        stream = nats.new_stream(retention="workqueue")
        with pytest.raises(NotSupportedError, match="retention workqueue"):
            builder(stream).build().build_enumerator(1, None)

    def test_server_without_streams(self, tmp_path):
        server = NatsServer(tmp_path, jetstream=False)
        server.start()
        try:
            with pytest.raises(SourceError, match="JetStream"):
                builder(NatsStream(server, "s")).build().build_enumerator(1, None)
        finally:
            server.stop()

    def test_login_and_rights(self, tmp_path):
        settings = tmp_path / "settings"
        settings.write_text(
            "authorization { users = [ { user: me, password: 'secret word' },"
            " { user: guest, password: guest, permissions: { publish: ['nothing'] } } ] }"
        )
        server = NatsServer(tmp_path, "-c", str(settings), login="me:secret%20word@")
        server.connecting = {"user": "me", "password": "secret word"}
        server.start()
        try:
            stream = server.new_stream()
            builder(stream).build().build_enumerator(1, None).close()
            for login, said in (("", "user and password"), ("me:false-word@", "user and password")):
                source = builder(stream).set_servers(server.url(login)).build()
                with pytest.raises(SourceError, match=said) as failed:
                    source.build_enumerator(1, None)
                assert "false-word" not in str(failed.value)
            guest = builder(stream).set_servers(server.url("guest:guest@")).build()
            with pytest.raises(SourceError, match="allow the subject"):
                guest.build_enumerator(1, None)
        finally:
            server.stop()

    def test_tls(self, tmp_path):
        certificate, key = tmp_path / "server.crt", tmp_path / "server.key"
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1"]
        command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
        subprocess.run(command, check=True, capture_output=True)
        server = NatsServer(tmp_path, "--tls", "--tlscert", str(certificate), "--tlskey", str(key))
        server.connecting = {"tls": ssl.create_default_context(cafile=certificate)}
        server.start()
        try:
            stream = server.new_stream()
            stream.add(range(3))
            source = builder(stream).set_servers(f"tls://127.0.0.1:{server.port}").set_bounded(LATEST)
            with pytest.raises(SourceError, match="set_certificate_authority"):
                source.build().build_enumerator(1, None)
            assert read_all(source.set_certificate_authority(str(certificate)).build()) == texts(0, 1, 2)
        finally:
            server.stop()
