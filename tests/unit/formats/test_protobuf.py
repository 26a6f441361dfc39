"""Rows as Protocol Buffers messages, beside the package protobuf."""

from __future__ import annotations

import pickle

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2, wrappers_pb2
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.errors import (
    ConfigurationError,
    MalformedRecordError,
    NotSupportedError,
    SourceError,
    TypeMismatchError,
)
from millstream.base.time import Instant
from millstream.common import Types
from millstream.connectors.messages import MalformedPolicy, MessageDecoder
from millstream.datastream.formats.protobuf import (
    ProtobufMessage,
    ProtobufRowDeserializationSchema,
    ProtobufRowSerializationSchema,
)
from millstream.spi.batch import Rows
from millstream.spi.source import SourceReaderContext
from millstream.types.row import Row

FIELD = descriptor_pb2.FieldDescriptorProto
KINDS = {
    "double": FIELD.TYPE_DOUBLE,
    "float": FIELD.TYPE_FLOAT,
    "int64": FIELD.TYPE_INT64,
    "uint64": FIELD.TYPE_UINT64,
    "int32": FIELD.TYPE_INT32,
    "fixed64": FIELD.TYPE_FIXED64,
    "fixed32": FIELD.TYPE_FIXED32,
    "bool": FIELD.TYPE_BOOL,
    "string": FIELD.TYPE_STRING,
    "bytes": FIELD.TYPE_BYTES,
    "uint32": FIELD.TYPE_UINT32,
    "sfixed32": FIELD.TYPE_SFIXED32,
    "sfixed64": FIELD.TYPE_SFIXED64,
    "sint32": FIELD.TYPE_SINT32,
    "sint64": FIELD.TYPE_SINT64,
}


def add(message, name, kind, *, repeated=False, type_name=None):
    label = FIELD.LABEL_REPEATED if repeated else FIELD.LABEL_OPTIONAL
    number = len(message.field) + 1
    return message.field.add(name=name, number=number, type=kind, label=label, type_name=type_name)


def described():
    """What protoc makes of a file with one field of each kind."""
    file = descriptor_pb2.FileDescriptorProto(name="all.proto", package="org.example", syntax="proto3")
    file.dependency.extend([timestamp_pb2.DESCRIPTOR.name, wrappers_pb2.DESCRIPTOR.name])
    file.enum_type.add(name="Color").value.add(name="RED", number=0)
    file.enum_type[0].value.add(name="BLUE", number=1)
    inner = file.message_type.add(name="Inner")
    add(inner, "x", FIELD.TYPE_INT32)
    whole = file.message_type.add(name="All")
    for name, kind in KINDS.items():
        add(whole, f"a_{name}", kind)
    add(whole, "color", FIELD.TYPE_ENUM, type_name=".org.example.Color")
    add(whole, "inner", FIELD.TYPE_MESSAGE, type_name=".org.example.Inner")
    add(whole, "at", FIELD.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp")
    add(whole, "wrapped", FIELD.TYPE_MESSAGE, type_name=".google.protobuf.StringValue")
    add(whole, "tags", FIELD.TYPE_STRING, repeated=True)
    add(whole, "inners", FIELD.TYPE_MESSAGE, repeated=True, type_name=".org.example.Inner")
    add(whole, "colors", FIELD.TYPE_ENUM, repeated=True, type_name=".org.example.Color")
    for name, kind, type_name in (
        ("counts", FIELD.TYPE_INT64, None),
        ("named", FIELD.TYPE_MESSAGE, ".org.example.Inner"),
    ):
        entry = whole.nested_type.add(name=f"{name.title()}Entry")
        entry.options.map_entry = True
        add(entry, "key", FIELD.TYPE_STRING)
        add(entry, "value", kind, type_name=type_name)
        add(whole, name, FIELD.TYPE_MESSAGE, repeated=True, type_name=f".org.example.All.{entry.name}")
    add(whole, "maybe", FIELD.TYPE_INT32).proto3_optional = True
    whole.oneof_decl.add(name="_maybe")
    whole.field[-1].oneof_index = 0
    node = file.message_type.add(name="Node")
    add(node, "next", FIELD.TYPE_MESSAGE, type_name=".org.example.Node")
    files = descriptor_pb2.FileDescriptorSet()
    for needed in (timestamp_pb2, wrappers_pb2):
        needed.DESCRIPTOR.CopyToProto(files.file.add())
    files.file.append(file)
    return files.SerializeToString()


FILES = described()
ALL = ProtobufMessage("org.example.All", FILES)
CLASS = ALL.message_class
WRITES, READS = ProtobufRowSerializationSchema(ALL), ProtobufRowDeserializationSchema(ALL)


def test_types_are_those_of_the_fields():
    kind = READS.get_produced_type()
    types = dict(zip(kind.get_field_names(), kind.get_field_types(), strict=True))
    assert types["a_int32"] == types["a_sfixed32"] == Types.INT()
    assert types["a_uint32"] == types["a_int64"] == Types.LONG()
    assert types["a_uint64"] == Types.BIG_INT()
    assert types["a_bytes"] == Types.PRIMITIVE_ARRAY(Types.BYTE())
    assert types["color"] == types["wrapped"] == Types.STRING()
    assert types["at"] == Types.INSTANT()
    assert types["inners"] == Types.OBJECT_ARRAY(Types.ROW_NAMED(["x"], [Types.INT()]))
    assert types["counts"] == Types.MAP(Types.STRING(), Types.LONG())


def test_messages_are_what_protobuf_writes():
    message = CLASS(a_int32=-5, a_string="ä", color=1, wrapped={"value": ""}, maybe=0)
    message.at.FromNanoseconds(-1)
    message.inner.SetInParent()
    message.tags.extend(["a", ""])
    message.inners.add(x=7)
    message.colors.extend([1, 0])
    message.counts["k"] = 1 << 40
    message.named["k"].x = 3
    row = READS.deserialize(message.SerializeToString())
    assert (row.a_int32, row.a_string, row.color, row.wrapped, row.maybe) == (-5, "ä", "BLUE", "", 0)
    assert (row.at, row.inner, row.inners) == (Instant(-1, 999_999_999), Row(x=0), [Row(x=7)])
    assert (row.tags, row.colors, row.counts, row.named) == (
        ["a", ""],
        ["BLUE", "RED"],
        {"k": 1 << 40},
        {"k": Row(x=3)},
    )
    assert (row.a_double, row.a_bytes, row.a_bool) == (0.0, b"", False)
    assert CLASS.FromString(WRITES.serialize(row)) == message
    assert CLASS.FromString(WRITES.serialize(row.as_dict())) == message
    assert READS.get_produced_type().find_mismatch([row]) is None
    empty = READS.deserialize(b"")
    assert (empty.inner, empty.at, empty.wrapped, empty.maybe, empty.tags) == (None, None, None, None, [])
    assert WRITES.serialize(empty) == b""


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SMALL, LARGE = st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1)
INNERS = st.builds(lambda x: Row(x=x), SMALL)
VALUES = {
    "a_double": st.floats(allow_nan=False),
    "a_float": st.floats(allow_nan=False, width=32),
    "a_int64": LARGE,
    "a_uint64": st.integers(0, (1 << 64) - 1),
    "a_int32": SMALL,
    "a_fixed64": st.integers(0, (1 << 64) - 1),
    "a_fixed32": st.integers(0, (1 << 32) - 1),
    "a_bool": st.booleans(),
    "a_string": TEXTS,
    "a_bytes": st.binary(),
    "a_uint32": st.integers(0, (1 << 32) - 1),
    "a_sfixed32": SMALL,
    "a_sfixed64": LARGE,
    "a_sint32": SMALL,
    "a_sint64": LARGE,
    "color": st.sampled_from(["RED", "BLUE", "77", "-3"]),
    "inner": st.none() | INNERS,
    "at": st.none() | st.builds(Instant, st.integers(-(1 << 33), 1 << 33), st.integers(0, 999_999_999)),
    "wrapped": st.none() | TEXTS,
    "tags": st.lists(TEXTS),
    "inners": st.lists(INNERS),
    "colors": st.lists(st.sampled_from(["RED", "BLUE"])),
    "counts": st.dictionaries(TEXTS, LARGE),
    "named": st.dictionaries(TEXTS, INNERS),
    "maybe": st.none() | SMALL,
}


@given(st.builds(Row, **VALUES))
def test_whatever_is_written_is_read(row):
    assert READS.deserialize(WRITES.serialize(row)) == row


def test_messages_may_be_given_as_classes_files_and_names(tmp_path):
    path = tmp_path / "all.binpb"
    path.write_bytes(FILES)
    row = READS.deserialize(CLASS(a_int32=3).SerializeToString())
    for given_as in (
        CLASS,
        ProtobufMessage.of_file(str(path), "org.example.All"),
        ProtobufMessage.of_class(CLASS),
    ):
        writes = pickle.loads(pickle.dumps(ProtobufRowSerializationSchema(given_as)))
        reads = pickle.loads(pickle.dumps(ProtobufRowDeserializationSchema(given_as)))
        assert reads.deserialize(writes.serialize(row)) == row
    assert pickle.loads(pickle.dumps(ALL)) == ALL
    numbers = ProtobufRowDeserializationSchema(wrappers_pb2.Int64Value)
    assert numbers.get_produced_type() == Types.LONG()


def test_messages_that_do_not_parse_are_named():
    for message in (b"\xff", b"\x08", b"\x4a\x05ab", b"\x4a\x01\xff"):
        with pytest.raises(MalformedRecordError, match=r"is no ProtobufMessage\('org\.example\.All'\)"):
            READS.deserialize(message)
    decoder = MessageDecoder(READS, MalformedPolicy.skip(), SourceReaderContext(), source="topic")
    assert decoder.decode([b"\xff"], str) == Rows([])


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (5, "is no Row and no dict"),
        ({"other": 1}, "has no field 'other'"),
        ({"a_int32": "x"}, "does not fit"),
        ({"a_int32": 1 << 31}, "does not fit"),
        ({"color": "GREEN"}, "has no value 'GREEN'"),
        ({"at": 5}, "is no Instant"),
        ({"tags": [None]}, "does not fit"),
        ((1, 2), "is no Row"),
    ],
)
def test_what_does_not_fit_is_named(value, match):
    with pytest.raises(TypeMismatchError, match=match):
        WRITES.serialize(value)


def test_arguments_are_checked():
    with pytest.raises(NotSupportedError, match=r"'org\.example\.Node' holds itself"):
        ProtobufRowDeserializationSchema(ProtobufMessage("org.example.Node", FILES))
    with pytest.raises(ConfigurationError, match="has no message 'Other'"):
        ProtobufMessage("Other", FILES)
    with pytest.raises(ConfigurationError, match="has no message"):
        ProtobufMessage("org.example.All", b"\xff")
    with pytest.raises(ConfigurationError, match="is no class of Protocol Buffers"):
        ProtobufRowSerializationSchema(int)
    with pytest.raises(SourceError, match="cannot be read"):
        ProtobufMessage.of_file("/no/such", "A")
