"""Messages that are staged and still in memory: with what is read of the file behind them, they are the whole file."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest

from millstream.connectors.kafka import staging
from millstream.connectors.kafka.in_memory import MessagesInMemory
from millstream.connectors.kafka.message_blocks import encode
from millstream.connectors.kafka.serialization import Messages
from millstream.connectors.kafka.staging import WaitingMessages, read_messages, read_topics


class Committer:
    """Stands for one that lives in this process."""


@pytest.fixture
def committer() -> Committer:
    return Committer()


@pytest.fixture
def memory(committer: Committer, monkeypatch: pytest.MonkeyPatch) -> MessagesInMemory:
    memory = MessagesInMemory(most_bytes=4_000)
    memory.expect(committer)
    monkeypatch.setattr(staging, "in_memory", memory)
    return memory


def messages(count: int, topic: str = "topic", text: str = "text") -> Messages:
    return Messages(topic, [f"{text} {number}".encode() for number in range(count)])


def stage(path: Path, memory: MessagesInMemory, *batches: Messages, owner: object = None) -> str:
    """Write batches into a file of blocks, as a writer does."""
    written = b""
    for batch in batches:
        start = len(written)
        for parts in encode(batch):
            data = b"".join(parts)
            written += len(data).to_bytes(8, "big") + zlib.crc32(data).to_bytes(4, "big") + data
        memory.add(owner, str(path), start, len(written) - start, batch)
    path.write_bytes(written)
    return str(path)


def values(path: str) -> list[bytes | None]:
    return [value for some in read_messages(path) for value in some.values]


def damage(path: str, at: int) -> None:
    data = bytearray(Path(path).read_bytes())
    data[at] ^= 1
    Path(path).write_bytes(data)


def test_what_is_in_memory_is_not_read(memory: MessagesInMemory, tmp_path: Path) -> None:
    path = stage(tmp_path / "a.kafka", memory, messages(3), messages(2, "other", "more"))
    damage(path, 20)
    assert values(path) == [b"text 0", b"text 1", b"text 2", b"more 0", b"more 1"]
    assert read_topics(path) == ["topic", "other"]


def test_what_there_is_no_room_for_is_read(memory: MessagesInMemory, tmp_path: Path) -> None:
    batches = [messages(10, text="first"), messages(200, "other", "second"), messages(10, text="third")]
    path = stage(tmp_path / "a.kafka", memory, *batches)
    assert 10 * 48 < memory.held_bytes < 2_000
    damage(path, 20)  # of the first one, which is kept
    assert values(path) == [value for batch in batches for value in batch.values]
    assert read_topics(path) == ["topic", "other"]


def test_messages_with_headers_and_those_behind_them_are_read(
    memory: MessagesInMemory, tmp_path: Path
) -> None:
    headers: list[list[tuple[str, bytes | None]] | None] = [[("name", b"before")]]
    batches = [messages(1), Messages("topic", [b"with"], headers=headers), messages(1, text="last")]
    path = stage(tmp_path / "a.kafka", memory, *batches)
    assert headers[0] is not None
    headers[0][0] = ("name", b"changed")
    read = list(read_messages(path))
    assert [value for some in read for value in some.values] == [b"text 0", b"with", b"last 0"]
    assert read[1].headers == [[("name", b"before")]]


def test_nothing_is_kept_without_a_committer_or_in_a_process_of_its_own(
    memory: MessagesInMemory, committer: Committer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: -1)
        stage(tmp_path / "a.kafka", memory, messages(1))
    assert memory.held_bytes == 0
    memory.leave(committer)
    stage(tmp_path / "b.kafka", memory, messages(1))
    assert memory.held_bytes == 0


def test_a_file_that_is_removed_leaves_room(memory: MessagesInMemory, tmp_path: Path) -> None:
    owner = object()
    path = stage(tmp_path / "a.kafka", memory, messages(10), owner=owner)
    stage(tmp_path / "b.kafka", memory, messages(10), owner=owner)
    other = stage(tmp_path / "c.kafka", memory, messages(10), owner=object())
    before = memory.held_bytes
    WaitingMessages(path, "topic", "job", "sink", 0, (0, 0, 0)).remove()
    assert memory.held_bytes == before * 2 // 3
    assert not Path(path).exists()
    memory.forget_all(owner)
    assert memory.held_bytes == before // 3
    damage(other, 20)
    assert values(other) == messages(10).values
