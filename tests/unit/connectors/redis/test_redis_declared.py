"""What can be said of Redis sources and sinks without a server."""

from __future__ import annotations

import pytest

from millstream.base.errors import ConfigurationError, TypeMismatchError
from millstream.common import Row, Types
from millstream.connectors.redis.offsets import parse_id
from millstream.datastream.connectors.redis import (
    RedisCommand,
    RedisOffsetsInitializer,
    RedisSink,
    RedisStreamSource,
)


@pytest.mark.parametrize("url", ["localhost:6379", "http://localhost", "", 5])
def test_url_of_something_else_is_refused(url):
    with pytest.raises(ConfigurationError, match="redis://"):
        RedisSink.builder().set_url(url)


@pytest.mark.parametrize("url", ["redis://me:secret#word@host:6379/0", "redis://me:secret/word@host/0"])
def test_password_that_is_not_quoted_is_not_shown(url):
    with pytest.raises(ConfigurationError, match="%2F") as failed:
        RedisStreamSource.builder().set_url(url)
    assert "secret" not in str(failed.value) and failed.value.__cause__ is None


def test_option_that_does_not_exist_is_refused():
    sink = RedisSink.builder().set_url("redis://:secret-word@127.0.0.1:1/0?colour=red")

    with pytest.raises(ConfigurationError, match="part that does not fit") as failed:
        sink.set_command(RedisCommand.stream("s")).build().check()
    assert "secret-word" not in str(failed.value)


def test_declared_objects_show_no_password():
    url = "redis://me:secret-word@host:6379/0?password=other-word"
    source = RedisStreamSource.builder().set_url(url).set_streams("s").build()
    sink = RedisSink.builder().set_url(url).set_command(RedisCommand.stream("s")).build()

    assert "word" not in repr(source).replace("password", "") + repr(sink).replace("password", "")


@pytest.mark.parametrize(
    ("builder", "said"),
    [
        (RedisStreamSource.builder(), "no server"),
        (RedisStreamSource.builder().set_url("redis://h"), "streams"),
        (RedisStreamSource.builder().set_url("redis://h").set_streams("a", "a"), "named twice"),
        (
            RedisStreamSource.builder()
            .set_url("redis://h")
            .set_streams("a", "b")
            .set_bounded(RedisOffsetsInitializer.ids({"a": "1-0"})),
            "no id was given for the streams b",
        ),
        (RedisSink.builder(), "no server"),
        (RedisSink.builder().set_url("redis://h"), "no command"),
    ],
)
def test_what_is_missing_is_named(builder, said):
    with pytest.raises(ConfigurationError, match=said):
        builder.build()


def test_field_of_a_type_that_is_not_read_is_refused():
    with pytest.raises(ConfigurationError, match='field "at"'):
        RedisStreamSource.builder().set_row_type(Types.ROW_NAMED(["at"], [Types.SQL_TIMESTAMP()]))


@pytest.mark.parametrize("text", ["x", "1-x", "-1", "", f"{2**64}-0"])
def test_what_is_no_id_is_refused(text):
    with pytest.raises(ConfigurationError, match="is no id"):
        parse_id(text)


def test_commands():
    stream = RedisCommand.stream(lambda row: f"s{row.n}", max_length=5)
    assert stream.of(Row(n=1, text="ä")) == [
        *(b"XADD", b"s1", b"MAXLEN", b"~", b"5", b"*"),
        *(b"n", b"1", b"text", "ä".encode()),
    ]
    assert RedisCommand.string(lambda _: b"k").of(2.5) == [b"SET", b"k", b"2.5"]


def test_value_that_is_no_text_is_refused():
    with pytest.raises(TypeMismatchError, match="bytes, texts, numbers"):
        RedisCommand.hash(lambda _: "k").of({"a": [1]})
    with pytest.raises(TypeMismatchError, match="no fields"):
        RedisCommand.hash(lambda _: "k").of({"a": None})
