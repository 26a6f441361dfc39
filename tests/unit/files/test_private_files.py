"""What others put where this user looks is not taken."""

from __future__ import annotations

import os
import pickle
import zlib

import pytest

from millstream.base.errors import CheckpointStorageError, ConfigurationError, SourceError
from millstream.config.configuration import Configuration
from millstream.connectors.cache import CacheSource
from millstream.connectors.receive_log import ReceiveLog, read_log
from millstream.files import file_systems
from millstream.files.file_systems import FileSystemSettings
from millstream.files.private_files import (
    NotPrivateError,
    Trust,
    create_own,
    open_own,
    private_directory,
    user_directory,
)
from millstream.files.stores import open_store
from millstream.runtime.program.dependencies import Dependencies, ShippedFile
from millstream.runtime.recovery.results import JobResultStore
from millstream.runtime.slot.workspace import open_workspace
from millstream.spi.source import SplitRange


class Trap:
    """What an attacker pickles: it makes a file where it is unpickled."""

    def __init__(self, path):
        self._path = str(path)

    def __reduce__(self):
        return os.mkdir, (self._path,)


@pytest.fixture
def trap(public):
    """Bytes that must never be unpickled."""
    caught = public / "caught"
    yield pickle.dumps(Trap(caught))
    assert not caught.exists(), "another user's pickle was run"


def plant(path, data, mode=0o644):
    """Write a file as who runs this."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)


def test_private_directory_is_made_for_this_user_only_and_found_again(public):
    made = private_directory("a", "b")
    assert made == public / f"millstream-{os.geteuid()}" / "a" / "b" == private_directory("a", "b")
    assert {path.stat().st_mode & 0o777 for path in (made, made.parent, made.parent.parent)} == {0o700}


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_private_directory_that_another_user_made_before_is_refused(public, nobody, depth):
    taken = user_directory(*("a", "b")[:depth])
    for each in (user_directory(), user_directory("a")):
        if each != taken and depth:
            each.mkdir(exist_ok=True)
    if depth:
        taken.parent.chmod(0o777)
    nobody.do(lambda: taken.mkdir(mode=0o777))
    for each in (user_directory(), user_directory("a")):
        if each != taken and each.exists():
            each.chmod(0o700)
    with pytest.raises(NotPrivateError, match="is not for this user only"):
        private_directory("a", "b")


def test_private_directory_is_not_followed_where_another_user_leads(public, nobody):
    own = public / "elsewhere"
    own.mkdir(mode=0o700)  # this user's, for this user only: all but the right one
    taken = user_directory()
    nobody.do(lambda: taken.symlink_to(own))
    with pytest.raises(NotPrivateError, match="a symbolic link of nobody"):
        private_directory("a")


def test_file_is_opened_only_if_nobody_else_can_have_written_it(public, nobody):
    path = public / "file"
    with create_own(path) as file:
        file.write(b"own")
    with open_own(path) as file:
        assert file.read() == b"own"
    for mode in (0o664, 0o646):
        path.chmod(mode)
        with pytest.raises(NotPrivateError, match=f"with mode {mode:03o}"):
            open_own(path)
    nobody.do(lambda: plant(str(public / "theirs"), b"planted"))
    with pytest.raises(NotPrivateError, match="a file of nobody"):
        open_own(public / "theirs")


def test_file_of_root_is_read_by_others_and_of_others_only_if_they_are_trusted(public, nobody):
    plant(str(public / "roots"), b"x")
    nobody.do(lambda: plant(str(public / "theirs"), b"x"))
    assert nobody.do(lambda: open_own(public / "roots").read()) == b"x"
    assert open_own(public / "theirs", Trust.of(f"0,{nobody.uid}")).read() == b"x"
    assert open_own(public / "theirs", Trust.of("nobody")).read() == b"x"
    (public / "theirs").chmod(0o666)
    with pytest.raises(NotPrivateError):
        open_own(public / "theirs", Trust.of("nobody"))
    assert open_own(public / "theirs", Trust.of("*")).read() == b"x"


def test_user_who_is_trusted_has_to_exist():
    with pytest.raises(ConfigurationError, match='user "nobody-here"'):
        FileSystemSettings.of(
            Configuration.from_dict({"millstream.storage.trusted-owners": "nobody-here"}), {}
        )


def test_links_and_pipes_are_not_opened_as_files(public, nobody):
    plant(str(public / "own"), b"x")
    nobody.do(lambda: (public / "link").symlink_to(public / "own"))
    nobody.do(lambda: os.mkfifo(public / "pipe"))
    with pytest.raises(NotPrivateError, match="a symbolic link"):
        open_own(public / "link")
    with pytest.raises(NotPrivateError, match="no regular file"):  # and nobody waits for a writer
        open_own(public / "pipe")


def test_file_that_is_created_is_no_other_and_nobody_else_can_change_it(public, nobody):
    nobody.do(lambda: (public / "file").symlink_to(public / "target"))
    with pytest.raises(FileExistsError):
        create_own(public / "file")
    before = os.umask(0)
    try:
        create_own(public / "mine").close()
    finally:
        os.umask(before)
    assert (public / "mine").stat().st_mode & 0o777 == 0o644


# Those who use it


def test_checkpoint_files_of_another_user_are_refused(public, nobody, trap):
    nobody.do(lambda: plant(str(public / "checkpoints" / "state"), trap))
    store = open_store(str(public / "checkpoints"))
    with pytest.raises(
        CheckpointStorageError, match=r"state. can have been written by somebody else"
    ) as caught:
        store.read_if_there("state")
    assert "millstream.storage.trusted-owners" in caught.value.hint
    settings = FileSystemSettings.of(
        Configuration.from_dict({"millstream.storage.trusted-owners": "nobody"}), {}
    )
    with file_systems.using(settings):
        assert open_store(str(public / "checkpoints")).read_if_there("state") == trap


def test_how_a_job_ended_is_not_read_from_another_user(public, nobody, trap):
    store = JobResultStore(str(public / "ha"), "job")
    nobody.do(lambda: plant(store.where, trap))
    with pytest.raises(CheckpointStorageError, match="written by somebody else"):
        store.read()


def test_checkpoint_files_are_written_so_that_nobody_else_can_change_them(public):
    before = os.umask(0)
    try:
        open_store(str(public / "checkpoints")).write("a/state", b"x")
    finally:
        os.umask(before)
    assert (public / "checkpoints" / "a" / "state").stat().st_mode & 0o022 == 0


def test_received_records_of_another_user_are_not_read(public, nobody, trap):
    entry = len(trap).to_bytes(4, "big") + zlib.crc32(trap).to_bytes(4, "big") + trap
    directory = user_directory("received", "1", "0")
    nobody.do(lambda: plant(str(directory / "000001.log"), entry))
    with pytest.raises(NotPrivateError, match="written by somebody else"):
        list(read_log(str(directory)))
    with pytest.raises(SourceError, match="not for this user only"):
        ReceiveLog(str(directory))


def test_cached_stream_of_another_user_is_not_read(public, nobody, trap):
    nobody.do(lambda: plant(str(public / "cache" / "00000"), trap))
    reader = CacheSource(str(public / "cache")).build_reader(0, 1)
    with pytest.raises(NotPrivateError, match="written by somebody else"):
        reader.read(SplitRange("0", str(public / "cache" / "00000"), 0), lambda batch: None)


def test_job_files_are_not_laid_out_where_another_user_can_change_them(public, nobody):
    taken = user_directory()
    nobody.do(lambda: taken.mkdir(mode=0o777))
    dependencies = Dependencies(python_files=(ShippedFile("one.py", b"", False),))
    with pytest.raises(NotPrivateError, match="millstream-0. is not for this user only"):
        open_workspace(dependencies, "job-0")
