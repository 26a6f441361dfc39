"""Checkpoints, savepoints and what a lost driver leaves, in HDFS: a real name node and data node."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest
import remote_files
from recovery_programs import tumbling
from recovery_support import SAME, difference, resume, run, run_to_savepoint
from storage_programs import (
    check_created_once,
    check_parts,
    check_terms,
    counted,
    lines,
    start_program,
    wait_until,
)

from millstream.base.errors import CheckpointDamagedError, CheckpointStorageError, ConfigurationError
from millstream.common import Configuration
from millstream.files.file_systems import FileSystemSettings, using
from millstream.files.stores import FileStore, open_store
from millstream.runtime.checkpoint.restore import discard, find_saved
from servers.storage import HdfsServer

QUICK = {"millstream.hdfs.timeout": "1 s", "flink.hadoop.dfs.client.failover.max.attempts": "1"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = HdfsServer(tmp_path_factory.mktemp("hdfs"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def root(server, request):
    return f"{server.uri}/{re.sub(r'[^a-z]+', '-', request.node.name)}"


def raw_paths(server: HdfsServer, root: str) -> list[str]:
    """Return the paths of all files below a directory, also hidden ones, by the client itself."""
    from hdfs_native import Client

    place = root.removeprefix(server.uri)
    try:
        found = list(Client(server.uri).list_status(place, recursive=True))
    except FileNotFoundError:
        return []
    return sorted(each.path.removeprefix(f"{place}/") for each in found if not each.isdir)


def store_at(location: str, options: dict[str, object]) -> FileStore:
    with using(FileSystemSettings.of(Configuration.from_dict(options), {})):
        return open_store(location)


def test_a_file_replaces_another_as_a_whole(server, root):
    store = open_store(root)
    older = store.write("a/_metadata", b"old")
    newer = store.write("a/_metadata", b"newer")
    assert store.read(newer) == b"newer"
    with pytest.raises(CheckpointDamagedError, match="has 5 bytes, 3 were written"):
        store.read(older)
    assert store.read(store.write("empty", b"")) == b""
    large = bytes(range(256)) * 40_000  # more than one call
    assert store.read(store.write("b/large", large)) == large
    assert raw_paths(server, root) == ["a/_metadata", "b/large", "empty"]


def test_parts_of_a_file_are_read(server, root):
    check_parts(open_store(root))


def test_a_file_is_created_by_one_of_many_and_a_job_belongs_to_one_driver(server, root):
    check_created_once(open_store(root))
    check_terms(root)


def test_what_is_deleted_is_gone_with_all_in_it(server, root):
    store = open_store(root)
    for path in ("chk-1/_metadata", "shared/1", "shared/2"):
        store.write(path, b"x")
    assert store.names("") == ["chk-1", "shared"]
    assert store.names("nothing") == store.names("shared/1") == []
    ref = store.write("shared/1", b"y")
    store.delete("shared/1")
    store.delete("nothing")
    assert store.names("shared") == ["2"]
    assert store.read_if_there("shared/1") is None
    with pytest.raises(CheckpointDamagedError, match='shared/1" is missing'):
        store.read(ref)
    store.delete("")
    store.delete("")
    assert store.names("") == []


KILLED = """
import os, signal, sys
from millstream.base.crash_points import set_crash_hook
from millstream.files.stores import open_store
class Kill:
    def reach(self, name, detail):
        if name == "storage.staged":
            os.kill(os.getpid(), signal.SIGKILL)
    def around(self, name, detail, action):
        return action()
set_crash_hook(Kill())
open_store(sys.argv[1]).write("job.recovery", b"new")
"""


def test_a_writer_that_is_killed_leaves_what_was_there_before(server, root):
    store = open_store(root)
    store.write("job.recovery", b"old")
    writer = subprocess.run([sys.executable, "-c", KILLED, root], timeout=60)
    assert writer.returncode == -signal.SIGKILL
    assert len(raw_paths(server, root)) == 2
    assert store.names("") == ["job.recovery"]
    assert store.read_if_there("job.recovery") == b"old"


@pytest.mark.parametrize(
    ("location", "said", "hint"),
    [
        ("hdfs://127.0.0.1:1/a", "hdfs://127.0.0.1:1 did not answer", "host and port"),
        ("hdfs://nameservice/a", "hdfs://nameservice is not known", "HADOOP_CONF_DIR"),
    ],
)
def test_a_name_node_that_cannot_be_asked_is_named_at_once(location, said, hint):
    store = store_at(location, QUICK)
    begin = time.monotonic()
    for ask in (store.read_if_there, store.names, store.delete, lambda path: store.write(path, b"")):
        with pytest.raises(CheckpointStorageError) as raised:
            ask("b")
        assert said in raised.value.message
        assert hint in (raised.value.hint or "")
    assert time.monotonic() - begin < 30


def test_a_name_node_that_is_silent_is_given_up(server, root):
    store = store_at(root, QUICK)
    store.write("a", b"x")
    server.pause()
    begin = time.monotonic()
    try:
        with pytest.raises(CheckpointStorageError, match="did not answer in 1 s"):
            store.write("a", b"y")
    finally:
        server.go_on()
    assert time.monotonic() - begin < 30
    assert store_at(root, {}).read_if_there("a") == b"x"


def test_access_that_is_refused_is_told_as_that(server, root):
    open_store(root).write("a", b"x")
    program = (
        "import sys; from millstream.files.stores import open_store\n"
        "try: open_store(sys.argv[1]).write('b', b'')\n"
        "except Exception as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, root],
        env=os.environ | {"HADOOP_USER_NAME": "nobody"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert f"{server.uri} refused access" in done.stdout, done.stderr
    assert "HADOOP_USER_NAME" in done.stdout


def test_a_location_with_a_user_is_refused():
    with pytest.raises(ConfigurationError, match="HADOOP_USER_NAME"):
        open_store("hdfs://flink@host:8020/a")


def test_a_driver_that_is_killed_loses_and_doubles_nothing(server, root, tmp_path):
    running = start_program(tmp_path, root, os.environ)

    def recoverable():
        return any(path.endswith(".recovery") for path in raw_paths(server, root))

    wait_until(recoverable)
    time.sleep(0.5)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert recoverable(), "killed before a checkpoint, or at the end"
    running = start_program(tmp_path, root, os.environ, "--recover")
    assert running.wait(timeout=60) == 0
    assert lines(tmp_path / "out") == counted()
    assert not [path for path in raw_paths(server, root) if "_metadata" in path or path.endswith(".recovery")]


WANTED = run(tumbling, epoch=8)


def test_a_savepoint_is_restored_at_another_parallelism_and_removed(server, root):
    first, path = run_to_savepoint(tumbling, root, at=20, parallelism=2)
    assert path.startswith(f"{root}/savepoint-")
    assert difference(first + resume(path, tumbling, parallelism=3), WANTED) == SAME
    discard(find_saved(path))
    assert raw_paths(server, root) == []


def test_sinks_and_sources_reach_hdfs(server, root):
    remote_files.write(f"{root}/out", {})
    assert remote_files.read(f"{root}/out", {}) == remote_files.WANTED
    assert not [path for path in raw_paths(server, root) if "inprogress" in path or "probe" in path]
