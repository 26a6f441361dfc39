"""State files: key groups apart, damage recognised."""

from __future__ import annotations

import tracemalloc

import pytest

from millstream.base.errors import CheckpointDamagedError, CheckpointStorageError, NotSerializableError
from millstream.files.store_local import LocalStore
from millstream.runtime.checkpoint import state_file
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


class CountingStore(LocalStore):
    """Notes which parts of files are read."""

    def __init__(self, location):
        super().__init__(str(location))
        self.parts = []

    def _get(self, path):
        raise AssertionError(f"{path} is read as a whole")

    def _get_part(self, path, offset, length):
        self.parts.append((offset, length))
        return super()._get_part(path, offset, length)


GROUPS, VALUE = 32, "x" * 2_000


@pytest.fixture
def large(tmp_path, monkeypatch):
    """A store and a file in it that counts as large."""
    monkeypatch.setattr(state_file, "_WHOLE_BYTES", 0)
    monkeypatch.setattr(state_file, "_END_BYTES", 200)  # less than the index
    monkeypatch.setattr(state_file, "_GAP_BYTES", 0)
    writer = StateFileWriter()
    for group in range(GROUPS):
        writer.add("sums", ChunkKind.KEYED, {group: VALUE}, group)
    writer.add("sums", ChunkKind.OWN, "own")
    store = CountingStore(tmp_path)
    return store, store.write("shared/1", writer.finish())


def test_of_a_large_file_only_what_is_asked_for_is_read(large):
    store, ref = large
    reader = StateFileReader.open(store, ref)
    assert sum(length for _, length in store.parts) < 200 + 60 * (GROUPS + 1)  # the index
    store.parts.clear()
    assert list(reader.read("sums", ChunkKind.KEYED, range(4, 8))) == [
        (group, {group: VALUE}) for group in range(4, 8)
    ]
    ((_, length),) = store.parts  # at once
    assert 4 * len(VALUE) < length < 5 * len(VALUE)
    assert list(reader.read("sums", ChunkKind.OWN, range(0))) == [(None, "own")]
    assert list(reader.read("sums", ChunkKind.TIMERS)) == []


def test_what_lies_apart_is_read_apart_and_not_too_much_at_once(large, monkeypatch):
    store, ref = large
    monkeypatch.setattr(state_file, "_RUN_BYTES", 3 * len(VALUE))
    reader = StateFileReader.open(store, ref)
    store.parts.clear()
    wanted = [1, 2, 3, 4, 20]
    found = list(reader.read("sums", ChunkKind.KEYED, wanted))
    assert found == [(group, {group: VALUE}) for group in wanted]
    assert [length // len(VALUE) for _, length in store.parts] == [2, 2, 1]


def test_two_may_read_from_a_large_file_in_turns(large):
    store, ref = large
    reader = StateFileReader.open(store, ref)
    first, second = (reader.read("sums", ChunkKind.KEYED, groups) for groups in (range(0, 3), range(9, 12)))
    found = [group for pair in zip(first, second, strict=True) for group, _ in pair]
    assert found == [0, 9, 1, 10, 2, 11]


def test_damage_of_a_large_file_is_recognised_in_what_is_read_of_it(large, tmp_path):
    store, ref = large
    path = tmp_path / "shared" / "1"
    data = path.read_bytes()
    chunks = StateFileReader.open(store, ref).chunks
    middle = chunks[5].offset + chunks[5].length // 2
    path.write_bytes(data[:middle] + b"?" + data[middle + 1 :])
    reader = StateFileReader.open(store, ref)
    assert len(list(reader.read("sums", ChunkKind.KEYED, range(6, GROUPS)))) == GROUPS - 6
    with pytest.raises(CheckpointDamagedError, match='was altered in its part "keyed" of key group 5'):
        list(reader.read("sums", ChunkKind.KEYED))
    path.write_bytes(data[:-1] + b"?")
    with pytest.raises(CheckpointDamagedError, match="the index of state file .* is damaged"):
        StateFileReader.open(store, ref)
    path.write_bytes(data[:-50])
    with pytest.raises(
        CheckpointDamagedError, match=rf"ends before byte {len(data)}, {len(data)} bytes were"
    ):
        StateFileReader.open(store, ref)
    path.write_bytes(data)
    reader = StateFileReader.open(store, ref)
    path.write_bytes(b"")
    with pytest.raises(CheckpointDamagedError, match="ends before byte"):
        list(reader.read("sums", ChunkKind.KEYED))
    path.unlink()
    with pytest.raises(CheckpointDamagedError, match="is missing"):
        list(reader.read("sums", ChunkKind.KEYED))


def test_a_small_file_is_read_as_a_whole_and_checked(tmp_path):
    store = LocalStore(str(tmp_path))
    ref = store.write("shared/1", written())
    assert len(StateFileReader.open(store, ref).chunks) == 6
    (tmp_path / "shared" / "1").write_bytes(written()[:-1])
    with pytest.raises(CheckpointDamagedError, match="bytes, .* were written"):
        StateFileReader.open(store, ref)


def test_state_that_cannot_be_pickled_is_refused():
    import threading

    with pytest.raises(NotSerializableError, match="state cannot be pickled: .*lock"):
        StateFileWriter().add("sums", ChunkKind.OWN, threading.Lock())


def test_a_file_that_lies_on_disk_while_it_is_made_is_the_same(tmp_path, monkeypatch):
    def fill():
        writer = StateFileWriter()
        for group in range(GROUPS):
            writer.add("sums", ChunkKind.KEYED, {group: VALUE}, group)
        return writer

    in_memory = fill().finish()
    monkeypatch.setattr(state_file, "_IN_MEMORY_BYTES", 1)
    monkeypatch.setattr(state_file, "_PART_BYTES", 777)
    writer, store = fill(), LocalStore(str(tmp_path))
    ref = writer.write_to(store, "shared/1")
    again = writer.write_to(store, "shared/2")  # storage that failed is tried once more
    assert writer.finish() == store.read(ref) == store.read(again) == in_memory
    assert (ref.size, ref.checksum) == (again.size, again.checksum)


def test_a_file_of_any_size_is_made_and_written_with_little_memory(tmp_path):
    store = CountingStore(tmp_path)
    tracemalloc.start()
    try:
        writer = StateFileWriter()
        for group in range(64):
            writer.add("sums", ChunkKind.KEYED, bytes(1 << 20), group)
        ref = writer.write_to(store, "shared/1")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ref.size > 64 << 20
    assert peak < 24 << 20


def test_a_host_without_room_for_the_file_says_where(monkeypatch):
    class Full:
        def write(self, data):
            raise OSError(28, "No space left on device")

    writer = StateFileWriter()
    monkeypatch.setattr(writer, "_spool", Full())
    with pytest.raises(CheckpointStorageError, match="No space left") as caught:
        writer.add("sums", ChunkKind.OWN, "own")
    assert "TMPDIR" in caught.value.hint
