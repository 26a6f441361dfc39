"""Manifests: the whole truth about a checkpoint, or none."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from millstream.base.errors import CheckpointDamagedError
from millstream.files.stores import FileRef, checksum, open_store
from millstream.runtime.checkpoint.manifest import Manifest, OperatorEntry, read_manifest, write_manifest
from millstream.runtime.protocol.orders import StateFile

ENTRY = OperatorEntry(
    operator_id="ab" * 16,
    uid="sums ünïcode",
    name="Sum",
    kind="KeyedProcessSpec",
    parallelism=2,
    max_parallelism=128,
    states={"count": "value state"},
    driver=FileRef("shared/d", 3, "c3"),
)
STATE = (
    StateFile(FileRef("shared/a", 10, "c0"), 0),
    StateFile(FileRef("shared/b", 5, "c1"), 0, is_delta=True),
    StateFile(FileRef("shared/c", 7, "c2"), 1),
)
MANIFEST = Manifest(3, "checkpoint", "f" * 32, "job", 17, 1_700_000_000_000, (ENTRY,), STATE)


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path))


def test_a_manifest_is_read_as_it_was_written(store):
    write_manifest(store, "chk-3", MANIFEST)
    assert read_manifest(store, "chk-3") == MANIFEST
    assert [ref.path for ref in MANIFEST.files()] == ["shared/a", "shared/b", "shared/c", "shared/d"]
    assert MANIFEST.size() == 25


def rewritten(path, change):
    """Change a manifest's body, as another version would have written it."""
    head, body = path.read_text().split("\n", 1)
    document = json.loads(body)
    change(document)
    text = json.dumps(document)
    envelope = {**json.loads(head), "checksum": checksum(text.encode())}
    path.write_text(f"{json.dumps(envelope)}\n{text}\n")


def test_a_manifest_of_before_forms_and_key_types_can_be_read(store, tmp_path):
    write_manifest(store, "chk-3", MANIFEST)

    def before(document):
        for entry in document["operators"]:
            del entry["form"], entry["key_type"]

    rewritten(tmp_path / "chk-3" / "_metadata", before)
    assert read_manifest(store, "chk-3") == MANIFEST


def test_what_later_versions_tell_of_operators_is_left_out(store, tmp_path):
    told = replace(ENTRY, form="windows of 5 ms", key_type=["TUPLE", "LONG", "STRING"])
    manifest = replace(MANIFEST, operators=(told,))
    write_manifest(store, "chk-3", manifest)
    rewritten(tmp_path / "chk-3" / "_metadata", lambda document: document["operators"][0].update(more=1))
    assert read_manifest(store, "chk-3") == manifest


def test_there_is_none_where_none_was_written(store):
    assert read_manifest(store, "chk-3") is None


def test_an_altered_manifest_is_recognised(store, tmp_path):
    write_manifest(store, "chk-3", MANIFEST)
    path = tmp_path / "chk-3" / "_metadata"
    path.write_text(path.read_text().replace('"epoch": 17', '"epoch": 18'))
    with pytest.raises(CheckpointDamagedError, match="was altered"):
        read_manifest(store, "chk-3")


@pytest.mark.parametrize("length", [0, 10, 500])
def test_a_cut_manifest_is_recognised(store, tmp_path, length):
    write_manifest(store, "chk-3", MANIFEST)
    path = tmp_path / "chk-3" / "_metadata"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(CheckpointDamagedError):
        read_manifest(store, "chk-3")


def test_another_version_is_refused(store, tmp_path):
    write_manifest(store, "chk-3", MANIFEST)
    path = tmp_path / "chk-3" / "_metadata"
    path.write_text(path.read_text().replace('"version": 1', '"version": 9', 1))
    with pytest.raises(CheckpointDamagedError, match="has version 9"):
        read_manifest(store, "chk-3")
