"""Documents of MongoDB, looked up, on a stand-in that speaks its protocol."""

from __future__ import annotations

import asyncio
import datetime
import threading
from typing import Any

import pytest

from millstream.base.errors import ConfigurationError, SourceError
from millstream.datastream.connectors.mongodb import MongoLookup, MongoLookupBuilder, Patience
from millstream.testing import check_lookup

pytestmark = pytest.mark.long


def of(server: Any, collection: Any, total_s: float = 60) -> MongoLookupBuilder:
    new = MongoLookup.builder().set_uri(server.uri()).set_patience(Patience(total_s=total_s))
    return new.set_database("tests").set_collection(collection.name)


def ask(lookup: MongoLookup, *keys: object) -> Any:
    async def run() -> object:
        await lookup.open()
        try:
            return await lookup.lookup(keys)
        finally:
            await lookup.close()

    return asyncio.run(run())


def test_lookup_by_id_keeps_the_contract(mongodb):
    rows = {f"c/{n} ä": {"_id": f"c/{n} ä", "n": n} for n in range(40)}
    lookup = of(mongodb, mongodb.new_collection(*rows.values())).set_request_size(7).build()
    check_lookup(lookup, rows, unknown=["nobody", 7])


def test_lookup_by_a_field_keeps_the_contract(mongodb):
    documents = [{"_id": n, "at": {"shop": f"s{n % 5}"}, "n": n} for n in range(20)]
    shops = of(mongodb, mongodb.new_collection(*documents)).set_key_field("at.shop")
    rows = {f"s{shop}": documents[shop::5] for shop in range(5)}
    check_lookup(shops.set_gives_lists().build(), rows, unknown=["s5"])


def test_fields(mongodb):
    collection = mongodb.new_collection({"_id": 1, "shop": "north", "cents": 5, "more": 6})
    assert ask(of(mongodb, collection).set_projected_fields("cents").build(), 1, 2) == {1: {"cents": 5}}
    by_shop = of(mongodb, collection).set_key_field("shop")
    assert ask(by_shop.set_projected_fields("cents").build(), "north") == {"north": {"cents": 5}}
    assert ask(by_shop.set_projected_fields("shop", "_id").build(), "north") == {
        "north": {"_id": 1, "shop": "north"}
    }


def test_documents_that_are_found_by_no_key(mongodb):
    tags = mongodb.new_collection({"_id": 1, "tags": ["a", "b"]})
    with pytest.raises(SourceError, match="(?s)no key that was asked for.*arrays"):
        ask(of(mongodb, tags).set_key_field("tags").build(), "a")
    times = mongodb.new_collection({"_id": datetime.datetime(2024, 1, 1)})
    aware = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    with pytest.raises(SourceError, match="without a zone"):
        ask(of(mongodb, times).build(), aware)


def test_several_documents_of_a_key(mongodb):
    collection = mongodb.new_collection({"_id": 1, "n": 5}, {"_id": 2, "n": 5})
    with pytest.raises(SourceError, match="(?s)key 5 has several rows.*set_gives_lists"):
        ask(of(mongodb, collection).set_key_field("n").build(), 5)


def test_server_that_stays_away_is_named(mongodb):
    lookup = of(mongodb, mongodb.new_collection({"_id": 1}), 0.2).build()
    mongodb.stop()
    with pytest.raises(SourceError, match="can be reached"):
        ask(lookup, 1)


def test_server_that_answers_nothing_for_a_while(mongodb):
    lookup = of(mongodb, mongodb.new_collection({"_id": 1})).build()
    mongodb.pause()
    timer = threading.Timer(2, mongodb.go_on)
    timer.start()
    assert ask(lookup, 1) == {1: {"_id": 1}}
    timer.join()


def test_arguments_that_do_not_fit(mongodb):
    new = MongoLookup.builder().set_uri("mongodb://h").set_database("d").set_collection("c")
    for declare, said in (
        (lambda: MongoLookup.builder().build(), "URI is not said"),
        (lambda: new.set_key_field(""), "is empty"),
        (lambda: new.set_key_field("a.b").set_projected_fields("c").build(), "a nested field"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            declare()
