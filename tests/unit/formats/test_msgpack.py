"""Rows as MessagePack, beside msgspec."""

from __future__ import annotations

import datetime
import pickle

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.errors import (
    ConfigurationError,
    MalformedRecordError,
    NotSupportedError,
    TypeMismatchError,
)
from millstream.base.time import Instant
from millstream.common import Types
from millstream.datastream.formats.msgpack import (
    MessagePackRowDeserializationSchema,
    MessagePackRowSerializationSchema,
)
from millstream.types.row import Row

INNER = Types.ROW_NAMED(["x"], [Types.DOUBLE()])
FIELDS = {
    "flag": (Types.BOOLEAN(), st.booleans()),
    "n": (Types.LONG(), st.integers(-(1 << 63), (1 << 63) - 1)),
    "text": (Types.STRING(), st.text(st.characters(exclude_categories=["Cs"]))),
    "data": (Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary()),
    "ratio": (Types.DOUBLE(), st.floats(allow_nan=False)),
    "price": (Types.BIG_DEC(), st.decimals(allow_nan=False, allow_infinity=False)),
    "day": (Types.SQL_DATE(), st.dates()),
    "hour": (Types.SQL_TIME(), st.times()),
    "at": (Types.SQL_TIMESTAMP(), st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))),
    "moment": (
        Types.INSTANT(),
        st.builds(Instant, st.integers(-(1 << 33), 1 << 33), st.integers(0, 999_999).map(lambda n: n * 1000)),
    ),
    "tags": (Types.OBJECT_ARRAY(Types.STRING()), st.lists(st.none() | st.just("a"))),
    "counts": (
        Types.MAP(Types.STRING(), Types.INT()),
        st.dictionaries(st.sampled_from("ab"), st.integers(0, 9)),
    ),
    "pair": (Types.TUPLE([Types.INT(), Types.STRING()]), st.tuples(st.integers(0, 9), st.just("b"))),
    "inner": (INNER, st.builds(lambda x: Row(x=x), st.floats(allow_nan=False))),
}
KIND = Types.ROW_NAMED(list(FIELDS), [kind for kind, _ in FIELDS.values()])


@given(st.builds(Row, **{name: st.none() | values for name, (_, values) in FIELDS.items()}))
def test_whatever_is_written_is_read(row):
    writes, reads = MessagePackRowSerializationSchema(KIND), MessagePackRowDeserializationSchema(KIND)
    found = reads.deserialize(writes.serialize(row))
    assert found == row
    assert [type(each) for each in found] == [type(each) for each in row]


def test_messages_are_what_others_write_and_read():
    kind = Types.ROW_NAMED(
        ["n", "data", "at"], [Types.INT(), Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.SQL_TIMESTAMP()]
    )
    at = datetime.datetime(2024, 5, 6, 7, 8, 9, 10)
    row = Row(n=5, data=b"\0\xff", at=at)
    plain = {"n": 5, "data": b"\0\xff", "at": at.replace(tzinfo=datetime.UTC)}
    writes, reads = MessagePackRowSerializationSchema(kind), MessagePackRowDeserializationSchema(kind)
    assert msgspec.msgpack.decode(writes.serialize(row)) == plain
    encode = msgspec.msgpack.encode
    assert reads.deserialize(encode(plain)) == row
    assert reads.deserialize(encode({**plain, "other": [1], "at": at.isoformat()})) == row
    assert reads.deserialize(encode([5, b"\0\xff", plain["at"]])) == row
    assert reads.deserialize(encode({"n": 5})) == Row(n=5, data=None, at=None)
    assert reads.get_produced_type() == kind
    assert (
        pickle.loads(pickle.dumps(reads)).deserialize(pickle.loads(pickle.dumps(writes)).serialize(row))
        == row
    )


@pytest.mark.parametrize(
    "message", [b"", b"\xc1", b"\x81", b"\x01", b"\x91\x01", msgspec.msgpack.encode({"n": "x", "s": 1}),
                msgspec.msgpack.encode({"n": [1]})]
)  # fmt: skip
def test_messages_that_do_not_parse_or_fit_are_named(message):
    kind = Types.ROW_NAMED(["n", "s"], [Types.INT(), Types.STRING()])
    with pytest.raises(MalformedRecordError, match="does not fit ROW<n INT, s STRING>"):
        MessagePackRowDeserializationSchema(kind).deserialize(message)


def test_arguments_and_values_are_checked():
    with pytest.raises(ConfigurationError, match=r"Types\.ROW_NAMED"):
        MessagePackRowSerializationSchema(Types.INT())
    with pytest.raises(NotSupportedError, match="no form in MessagePack"):
        MessagePackRowDeserializationSchema(Types.ROW_NAMED(["a"], [Types.PICKLED_BYTE_ARRAY()]))
    with pytest.raises(TypeMismatchError, match="does not fit"):
        MessagePackRowSerializationSchema(KIND).serialize(Row(1))
    large = Types.ROW_NAMED(["a"], [Types.BIG_INT()])
    with pytest.raises(TypeMismatchError, match="no form in MessagePack"):
        MessagePackRowSerializationSchema(large).serialize(Row(a=1 << 70))
