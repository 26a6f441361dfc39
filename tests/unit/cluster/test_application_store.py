"""Applications on disk."""

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from millstream.cluster.application_store import ApplicationStore
from millstream.cluster.applications import Application, ApplicationRecordError, Program

ONE = Application("1" * 32, "one", Program("/one.py", ("a",), {"k": "v"}), submitted_ms=5)


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    store = ApplicationStore(tmp_path)
    store.write(ONE)
    store.write(replace(ONE, status="RUNNING", pid=7))
    assert ApplicationStore(tmp_path).read() == [replace(ONE, status="RUNNING", pid=7)]


def test_submission_that_was_broken_off_is_removed(tmp_path: Path) -> None:
    store = ApplicationStore(tmp_path)
    broken = store.directory_of("2" * 32)
    broken.mkdir()
    (broken / "application.json.1234.partial").write_text("{")
    store.write(ONE)
    assert store.read() == [ONE]
    assert not broken.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 7}'])
def test_record_that_is_damaged_is_named(tmp_path: Path, text: str) -> None:
    store = ApplicationStore(tmp_path)
    store.write(ONE)
    path = store.directory_of(ONE.application_id) / "application.json"
    path.write_text(text)
    with pytest.raises(ApplicationRecordError, match="application.json"):
        store.read()


def test_removed_application_leaves_nothing(tmp_path: Path) -> None:
    store = ApplicationStore(tmp_path)
    store.write(ONE)
    store.prepare_start(ONE)
    store.log_file(replace(ONE, starts=1)).write_text("said")
    store.remove(ONE.application_id)
    assert store.read() == [] and not store.directory_of(ONE.application_id).exists()


def test_directories_are_for_their_user_only(tmp_path: Path) -> None:
    store = ApplicationStore(tmp_path)
    store.write(ONE)
    store.prepare_start(ONE)
    for directory in (tmp_path / "applications", *store.directory_of(ONE.application_id).rglob("*")):
        if directory.is_dir():
            assert stat.S_IMODE(directory.stat().st_mode) == 0o700, directory
