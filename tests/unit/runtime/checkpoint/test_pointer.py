"""Where a job has come to: the last word counts, whatever comes late or twice."""

from __future__ import annotations

import pytest

from millstream.base.errors import CheckpointStorageError
from millstream.files.store import FileStore
from millstream.runtime.checkpoint.pointer import LostJob, RecoveryPointer


@pytest.fixture
def pointer(tmp_path):
    return RecoveryPointer(str(tmp_path), "job")


def at(number):
    return LostJob("1", f"chk-{number}")


def names(tmp_path):
    return sorted(path.name for path in tmp_path.iterdir())


def test_the_last_one_counts_and_those_before_go(tmp_path, pointer):
    assert pointer.read() is None
    for number in range(1, 13):
        pointer.write(at(number))
        assert pointer.read() == at(number)
    assert names(tmp_path) == ["job~12.recovery"]
    RecoveryPointer(str(tmp_path), "job").write(at(13))  # a driver of a version that knew no terms
    assert names(tmp_path) == ["job~13.recovery"]
    assert pointer.read() == at(13)


def test_what_is_written_late_or_twice_is_not_the_last(tmp_path, pointer, monkeypatch):
    put, late = FileStore.write, []

    def given_up(self, path, data):
        late.append(lambda: put(self, path, data))
        raise CheckpointStorageError("no answer")

    pointer.write(at(1))
    monkeypatch.setattr(FileStore, "write", given_up)
    with pytest.raises(CheckpointStorageError):
        pointer.write(at(2))
    monkeypatch.undo()
    pointer.write(at(1))
    late[0]()
    assert pointer.read() == RecoveryPointer(str(tmp_path), "job").read() == at(1)
    pointer.clear()
    assert names(tmp_path) == []


def test_nothing_to_go_on_from_is_a_word_too(pointer):
    pointer.write(at(1))
    pointer.write(None)
    assert pointer.read() is None
    pointer.write(at(2))
    assert pointer.read() == at(2)


def test_what_is_replaced_while_it_is_read_is_looked_for_again(tmp_path, pointer, monkeypatch):
    pointer.write(at(1))
    read, replaced = FileStore.read_if_there, []

    def slow(self, path):
        if not replaced:
            replaced.append(path)
            pointer.write(at(2))
        return read(self, path)

    monkeypatch.setattr(FileStore, "read_if_there", slow)
    assert RecoveryPointer(str(tmp_path), "job").read() == at(2)
    assert replaced == ["job.recovery"]


def test_what_cannot_be_removed_does_no_harm(tmp_path, pointer, monkeypatch):
    def fail(self, path, **how):
        raise CheckpointStorageError("no")

    pointer.write(at(1))
    monkeypatch.setattr(FileStore, "delete", fail)
    pointer.write(at(2))
    assert pointer.read() == at(2)
    monkeypatch.undo()
    pointer.write(at(3))
    assert names(tmp_path) == ["job~3.recovery"]


def test_other_jobs_and_terms_are_left_alone(tmp_path, pointer):
    others = [RecoveryPointer(str(tmp_path), "job-2"), RecoveryPointer(str(tmp_path), "job", 2)]
    for other in others:
        other.write(at(1))
        other.write(at(2))
    assert pointer.read() is None
    pointer.write(at(7))
    pointer.clear()
    assert [other.read() for other in others] == [at(2), at(2)]
    assert names(tmp_path) == ["job-2~2.recovery", "job@2~2.recovery"]
