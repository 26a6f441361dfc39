"""Files of checkpoints: whole or not there, and never read when they are not what was written."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pickle

import pytest

from millstream.base.errors import CheckpointDamagedError, CheckpointStorageError, ConfigurationError
from millstream.config.configuration import Configuration
from millstream.files.store_arrow import ArrowStore
from millstream.files.stores import FileRef, check_locations, open_store


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


def test_an_unknown_scheme_is_refused():
    with pytest.raises(CheckpointStorageError, match="nosuch://there"):
        open_store("nosuch://there").write("a", b"")


@pytest.mark.parametrize(
    ("location", "version", "said"),
    [
        ("s3://bucket/a", None, r'pyarrow, which is not installed[\s\S]*"millstream\[s3\]"'),
        ("s3a://bucket/a", "20.0.0", r'version 21 or newer; 20.0.0 is installed[\s\S]*"millstream\[s3\]"'),
        ("gs://bucket/a", None, r'pyarrow, which is not installed[\s\S]*"millstream\[parquet\]"'),
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
