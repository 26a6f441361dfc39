"""What can be said of MongoDB sources and sinks without a server."""

from __future__ import annotations

import datetime
import decimal
import pickle

import pymongo
import pytest
from bson import Decimal128, ObjectId
from bson.datetime_ms import DatetimeMS

from millstream.base.errors import ConfigurationError, NotSupportedError, TypeMismatchError
from millstream.common import Instant, Row, RowKind
from millstream.connectors.mongodb.documents import ById, Inserts, Models, document_of
from millstream.connectors.mongodb.ids import IdRange
from millstream.connectors.mongodb.reading import MongoEnumerator, MongoSnapshot
from millstream.datastream.connectors.mongodb import DeliveryGuarantee, MongoSink, MongoSource
from millstream.spi.source import PlanRequest, RangeEnd

URI = "mongodb://me:secret-word@host:27017"


def sink():
    return MongoSink.builder().set_uri(URI).set_database("shop").set_collection("orders")


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: MongoSink.builder().build(), "URI is not said"),
        (lambda: MongoSink.builder().set_uri(URI).build(), "database is not said"),
        (lambda: MongoSource.builder().set_uri(URI).set_database("d").build(), "collection is not said"),
        (lambda: MongoSource.builder().set_uri("http://host"), "mongodb://"),
        (lambda: MongoSource.builder().set_filter("x"), "must be a dict"),
        (lambda: MongoSource.builder().set_split_size(0), "positive"),
        (lambda: MongoSource.builder().set_fetch_size(0), "positive"),
        (lambda: sink().set_batch_size(0), "positive"),
        (lambda: sink().set_serialization_schema(5), "no function"),
        (lambda: sink().set_id("a").set_serialization_schema(print), "said twice"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_said(declare, said):
    with pytest.raises(ConfigurationError, match=said):
        declare()


def test_exactly_once_is_not_there():
    with pytest.raises(NotSupportedError, match="not exactly once"):
        sink().set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)


def test_declared_objects_travel_and_show_no_password():
    source = MongoSource.builder().set_uri(URI).set_database("shop").set_collection("orders").build()
    for declared in (source, sink().set_id("id").build()):
        assert "secret-word" not in repr(pickle.loads(pickle.dumps(declared)))


@pytest.mark.parametrize("uri", ["mongodb://me:secret@word@host", "mongodb://:secret@host"])
def test_uri_that_does_not_fit_is_not_shown(uri):
    with pytest.raises(ConfigurationError, match="%40") as failed:
        MongoSink.builder().set_uri(uri).set_database("d").set_collection("c").build().check()
    assert "secret" not in str(failed.value) and failed.value.__cause__ is None


class TestWrites:
    def test_documents_of_rows_and_dicts(self):
        record = Row(name="Ada", tags=("a",), at=Instant.of_epoch_milli(7), home=Row(street="High St"))
        assert document_of(record) == {
            "name": "Ada",
            "tags": ["a"],
            "at": DatetimeMS(7),
            "home": {"street": "High St"},
        }
        values = {"n": decimal.Decimal("1.50"), 5: datetime.date(2024, 2, 29), "b": bytearray(b"x")}
        assert document_of(values) == {
            "n": Decimal128("1.50"),
            "5": datetime.datetime(2024, 2, 29),
            "b": b"x",
        }

    @pytest.mark.parametrize("record", [5, (1, 2), Row(1, 2)])
    def test_what_has_no_names_is_no_document(self, record):
        with pytest.raises(TypeMismatchError, match="no names"):
            document_of(record)

    def test_insertions_have_ids_of_their_own(self):
        write = Inserts().of({"a": 1})
        assert isinstance(write, pymongo.InsertOne)
        assert isinstance(write._doc["_id"], ObjectId)

    def test_changes_are_not_inserted(self):
        with pytest.raises(TypeMismatchError, match="of the kind -D"):
            Inserts().of(Row.of(("a",), (1,), RowKind.DELETE))

    def test_documents_are_overwritten_and_deleted_by_id(self):
        by_field, by_function = ById("id"), ById(lambda row: f"{row.id}!")
        row = Row(id=1, a=2)
        assert by_field.of(row) == pymongo.ReplaceOne({"_id": 1}, {"_id": 1, "id": 1, "a": 2}, upsert=True)
        assert by_function.of(row)._filter == {"_id": "1!"}
        assert by_field.of(Row.of(("id",), (1,), RowKind.DELETE)) == pymongo.DeleteOne({"_id": 1})
        assert by_field.of(Row.of(("id",), (1,), RowKind.UPDATE_BEFORE)) is None

    def test_record_without_id(self):
        with pytest.raises(TypeMismatchError, match="has no id"):
            ById("id").of({"a": 1})

    def test_what_a_function_makes(self):
        update = pymongo.UpdateOne({"_id": 1}, {"$inc": {"n": 1}})
        assert Models(lambda _: update).of(5) is update
        assert Models(lambda _: None).of(5) is None
        with pytest.raises(TypeMismatchError, match="has to be a write of pymongo's"):
            Models(lambda value: value).of(5)


def test_ranges_stay_with_their_subtasks_when_a_job_goes_on():
    ranges = tuple(IdRange(number, number * 10, number * 10 + 10) for number in range(6))
    enumerator = MongoEnumerator(None, None, 10, 2, MongoSnapshot(ranges))
    request = PlanRequest(2, 100, 0)
    planned = enumerator.plan(request).ranges
    assert [len(planned[subtask]) for subtask in (0, 1)] == [3, 3]
    enumerator.advance([RangeEnd("None[0]", 10, True, 10), RangeEnd("None[1]", 15, False, 5)])

    again = MongoEnumerator(None, None, 10, 2, pickle.loads(pickle.dumps(enumerator.snapshot())))
    assert again.snapshot() == enumerator.snapshot()
    assert again.plan(request).ranges[1][0].start == 15
    alone = MongoEnumerator(None, None, 10, 1, enumerator.snapshot())
    assert [each.split.ids.number for each in alone.plan(request).ranges[0]] == [1, 2, 3, 4]
