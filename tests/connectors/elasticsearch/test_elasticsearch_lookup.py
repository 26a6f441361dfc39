"""Documents looked up by id: OpenSearch and Elasticsearch, real servers."""

from __future__ import annotations

import asyncio

import pytest

from millstream.base.errors import SourceError
from millstream.datastream.connectors.elasticsearch import (
    ElasticsearchLookup,
    ElasticsearchLookupBuilder,
    Patience,
)
from millstream.testing import check_lookup
from servers.search import SearchIndex

pytestmark = pytest.mark.long


def builder(index: SearchIndex) -> ElasticsearchLookupBuilder:
    new = ElasticsearchLookup.builder().set_hosts([index.server.host]).set_index(index.name)
    return new.set_patience(Patience(total_s=0.3))


def ask(lookup: ElasticsearchLookup, *keys: object) -> object:
    async def run() -> object:
        await lookup.open()
        try:
            return await lookup.lookup(keys)
        finally:
            await lookup.close()

    return asyncio.run(run())


def test_lookup_keeps_the_contract(search):
    index = search.new_index()
    rows = {f"c/{n} ä": {"name": f"name {n}", "n": n} for n in range(50)}
    index.add(rows)

    check_lookup(builder(index).build(), rows, unknown=["c50", "nobody"])


def test_fields_and_keys_that_are_numbers(search):
    index = search.new_index()
    index.add({"7": {"name": "Ada", "at": {"town": "x", "street": "y"}}, "true": {"name": "yes"}})
    lookup = builder(index).set_fields("name", "at.t*").build()

    assert ask(lookup, 7, "7", True, 8) == {
        7: {"name": "Ada", "at": {"town": "x"}},
        "7": {"name": "Ada", "at": {"town": "x"}},
        True: {"name": "yes"},
    }


def test_no_such_index(search):
    with pytest.raises(SourceError, match="(?s)nowhere.*Check the name of the index"):
        ask(builder(SearchIndex(search, "nowhere")).build(), "a")


def test_server_that_is_down(search):
    lookup = builder(SearchIndex(search, "any")).set_hosts(["127.0.0.1:1"]).build()
    with pytest.raises(SourceError, match=r"(?s)127\.0\.0\.1:1.*Check that the server runs"):
        ask(lookup, "a")
