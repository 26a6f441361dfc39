"""Directories that are removed however their process ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from millstream.files.private_files import NotPrivateError, user_directory
from millstream.files.scratch import remove_all, scratch_directory, sweep

HOLDS = """
import os, sys
from millstream.files.scratch import scratch_directory
path = scratch_directory("state", sys.argv[1])
open(os.path.join(path, "data"), "w").close()
print(path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """A process with a directory of its own below `tmp_path`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    process.path = Path(process.stdout.readline().strip())
    yield process
    process.kill()
    process.communicate()


def roots(base):
    return [path for path in user_directory("scratch", base=base).iterdir() if path.name != "lock"]


def test_a_process_that_ends_removes_its_directories(tmp_path, holder):
    assert (holder.path / "data").exists()
    assert holder.path.stat().st_mode & 0o077 == 0
    holder.communicate()
    assert holder.returncode == 0
    assert roots(tmp_path) == []


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (holder.path / "data").exists()
    sweep(tmp_path)
    assert roots(tmp_path) == []


def test_directories_of_a_living_process_are_left_alone_although_it_is_stopped(tmp_path, holder):
    holder.send_signal(signal.SIGSTOP)
    sweep(tmp_path)
    assert (holder.path / "data").exists()


def test_a_removal_that_was_broken_off_is_finished(tmp_path, holder):
    holder.kill()
    holder.wait()
    root = holder.path.parent
    root.rename(root.with_suffix(".dead"))
    sweep(tmp_path)
    assert roots(tmp_path) == []


def test_a_forked_child_neither_removes_nor_keeps_its_parents_directories(tmp_path):
    mine = Path(scratch_directory("mine", tmp_path))
    child = os.fork()
    if not child:
        remove_all()
        os._exit(0)
    os.waitpid(child, 0)
    assert mine.exists()
    remove_all()
    assert not mine.exists()
    again = Path(scratch_directory("mine", tmp_path))
    assert again.exists()
    remove_all()


def test_a_directory_that_others_can_enter_is_refused_and_not_swept(tmp_path):
    user_directory(base=tmp_path).mkdir(mode=0o755)
    user_directory(base=tmp_path).chmod(0o755)
    with pytest.raises(NotPrivateError):
        scratch_directory("state", tmp_path)
    sweep(tmp_path)
    assert list(user_directory(base=tmp_path).iterdir()) == []
