"""Files of checkpoints: whole or not there, and never read when they are not what was written."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pickle

import pytest
from pyarrow import fs

from millstream.base.errors import CheckpointDamagedError, CheckpointStorageError, ConfigurationError
from millstream.config.configuration import Configuration
from millstream.files import store as store_module
from millstream.files.store_arrow import ArrowStore
from millstream.files.stores import FileRef, LocalCopy, check_locations, open_store


@pytest.fixture(params=["path", "file://", "pyarrow"])
def store(request, tmp_path):
    if request.param == "path":
        return open_store(str(tmp_path))
    if request.param == "file://":
        return open_store(f"file://{tmp_path}")
    return ArrowStore(f"file://{tmp_path}")


def test_what_was_written_is_read_by_any_process(store):
    ref = store.write("a/b", b"contents")
    assert ref == FileRef("a/b", 8, ref.checksum)
    assert pickle.loads(pickle.dumps(store)).read(ref) == b"contents"


def test_a_missing_file_is_named(store, tmp_path):
    ref = store.write("a", b"contents")
    (tmp_path / "a").unlink()
    with pytest.raises(CheckpointDamagedError, match=r"/a\" is missing"):
        store.read(ref)
    assert store.read_if_there("a") is None


def test_a_cut_file_is_recognised(store, tmp_path):
    ref = store.write("a", b"contents")
    (tmp_path / "a").write_bytes(b"cont")
    with pytest.raises(CheckpointDamagedError, match="has 4 bytes, 8 were written"):
        store.read(ref)


def test_an_altered_file_is_recognised(store, tmp_path):
    ref = store.write("a", b"contents")
    (tmp_path / "a").write_bytes(b"contentZ")
    with pytest.raises(CheckpointDamagedError, match="was altered"):
        store.read(ref)


def test_names_and_deletion(store):
    store.write("d/2", b"")
    store.write("d/1", b"")
    assert store.names("d") == ["1", "2"]
    store.delete("d/1")
    assert store.names("d") == ["2"]
    store.delete("d")
    store.delete("d")
    assert store.names("d") == []


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    store = open_store(str(tmp_path))

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointStorageError, match="cannot be written: No space left on device"):
        store.write("a", b"contents")
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_is_told_though_what_is_left_cannot_be_removed(tmp_path, monkeypatch):
    store = open_store(str(tmp_path))

    def refuse(path, **_):
        raise PermissionError(path)

    def interrupted():
        yield b"a"
        monkeypatch.setattr(os, "unlink", refuse)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.write_parts("a", interrupted, FileRef("a", 2, ""))
    assert [path.suffix for path in tmp_path.iterdir()] == [store_module.STAGED]


def test_an_unknown_scheme_is_refused():
    with pytest.raises(CheckpointStorageError, match="nosuch://there"):
        open_store("nosuch://there").write("a", b"")


@pytest.mark.parametrize(
    ("location", "version", "said"),
    [
        ("s3://bucket/a", None, r'pyarrow, which is not installed[\s\S]*"millstream\[s3\]"'),
        ("s3a://bucket/a", "20.0.0", r'version 21 or newer; 20.0.0 is installed[\s\S]*"millstream\[s3\]"'),
        ("gs://bucket/a", None, r'pyarrow, which is not installed[\s\S]*"millstream\[gcs\]"'),
        ("hdfs://host:1/a", None, r'hdfs-native, which is not installed[\s\S]*"millstream\[hdfs\]"'),
    ],
)
def test_what_is_to_be_installed_is_told_before_a_job_runs(monkeypatch, location, version, said):
    def find(name):
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", find)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=said):
        check_locations(Configuration.from_dict({"execution.checkpointing.savepoint-dir": location}))


def test_a_file_that_comes_in_parts_is_the_same_as_one_that_is_whole(store):
    parts = [b"one", b"", b"two" * 1_000]
    whole = store.write("whole", b"".join(parts))
    ref = store.write_parts("parts", lambda: iter(parts), FileRef("parts", whole.size, whole.checksum))
    assert store.read(ref) == store.read(whole)
    assert store.names("") == ["parts", "whole"]


def test_a_file_whose_parts_break_off_is_not_there(store):
    def parts():
        yield b"one"
        raise OSError(28, "No space left on device")

    with pytest.raises(CheckpointStorageError, match="No space left"):
        store.write_parts("parts", parts, FileRef("parts", 6, "-"))
    if not isinstance(store, ArrowStore):  # a local directory has no uploads that are broken off
        assert store.names("") == store.leftovers("") == []


def test_a_copy_is_checked_and_read_in_parts(store, tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "_COPIED_BYTES", 100)
    ref = store.write("a", bytes(range(250)))
    with LocalCopy(store, ref) as copy:
        assert copy.size == 250
        assert copy.read(90, 20) == bytes(range(90, 110))
        assert copy.read(0, 2) == b"\0\1"
    (tmp_path / "a").write_bytes(bytes(250))
    with pytest.raises(CheckpointDamagedError, match="was altered"):
        LocalCopy(store, ref)
    (tmp_path / "a").write_bytes(bytes(120))
    with pytest.raises(CheckpointDamagedError, match="ends before"):
        LocalCopy(store, ref)


def test_a_directory_that_is_made_while_it_is_listed_has_its_names(tmp_path, monkeypatch):
    """pyarrow cannot list what is not there, asks whether it is there, and fails if it is by then."""
    store = ArrowStore(f"file://{tmp_path / 'checkpoints'}")
    real, asked = fs.LocalFileSystem(), []

    class Racing:
        type_name = real.type_name

        def get_file_info(self, wanted):
            asked.append(wanted)
            if len(asked) == 1:
                store.write("job/a", b"1")
                raise FileNotFoundError(2, "Cannot list directory")
            return real.get_file_info(wanted)

        def __getattr__(self, name):
            return getattr(real, name)

    place = store._place
    monkeypatch.setattr(store, "_place", lambda path: (Racing(), place(path)[1]))
    assert store.names("job") == ["a"]
