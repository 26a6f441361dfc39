"""Records into lines of bulk requests, and which of them are sent again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from millstream.base.errors import ConfigurationError, SinkError, TypeMismatchError
from millstream.base.time import Instant
from millstream.common import Row
from millstream.connectors.elasticsearch.bulk import items_again
from millstream.connectors.elasticsearch.documents import ActionEncoder, BulkItem
from millstream.connectors.elasticsearch.rejections import Backoff
from millstream.datastream.connectors.elasticsearch import (
    ElasticsearchAction,
    ElasticsearchEmitter,
    FlushBackoffType,
)
from millstream.types.row import RowKind


@dataclass
class Order:
    id: int
    shop: str


def of_kind(kind: RowKind) -> Row:
    row = Row(id=7, shop="north")
    row.set_row_kind(kind)
    return row


def lines(emitter: ElasticsearchEmitter, value: Any) -> list[Any]:
    """Return what is sent for a record."""
    encoder = ActionEncoder(emitter.doc_type)
    data = b"".join(encoder.encode(action).data for action in emitter.emit(value))
    return [json.loads(line) for line in data.splitlines()]


@pytest.mark.parametrize(
    "record",
    [
        {"id": 7, "shop": "north"},
        Row(id=7, shop="north"),
        Order(7, "north"),
        '{"id": 7, "shop": "north"}',
        b'{"id": 7,\n "shop": "north"}',
    ],
    ids=["dict", "row", "dataclass", "text", "bytes"],
)
def test_records_into_documents(record):
    document = {"id": 7, "shop": "north"}

    assert lines(ElasticsearchEmitter.static_index("orders"), record) == [
        {"index": {"_index": "orders"}},
        document,
    ]
    assert lines(ElasticsearchEmitter.dynamic_index("shop", "id"), record) == [
        {"update": {"_index": "north", "_id": "7"}},
        {"doc": document, "doc_as_upsert": True},
    ]


def test_rows_of_changes():
    emitter = ElasticsearchEmitter.static_index("orders", "id")
    written = lines(emitter, of_kind(RowKind.INSERT))

    assert lines(emitter, of_kind(RowKind.UPDATE_AFTER)) == written
    assert lines(emitter, of_kind(RowKind.UPDATE_BEFORE)) == []
    assert lines(emitter, of_kind(RowKind.DELETE)) == [{"delete": {"_index": "orders", "_id": "7"}}]
    with pytest.raises(SinkError, match="of the kind -D"):
        lines(ElasticsearchEmitter.static_index("orders"), of_kind(RowKind.DELETE))


def test_actions_of_a_function():
    def change(order: dict[str, Any]) -> Any:
        if order["cents"] is None:
            return ElasticsearchAction.delete_document("orders", id=order["id"], version=3)
        return [
            ElasticsearchAction.index_document("orders", order, id=order["id"], version=2, routing="r"),
            ElasticsearchAction.create_document("log", order),
            ElasticsearchAction.upsert_document("totals", {"sum": 1}, id="all"),
        ]

    emitter = ElasticsearchEmitter.of(change)
    assert lines(emitter, {"id": "a", "cents": None}) == [
        {"delete": {"_index": "orders", "_id": "a", "version": 3, "version_type": "external_gte"}}
    ]
    order = {"id": "a", "cents": 5}
    assert lines(emitter, order) == [
        {
            "index": {
                "_index": "orders",
                "_id": "a",
                "version": 2,
                "version_type": "external_gte",
                "routing": "r",
            }
        },
        order,
        {"create": {"_index": "log"}},
        order,
        {"update": {"_index": "totals", "_id": "all"}},
        {"doc": {"sum": 1}, "doc_as_upsert": True},
    ]
    assert lines(ElasticsearchEmitter.of(lambda _: None), order) == []


def test_types_of_documents_for_version_6():
    assert lines(ElasticsearchEmitter.static_index("orders", doc_type="order"), {"a": 1})[0] == {
        "index": {"_index": "orders", "_type": "order"}
    }


def test_values():
    document = {
        "when": datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
        "local": datetime(2024, 2, 29, 12, 30, 1, 500_000),
        "day": date(2024, 2, 29),
        "instant": Instant(1_700_000_000, 5),
        "price": Decimal("12.30"),
        "bytes": b"ab",
        "nothing": float("nan"),
        "rows": [Row(a=1), Row(1, "x")],
        "large": 2**63,
        "flag": True,
    }
    text = ActionEncoder().document(document)

    assert json.loads(text, parse_float=str) == {
        "when": "2024-02-29T12:30:00Z",
        "local": "2024-02-29T12:30:01.500000",
        "day": "2024-02-29",
        "instant": "2023-11-14T22:13:20.000000005Z",
        "price": "12.30",
        "bytes": "YWI=",
        "nothing": None,
        "rows": [{"a": 1}, [1, "x"]],
        "large": 2**63,
        "flag": True,
    }


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (7, "no object"),
        ([1], "no object"),
        (Row(1, 2), "no names"),
        ("[1]", "no JSON object"),
        ("{", "no JSON"),
        ({"a": object()}, "no form in JSON"),
    ],
)
def test_records_that_are_no_documents(record, said):
    with pytest.raises(TypeMismatchError, match=f"(?s)no document can be made of.*{said}"):
        ActionEncoder().document(record)


@pytest.mark.parametrize("record", [{"shop": "a"}, {"id": None}, {"id": [1]}, Row(shop="a"), "[1]", Order])
def test_ids_that_are_missing(record):
    with pytest.raises(TypeMismatchError, match='field "id"'):
        lines(ElasticsearchEmitter.static_index("orders", "id"), record)


@pytest.mark.parametrize(
    "action",
    [
        ElasticsearchAction.upsert_document("orders", {}, id=None),  # type: ignore[arg-type]
        ElasticsearchAction.index_document("", {}),
        ElasticsearchAction.index_document("orders", {}, id=7),  # type: ignore[arg-type]
    ],
)
def test_actions_that_do_not_fit(action):
    with pytest.raises(TypeMismatchError):
        ActionEncoder().encode(action)


def test_names_that_are_none():
    for make in (ElasticsearchEmitter.static_index, ElasticsearchEmitter.dynamic_index):
        with pytest.raises(ConfigurationError):
            make("")
        with pytest.raises(ConfigurationError):
            make("orders", 7)
    with pytest.raises(ConfigurationError):
        ElasticsearchEmitter.of("orders")


def test_what_is_sent_again_stays_in_order_for_each_document():
    def item(key: str | None, number: int) -> BulkItem:
        action = ElasticsearchAction.index_document("orders", {"n": number}, id=key)
        return ActionEncoder().encode(action)

    items = [item("a", 1), item("b", 1), item(None, 1), item("a", 2), item("b", 2), item(None, 2)]

    assert items_again(items, {0: "busy"}) == [items[0], items[3]]
    assert items_again(items, {2: "busy", 4: "busy"}) == [items[2], items[4]]


def test_pauses():
    assert list(Backoff(FlushBackoffType.CONSTANT, 2, 30).pauses()) == [0.03, 0.03]
    assert list(Backoff(FlushBackoffType.NONE, -1, -1).pauses()) == []
