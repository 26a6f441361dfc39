"""Documents as a sink: OpenSearch and Elasticsearch, real servers."""

from __future__ import annotations

import json
import logging
import subprocess
import threading
import time
from typing import Any

import pytest

from millstream.base.errors import SinkError
from millstream.common import Row, Types, WatermarkStrategy
from millstream.connectors.number_sequence import NumberSequenceSource
from millstream.datastream.connectors.elasticsearch import (
    Elasticsearch7SinkBuilder,
    Elasticsearch8SinkBuilder,
    ElasticsearchAction,
    ElasticsearchEmitter,
    ElasticsearchSink,
    ElasticsearchSinkBuilderBase,
    FlushBackoffType,
    Patience,
    RejectedPolicy,
)
from millstream.spi.batch import Rows
from millstream.spi.sink import WriterContext
from millstream.testing import FailurePoint, MiniCluster, SinkTarget, check_sink
from millstream.types.row import RowKind
from servers.nginx import NginxServer
from servers.search import SearchIndex, SearchServer

pytestmark = pytest.mark.long

SHORT = Patience(total_s=0.3)
CONSTANT = FlushBackoffType.CONSTANT
RECORDS = 2_000
STRICT = {"dynamic": "strict", "properties": {"id": {"type": "long"}, "price": {"type": "long"}}}

LARGE = {"properties": {"text": {"type": "keyword", "index": False, "doc_values": False}}}


def builder(index: SearchIndex, key: str | None = "id") -> ElasticsearchSinkBuilderBase:
    new = Elasticsearch7SinkBuilder().set_hosts([index.server.host]).set_patience(SHORT)
    return new.set_emitter(ElasticsearchEmitter.static_index(index.name, key))


def write(sink: ElasticsearchSink, *values: Any) -> None:
    writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0, began_ms=5))
    writer.open()
    try:
        writer.write(Rows(list(values)), watermark_ms=0, now_ms=0)
        writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=True)
    finally:
        writer.close()


@pytest.mark.parametrize("key", ["id", None], ids=["ids", "no-ids"])
def test_sink_keeps_the_contract(search, key):
    index = [search.new_index()]

    def new_target() -> SinkTarget:
        index.pop().remove()
        index.append(search.new_index())
        return SinkTarget(builder(index[0], key).build(), index[0].sources)

    check_sink(
        new_target,
        record=lambda number: {"id": number},
        key=lambda document: document["id"],
        parallelisms=((2, 1),),
    )
    index[0].remove()


class TestDocuments:
    def test_upserts_and_deletions_by_id(self, search):
        index = search.new_index()
        gone = Row(id="b", price=1)
        gone.set_row_kind(RowKind.DELETE)
        write(builder(index).build(), {"id": "a", "price": 1, "shop": "x"}, {"id": "b"}, '{"id": "c"}')
        write(builder(index).build(), Row(id="a", price=2), gone)

        assert index.documents() == [("a", {"id": "a", "price": 2, "shop": "x"}), ("c", {"id": "c"})]

    def test_indices_that_records_name(self, search):
        first, second = search.new_index(), search.new_index()
        sink = builder(first).set_emitter(ElasticsearchEmitter.dynamic_index("at", "id"))
        write(sink.build(), {"id": 1, "at": first.name}, {"id": 1, "at": second.name})

        assert [each.documents() for each in (first, second)] == [
            [("1", {"id": 1, "at": each.name})] for each in (first, second)
        ]

    def test_older_versions_and_second_creations_change_nothing(self, search):
        index = search.new_index()

        def actions(value: tuple[str, int]) -> list[ElasticsearchAction]:
            key, version = value
            document = {"version": version}
            return [
                ElasticsearchAction.index_document(index.name, document, id=key, version=version),
                ElasticsearchAction.create_document(index.name, document, id=f"first-{key}"),
                ElasticsearchAction.delete_document(index.name, id="nobody"),
                ElasticsearchAction.delete_document(f"{index.name}-nowhere", id="nobody"),
            ]

        sink = builder(index).set_emitter(ElasticsearchEmitter.of(actions)).build()
        write(sink, ("a", 5), ("a", 4), ("a", 6), ("a", 6), ("a", 1))

        assert index.documents() == [("a", {"version": 6}), ("first-a", {"version": 5})]

    def test_requests_are_cut_by_actions_and_by_size(self, search):
        index = search.new_index(mappings=LARGE)
        sink = builder(index).set_bulk_flush_max_actions(7).set_bulk_flush_max_size_mb(1).build()
        values = [{"id": n, "text": "x" * (600_000 if n % 10 == 0 else 10)} for n in range(50)]
        write(sink, *values, {"id": 50, "text": "y" * 3_000_000})

        found = {source["id"]: len(source["text"]) for source in index.sources()}
        assert found == {n: 600_000 if n % 10 == 0 else 10 for n in range(50)} | {50: 3_000_000}

    def test_interval_keeps_requests_beyond_epochs_but_not_beyond_checkpoints(self, search):
        index = search.new_index()
        sink = builder(index).set_bulk_flush_interval(10_000).build()
        writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0))
        now = time.time_ns() // 1_000_000
        seen = []
        for number, passed, checkpoint in (
            (1, 0, False),
            (2, 10_000, False),
            (3, 10_001, False),
            (4, 10_002, True),
        ):
            writer.write(Rows([{"id": number}]), watermark_ms=0, now_ms=now + passed)
            writer.prepare_commit(now_ms=now + passed, checkpoint=checkpoint, end_of_input=False)
            seen.append(len(index.documents()))
        writer.close()

        assert seen == [0, 2, 2, 4]


class TestRejectedForGood:
    def test_document_that_does_not_fit_its_mapping_fails_the_job(self, search):
        index = search.new_index(mappings=STRICT)
        with pytest.raises(SinkError) as failed:
            write(builder(index).build(), {"id": 1, "price": 2}, {"id": 2, "price": "cheap"})

        said = str(failed.value)
        assert f'document "2" of index "{index.name}"' in said
        assert "price" in said and "cheap" in said and "RejectedPolicy" in said
        assert [key for key, _ in index.documents()] == ["1"]

    def test_such_documents_are_skipped(self, search, caplog):
        index = search.new_index(mappings=STRICT)
        with caplog.at_level(logging.WARNING):
            write(
                builder(index).set_rejected_policy(RejectedPolicy.skip()).build(),
                *({"id": n, "price": n if n % 2 else "cheap"} for n in range(10)),
            )

        assert [source["id"] for source in index.sources()] == [1, 3, 5, 7, 9]
        assert caplog.text.count("documents rejected so far") == 1

    def test_such_documents_go_to_another_index_once_however_often_they_come(self, search):
        index, rejected = search.new_index(mappings=STRICT), search.new_index()
        sink = builder(index).set_rejected_policy(RejectedPolicy.to_index(rejected.name)).build()
        for _ in range(2):
            write(sink, {"id": 1, "price": 2}, {"id": 2, "price": "cheap"}, {"id": 3, "colour": "red"})

        letters = sorted(rejected.sources(), key=lambda letter: letter["id"])
        assert [(each["index"], each["id"], json.loads(each["document"])) for each in letters] == [
            (index.name, "2", {"id": 2, "price": "cheap"}),
            (index.name, "3", {"id": 3, "colour": "red"}),
        ]
        assert "strict" in letters[1]["reason"]
        assert len(index.sources()) == 1

    def test_what_is_wrong_with_the_index_fails_the_job_whatever_the_policy(self, search):
        closed, blocked = search.new_index(), search.new_index()
        search.ask("POST", f"/{closed.name}/_close")
        blocked.set(**{"blocks.write": True})
        for index, said in ((closed, "closed"), (blocked, "block")):
            sink = builder(index).set_rejected_policy(RejectedPolicy.skip()).build()
            with pytest.raises(SinkError, match=f"(?s){index.name}.*{said}"):
                write(sink, {"id": 1})

    def test_index_that_must_not_be_made(self, search):
        settings = {"persistent": {"action.auto_create_index": False}}
        search.ask("PUT", "/_cluster/settings", settings)
        try:
            with pytest.raises(SinkError, match="(?s)no such index.*Make the index"):
                write(builder(SearchIndex(search, "nowhere")).build(), {"id": 1})
        finally:
            settings["persistent"]["action.auto_create_index"] = None
            search.ask("PUT", "/_cluster/settings", settings)


class TestRejectedForAWhile:
    @pytest.fixture
    def full(self, search):
        """An index that takes nothing, as when the disk is full (429)."""
        index = search.new_index()
        index.set(**{"blocks.read_only_allow_delete": True})
        return index

    def test_only_what_was_rejected_is_sent_again(self, search, full, caplog):
        other = search.new_index()
        sink = builder(full).set_emitter(ElasticsearchEmitter.dynamic_index("at", None))
        sink.set_bulk_flush_backoff_strategy(CONSTANT, 100, 100)
        there = threading.Timer(1.5, lambda: full.set(**{"blocks.read_only_allow_delete": None}))
        there.start()
        with caplog.at_level(logging.WARNING):
            write(sink.build(), *({"n": n, "at": (full, other)[n % 2].name} for n in range(10)))
        there.join()

        assert "5 of 10 documents rejected for a while" in caplog.text
        assert sorted(source["n"] for source in full.sources()) == [0, 2, 4, 6, 8]
        assert sorted(source["n"] for source in other.sources()) == [1, 3, 5, 7, 9]

    @pytest.mark.parametrize(
        ("strategy", "said"),
        [
            ((CONSTANT, 3, 50), "after 3 retries"),
            ((FlushBackoffType.EXPONENTIAL, 2, 10), "after 2 retries"),
            ((FlushBackoffType.NONE, -1, -1), "is not sent again"),
        ],
    )
    def test_in_the_end_the_job_fails(self, full, strategy, said):
        sink = builder(full).set_bulk_flush_backoff_strategy(*strategy).build()
        with pytest.raises(SinkError, match=f"(?s){full.name}.*{said}.*set_bulk_flush_backoff_strategy"):
            write(sink, {"id": 1})


class TestTrouble:
    def test_server_that_is_down_is_named_without_the_password(self, search):
        sink = (
            builder(SearchIndex(search, "any"))
            .set_hosts(["127.0.0.1:1"])
            .set_connection_username("me")
            .set_connection_password("secret-word")
            .build()
        )
        for action in (sink.check, lambda: write(sink, {"id": 1})):
            with pytest.raises(SinkError, match=r"(?s)127\.0\.0\.1:1.*Check that the server runs") as failed:
                action()
            assert "secret-word" not in str(failed.value) + repr(failed.value.__cause__)

    def test_other_node_is_asked_when_one_is_down(self, search):
        index = search.new_index()
        sink = builder(index).set_hosts(["127.0.0.1:1", search.host]).build()
        sink.check()
        write(sink, {"id": 1})

        assert len(index.sources()) == 1

    def test_server_that_answers_nothing(self, search):
        sink = builder(search.new_index()).set_socket_timeout(300).build()
        search.pause()
        with pytest.raises(SinkError, match="(?s)timed out"):
            write(sink, {"id": 1})

    def test_something_else_answers(self, search):
        index = search.new_index()
        sink = builder(index).set_connection_path_prefix("some/where/else").build()
        with pytest.raises(SinkError, match=f"(?s)status 4.*{search.host}/some/where/else"):
            write(sink, {"id": 1})


class TestProxy:
    """The real servers behind one that asks for a password: the published parts of them have no users."""

    def proxy(self, search: SearchServer, path: Any, **options: Any) -> NginxServer:
        return NginxServer(path, search.host, user="me", password="s3cret-word", prefix="/search", **options)

    def test_password_and_prefix(self, search, tmp_path):
        index = search.new_index()
        proxy = self.proxy(search, tmp_path)
        proxy.start()
        try:
            new = builder(index).set_hosts([f"127.0.0.1:{proxy.port}"]).set_connection_path_prefix("search")
            new.set_connection_username("me").set_connection_password("s3cret-word")
            new.build().check()
            write(new.build(), {"id": 1})
            wrong = new.set_connection_password("wrong-word").build()
            for action in (wrong.check, lambda: write(wrong, {"id": 2})):
                with pytest.raises(SinkError, match="(?s)401.*Check user and password") as failed:
                    action()
                assert "wrong-word" not in str(failed.value)
        finally:
            proxy.stop()
        assert len(index.sources()) == 1

    def test_tls(self, search, tmp_path):
        index = search.new_index()
        certificate, key = tmp_path / "server.crt", tmp_path / "server.key"
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1"]
        command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
        subprocess.run(command, check=True, capture_output=True)
        proxy = self.proxy(search, tmp_path, certificate=(certificate, key))
        proxy.start()
        try:
            new = builder(index).set_hosts([f"https://127.0.0.1:{proxy.port}"])
            new.set_connection_path_prefix("search")
            new.set_connection_username("me").set_connection_password("s3cret-word")
            with pytest.raises(SinkError, match="set_certificate_authority"):
                new.build().check()
            write(new.set_certificate_authority(str(certificate)).build(), {"id": 1})
        finally:
            proxy.stop()
        assert len(index.sources()) == 1

    def test_requests_that_are_too_large_are_cut(self, search, tmp_path):
        index = search.new_index(mappings=LARGE)
        proxy = self.proxy(search, tmp_path, limit="1m")
        proxy.start()
        try:
            new = builder(index).set_hosts([f"127.0.0.1:{proxy.port}"]).set_connection_path_prefix("search")
            new.set_connection_username("me").set_connection_password("s3cret-word")
            write(new.build(), *({"id": n, "text": "x" * 300_000} for n in range(10)))
            with pytest.raises(SinkError, match='(?s)document "11".*413.*max_content_length'):
                write(new.build(), {"id": 10}, {"id": 11, "text": "x" * 2_000_000})
        finally:
            proxy.stop()
        assert len(index.sources()) == 11


def write_numbers(index: SearchIndex, cluster: MiniCluster) -> None:
    environment = cluster.environment()
    sink = (
        Elasticsearch8SinkBuilder()
        .set_hosts([index.server.host])
        .set_emitter(ElasticsearchEmitter.static_index(index.name, "id"))
        .set_bulk_flush_max_actions(20)
        .set_patience(Patience(total_s=240))
        .build()
    )
    numbers = NumberSequenceSource(0, RECORDS - 1)
    row_type = Types.ROW_NAMED(["id", "square"], [Types.LONG(), Types.LONG()])
    (
        environment.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")
        .map(lambda number: Row(number, number * number), row_type)
        .sink_to(sink)
    )
    environment.execute()


def kill_while_running(server: SearchServer, job: threading.Thread) -> int:
    """Kill it again and again; from this thread, as servers end with the thread that started them."""
    kills = 0
    job.join(0.3)
    while job.is_alive() and kills < 3:
        server.stop()
        server.start()
        kills += 1
        job.join(1)
    job.join()
    return kills


@pytest.mark.parametrize("point", [None, FailurePoint.BEFORE_COMMIT, FailurePoint.AFTER_COMMIT])
def test_nothing_is_lost_or_doubled_when_server_and_slots_are_killed(search, point):
    index = search.new_index()
    with MiniCluster(parallelism=2, options={"millstream.epoch.fixed-records": 20}) as cluster:
        if point is not None:
            cluster.fail_at(point, 5)
        job = threading.Thread(target=write_numbers, args=(index, cluster))
        job.start()
        assert kill_while_running(search, job) > 0

    found = sorted((source["id"], source["square"]) for source in index.sources())
    assert found == [(number, number * number) for number in range(RECORDS)]
