"""Checkpoints and savepoints in Google Cloud Storage and Azure: what a store promises, and jobs that go on from it."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from millstream.base.crash_points import set_crash_hook
from millstream.base.errors import CheckpointDamagedError, CheckpointStorageError
from millstream.common import Configuration, Types, WatermarkStrategy
from millstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.datastream.state import ValueStateDescriptor
from millstream.files.file_systems import FileSystemSettings, using
from millstream.files.stores import open_store
from servers.ports import free_port


def store_at(location, options):
    with using(FileSystemSettings.of(Configuration.from_dict(options), {})):
        return open_store(location)


def test_files_replace_others_as_a_whole_are_read_listed_and_removed(prefix):
    store = open_store(prefix.uri)
    older = store.write("a/_metadata", b"old")
    newer = store.write("a/_metadata", b"newer")
    assert store.read(newer) == b"newer"
    with pytest.raises(CheckpointDamagedError, match="has 5 bytes, 3 were written"):
        store.read(older)
    assert store.read(store.write("empty", b"")) == b""
    large = bytes(range(256)) * 20_000
    ref = store.write("shared/1", large)
    assert store.read(ref) == large
    assert store.read_part(ref, 5_000_000, 10) == large[5_000_000:5_000_010]
    assert store.names("") == ["a", "empty", "shared"] and store.names("none") == []
    assert store.create("claim", b"mine") and not store.create("claim", b"another's")
    assert sorted(prefix.sizes()) == ["a/_metadata", "claim", "empty", "shared/1"]
    store.delete("shared/1")
    with pytest.raises(CheckpointDamagedError, match="shared/1.* is missing"):
        store.read(ref)
    store.delete("a")
    store.delete("none")
    store.delete("")
    assert prefix.sizes() == {}


@pytest.mark.parametrize("size", [10, 9_000_000])
def test_a_file_whose_contents_cannot_be_had_is_not_there(prefix, size):
    store = open_store(prefix.uri)
    ref = store.write("a", b"x" * size)
    store.delete("a")

    def parts():
        yield b"x" * (size // 2)
        raise OSError("gone")

    with pytest.raises(CheckpointStorageError, match='file ".*/a" cannot be written'):
        store.write_parts("a", parts, ref)
    assert prefix.sizes() == {}


class Ended(Exception):
    pass


class EndsWhenStaged:
    def reach(self, name, detail):
        if name == "storage.staged":
            raise Ended

    def around(self, name, detail, action):
        return action()


@pytest.mark.parametrize("server", ["azure"], indirect=True)
def test_a_blob_that_is_being_replaced_is_there_until_it_is(server, prefix):
    store = open_store(prefix.uri)
    store.write("a", b"old")
    former = set_crash_hook(EndsWhenStaged())
    try:
        with pytest.raises(Ended):
            store.write("a", b"new")
    finally:
        set_crash_hook(former)
    assert prefix.objects() == {"a": b"old"}


def test_what_is_wrong_is_told(prefix):
    kind, key = (
        ("bucket", "gs.storage.root.url")
        if prefix.uri.startswith("gs:")
        else (
            "container",
            "fs.azure.blob.endpoint",
        )
    )
    missing = store_at(prefix.uri.replace("://state", "://missing"), prefix.server.options)
    for ask in (missing.read_if_there, missing.names, lambda path: missing.write(path, b"")):
        with pytest.raises(CheckpointStorageError, match=f'there is no {kind} "missing"'):
            ask("b")
    away = store_at(prefix.uri, {**prefix.server.options, key: f"http://127.0.0.1:{free_port()}"})
    begin = time.monotonic()
    with pytest.raises(CheckpointStorageError, match="did not answer") as raised:
        away.write("a", b"")
    assert key in (raised.value.hint or "")
    assert time.monotonic() - begin < 30


class Count(KeyedProcessFunction):
    def open(self, context):
        self._seen = context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value, context):
        self._seen.update((self._seen.value() or 0) + 1)
        yield f"{context.get_current_key()}:{self._seen.value()}"


def test_a_job_that_fails_goes_on_from_its_checkpoint(prefix, tmp_path):
    marker = tmp_path / "failed"

    def fail_once(number):
        if number == 350 and not marker.exists():
            marker.touch()
            raise RuntimeError("once")
        return number

    options = {
        "execution.target": "local",
        "execution.checkpointing.dir": prefix.uri,
        "execution.checkpointing.interval": "1 ms",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 1,
        "restart-strategy.fixed-delay.delay": "1 ms",
        "millstream.epoch.fixed-records": 100,
        **prefix.server.options,
    }
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    environment.set_parallelism(1)
    numbers = environment.from_source(
        NumberSequenceSource(1, 700), WatermarkStrategy.no_watermarks(), "numbers"
    )
    counted = numbers.map(fail_once).key_by(lambda number: number % 7).process(Count(), Types.STRING())
    with counted.execute_and_collect() as results:
        assert Counter(results) == Counter(f"{key}:{count}" for key in range(7) for count in range(1, 101))
    assert marker.exists()
