"""MongoDB as a source, on a stand-in that speaks its protocol."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from millstream.base.errors import NotSupportedError, SourceError
from millstream.common import WatermarkStrategy
from millstream.datastream.connectors.mongodb import MongoSource, Patience
from millstream.testing import MiniCluster, check_source

pytestmark = pytest.mark.long


def of(server: Any, collection: Any, total_s: float = 60) -> Any:
    builder = MongoSource.builder().set_uri(server.uri()).set_patience(Patience(total_s=total_s))
    return builder.set_database("tests").set_collection(collection.name)


def read(source: MongoSource) -> list[Any]:
    with MiniCluster(parallelism=2) as cluster:
        stream = cluster.environment().from_source(source, WatermarkStrategy.no_watermarks(), "documents")
        return cluster.collect(stream)


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("count", [0, 1, 7, 100])
def test_source_keeps_the_contract(mongodb, count):
    documents = [{"_id": f"{number:03}", "n": number} for number in range(count)]
    source = of(mongodb, mongodb.new_collection(*documents)).set_split_size(7).set_fetch_size(3).build()
    check_source(source, expected=documents, parallelisms=(1, 2), budgets=(2, 50))


@pytest.mark.parametrize("size", [1, 9, 10, 11, 1_000])
def test_each_document_is_read_once_whatever_the_splits(mongodb, size):
    documents = [{"n": number} for number in range(30)]  # ids are ObjectIds
    source = of(mongodb, mongodb.new_collection(*documents)).set_split_size(size).build()
    assert sorted(each["n"] for each in read(source)) == list(range(30))


def test_filter_and_fields(mongodb):
    collection = mongodb.new_collection(*[{"_id": n, "n": n, "even": n % 2 == 0} for n in range(10)])
    even = of(mongodb, collection).set_filter({"even": True}).set_split_size(3)
    assert sorted(each["n"] for each in read(even.set_projected_fields("n").build())) == [0, 2, 4, 6, 8]
    assert sorted(map(str, read(even.build())))[:2] == ["{'n': 0}", "{'n': 2}"]
    assert {"_id": 4, "n": 4} in read(even.set_projected_fields("_id", "n").build())


def test_documents_that_come_later_are_left_out(mongodb):
    collection = mongodb.new_collection(*[{"_id": n} for n in range(5)])
    source = of(mongodb, collection).build()
    enumerator = source.build_enumerator(1, None)
    collection.insert_one({"_id": 99})
    assert [ids.up_to for ids in enumerator.snapshot().waiting] == [4]


def test_ids_of_several_types_are_refused(mongodb):
    source = of(mongodb, mongodb.new_collection({"_id": 1}, {"_id": "a"})).build()
    with pytest.raises(NotSupportedError, match="of several types"):
        source.build_enumerator(1, None)


def test_filter_that_the_server_refuses(mongodb):
    source = of(mongodb, mongodb.new_collection({"_id": 1})).set_filter({"$nothing": 1}).build()
    with pytest.raises(SourceError, match="trying the filter"):
        source.build_enumerator(1, None)


def test_server_that_stays_away_is_named(mongodb):
    source = of(mongodb, mongodb.new_collection({"_id": 1}), 0.2).build()
    mongodb.stop()
    with pytest.raises(SourceError, match="can be reached"):
        source.build_enumerator(1, None)


def test_server_that_answers_nothing_for_a_while(mongodb):
    source = of(mongodb, mongodb.new_collection(*[{"_id": n} for n in range(100)])).set_fetch_size(1).build()
    mongodb.pause()
    timer = threading.Timer(3, mongodb.go_on)
    timer.start()
    began = time.monotonic()
    assert len(read(source)) == 100
    assert time.monotonic() - began >= 2
    timer.join()
