"""Change logs as Debezium, Canal and Maxwell write them, from their documentation."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.errors import (
    ConfigurationError,
    MalformedRecordError,
    NotSupportedError,
    TypeMismatchError,
)
from millstream.common import RowKind, Types
from millstream.connectors.messages import MalformedPolicy, MessageDecoder
from millstream.datastream.formats.json import (
    CanalJsonDeserializationSchema,
    CanalJsonSerializationSchema,
    DebeziumJsonDeserializationSchema,
    DebeziumJsonSerializationSchema,
    MaxwellJsonDeserializationSchema,
    MaxwellJsonSerializationSchema,
)
from millstream.spi.source import SourceReaderContext
from millstream.types.row import Row

KIND = Types.ROW_NAMED(
    ["id", "name", "description", "weight"], [Types.INT(), Types.STRING(), Types.STRING(), Types.DOUBLE()]
)
FORMATS = {
    "debezium": (DebeziumJsonDeserializationSchema, DebeziumJsonSerializationSchema),
    "canal": (CanalJsonDeserializationSchema, CanalJsonSerializationSchema),
    "maxwell": (MaxwellJsonDeserializationSchema, MaxwellJsonSerializationSchema),
}
SCOOTER = {"id": 111, "name": "scooter", "description": "Big 2-wheel scooter ", "weight": 5.18}
HEAVIER = {**SCOOTER, "weight": 5.15}


def changes(schema, message):
    text = message if isinstance(message, bytes) else json.dumps(message).encode()
    rows = pickle.loads(pickle.dumps(schema(KIND))).deserialize_many(text)
    return [(str(row.get_row_kind()), row.as_dict()) for row in rows]


def test_debezium():
    def read(message):
        return changes(DebeziumJsonDeserializationSchema, message)

    source = {"db": "inventory", "table": "products", "ts_ms": 1}
    for op in "cr":
        assert read({"before": None, "after": SCOOTER, "source": source, "op": op}) == [("+I", SCOOTER)]
    update = {"before": SCOOTER, "after": HEAVIER, "source": source, "op": "u", "ts_ms": 1589362330904}
    assert read(update) == [("-U", SCOOTER), ("+U", HEAVIER)]
    assert read({"schema": {"type": "struct"}, "payload": update}) == [("-U", SCOOTER), ("+U", HEAVIER)]
    keys_only = {"id": 111, "name": None, "description": None, "weight": None}
    assert read({"before": {"id": 111}, "after": None, "op": "d"}) == [("-D", keys_only)]
    assert read(b"") == []
    assert read({"schema": None, "payload": None}) == []
    for op in "ud":
        with pytest.raises(MalformedRecordError, match="has no row as it was before") as raised:
            read({"before": None, "after": SCOOTER, "op": op})
        assert "REPLICA IDENTITY FULL" in raised.value.hint


def test_canal():
    def read(message):
        return changes(CanalJsonDeserializationSchema, message)

    texts = {name: str(value) for name, value in SCOOTER.items()}
    head = {"database": "inventory", "table": "products", "isDdl": False, "pkNames": ["id"]}
    other = {**texts, "id": "112"}
    assert read({**head, "data": [texts, other], "old": None, "type": "INSERT"}) == [
        ("+I", SCOOTER),
        ("+I", {**SCOOTER, "id": 112}),
    ]
    changed = {**head, "data": [{**texts, "weight": "5.15"}], "old": [{"weight": "5.18"}], "type": "UPDATE"}
    assert read(changed) == [("-U", SCOOTER), ("+U", HEAVIER)]
    was_null = {**head, "data": [texts], "old": [{"name": None}], "type": "UPDATE"}
    assert read(was_null) == [("-U", {**SCOOTER, "name": None}), ("+U", SCOOTER)]
    assert read({**head, "data": [texts], "old": None, "type": "DELETE"}) == [("-D", SCOOTER)]
    assert read({**head, "data": None, "isDdl": True, "type": "CREATE"}) == []


def test_maxwell():
    def read(message):
        return changes(MaxwellJsonDeserializationSchema, message)

    head = {"database": "test", "table": "product", "ts": 1596684883, "xid": 7125, "commit": True}
    for kind in ("insert", "bootstrap-insert"):
        assert read({**head, "type": kind, "data": SCOOTER}) == [("+I", SCOOTER)]
    update = {**head, "type": "update", "data": HEAVIER, "old": {"weight": 5.18}}
    assert read(update) == [("-U", SCOOTER), ("+U", HEAVIER)]
    assert read({**head, "type": "delete", "data": SCOOTER}) == [("-D", SCOOTER)]
    assert read({**head, "type": "bootstrap-start", "data": {}}) == []


@given(
    name=st.sampled_from(sorted(FORMATS)),
    kind=st.sampled_from(list(RowKind)),
    values=st.tuples(
        st.none() | st.integers(-(1 << 31), (1 << 31) - 1),
        st.none() | st.text(),
        st.none() | st.text(),
        st.none() | st.floats(allow_nan=False, allow_infinity=False),
    ),
)
def test_whatever_is_written_is_read_as_inserted_or_deleted(name, kind, values):
    reads, writes = FORMATS[name]
    row = Row(**dict(zip(KIND.get_field_names(), values, strict=True)))
    row.set_row_kind(kind)
    written = writes(KIND).serialize(row)
    (read,) = reads(KIND).deserialize_many(written)
    inserted = kind in (RowKind.INSERT, RowKind.UPDATE_AFTER)
    assert read.get_row_kind() == (RowKind.INSERT if inserted else RowKind.DELETE)
    assert read.as_dict() == row.as_dict()


def test_what_is_written_is_what_flink_writes():
    row = Row(**SCOOTER)
    plain = json.dumps(SCOOTER)
    assert DebeziumJsonSerializationSchema(KIND).serialize(row).decode() == (
        f'{{"before": null, "after": {plain}, "op": "c"}}'
    )
    row.set_row_kind(RowKind.UPDATE_BEFORE)
    assert (
        CanalJsonSerializationSchema(KIND).serialize(row).decode()
        == f'{{"data": [{plain}], "type": "DELETE"}}'
    )
    assert (
        MaxwellJsonSerializationSchema(KIND).serialize(row).decode()
        == f'{{"data": {plain}, "type": "delete"}}'
    )


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize(
    "message",
    [
        b"{",
        b"5",
        b"[]",
        b"{}",
        b"null",
        b'{"op": "x", "type": "x"}',
        b'{"op": "c", "type": "INSERT", "after": 5, "data": 5}',
        b'{"op": "c", "type": "insert", "after": {"id": "x"}, "data": {"id": "x"}}',
        b'{"op": "u", "type": "UPDATE", "data": [{}], "old": []}',
        b'{"op": "u", "type": "update", "data": {}, "old": null}',
    ],
)
def test_messages_that_are_no_changes_are_malformed(name, message):
    reads = FORMATS[name][0](KIND)
    with pytest.raises(MalformedRecordError, match="is no change of"):
        reads.deserialize_many(message)


def test_sources_give_both_rows_of_an_update_with_the_messages_timestamp():
    reads = DebeziumJsonDeserializationSchema(KIND)
    update = json.dumps({"before": SCOOTER, "after": HEAVIER, "op": "u"}).encode()
    decoder = MessageDecoder(
        reads, MalformedPolicy.skip(), SourceReaderContext(), source="topic", columns=True
    )
    batch = decoder.decode([update, None, b"{", update], str, [10, 20, 30, 40])
    assert [str(row.get_row_kind()) for row in batch.values] == ["-U", "+U", "-U", "+U"]
    assert batch.timestamps == [10, 10, 40, 40]
    with pytest.raises(NotSupportedError, match="deserialize_many"):
        reads.deserialize(update)


def test_arguments_and_values_are_checked():
    for reads, writes in FORMATS.values():
        for schema in (reads, writes):
            with pytest.raises(ConfigurationError, match=r"Types\.ROW_NAMED"):
                schema(Types.INT())
        with pytest.raises(TypeMismatchError, match="does not fit"):
            writes(KIND).serialize(Row(1))
