"""Sending records to a real server."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from millstream.base.errors import JobExecutionError, MillstreamError, NotSerializableError, SinkError
from millstream.common.serialization import SimpleStringSchema
from millstream.common.time import Time
from millstream.datastream.connectors.http import (
    DeliveryGuarantee,
    HttpBody,
    HttpSink,
    HttpSinkBuilder,
    Patience,
)
from millstream.spi.batch import Rows
from millstream.spi.sink import Sink, WriterContext
from millstream.testing import FailurePoint, MiniCluster, SinkTarget, check_sink
from servers.web import Planned, WebServer

SHORT = Patience(total_s=0.3)
LONG = Patience(total_s=20)


def builder(server: WebServer) -> HttpSinkBuilder:
    return HttpSink.builder().set_url(f"{server.url}/take").set_patience(SHORT)


def write(sink: Sink, *values: Any) -> None:
    writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0))
    writer.open()
    try:
        writer.write(Rows(list(values)), watermark_ms=0, now_ms=0)
        writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
    finally:
        writer.close()


@pytest.mark.long
@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_sink_keeps_the_contract(tmp_path_factory, guarantee):
    servers = []

    def new_target() -> SinkTarget:
        server = WebServer()
        server.start()
        servers.append(server)
        new = builder(server).set_batch_size(3).set_delivery_guarantee(guarantee)
        directory = tmp_path_factory.mktemp("ahead")
        return SinkTarget(
            new.set_directory(str(directory)).build(),
            server.texts,
            staged=lambda: [path for path in directory.iterdir() if path.suffix == ".waiting"],
        )

    check_sink(new_target, parallelisms=((2, 1),))
    for server in servers:
        server.stop()


@pytest.mark.parametrize("body", [HttpBody.JSON_ARRAY, HttpBody.JSON_LINES])
def test_batches_have_keys_of_their_own(web, body):
    write(builder(web).set_body(body).set_batch_size(4).build(), *range(10))

    assert web.texts() == list(range(10))
    assert [each.headers["content-type"] for each in web.requests] == [body.value] * 3
    assert len({each.headers["idempotency-key"] for each in web.requests}) == 3


def test_single_records_by_put_with_a_schema_and_headers(web):
    new = (
        builder(web)
        .set_method("PUT")
        .set_body(HttpBody.SINGLE)
        .set_value_serialization_schema(SimpleStringSchema())
    )
    new.set_headers({"Authorization": "Bearer secret-word"})
    write(new.set_idempotency_header("X-Key").build(), '{"a": 1}', '{"a": 2}')

    assert web.texts() == [{"a": 1}, {"a": 2}]
    assert {each.method for each in web.requests} == {"PUT"}
    assert {each.headers["authorization"] for each in web.requests} == {"Bearer secret-word"}
    assert all("x-key" in each.headers for each in web.requests)


def test_request_that_is_repeated_has_the_same_key(web):
    web.planned.extend([Planned(500, is_done=True), Planned(503), Planned(429, {"Retry-After": "1"})])
    write(builder(web).set_patience(LONG).build(), 1, 2)

    assert web.texts() == [1, 2]
    assert len(web.requests) == 4
    assert len({each.headers["idempotency-key"] for each in web.requests}) == 1


@pytest.mark.parametrize(
    "point", [FailurePoint.BEFORE_CHECKPOINT, FailurePoint.BEFORE_COMMIT, FailurePoint.AFTER_COMMIT]
)
def test_with_keys_that_are_remembered_every_record_is_there_once(web, point):
    sink = builder(web).set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_batch_size(4).build()
    with MiniCluster(parallelism=2, options={"millstream.epoch.fixed-records": 5}) as cluster:
        cluster.fail_at(point, 2)
        environment = cluster.environment()
        environment.from_collection(list(range(60))).rebalance().sink_to(sink)
        environment.execute()

    assert sorted(web.texts()) == list(range(60))


class TestTrouble:
    def test_server_that_is_down_is_named_without_secrets(self, web, caplog):
        web.stop()
        url = f"{web.url}/take?key=secret-key".replace("://", "://me:secret-word@")
        sink = builder(web).set_url(url).set_headers({"X-Key": "secret-header"}).build()
        with pytest.raises(SinkError, match=f"{web.url}/take did not answer") as failed:
            write(sink, 1)

        assert "secret" not in str(failed.value) + repr(sink) + caplog.text
        assert len([each for each in caplog.records if each.levelname in ("WARNING", "ERROR")]) == 1

    def test_server_that_is_restarted_in_the_middle(self, web):
        writer = builder(web).set_patience(LONG).build().build_writer(WriterContext("job", "sink", 0, 1, 0))
        writer.open()
        for value in (1, 2):
            writer.write(Rows([value]), watermark_ms=0, now_ms=0)
            if value == 2:
                web.stop()
                threading.Timer(0.3, web.start).start()
            writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
        writer.close()

        assert web.texts() == [1, 2]

    def test_slow_server(self, web):
        web.planned.append(Planned(201, after_s=1.0, is_done=True))
        write(builder(web).set_timeout(Time.milliseconds(200)).set_patience(LONG).build(), 1)

        threading.Event().wait(1.0)  # until the slow answer is done as well
        assert web.texts() == [1]

    @pytest.mark.parametrize(
        ("status", "hint"), [(400, ""), (401, "Check user and password"), (413, "fewer records")]
    )
    def test_refusal(self, web, status, hint):
        web.planned.append(Planned(status, body=b"field 'a' is missing " * 100))
        with pytest.raises(
            SinkError, match=f"(?s)sending 1 records: status {status}: field 'a'.*{hint}"
        ) as failed:
            write(builder(web).build(), 1)
        assert len(str(failed.value)) < 500

    def test_record_that_is_no_json(self, web):
        with pytest.raises(NotSerializableError, match="cannot be sent as JSON: {1, 2}"):
            write(builder(web).build(), {1, 2})

    @pytest.mark.long
    def test_job_says_what_was_refused(self, web):
        web.planned.append(Planned(400, body=b"not this one"))
        with MiniCluster(parallelism=1, options={"restart-strategy.type": "none"}) as cluster:
            environment = cluster.environment()
            environment.from_collection([1]).sink_to(builder(web).build())
            with pytest.raises((JobExecutionError, MillstreamError)) as failed:
                environment.execute()
        assert "status 400: not this one" in f"{failed.value}{failed.value.__cause__}"
