"""Messages that wait in files: what is written is read, and what former versions wrote as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.base.errors import SinkError
from millstream.connectors.kafka.message_blocks import decode, encode, topics_in
from millstream.connectors.kafka.serialization import Messages
from millstream.connectors.kafka.staging import read_messages, read_topics

_OF_PICKLES = (
    b"\x00\x00\x00\x00\x00\x00\x00\xcf\x9d\x99\x06\xa9\x80\x05\x95\xc4\x00\x00\x00\x00\x00\x00\x00\x8c)"
    b"millstream.connectors.kafka.serialization\x94\x8c\x08Messages\x94\x93\x94)\x81\x94N}\x94(\x8c\x06"
    b"topics\x94]\x94(\x8c\x01a\x94\x8c\x01b\x94e\x8c\x06values\x94]\x94(C\x03one\x94Ne\x8c\x04keys\x94]"
    b"\x94(C\x01k\x94Ne\x8c\x07headers\x94]\x94(]\x94\x8c\x01h\x94C\x01x\x94\x86\x94aNe\x8c\ntimestamps"
    b"\x94]\x94(K\x05K\x00e\x8c\npartitions\x94]\x94(K\x01K\x00eu\x86\x94b."
)
"""A file as it was before there were versions."""


def blocks_of(messages: Messages) -> list[bytes]:
    return [b"".join(parts) for parts in encode(messages)]


@pytest.mark.parametrize(
    "messages",
    [
        Messages("topic", [b"value"]),
        Messages("töpic", [b"a", None, b""], [None, b"", b"key"]),
        Messages("topic", [None, None], [b"a", b"b"]),
        Messages("topic", [b"x" * 100_000, b"y"], timestamps=[0, 2**62], partitions=[7, 0]),
        Messages(
            ["b", "a", "b"],
            [b"1", b"2", b"3"],
            headers=[None, [("ä", b"x"), ("none", None), ("empty", b"")], [("ä", b"y")]],
        ),
    ],
)
def test_messages_are_read_as_they_were_written(messages: Messages) -> None:
    (block,) = blocks_of(messages)
    assert decode(block, "file") == messages
    assert list(topics_in(block, "file")) == list(messages.topic_names())


def test_many_messages_are_read_some_at_a_time() -> None:
    numbers = range(12_345)
    messages = Messages(
        [f"topic-{each % 3}" for each in numbers],
        [str(each).encode() for each in numbers],
        [None if each % 7 else b"key" for each in numbers],
        [[("number", str(each).encode())] if each % 2 else None for each in numbers],
        list(numbers),
        [each % 5 for each in numbers],
    )
    read = [decode(block, "file") for block in blocks_of(messages)]
    assert len(read) > 1
    for column in ("topics", "values", "keys", "headers", "timestamps", "partitions"):
        assert [each for some in read for each in getattr(some, column)] == getattr(messages, column)


def test_a_file_of_a_former_version_is_read(tmp_path: Path) -> None:
    file = tmp_path / "waiting.kafka"
    file.write_bytes(_OF_PICKLES)
    (messages,) = read_messages(str(file))
    assert messages == Messages(
        ["a", "b"], [b"one", None], [b"k", None], [[("h", b"x")], None], [5, 0], [1, 0]
    )
    assert read_topics(str(file)) == ["a", "b"]


def test_a_file_of_a_former_version_that_is_damaged_is_told(tmp_path: Path) -> None:
    file = tmp_path / "waiting.kafka"
    file.write_bytes(_OF_PICKLES.replace(b"one", b"two"))
    with pytest.raises(SinkError, match="is damaged"):
        list(read_messages(str(file)))


def test_what_a_later_version_wrote_is_refused() -> None:
    (block,) = blocks_of(Messages("topic", [b"a"]))
    with pytest.raises(SinkError, match="of version 2, which is not known here") as caught:
        decode(b"\x02" + block[1:], "file")
    assert "version of millstream that wrote" in str(caught.value)
