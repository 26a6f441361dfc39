"""Checkpoints, savepoints and what a lost driver leaves, in S3: a real server that checks signatures, and fails."""

from __future__ import annotations

import gc
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress

import pytest
import remote_files
from recovery_programs import tumbling
from recovery_support import FAULTS, SAME, difference, multiset, resume, run, run_to_savepoint, running
from recovery_support import new_environment as environment_with_faults
from storage_programs import (
    NUMBERS,
    check_created_once,
    check_parts,
    check_terms,
    counted,
    lines,
    start_program,
    wait_until,
)

from millstream.base.errors import (
    CheckpointDamagedError,
    CheckpointStorageError,
    JobExecutionError,
    SinkError,
    SourceError,
)
from millstream.common import Configuration
from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from millstream.datastream.state import ValueStateDescriptor
from millstream.files.file_systems import FileSystemSettings, using
from millstream.files.stores import FileStore, open_store
from millstream.runtime.checkpoint.restore import discard, find_saved
from millstream.runtime.checkpoint.state_file import StateFileWriter
from millstream.runtime.protocol.orders import CompactionOrder
from millstream.runtime.slot.compactor import ProcessCompactor
from servers.ports import free_port
from servers.storage import S3Server, secrets_in

QUICK = {"s3.connection.timeout": "1 s", "s3.socket.timeout": "1 s", "s3.retry.max-num-retries": 0}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = S3Server(tmp_path_factory.mktemp("s3"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def root(server, request):
    """A prefix of its own for each test; everything below it is searched for credentials afterwards."""
    prefix = re.sub(r"\W+", "-", request.node.name)
    yield f"s3://{server.bucket}/{prefix}"
    for key in server.keys(f"{prefix}/"):
        assert not secrets_in(key + server.get(key).decode("latin-1")), key


def store_at(location: str, options: dict[str, object]) -> FileStore:
    with using(FileSystemSettings.of(Configuration.from_dict(options), {})):
        return open_store(location)


def keys_below(server: S3Server, location: str) -> list[str]:
    prefix = location.removeprefix(f"s3://{server.bucket}/") + "/"
    return [key.removeprefix(prefix) for key in server.keys(prefix)]


def spelled(options: dict[str, str]) -> dict[str, str]:
    """Return options as the functions of recovery_support take them."""
    return {key.replace("-", "__").replace(".", "_"): value for key, value in options.items()}


# The store


def test_a_file_replaces_another_as_a_whole_and_nothing_else_is_made(server, root):
    store = store_at(root, server.options)
    older = store.write("a/_metadata", b"old")
    newer = store.write("a/_metadata", b"newer")
    assert store.read(newer) == b"newer"
    with pytest.raises(CheckpointDamagedError, match="has 5 bytes, 3 were written"):
        store.read(older)
    assert store.read(store.write("empty", b"")) == b""
    large = bytes(range(256)) * 50_000
    assert store.read(store.write("large", large)) == large
    assert keys_below(server, root) == ["a/_metadata", "empty", "large"]


def test_parts_of_a_file_are_read(server, root):
    check_parts(store_at(root, server.options))


def test_a_file_is_created_by_one_of_many_and_a_job_belongs_to_one_driver(server, root):
    with using(FileSystemSettings.of(Configuration.from_dict(server.options), {})):
        check_created_once(open_store(root), or_by_nobody=True)
        check_terms(root)
    assert not [key for key in keys_below(server, root) if key.endswith(".bid")]


def test_directories_are_listed_though_there_are_no_objects_for_them(server, root):
    store = store_at(root, server.options)
    for path in ("b/2", "b/1", "b/c/3", "bb", "a"):
        server.put(f"{root.rpartition('/')[2]}/{path}", b"")
    assert store.names("") == ["a", "b", "bb"]
    assert store.names("b") == ["1", "2", "c"]
    assert store.names("nothing") == store.names("bb") == []


def test_what_is_deleted_is_gone_with_all_in_it_and_stays_away_from_its_neighbours(server, root):
    job, other = store_at(f"{root}/job", server.options), store_at(f"{root}/job2", server.options)
    for store in (job, other):
        for path in ("chk-1/_metadata", "shared/1", "shared/2"):
            store.write(path, b"x")
    job.delete("shared/1")
    job.delete("nothing")
    assert job.names("shared") == ["2"]
    job.delete("chk-1")
    assert job.names("") == ["shared"]
    job.delete("")
    job.delete("")
    # By keys, not by names: S3Proxy lists a directory now and then of which it has removed all objects at once.
    # The one empty object is pyarrow's, for the directory that the user named.
    assert keys_below(server, root) == ["", "job2/chk-1/_metadata", "job2/shared/1", "job2/shared/2"]


def test_an_object_that_is_gone_is_damage_and_a_bucket_that_is_gone_is_not(server, root):
    store = store_at(root, server.options)
    ref = store.write("a", b"x")
    store.delete("a")
    with pytest.raises(CheckpointDamagedError, match=f'"{root}/a" is missing'):
        store.read(ref)
    assert store.read_if_there("a") is None
    gone = store_at("s3://nosuchbucket/a", server.options)
    for ask in (gone.read_if_there, gone.names, lambda path: gone.write(path, b"")):
        with pytest.raises(CheckpointStorageError, match='there is no bucket "nosuchbucket"'):
            ask("b")


def closed_port() -> str:
    return f"http://127.0.0.1:{free_port()}"


@pytest.mark.parametrize(
    ("wrong", "said", "hint"),
    [
        ({"s3.secret-key": "not the secret of this key"}, "refused the credentials", "s3.secret-key"),
        ({"s3.access-key": "nobody's"}, "refused the credentials", "s3.access-key"),
        ({"s3.endpoint": closed_port()}, "did not answer", "s3.endpoint"),
    ],
)
def test_what_is_wrong_is_told_at_once_and_no_secret_with_it(server, root, wrong, said, hint):
    options = server.options | QUICK | wrong
    store = store_at(root, options)
    begin = time.monotonic()
    for ask in (store.read_if_there, store.names, store.delete, lambda path: store.write(path, b"")):
        with pytest.raises(CheckpointStorageError) as raised:
            ask("a")
        assert said in raised.value.message
        assert hint in (raised.value.hint or "")
        text = f"{raised.value!s}{raised.value!r}{raised.value.__cause__!s}"
        assert options["s3.secret-key"] not in text
        assert options["s3.access-key"] not in text
    assert time.monotonic() - begin < 30


def test_a_server_that_takes_connections_and_is_silent_is_given_up(server, root):
    store = store_at(root, server.options | QUICK)
    store.write("a", b"x")
    server.pause()
    begin = time.monotonic()
    try:
        with pytest.raises(CheckpointStorageError, match="did not answer"):
            store.write("a", b"y")
    finally:
        server.go_on()
    assert time.monotonic() - begin < 30
    assert store.read_if_there("a") in (b"x", b"y")


class Cut:
    """Stands before a server, breaks all connections when so many bytes have passed to it, and may take new ones."""

    def __init__(self, port: int, after_bytes: int, *, for_ever: bool = True) -> None:
        self.reached = threading.Event()
        self._port, self._left, self._for_ever = port, after_bytes, for_ever
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            upstream = socket.create_connection(("127.0.0.1", self._port))
            self._open += [client, upstream]
            for ends in ((client, upstream), (upstream, client)):
                threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                if target.getpeername()[1] == self._port:
                    self._left -= len(data)
                if self._left < 0 and not self.reached.is_set():
                    self.reached.set()
                    self._cut()
                    return
                target.sendall(data)
        except OSError:
            return

    def _cut(self) -> None:
        if self._for_ever:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


LARGE = 40 << 20


@pytest.mark.parametrize("for_ever", [True, False])
@pytest.mark.parametrize("after_bytes", [100, LARGE // 2, LARGE + 3000])
def test_a_write_that_fails_half_way_leaves_nothing_to_be_read(server, root, after_bytes, for_ever):
    cut = Cut(server.port, after_bytes, for_ever=for_ever)
    store = store_at(root, server.options | QUICK | {"s3.endpoint": cut.endpoint})
    with pytest.raises(CheckpointStorageError, match="did not answer"):
        store.write("large", bytes(LARGE))
    del store
    gc.collect()
    assert cut.reached.is_set()
    assert keys_below(server, root) == []


def test_a_writer_that_is_killed_half_way_leaves_nothing_to_be_read(server, root):
    cut = Cut(server.port, LARGE // 2)
    program = "import sys; from millstream.files.stores import open_store\n"
    program += f"open_store(sys.argv[1]).write('x', bytes({LARGE}))"
    environment = os.environ | server.environment | {"AWS_ENDPOINT_URL": cut.endpoint}
    writer = subprocess.Popen([sys.executable, "-c", program, root], env=environment)
    assert cut.reached.wait(30)
    writer.send_signal(signal.SIGKILL)
    assert writer.wait() == -signal.SIGKILL
    assert keys_below(server, root) == []
    assert store_at(root, server.options).names("") == []


# Jobs


def test_a_driver_that_is_killed_again_and_again_loses_and_doubles_nothing(server, root, tmp_path):
    environment = os.environ | server.environment
    running_program = start_program(tmp_path, root, environment)
    for _ in range(2):
        wait_until(lambda: any(key.endswith(".recovery") for key in keys_below(server, root)))
        time.sleep(0.5)
        os.kill(running_program.pid, signal.SIGKILL)
        running_program.wait()
        left = [key for key in keys_below(server, root) if key.endswith(".recovery")]
        assert left, "killed before a checkpoint, or at the end"
        running_program = start_program(tmp_path, root, environment, "--recover")
    assert running_program.wait(timeout=60) == 0
    assert lines(tmp_path / "out") == counted()
    assert not [key for key in keys_below(server, root) if "_metadata" in key or key.endswith(".recovery")]


WANTED = run(tumbling, epoch=8)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_savepoint_is_restored_at_any_parallelism(server, root, parallelism):
    options = spelled(server.options)
    first, path = run_to_savepoint(tumbling, root, at=20, parallelism=2, **options)
    assert path.startswith(f"{root}/savepoint-")
    rest = resume(path, tumbling, parallelism=parallelism, **options)
    assert difference(first + rest, WANTED) == SAME
    with using(FileSystemSettings.of(Configuration.from_dict(server.options), {})):
        discard(find_saved(path))
    assert [key for key in keys_below(server, root) if key] == []


def cancelled_job(server: S3Server, root: str, **options: object) -> Counter:
    """Run a job that makes checkpoints below `root` until it is cancelled; return its results."""
    environment = environment_with_faults(
        1,
        3,
        execution_checkpointing_interval=1,
        execution_checkpointing_dir=root,
        **spelled(server.options),
        **options,
    )
    FAULTS.arm()
    found = []
    with running() as launcher:
        launcher.do_after(30, lambda: launcher.job().cancel())
        with (
            tumbling(environment).execute_and_collect() as results,
            pytest.raises(JobExecutionError, match="cancelled"),
        ):
            for each in results:
                found.append(each)
    return multiset(found)


RETAINED = {
    "execution_checkpointing_num__retained": 3,
    "execution_checkpointing_externalized__checkpoint__retention": "RETAIN_ON_CANCELLATION",
}


def test_a_cancelled_job_takes_its_checkpoints_with_it(server, root):
    cancelled_job(server, root)
    assert [key for key in keys_below(server, root) if key] == []


def test_a_cancelled_job_leaves_the_checkpoints_that_are_to_be_retained(server, root):
    first = cancelled_job(server, root, **RETAINED)
    found = [key for key in keys_below(server, root) if key.endswith("/_metadata")]
    assert len(found) == 3
    job = found[0].partition("/")[0]
    rest = resume(f"{root}/{job}", tumbling, **spelled(server.options))
    assert difference(first + rest, WANTED) == SAME


def test_a_damaged_object_is_named_and_the_newest_intact_checkpoint_offered(server, root):
    cancelled_job(server, root, **RETAINED)
    found = [key.removesuffix("/_metadata") for key in keys_below(server, root) if key.endswith("/_metadata")]
    *_, intact, newest = sorted(found, key=lambda key: int(key.rpartition("-")[2]))
    with using(FileSystemSettings.of(Configuration.from_dict(server.options), {})):
        ref = find_saved(f"{root}/{newest}").manifest.state[-1].file
    key = f"{root}/{newest.partition('/')[0]}/{ref.path}".removeprefix(f"s3://{server.bucket}/")
    data = bytearray(server.get(key))
    data[len(data) // 2] ^= 1
    server.put(key, bytes(data))
    with pytest.raises(CheckpointDamagedError) as raised:
        resume(f"{root}/{newest}", tumbling, **spelled(server.options))
    assert f'"{root}/{newest}" is damaged' in raised.value.message
    assert ref.path in (raised.value.detail or "")
    assert raised.value.hint == f"The newest intact checkpoint beside it is {root}/{intact}"


def test_a_server_that_goes_away_costs_checkpoints_but_not_the_job(server, root, tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    options = server.options | QUICK
    options |= {
        "execution.target": "local",
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": root,
        "execution.checkpointing.tolerable-failed-checkpoints": 10_000,
        "restart-strategy.type": "none",
    }
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    NUMBERS["build"](environment, tmp_path / "out", 1_000_000, 200)
    job = environment.execute_async("outage")

    def completed() -> int:
        found = [key for key in keys_below(server, root) if key.endswith("/_metadata")]
        return max((int(re.findall(r"chk-(\d+)", key)[0]) for key in found), default=0)

    wait_until(lambda: completed() > 1)
    server.stop()
    wait_until(lambda: "failed and is left out" in caplog.text)
    server.start()
    before = completed()
    committed = lines(tmp_path / "out").total()
    wait_until(lambda: completed() > before + 1)
    wait_until(
        lambda: lines(tmp_path / "out").total() > committed
    )  # what is recorded is published a moment later
    written = lines(tmp_path / "out")
    job.cancel().result()
    with pytest.raises(JobExecutionError, match="cancelled"):
        job.get_job_execution_result().result()
    assert "did not answer" in caplog.text
    assert not secrets_in(caplog.text)
    assert committed > 0
    assert not written - counted(1_000_000)
    assert [key for key in keys_below(server, root) if key] == []


# From the command line, and on Spark


def command(*arguments: str, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "millstream.cli.main", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not secrets_in(done.stdout + done.stderr)
    return done.stdout


def test_commands_find_s3_by_the_environment_by_options_and_by_the_location(server, root):
    _, path = run_to_savepoint(tumbling, root, at=20, **spelled(server.options))
    plain = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    listed = command("state", "ls", path.replace("s3:", "s3a:"), environment=plain | server.environment)
    assert path.replace("s3:", "s3a:") in listed
    options = str(server.options).replace("'", '"')
    assert command("state", "diff", path, path, environment=plain | {"MILLSTREAM_CONFIG": options}) == (
        "no differences\n"
    )
    secret = server.secret_key.replace("/", "%2F").replace("+", "%2B")
    uri = path.replace("s3://", f"s3://{server.access_key}:{secret}@")
    uri += f"?scheme=http&endpoint_override=127.0.0.1:{server.port}"
    assert path in command("savepoint", "dispose", "--yes", uri, environment=plain)
    assert [key for key in keys_below(server, root) if key] == []


def test_the_process_that_compacts_is_told_how_to_reach_s3(server, root, monkeypatch):
    for name in server.environment:
        monkeypatch.delenv(name, raising=False)
    store = store_at(root, server.options)
    files = tuple(store.write(name, StateFileWriter().finish()) for name in ("1", "2"))
    compactor, outcomes = ProcessCompactor(), []
    with using(FileSystemSettings.of(Configuration.from_dict(server.options), {})):
        compactor.start(CompactionOrder(location=root, files=files, target="merged"))
    wait_until(lambda: outcomes.append(compactor.poll()) or outcomes[-1])
    assert outcomes[-1].error == ""
    store.read(outcomes[-1].file)


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


@pytest.mark.spark
def test_slots_of_spark_are_told_how_to_reach_s3(server, root, new_environment, monkeypatch):
    for name in server.environment:
        monkeypatch.delenv(name, raising=False)
    options = server.options | {
        "execution.checkpointing.interval": "1 ms",
        "execution.checkpointing.dir": root,
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "millstream.epoch.fixed-records": 100,
    }

    def counts(**more: str):
        environment = new_environment(
            "local[2]", 2, options | {key.replace("_", "."): more[key] for key in more}
        )
        numbers = environment.from_collection(range(700)).uid("numbers")
        return numbers.key_by(lambda value: value % 7).process(Count()).uid("count").execute_and_collect()

    with counts() as results:
        next(results)  # handed on behind a checkpoint; leaving cancels the job
    keys = keys_below(server, root)
    assert (
        len(
            {
                re.findall(r"shared/\d+-(\d)-", key)[0]
                for key in keys
                if "shared/" in key and "driver" not in key
            }
        )
        == 2
    )
    job = next(key.partition("/")[0] for key in keys if key.endswith("/_metadata"))
    with counts(**{"execution_state-recovery_path": f"{root}/{job}"}) as results:
        found = list(results)
    assert len(found) < 700
    assert {key: max(count for other, count in found if other == key) for key in range(7)} == dict.fromkeys(
        range(7), 100
    )


# Files that jobs read and write


def without_aws(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in server.environment:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_sinks_and_sources_reach_s3_by_the_options_of_checkpoints(server, root, scheme, monkeypatch):
    without_aws(server, monkeypatch)
    location = root.replace("s3:", f"{scheme}:") + "/out"
    remote_files.write(location, server.options)
    assert remote_files.read(location, server.options) == remote_files.WANTED
    assert not [key for key in keys_below(server, root) if "inprogress" in key or "probe" in key]


def test_sinks_and_sources_take_credentials_from_the_location_and_keep_them_to_themselves(
    server, root, monkeypatch, capfd
):
    without_aws(server, monkeypatch)
    secret = server.secret_key.replace("/", "%2F").replace("+", "%2B")
    location = f"{root}/out".replace("s3://", f"s3://{server.access_key}:{secret}@")
    location += f"?scheme=http&endpoint_override=127.0.0.1:{server.port}"
    remote_files.write(location, {"execution.checkpointing.dir": root, **server.options})
    assert remote_files.read(location, {}) == remote_files.WANTED
    with pytest.raises(SourceError) as failed:
        remote_files.read(location.replace("/out", "/nothing"), {})
    assert "nothing" in str(failed.value)
    assert not secrets_in(str(failed.value) + "".join(capfd.readouterr()))


def test_credentials_of_a_uri_are_no_other_job_s(server, root, monkeypatch):
    without_aws(server, monkeypatch)
    secret = server.secret_key.replace("/", "%2F").replace("+", "%2B")
    reached = f"?scheme=http&endpoint_override=127.0.0.1:{server.port}"
    right = f"{root}/out".replace("s3://", f"s3://{server.access_key}:{secret}@") + reached
    wrong = f"{root}/out".replace("s3://", "s3://NOBODY:nothing@") + reached
    remote_files.write(right, {"execution.checkpointing.dir": right.replace("/out", "/checkpoints"), **QUICK})
    # The bucket is the same, and so is the process.
    with pytest.raises(SourceError, match="refused the credentials"):
        remote_files.read(f"{root}/out", {**server.options, **QUICK, "s3.secret-key": "not the secret"})
    with pytest.raises(SourceError, match="refused the credentials"):
        remote_files.read(wrong, QUICK)
    assert remote_files.read(f"{root}/out", {**server.options, **QUICK}) == remote_files.WANTED
    assert remote_files.read(right, {**QUICK, "s3.secret-key": "not the secret"}) == remote_files.WANTED


@pytest.mark.parametrize("act", [remote_files.write, remote_files.read])
def test_sinks_and_sources_say_that_s3_does_not_answer(server, act, monkeypatch, capfd):
    without_aws(server, monkeypatch)
    options = server.options | QUICK | {"s3.endpoint": closed_port()}
    with pytest.raises((SourceError, SinkError), match="did not answer") as failed:
        act("s3://nobodys/out", options)
    assert "s3.endpoint" in (failed.value.hint or "")
    assert not secrets_in(str(failed.value) + "".join(capfd.readouterr()))


@pytest.mark.spark
def test_slots_of_spark_read_and_write_files_in_s3(server, root, monkeypatch):
    without_aws(server, monkeypatch)
    remote_files.write(f"{root}/out", server.options, "local[2]")
    assert remote_files.read(f"{root}/out", server.options, "local[2]") == remote_files.WANTED
