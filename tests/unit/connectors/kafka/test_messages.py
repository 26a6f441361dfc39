"""From records to messages."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.base.errors import TypeMismatchError
from millstream.common import SerializationSchema, SimpleStringSchema
from millstream.connectors.kafka.serialization import KafkaRecordSerializationSchema


def schema_with(headers: Any) -> KafkaRecordSerializationSchema:
    builder = KafkaRecordSerializationSchema.builder().set_topic("topic")
    return (
        builder.set_value_serialization_schema(SimpleStringSchema())
        .set_header_provider(lambda _: headers)
        .build()
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([("a", b"x"), ("b", None)], [("a", b"x"), ("b", None)]),
        ((("a", "ö"), ["b", bytearray(b"y")]), [("a", "ö".encode()), ("b", b"y")]),
        ([], None),
        (None, None),
    ],
)
def test_headers_are_bytes(given: Any, expected: Any) -> None:
    assert schema_with(given).messages(["value"], None, lambda _: ()).headers == [expected]


@pytest.mark.parametrize("given", [[("a", 7)], [(b"a", b"x")]])
def test_a_header_that_is_no_bytes_is_told_with_its_record(given: Any) -> None:
    with pytest.raises(TypeMismatchError, match="no pair of text and bytes"):
        schema_with(given).messages(["value"], None, lambda _: ())


class Mixed(SerializationSchema):
    def serialize(self, value: Any) -> Any:
        return {"none": None, "array": bytearray(b"a"), "view": memoryview(b"v")}.get(value, b"b")


def test_what_is_like_bytes_becomes_bytes() -> None:
    schema = (
        KafkaRecordSerializationSchema.builder()
        .set_topic("topic")
        .set_value_serialization_schema(Mixed())
        .build()
    )
    messages = schema.messages(["none", "array", "view", "bytes"], None, lambda _: ())
    assert messages.values == [None, b"a", b"v", b"b"]
    assert all(each is None or type(each) is bytes for each in messages.values)
    assert messages.part(1, 3).values == [b"a", b"v"]
