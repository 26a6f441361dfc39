"""File sinks on file systems that pyarrow knows: here a subtree of a temporary directory stands for an object store."""

from __future__ import annotations

import pickle
from collections import Counter

import pyarrow.fs
import pytest

from millstream.base.errors import LostOutputError, SinkError
from millstream.common import WatermarkStrategy
from millstream.connectors.files.buckets import BucketAssigner
from millstream.connectors.files.rolling import RollingPolicy
from millstream.connectors.files.sink import FileSink
from millstream.connectors.number_sequence import NumberSequenceSource
from millstream.files import output
from millstream.files.output import open_output
from millstream.spi.batch import Rows
from millstream.spi.serialization import Encoder
from millstream.spi.sink import WriterContext

URI = "store://bucket/out"


@pytest.fixture
def store(tmp_path, monkeypatch):
    root = tmp_path / "store"
    root.mkdir()
    (root / "bucket").mkdir()
    file_system = pyarrow.fs.SubTreeFileSystem(str(root), pyarrow.fs.LocalFileSystem())
    monkeypatch.setattr(
        output, "open_remote", lambda uri: (file_system, uri.removeprefix("store://").rstrip("/"))
    )
    return root / "bucket" / "out"


def sink_at(uri=URI):
    made = FileSink.for_row_format(uri, Encoder.simple_string_encoder())
    made.with_rolling_policy(RollingPolicy.default_rolling_policy(1 << 20, 10**9, 10**9))
    return made.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


def writer_of(sink, attempt=0, snapshots=None):
    writer = pickle.loads(pickle.dumps(sink)).build_writer(WriterContext("job", "sink", 0, 1, attempt))
    if snapshots is not None:
        writer.restore(snapshots, others=())
    writer.open()
    return writer


def write(writer, *values):
    writer.write(Rows(list(values)), watermark_ms=0, now_ms=0)


def contents(directory):
    return {file.name: file.read_text() for file in directory.rglob("*") if file.is_file()}


def test_file_is_finished_at_every_checkpoint_and_seen_after_the_commit(store):
    sink = sink_at()
    sink.check()
    writer = writer_of(sink)
    write(writer, "a", "b")
    committables = writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
    assert writer.snapshot().open == ()
    assert all(name.startswith(".part-0-") for name in contents(store))
    for _ in range(2):  # the same as once
        sink.build_committer().commit(committables)
    ((name, text),) = contents(store).items()
    assert (name[:7], text) == ("part-0-", "a\nb\n")


class ByValue(BucketAssigner):
    def get_bucket_id(self, element, context):
        return f"bucket={element}"


def many_buckets(count):
    """Return (sink, committables) of files that have been finished in as many buckets."""
    made = FileSink.for_row_format(URI, Encoder.simple_string_encoder()).with_bucket_assigner(ByValue())
    sink = made.build()
    writer = writer_of(sink)
    write(writer, *range(count))
    return sink, writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)


def test_files_of_many_buckets_are_published_each_once(store):
    sink, committables = many_buckets(50)
    assert len(committables) == 50
    for _ in range(2):
        sink.build_committer().commit(committables)
    assert sorted(contents(store).values()) == sorted(f"{number}\n" for number in range(50))
    assert not [name for name in contents(store) if name.startswith(".")]


def test_files_that_are_published_when_one_fails_are_left_to_the_next_commit(store):
    sink, committables = many_buckets(50)
    staged = store / "bucket=30" / committables[30].staged_path.rpartition("/")[2]
    text = staged.read_text()
    staged.unlink()
    with pytest.raises(LostOutputError, match=r"bucket=30/.* is gone before it was published"):
        sink.build_committer().commit(committables)
    staged.write_text(text)
    sink.build_committer().commit(committables)
    assert sorted(contents(store).values()) == sorted(f"{number}\n" for number in range(50))


def test_commit_that_ended_between_copy_and_delete_is_completed(store):
    sink = sink_at()
    writer = writer_of(sink)
    write(writer, "a")
    (committable,) = writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=True)
    staged = store / committable.staged_path.rpartition("/")[2]
    final = store / committable.final_path.rpartition("/")[2]
    final.write_text(staged.read_text())
    sink.build_committer().commit([committable])
    assert contents(store) == {final.name: "a\n"}


def test_object_of_another_is_not_replaced(store):
    sink = sink_at()
    writer = writer_of(sink)
    write(writer, "a")
    (committable,) = writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=True)
    (store / committable.final_path.rpartition("/")[2]).write_text("something else")
    with pytest.raises(SinkError, match="is not replaced"):
        sink.build_committer().commit([committable])


def test_leftovers_of_former_attempts_go(store):
    sink = sink_at()
    writer = writer_of(sink)
    write(writer, "a")
    writer.prepare_commit(now_ms=0, checkpoint=True, end_of_input=False)
    assert len(contents(store)) == 1
    writer_of(sink, attempt=1)
    assert contents(store) == {}


def test_whole_job_writes_every_record_once_over_failures(store, restarting, faults):
    def failing(value, faults=faults):
        for place in "ab":
            faults.hit(place)
        return value

    faults.arm("a", skip=10)
    faults.arm("b", skip=50)
    source = NumberSequenceSource(0, 99)
    environment = restarting(2)
    environment.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(failing).sink_to(
        sink_at()
    )
    environment.execute()
    files = contents(store)
    assert Counter(line for text in files.values() for line in text.split()) == Counter(map(str, range(100)))
    assert not [name for name in files if name.startswith(".")]
    assert faults.armed() == []


def test_prefix_checksum_and_listing_are_as_on_a_local_disk(store, tmp_path):
    results = []
    for base in (str(tmp_path / "local"), URI):
        files = open_output(base)
        files.make_directory(files.join("a/b"))
        with files.create(files.join("a/b", ".hidden")) as file:
            file.write(b"0123456789")
        files.create(files.join("seen")).close()
        results.append(
            (
                files.checksum(files.join("a/b", ".hidden"), 4),
                files.checksum(files.join("a/b", ".hidden"), 11),
                files.checksum(files.join("nothing"), 1),
                [path.removeprefix(files.base) for path in files.hidden_files()],
                files.size(files.join("a/b", ".hidden")),
                files.size(files.join("nothing")),
                files.size(files.join("a")) if base == URI else None,
            )
        )
        with pytest.raises(FileExistsError):
            files.create(files.join("seen"))
        with pytest.raises(FileNotFoundError):
            files.publish(files.join("nothing"), files.join("final"))
    assert results[0] == results[1]
    assert results[0][3] == ["/a/b/.hidden"]


def test_scheme_that_nobody_knows_is_named_before_the_job_starts():
    with pytest.raises(SinkError, match="cannot write to 'nowhere://x'"):
        sink_at("nowhere://x").check()


def test_file_uri_is_a_local_path(tmp_path):
    sink = sink_at(f"file://{tmp_path}/out")
    sink.check()
    assert sink.base_path == str(tmp_path / "out")
