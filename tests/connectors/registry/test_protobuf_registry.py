"""Protocol Buffers messages with schemas in Apicurio; what messages look like is from Confluent's documentation."""

from __future__ import annotations

import json
import pickle
import urllib.request
import uuid

import pytest
from google.protobuf import descriptor_pb2

from millstream.base.errors import ConfigurationError, MalformedRecordError, SinkError
from millstream.connectors.patience import Patience
from millstream.datastream.formats.protobuf import (
    ConfluentRegistryProtobufDeserializationSchema,
    ConfluentRegistryProtobufSerializationSchema,
    ProtobufMessage,
    SchemaRegistry,
)
from millstream.types.row import Row

SOURCE = """syntax = "proto3";
package org.example;
message First { int32 a = 1; }
message Second { message Inner { int32 c = 1; } message Other { int32 d = 1; } int32 b = 1; }
"""
FIELD = descriptor_pb2.FieldDescriptorProto


def described():
    """What protoc makes of the source."""
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", package="org.example", syntax="proto3")
    first, second = file.message_type.add(name="First"), file.message_type.add(name="Second")
    inner, other = second.nested_type.add(name="Inner"), second.nested_type.add(name="Other")
    for message, name in ((first, "a"), (second, "b"), (inner, "c"), (other, "d")):
        message.field.add(name=name, number=1, type=FIELD.TYPE_INT32, label=FIELD.LABEL_OPTIONAL)
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


FILES = described()


@pytest.fixture
def subject(schema_registry):
    name = f"topic-{uuid.uuid4().hex[:12]}-value"
    body = json.dumps({"schema": SOURCE, "schemaType": "PROTOBUF"}).encode()
    request = urllib.request.Request(
        f"{schema_registry.url}/subjects/{name}/versions", body, {"Content-Type": "application/json"}
    )
    urllib.request.urlopen(request, timeout=10).close()
    return name


@pytest.mark.parametrize(
    ("name", "field", "indexes"),
    [
        ("First", "a", b"\0"),
        ("Second", "b", b"\2\2"),
        ("Second.Inner", "c", b"\4\2\0"),
        ("Second.Other", "d", b"\4\2\2"),
    ],
)
def test_messages_tell_their_schema_and_which_of_its_messages_they_are(
    schema_registry, subject, name, field, indexes
):
    message = ProtobufMessage(f"org.example.{name}", FILES)
    writes = ConfluentRegistryProtobufSerializationSchema(schema_registry.url, message, subject)
    written = pickle.loads(pickle.dumps(writes)).serialize({field: 5})
    answer = urllib.request.urlopen(f"{schema_registry.url}/subjects/{subject}/versions/latest", timeout=10)
    schema_id = json.loads(answer.read())["id"]
    assert written == b"\0" + schema_id.to_bytes(4, "big") + indexes + b"\x08\x05"
    reads = ConfluentRegistryProtobufDeserializationSchema(message)
    assert pickle.loads(pickle.dumps(reads)).deserialize(written) == Row(**{field: 5})


def test_many_messages_of_a_file_have_long_numbers():
    file = descriptor_pb2.FileDescriptorProto(name="many.proto", syntax="proto3")
    for number in range(200):
        message = file.message_type.add(name=f"M{number}")
        message.field.add(name="a", number=1, type=FIELD.TYPE_INT32, label=FIELD.LABEL_OPTIONAL)
    files = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    reads = ConfluentRegistryProtobufDeserializationSchema(ProtobufMessage("M199", files))
    assert reads.deserialize(b"\0\0\0\0\1" + b"\2\x8e\3" + b"\x08\x05") == Row(a=5)


def test_messages_without_header_and_subjects_that_are_not_there_are_named(schema_registry):
    message = ProtobufMessage("org.example.First", FILES)
    reads = ConfluentRegistryProtobufDeserializationSchema(message)
    for data, match in (
        (b"", "does not begin with the id"),
        (b"\1\0\0\0\1\0", "does not begin with the id"),
        (b"\0\0\0\0\1", "ends within its header"),
        (b"\0\0\0\0\1\4\2", "ends within its header"),
        (b"\0\0\0\0\1\0\xff", "is no ProtobufMessage"),
    ):
        with pytest.raises(MalformedRecordError, match=match):
            reads.deserialize(data)
    registry = SchemaRegistry(schema_registry.url, patience=Patience(total_s=0))
    with pytest.raises(SinkError, match="refused the schema of subject 'nowhere'") as raised:
        ConfluentRegistryProtobufSerializationSchema(registry, message, "nowhere").serialize({"a": 1})
    assert "Register the schema" in raised.value.hint
    with pytest.raises(ConfigurationError, match="subject"):
        ConfluentRegistryProtobufSerializationSchema(registry, message, "")
