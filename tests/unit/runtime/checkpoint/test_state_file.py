"""State files: key groups apart, damage recognised."""

from __future__ import annotations

import pytest

from millstream.common.errors import CheckpointDamagedError, NotSerializableError
from millstream.runtime.checkpoint.state_file import ChunkKind, StateFileReader, StateFileWriter


def written() -> bytes:
    writer = StateFileWriter()
    for group in range(4):
        writer.add("sums", ChunkKind.KEYED, {"count": [(None, f"key-{group}", group)]}, group)
    writer.add("other", ChunkKind.KEYED, {}, 1)
    writer.add("sums", ChunkKind.OPERATOR, {"offsets": [1, 2]})
    return writer.finish()


def test_only_the_key_groups_asked_for_are_read():
    reader = StateFileReader(written(), "there")
    assert list(reader.read("sums", ChunkKind.KEYED, range(1, 3))) == [
        (1, {"count": [(None, "key-1", 1)]}),
        (2, {"count": [(None, "key-2", 2)]}),
    ]
    assert list(reader.read("sums", ChunkKind.OPERATOR, range(0))) == [(None, {"offsets": [1, 2]})]
    assert list(reader.read("sums", ChunkKind.TIMERS)) == []


def test_every_altered_byte_is_recognised():
    data = written()
    for place in range(len(data)):
        altered = bytearray(data)
        altered[place] ^= 0x40
        with pytest.raises(CheckpointDamagedError):
            reader = StateFileReader(bytes(altered), "there")
            for kind in ChunkKind:
                list(reader.read("sums", kind))
                list(reader.read("other", kind))


@pytest.mark.parametrize("length", [0, 5, 30])
def test_a_cut_file_is_recognised(length):
    with pytest.raises(CheckpointDamagedError):
        StateFileReader(written()[:length], "there")


def test_state_that_cannot_be_pickled_is_refused():
    import threading

    with pytest.raises(NotSerializableError, match="state cannot be pickled: .*lock"):
        StateFileWriter().add("sums", ChunkKind.OWN, threading.Lock())
