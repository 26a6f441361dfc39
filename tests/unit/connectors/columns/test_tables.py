"""Tables as sources: rows once and in order, whatever the epochs, parallelism and checkpoints."""

from __future__ import annotations

import datetime
import gc
import os
import pickle
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace

import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millstream.base.errors import (
    ConfigurationError,
    JobDefinitionError,
    NotSupportedError,
    SessionLostError,
    SourceError,
    TypeMismatchError,
)
from millstream.connectors.columns import table as module
from millstream.connectors.columns.event_time import EventTime, disorder_ms
from millstream.connectors.columns.kept import KeptDirectory
from millstream.connectors.columns.spark import check_frame, frames_source
from millstream.connectors.columns.table import TableSource
from millstream.files import scratch
from millstream.files.scratch import for_this_machine
from millstream.spi.batch import Columns
from millstream.spi.source import PlanRequest
from millstream.testing import SourceRun, check_source
from millstream.types.row import Row


def table(rows):
    return pa.table({"n": range(rows), "text": [str(n) if n % 3 else None for n in range(rows)]})


def rows_of(data):
    return [Row(**record) for record in data.to_pylist()]


# A frame of Spark, as far as it is asked: it writes its partitions.


class Conf(dict):
    def set(self, key, value):
        self[key] = value

    def unset(self, key):
        del self[key]


class Frame:
    """What is asked of a Spark DataFrame."""

    isStreaming = False

    def __init__(self, *partitions, group_rows=7, schema="{}"):
        self.partitions = partitions
        self.group_rows = group_rows
        self.sparkSession = self.write = self.schema = self
        self.conf = Conf()
        self.json = lambda: schema
        self.seen = None

    def mode(self, mode):
        return self

    def parquet(self, uri):
        self.seen = dict(self.conf)
        directory = uri.removeprefix("file://")
        os.makedirs(directory, exist_ok=True)
        for number, data in enumerate(self.partitions):
            pq.write_table(data, f"{directory}/part-{number:05d}.parquet", row_group_size=self.group_rows)
        open(f"{directory}/_SUCCESS", "w").close()


@pytest.fixture
def kept(tmp_path):
    directory = KeptDirectory.make(str(tmp_path), master="spark://somewhere:7077", checkpoints=None)
    yield directory
    directory.remove()


PARTITIONS = [table(23), table(0), table(40).slice(23)]


@pytest.mark.parametrize("parallelism", [1, 2, 4])
@pytest.mark.parametrize("budget", [1, 5, 8, 1_000])
def test_every_row_is_read_once_and_in_order(kept, parallelism, budget):
    assert SourceRun(TableSource(table(31)), parallelism, budget).run() == rows_of(table(31))
    read = SourceRun(frames_source(Frame(*PARTITIONS), kept, None), parallelism, budget).run()
    assert sorted(read, key=lambda row: row.n) == rows_of(table(40))
    assert [row for row in read if row.n < 23] == rows_of(table(23))


@pytest.mark.parametrize("at", [1, 2, 6])
@pytest.mark.parametrize("then", [1, 3])
def test_reading_goes_on_from_a_snapshot_at_another_parallelism(kept, at, then):
    for source in (TableSource(table(40)), frames_source(Frame(*PARTITIONS), kept, None)):
        first = SourceRun(source, 2, 3)
        for _ in range(at):
            first.epoch()
        second = SourceRun(source, then, 4, restored=first.snapshot())
        read = [*first.read[0], *first.read[1], *second.run()]
        assert sorted(read, key=lambda row: row.n) == rows_of(table(40))


@pytest.mark.slow
def test_sources_of_tables_keep_the_contract_of_sources(kept):
    check_source(TableSource(table(40)), expected=rows_of(table(40)))
    check_source(TableSource(table(0)), expected=[])
    check_source(frames_source(Frame(*PARTITIONS), kept, EventTime("n")), expected=rows_of(table(40)))


def test_a_snapshot_of_other_rows_is_refused(kept):
    snapshot = TableSource(table(3)).build_enumerator(1, None).snapshot()
    with pytest.raises(
        SourceError, match="the table has 4 rows, and had 3 rows when the checkpoint was made"
    ):
        TableSource(table(4)).build_enumerator(1, snapshot)
    source = frames_source(Frame(*PARTITIONS), kept, None)
    with pytest.raises(SourceError, match="has 40 rows in 3 partitions, and had 3 rows"):
        source.build_enumerator(1, snapshot)


def test_small_tables_are_read_by_one_subtask_and_large_ones_by_all():
    assert TableSource(table(10)).max_parallelism() == 1
    large = TableSource(pa.table({"n": range(100_000)}))
    assert large.max_parallelism() is None
    plan = large.build_enumerator(2, None).plan(PlanRequest(2, 100_000, 0))
    assert [(each.split.start, each.split.stop) for ranges in plan.ranges.values() for each in ranges] == [
        (0, 50_000),
        (50_000, 100_000),
    ]


def test_batches_of_large_rows_are_small():
    source = TableSource(pa.table({"text": ["x" * 1_000_000] * 20}))
    (split_range,) = source.build_enumerator(1, None).plan(PlanRequest(1, 1_000, 0)).ranges[0]
    sizes = []
    source.build_reader(0, 1).read(split_range, lambda batch: not sizes.append(len(batch)))
    assert sum(sizes) == 20 and max(sizes) <= 4


@pytest.fixture(params=["in memory", "in a file"])
def where(request, monkeypatch):
    """Where what a table holds is kept: tables of less than 16 MiB are in memory."""
    monkeypatch.setattr(module, "_LARGE_BYTES", (1 << 40) if request.param == "in memory" else 0)


def read_all(source):
    return SourceRun(source, 2, 1_000_000).run()


def test_a_table_is_what_it_was_when_the_source_was_made(where):
    numbers = numpy.arange(5)
    source = TableSource(pa.table({"n": numbers}))
    numbers[:] = 7
    assert read_all(source) == [Row(n=n) for n in range(5)]


def test_readers_take_any_rows_of_batches_of_any_size(where, monkeypatch):
    monkeypatch.setattr(module, "_PIECE_ROWS", 7)
    chunks = pa.concat_tables([table(31).slice(0, 4), table(31).slice(4, 0), table(31).slice(4)])
    for budget in (1, 3, 8, 100):
        assert SourceRun(TableSource(chunks), 1, budget).run() == rows_of(table(31))


def test_columns_are_written_in_their_plain_types(where):
    source = TableSource(pa.table({"text": pa.array(["a", None], pa.large_string()).dictionary_encode()}))
    (split_range,) = source.build_enumerator(1, None).plan(PlanRequest(1, 10, 0)).ranges[0]
    (batch,) = source.build_reader(0, 1).batches(split_range)
    assert batch.schema == pa.schema([("text", pa.string())])


def test_a_large_table_goes_to_processes_of_this_machine_by_the_name_of_its_file_and_to_others_whole():
    data = pa.table({"n": numpy.arange(3 << 20)})
    source = TableSource(data)
    with for_this_machine():
        near = pickle.dumps(source)
    far = pickle.dumps(source)
    assert len(near) < 10_000 and len(far) > data.nbytes
    for pickled in (near, far):
        (first,) = pickle.loads(pickled).build_enumerator(1, None).plan(PlanRequest(1, 10, 0)).ranges[0]
        reader = pickle.loads(pickled).build_reader(0, 1)
        assert [n for batch in reader.batches(first) for n in batch["n"].to_pylist()] == list(range(10))


def test_the_file_of_a_large_table_goes_with_the_source(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    source = TableSource(pa.table({"n": numpy.arange(3 << 20)}))
    with for_this_machine():
        copy = pickle.loads(pickle.dumps(source))
    del copy
    assert list(tmp_path.rglob("*.arrow"))
    del source
    assert not list(tmp_path.rglob("*.arrow"))
    scratch.remove_all()


def test_a_large_table_needs_room_for_temporary_files(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    with pytest.raises(SourceError, match="a table of 25,165,824 bytes cannot be written") as caught:
        TableSource(pa.table({"n": numpy.arange(3 << 20)}))
    assert "TMPDIR" in caught.value.hint


def test_a_file_that_is_gone_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "_LARGE_BYTES", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    source = TableSource(table(3))
    (whole,) = source.build_enumerator(1, None).plan(PlanRequest(1, 10, 0)).ranges[0]
    for path in tmp_path.rglob("*.arrow"):
        path.unlink()
    for use in (pickle.dumps, lambda source: next(source.build_reader(0, 1).batches(whole))):
        with pytest.raises(SourceError, match="the temporary file of a table cannot be read") as caught:
            use(source)
        assert "TMPDIR" in caught.value.hint
    scratch.remove_all()


def test_a_job_has_its_table_for_as_long_as_it_runs_and_no_longer(monkeypatch, tmp_path, new_environment):
    monkeypatch.setattr(module, "_LARGE_BYTES", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    failed = tmp_path / "failed"

    def fails_once(batch):
        if not failed.exists():
            failed.touch()
            gc.collect()
            raise RuntimeError("the next attempt opens the table anew")
        return batch

    def begin():
        options = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 ms"}
        environment = new_environment("local", 1, options)
        environment.from_arrow(table(3)).map_batches(fails_once).print()
        return environment.execute_async("outlives what it was made of")

    job = begin()
    gc.collect()
    job.get_job_execution_result().result()
    assert failed.exists()
    del job
    deadline = time.monotonic() + 20
    while list(tmp_path.rglob("*.arrow")) and time.monotonic() < deadline:
        time.sleep(0.05)  # the thread that ran the job ends behind its result
        gc.collect()
    assert not list(tmp_path.rglob("*.arrow"))
    scratch.remove_all()


# Event time


def test_event_time_is_milliseconds_rounded_down():
    moments = [
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),
        datetime.datetime(2024, 1, 1, 0, 0, 0, 1_999),
    ]
    expected = [-1, 1_704_067_200_001]
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        assert EventTime("at").stamps(pa.table({"at": pa.array(moments, kind)})).to_pylist() == expected
    days = pa.table({"at": [datetime.date(1970, 1, 2), datetime.date(1969, 12, 31)]})
    assert EventTime("at").stamps(days).to_pylist() == [86_400_000, -86_400_000]
    assert EventTime("at").stamps(pa.table({"at": pa.array([-5, 7], pa.int16())})).to_pylist() == [-5, 7]


def test_rows_come_with_their_event_time():
    source = TableSource(pa.table({"at": [30, 10, 20]}), EventTime("at"))
    (split_range,) = source.build_enumerator(1, None).plan(PlanRequest(1, 10, 0)).ranges[0]
    seen = []
    source.build_reader(0, 1).read(split_range, lambda batch: not seen.append(batch))
    assert [batch.timestamps for batch in seen] == [[30, 10, 20]]
    columnar = source.build_reader(0, 1)
    columnar.wants_columns = True
    columnar.read(split_range, lambda batch: not seen.append(batch))
    assert isinstance(seen[1], Columns) and seen[1].to_rows() == seen[0]


def test_disorder_is_how_far_a_time_is_behind_the_largest_before_it():
    assert disorder_ms(pa.chunked_array([[1, 2, 2, 9]])) == 0
    assert disorder_ms(pa.chunked_array([[5], [9, 3, 9], [8, 2]])) == 7
    assert disorder_ms(pa.chunked_array([[]], pa.int64())) == 0


def test_columns_that_hold_no_event_time_are_refused():
    schema = pa.schema([("text", pa.string()), ("large", pa.uint64()), ("x", pa.float64())])
    with pytest.raises(ConfigurationError, match="no column 'at' for event time") as error:
        EventTime("at").check(schema)
    assert "Columns: text, large, x." in str(error.value)
    for name in schema.names:
        with pytest.raises(ConfigurationError, match="holds no event time"):
            EventTime(name).check(schema)
    with pytest.raises(SourceError, match="is null in 2 of 3 rows"):
        EventTime("at").stamps(pa.table({"at": [1, None, None]}))


# Frames of Spark


def test_spark_writes_timestamps_that_tell_their_zone_and_keeps_its_setting(kept):
    frame = Frame(table(1))
    frame.conf["spark.sql.parquet.outputTimestampType"] = "INT96"
    frames_source(frame, kept, None)
    assert frame.seen["spark.sql.parquet.outputTimestampType"] == "TIMESTAMP_MICROS"
    assert frame.conf["spark.sql.parquet.outputTimestampType"] == "INT96"
    other = Frame(table(1))
    frames_source(other, kept, None)
    assert other.conf == {}


def test_frames_that_a_job_cannot_read_are_refused():
    with pytest.raises(TypeMismatchError, match="was given a list, not a Spark DataFrame"):
        check_frame([1])
    streaming = Frame()
    streaming.isStreaming = True
    with pytest.raises(JobDefinitionError, match="was given a streaming DataFrame"):
        check_frame(streaming)
    stopped = Frame()
    stopped._sc = SimpleNamespace(_jsc=None)
    with pytest.raises(SessionLostError, match="the Spark session of the DataFrame has been stopped"):
        check_frame(stopped)
    with pytest.raises(NotSupportedError, match="a column of type interval day to second"):
        check_frame(Frame(schema='{"type":"struct","fields":[{"type":"interval day to second"}]}'))
    check_frame(Frame(schema='{"type":"struct","fields":[{"name":"interval_of_time","type":"long"}]}'))


def test_a_file_that_is_cut_names_itself(kept):
    source = frames_source(Frame(table(10)), kept, None)
    pq.write_table(table(4), source.parts[0].path)
    with pytest.raises(SourceError, match=r"part-00000\.parquet' ends before its last row"):
        SourceRun(source, 1, 100).run()


def test_a_directory_that_this_process_does_not_see_is_told(tmp_path):
    class Elsewhere(Frame):
        def parquet(self, uri):
            os.makedirs(uri.removeprefix("file://"))

    kept = KeptDirectory.make(str(tmp_path), master="yarn", checkpoints=None)
    with pytest.raises(SourceError, match="Spark wrote no files"):
        frames_source(Elsewhere(), kept, None)


# Directories


def test_on_several_hosts_the_directory_must_be_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"all hosts of spark://h:1 share") as error:
        KeptDirectory.make(None, master="spark://h:1", checkpoints=None)
    assert "execution.checkpointing.dir" in str(error.value)
    assert KeptDirectory.make(None, master="yarn", checkpoints=str(tmp_path)).path.startswith(str(tmp_path))
    remote = KeptDirectory.make("s3://bucket/x/", master="yarn", checkpoints=None)
    remote._finalizer.detach()
    assert remote.uri.startswith("s3://bucket/x/millstream-frame-")


def test_directories_go_with_the_object_and_not_with_its_copies(kept):
    source = frames_source(Frame(table(3)), kept, None)
    assert os.path.isfile(source.parts[0].path)
    assert os.stat(KeptDirectory.make(None, master="local[2]", checkpoints=None).path).st_mode & 0o077 == 0
    lonely = frames_source(
        Frame(table(3)), KeptDirectory.make(None, master="local[*]", checkpoints=None), None
    )
    path = lonely.kept.path
    import pickle

    copied = pickle.loads(pickle.dumps(lonely))
    assert copied.kept is None and copied.parts == lonely.parts
    del copied
    assert os.path.isdir(path)
    del lonely
    assert not os.path.exists(path)


def test_directories_go_with_the_process(tmp_path):
    code = f"""
from millstream.connectors.columns.kept import KeptDirectory
import os, sys
kept = KeptDirectory.make({str(tmp_path)!r}, master="yarn", checkpoints=None)
os.makedirs(kept.path)
if os.fork() == 0:
    sys.exit()
os.wait()
print(os.path.isdir(kept.path))
kept.keep_for_process()
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr
    assert list(tmp_path.iterdir()) == []
