"""Documents as a source: OpenSearch and Elasticsearch, real servers."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.base.errors import LostInputError, SourceError
from millstream.common import Duration, WatermarkStrategy
from millstream.datastream.connectors.elasticsearch import (
    ElasticsearchDocument,
    ElasticsearchSource,
    ElasticsearchSourceBuilder,
    Patience,
)
from millstream.spi.source import PlanRequest
from millstream.testing import FailurePoint, MiniCluster, check_source
from servers.search import SearchIndex

pytestmark = pytest.mark.long


def builder(index: SearchIndex) -> ElasticsearchSourceBuilder:
    new = ElasticsearchSource.builder().set_hosts([index.server.host]).set_index(index.name)
    return new.set_patience(Patience(total_s=0.3))


def fill(index: SearchIndex, count: int) -> None:
    index.add({str(number): {"n": number, "even": number % 2 == 0} for number in range(count)})
    index.server.ask("POST", f"/{index.name}/_forcemerge?max_num_segments=1&flush=true")


def read_all(source: ElasticsearchSource) -> list[Any]:
    enumerator, reader = source.build_enumerator(1, None), source.build_reader(0, 1)
    reader.open()
    values: list[Any] = []
    while True:
        plan = enumerator.plan(PlanRequest(1, 1_000_000, 0))
        if not plan.ranges:
            return values
        enumerator.advance(
            [reader.read(each, lambda batch: values.extend(batch.values) or True) for each in plan.ranges[0]]
        )


@pytest.mark.parametrize(("shards", "slices"), [(1, 1), (3, 2)])
def test_source_keeps_the_contract(search, shards, slices):
    index = search.new_index(shards=shards)
    fill(index, 60)

    check_source(
        builder(index).set_slices_per_shard(slices).set_page_size(7).build(),
        expected=[{"n": number, "even": number % 2 == 0} for number in range(60)],
        key=lambda document: document["n"],
        parallelisms=(1, 2),
        budgets=(3, 1_000),
    )


@pytest.mark.parametrize(("shards", "slices", "page"), [(1, 1, 10_000), (1, 3, 100), (3, 1, 33), (5, 4, 100)])
def test_every_document_comes_once(search, shards, slices, page):
    index = search.new_index(shards=shards)
    for part in range(4):  # several segments
        index.add({str(number): {"n": number} for number in range(part * 1_500, part * 1_500 + 1_500)})
    source = builder(index).set_slices_per_shard(slices).set_page_size(page).build()

    assert sorted(document["n"] for document in read_all(source)) == list(range(6_000))


def test_what_is_written_later_is_not_read(search):
    index = search.new_index()
    fill(index, 10)
    source = builder(index).build()
    enumerator = source.build_enumerator(1, None)
    index.add({"10": {"n": 10}, "0": {"n": -1}})
    (planned,) = enumerator.plan(PlanRequest(1, 100, 0)).ranges[0]
    values: list[Any] = []
    source.build_reader(0, 1).read(planned, lambda batch: values.extend(batch.values) or True)

    assert sorted(value["n"] for value in values) == list(range(10))


def test_queries_fields_patterns_and_metadata(search):
    first = search.new_index()
    second = SearchIndex(search, f"{first.name}-more")
    second.make(shards=2)
    fill(first, 4)
    fill(second, 3)
    source = builder(first).set_index(f"{first.name}*").set_query({"term": {"even": True}}).set_fields("n")

    assert sorted(read_all(source.set_with_metadata().build()), key=lambda each: (each.index, each.id)) == [
        ElasticsearchDocument(index.name, key, {"n": int(key)})
        for index, keys in ((first, "02"), (second, "02"))
        for key in keys
    ]


class TestTrouble:
    def test_no_such_index(self, search):
        with pytest.raises(SourceError, match="(?s)nowhere.*Check the name"):
            builder(SearchIndex(search, "nowhere")).build().build_enumerator(1, None)

    def test_server_that_is_down(self, search):
        source = builder(SearchIndex(search, "any")).set_hosts(["127.0.0.1:1"]).build()
        with pytest.raises(SourceError, match=r"(?s)127\.0\.0\.1:1.*Check that the server runs"):
            source.build_enumerator(1, None)

    def test_query_that_is_none(self, search):
        index = search.new_index()
        with pytest.raises(SourceError, match=f"(?s){index.name}.*nonsense"):
            read_all(builder(index).set_query({"nonsense": {}}).build())

    def test_view_that_is_gone(self, search):
        index = search.new_index()
        fill(index, 10)
        source = builder(index).set_keep_alive(Duration.of_minutes(5)).build()
        enumerator = source.build_enumerator(1, None)
        snapshot = enumerator.snapshot()
        search.stop()
        search.start()
        with pytest.raises(LostInputError, match="(?s)view of index.*is gone.*Start the job anew"):
            source.build_enumerator(1, snapshot).plan(PlanRequest(1, 100, 0))

    def test_views_are_closed_behind_the_last_checkpoint(self, search):
        index = search.new_index()
        source = builder(index).build()
        enumerator = source.build_enumerator(1, None)
        snapshot = enumerator.snapshot()
        (planned,) = enumerator.plan(PlanRequest(1, 100, 0)).ranges[0]
        enumerator.advance([source.build_reader(0, 1).read(planned, lambda batch: True)])
        enumerator.checkpoint_completed(1)
        with pytest.raises(LostInputError):
            source.build_enumerator(1, snapshot).plan(PlanRequest(1, 100, 0))


@pytest.mark.parametrize("point", [FailurePoint.BEFORE_COMMIT, FailurePoint.AFTER_COMMIT])
def test_job_whose_slots_fail_reads_every_document_once(search, point):
    index = search.new_index(shards=2)
    fill(index, 2_000)
    with MiniCluster(parallelism=2, options={"millstream.epoch.fixed-records": 50}) as cluster:
        cluster.fail_at(point, 5)
        environment = cluster.environment()
        source = builder(index).set_page_size(20).build()
        stream = environment.from_source(source, WatermarkStrategy.no_watermarks(), "documents")
        values = list(stream.map(lambda document: document["n"]).execute_and_collect())

    assert sorted(values) == list(range(2_000))
