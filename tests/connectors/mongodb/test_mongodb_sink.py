"""MongoDB as a sink, on a stand-in that speaks its protocol."""

from __future__ import annotations

import datetime
import decimal
import threading
import time
import uuid
from typing import Any

import pymongo
import pytest
from bson import Decimal128
from pymongo.collection import Collection
from pymongo.errors import AutoReconnect

from millstream.base.errors import SinkError, TypeMismatchError
from millstream.common import Row, RowKind
from millstream.datastream.connectors.mongodb import MongoSink, Patience
from millstream.spi.batch import Rows
from millstream.spi.sink import WriterContext
from millstream.testing import FailurePoint, MiniCluster, SinkTarget, check_sink

pytestmark = pytest.mark.long

SHORT = Patience(total_s=0.3)
LONG = Patience(total_s=60)


def into(server: Any, collection: Any, patience: Patience = LONG) -> Any:
    builder = MongoSink.builder().set_uri(server.uri()).set_patience(patience)
    return builder.set_database("tests").set_collection(collection.name)


def opened(sink: MongoSink) -> Any:
    writer = sink.build_writer(WriterContext("job", "sink", 0, 1, 0))
    writer.open()
    return writer


def put(writer: Any, *values: Any) -> None:
    writer.write(Rows(list(values)), watermark_ms=0, now_ms=0)
    writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)


def write(sink: MongoSink, *values: Any) -> None:
    writer = opened(sink)
    try:
        put(writer, *values)
    finally:
        writer.close()


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("by_id", [True, False])
def test_sink_keeps_the_contract(mongodb, by_id):
    def new_target() -> SinkTarget:
        collection = mongodb.new_collection()
        sink = into(mongodb, collection)
        if by_id:
            sink.set_id("key")
        return SinkTarget(sink.build(), read=lambda: [each["key"] for each in collection.find()])

    check_sink(
        new_target,
        record=lambda n: {"key": f"k{n} 🎈"},
        key=lambda read: read["key"] if isinstance(read, dict) else read,
        parallelisms=((2, 1),),
    )


def test_documents_are_overwritten_and_deleted_by_id(mongodb):
    collection = mongodb.new_collection()
    names = ("id", "word")
    write(
        into(mongodb, collection).set_id("id").set_batch_size(3).build(),
        Row(id=1, word="a"),
        Row(id=2, word="b"),
        Row.of(names, (1, "a"), RowKind.UPDATE_BEFORE),
        Row.of(names, (1, "c"), RowKind.UPDATE_AFTER),
        {"id": 3, "word": "d"},
        Row.of(names, (2, "b"), RowKind.DELETE),
    )
    assert list(collection.find().sort("_id")) == [
        {"_id": 1, "id": 1, "word": "c"},
        {"_id": 3, "id": 3, "word": "d"},
    ]


def test_records_without_id_are_documents_of_their_own(mongodb):
    collection = mongodb.new_collection()
    write(into(mongodb, collection).build(), {"a": 1}, {"a": 1}, {"_id": "x", "a": 2})
    assert sorted(each["a"] for each in collection.find()) == [1, 1, 2]


def test_function_says_what_is_written(mongodb):
    collection = mongodb.new_collection()
    count = into(mongodb, collection).set_serialization_schema(
        lambda word: pymongo.UpdateOne({"_id": word}, {"$inc": {"n": 1}}, upsert=True) if word else None
    )
    write(count.build(), "a", "b", "", "a")
    assert list(collection.find().sort("_id")) == [{"_id": "a", "n": 2}, {"_id": "b", "n": 1}]


def test_values_are_there_as_they_were(mongodb):
    collection = mongodb.new_collection()
    document = {
        "id": uuid.UUID("12345678-1234-5678-1234-567812345678"),
        "text": "grüße 🎈",
        "int": 2**62,
        "float": 1e300,
        "bool": True,
        "none": None,
        "bytes": b"\x00\xff",
        "list": [1, "a", None],
        "inner": {"a": {"b": [1]}},
        "at": datetime.datetime(2024, 2, 29, 12, 30, 0, 123_000),
    }
    write(into(mongodb, collection).set_id("id").build(), document | {"sum": decimal.Decimal("12.340")})
    assert collection.find_one({}, {"_id": 0}) == document | {"sum": Decimal128("12.340")}


def test_job_that_fails_behind_a_write(mongodb):
    collection = mongodb.new_collection()
    with MiniCluster(parallelism=2) as cluster:
        cluster.fail_at(FailurePoint.AFTER_EPOCH, 3)
        environment = cluster.environment()
        stream = environment.from_collection([{"id": number} for number in range(200)])
        stream.sink_to(into(mongodb, collection).set_id("id").build())
        environment.execute()
    assert [each["_id"] for each in collection.find().sort("_id")] == list(range(200))


class TestTrouble:
    def test_server_that_is_down_is_named_without_its_password(self, caplog):
        builder = MongoSink.builder().set_uri(
            "mongodb://me:secret-word@127.0.0.1:1/?serverSelectionTimeoutMS=1"
        )
        sink = builder.set_database("d").set_collection("c").set_patience(SHORT).build()
        with pytest.raises(SinkError, match="127.0.0.1:1") as failed:
            sink.check()
        assert "secret-word" not in str(failed.value) + caplog.text
        assert len([each for each in caplog.records if each.levelname in ("WARNING", "ERROR")]) <= 1

    def test_server_is_killed_in_the_middle_and_comes_back(self, mongodb):
        collection = mongodb.new_collection()
        writer = opened(into(mongodb, collection).set_id("id").build())
        put(writer, {"id": 1})
        mongodb.stop()
        failed: list[BaseException] = []

        def go_on() -> None:
            try:
                put(writer, {"id": 2}, {"id": 3})
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=go_on)
        thread.start()
        time.sleep(0.5)
        mongodb.start()
        thread.join(60)
        writer.close()

        assert not failed
        found = mongodb.client.tests[collection.name].find()  # the stand-in has forgotten what was before
        assert [each["_id"] for each in found] == [2, 3]

    def test_insertions_that_are_repeated_are_there_once(self, mongodb):
        collection = mongodb.new_collection()
        writer = opened(into(mongodb, collection, LONG).build())
        bulk_write, tries = Collection.bulk_write, []

        def lose_the_answer(self: Any, models: Any, **options: Any) -> Any:
            tries.append(len(models))
            result = bulk_write(self, models, **options)
            if len(tries) == 1:
                raise AutoReconnect("the answer was lost")
            return result

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Collection, "bulk_write", lose_the_answer)
            put(writer, {"a": 1}, {"a": 2})
        writer.close()

        assert tries == [2, 2]
        assert sorted(each["a"] for each in collection.find()) == [1, 2]

    def test_refused_document_is_named(self, mongodb):
        collection = mongodb.new_collection()
        collection.create_index("name", unique=True)
        sink = into(mongodb, collection).set_id("id").build()
        with pytest.raises(SinkError, match=r"writing \{'id': 2, 'name': 'a'\}[^$]*unique index"):
            write(sink, {"id": 1, "name": "a"}, {"id": 2, "name": "a"}, {"id": 3, "name": "c"})

    def test_value_that_bson_has_not(self, mongodb):
        sink = into(mongodb, mongodb.new_collection()).build()
        for value in (object(), 2**80):
            with pytest.raises(TypeMismatchError, match="cannot be written to MongoDB"):
                write(sink, {"a": value})
