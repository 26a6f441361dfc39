from __future__ import annotations

import pickle

import pytest

from millstream.base.errors import ConfigurationError, SinkError
from millstream.connectors.files.buckets import BucketAssigner
from millstream.connectors.files.rolling import OutputFileConfig, RollingPolicy
from millstream.connectors.files.sink import FileSink
from millstream.formats.parquet.writer import ParquetBulkWriters
from millstream.spi.batch import Rows
from millstream.spi.serialization import Encoder
from millstream.spi.sink import WriterContext
from millstream.table import DataTypes

AT_CHECKPOINTS = RollingPolicy.on_checkpoint_rolling_policy()


class ByEvenness(BucketAssigner):
    def get_bucket_id(self, element, context):
        return f"{'even' if element % 2 == 0 else 'odd'}/at={context.timestamp()}"


def builder(path, policy=None, assigner=None):
    config = OutputFileConfig.builder().with_part_prefix("out").with_part_suffix(".txt").build()
    made = FileSink.for_row_format(str(path), Encoder.simple_string_encoder()).with_output_file_config(config)
    made.with_bucket_assigner(assigner or BucketAssigner.base_path_bucket_assigner())
    return made.with_rolling_policy(policy) if policy else made


def writer_of(sink, subtask=0, attempt=0):
    return pickle.loads(pickle.dumps(sink)).build_writer(WriterContext("job", "sink", subtask, 2, attempt))


def write(writer, values, timestamps=None, now_ms=0):
    writer.write(Rows(values, timestamps), watermark_ms=0, now_ms=now_ms)


def end(writer, now_ms=0, checkpoint=False, end_of_input=False):
    return writer.prepare_commit(now_ms=now_ms, checkpoint=checkpoint, end_of_input=end_of_input)


def visible(path):
    return sorted(
        str(f.relative_to(path)) for f in path.rglob("*") if f.is_file() and not f.name.startswith(".")
    )


def everything(path):
    return sorted(str(f.relative_to(path)) for f in path.rglob("*"))


def test_nothing_is_visible_before_the_commit_and_all_of_it_after(tmp_path):
    sink = builder(tmp_path, AT_CHECKPOINTS).build()
    writer = writer_of(sink)
    write(writer, ["a", "b"])
    committables = pickle.loads(pickle.dumps(end(writer, checkpoint=True)))
    assert visible(tmp_path) == []
    sink.build_committer().commit(committables)
    (name,) = everything(tmp_path)
    assert name.startswith("out-0-") and name.endswith("-0.txt")
    assert (tmp_path / name).read_text() == "a\nb\n"


def test_commit_twice_is_the_same_as_once(tmp_path):
    sink = builder(tmp_path).build()
    writer = writer_of(sink)
    write(writer, [1])
    committables = end(writer, end_of_input=True)
    sink.build_committer().commit(committables)
    once = {name: (tmp_path / name).read_text() for name in visible(tmp_path)}
    sink.build_committer().commit(committables)
    assert {name: (tmp_path / name).read_text() for name in everything(tmp_path)} == once


def test_staged_file_that_is_gone_is_an_error(tmp_path):
    sink = builder(tmp_path, AT_CHECKPOINTS).build()
    writer = writer_of(sink)
    write(writer, [1])
    (committable,) = end(writer, checkpoint=True)
    (tmp_path / committable.staged_path).unlink()
    with pytest.raises(SinkError, match="is gone before it was published"):
        sink.build_committer().commit([committable])


def test_abort_removes_what_was_not_handed_over_and_empty_buckets(tmp_path):
    writer = writer_of(builder(tmp_path, AT_CHECKPOINTS, ByEvenness()).build())
    write(writer, [1, 2, 3], [7, 7, 7])
    kept = end(writer, checkpoint=True)
    write(writer, [5], [8])
    writer.abort()
    assert [f for f in everything(tmp_path) if "at=8" in f] == []
    assert len([f for f in everything(tmp_path) if "inprogress" in f]) == len(kept) == 2


def test_committer_abort_removes_staged_files_but_not_the_base_path(tmp_path):
    base = tmp_path / "base"
    sink = builder(base, AT_CHECKPOINTS, ByEvenness()).build()
    writer = writer_of(sink)
    write(writer, [1], [7])
    sink.build_committer().abort(end(writer, checkpoint=True))
    assert not [f for f in everything(base) if "inprogress" in f or "at=" in f]
    assert base.is_dir()


def test_users_buckets_hold_their_records_in_order(tmp_path):
    sink = builder(tmp_path, assigner=ByEvenness()).build()
    writer = writer_of(sink)
    write(writer, [1, 2, 3, 4], [5, 5, 5, 6])
    sink.build_committer().commit(end(writer, end_of_input=True))
    content = {name.rsplit("/", 1)[0]: (tmp_path / name).read_text() for name in visible(tmp_path)}
    assert content == {"odd/at=5": "1\n3\n", "even/at=5": "2\n", "even/at=6": "4\n"}


def test_bucket_outside_of_the_base_path_is_refused(tmp_path):
    class Outside(BucketAssigner):
        def get_bucket_id(self, element, context):
            return "../elsewhere"

    writer = builder(tmp_path, assigner=Outside()).build().build_writer(WriterContext("job", "sink", 0, 1, 0))
    with pytest.raises(ConfigurationError, match="leads out of the base path"):
        write(writer, [1])


def test_file_rolls_by_size_age_or_inactivity(tmp_path):
    policy = RollingPolicy.default_rolling_policy(
        part_size=6, rollover_interval=1_000, inactivity_interval=300
    )
    writer = writer_of(builder(tmp_path, policy).with_bucket_check_interval(100).build())
    write(writer, ["aaa"], now_ms=0)
    assert end(writer, now_ms=0) == []
    write(writer, ["b"], now_ms=50)
    assert len(end(writer, now_ms=50)) == 1  # size: "aaa\nb\n"
    write(writer, ["c"], now_ms=100)
    assert end(writer, now_ms=399) == []
    assert end(writer, now_ms=450) == []  # inactive for long enough, but looked at 51 ms ago
    assert len(end(writer, now_ms=500)) == 1  # inactivity
    for now_ms in (600, 800, 1_000, 1_200, 1_400):
        write(writer, ["" if now_ms > 700 else "d"], now_ms=now_ms)
        assert bool(end(writer, now_ms=now_ms)) == (now_ms == 1_400)  # "d\n" and four newlines: size
    write(writer, ["f"], now_ms=1_700)
    assert end(writer, now_ms=1_701, checkpoint=True) == []
    assert len(end(writer, now_ms=1_702, end_of_input=True)) == 1


def test_file_that_is_written_to_all_the_time_rolls_by_its_age(tmp_path):
    policy = RollingPolicy.default_rolling_policy(rollover_interval=1_000, inactivity_interval=300)
    writer = writer_of(builder(tmp_path, policy).with_bucket_check_interval(100).build())
    rolled = []
    for now_ms in range(0, 1_600, 200):
        write(writer, ["x"], now_ms=now_ms)
        if end(writer, now_ms=now_ms):
            rolled.append(now_ms)
    assert rolled == [1_000]


def test_on_checkpoint_policy_rolls_at_checkpoints_only(tmp_path):
    writer = writer_of(builder(tmp_path, RollingPolicy.on_checkpoint_rolling_policy()).build())
    write(writer, ["x" * 100], now_ms=0)
    assert end(writer, now_ms=10**9) == []
    assert len(end(writer, now_ms=10**9, checkpoint=True)) == 1


def test_two_runs_and_two_attempts_never_use_the_same_name(tmp_path):
    sink = builder(tmp_path).build()
    for attempt in (0, 0, 1):
        writer = writer_of(sink, attempt=attempt)
        write(writer, [attempt])
        sink.build_committer().commit(end(writer, end_of_input=True))
    assert len(visible(tmp_path)) == 3


def test_default_buckets_are_hours_of_processing_time():
    buckets = BucketAssigner.date_time_bucket_assigner(timezone_id="UTC")
    assert buckets.batch_bucket_id(1_358_640_000_000) == "2013-01-20--00"


def test_date_pattern_and_zone_are_those_of_java():
    buckets = BucketAssigner.date_time_bucket_assigner("'day='yyyy/MM/dd HH:mm:ss.SSS", "GMT-08:00")
    assert buckets.batch_bucket_id(1_358_640_000_042) == "day=2013/01/19 16:00:00.042"
    winter = BucketAssigner.date_time_bucket_assigner("HH", "Europe/Berlin")
    assert winter.batch_bucket_id(1_358_640_000_000) == "01"


@pytest.mark.parametrize(("pattern", "zone"), [("EEE", "UTC"), ("yyyy'", "UTC"), ("yyyy", "Mars/Olympus")])
def test_pattern_or_zone_that_does_not_exist_is_refused(pattern, zone):
    with pytest.raises(ConfigurationError):
        BucketAssigner.date_time_bucket_assigner(pattern, zone)


def test_base_path_that_cannot_be_written_is_named_before_the_job_starts(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match=r"directory '.*file/below' cannot be written"):
        builder(tmp_path / "file" / "below").build().check()
    builder(tmp_path / "new").build().check()
    assert everything(tmp_path / "new") == []


def test_bulk_format_refuses_to_roll_by_size():
    factory = ParquetBulkWriters.for_row_type(DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT())]))
    with pytest.raises(ConfigurationError, match="cannot roll by size"):
        FileSink.for_bulk_format("x", factory).with_rolling_policy(RollingPolicy.default_rolling_policy())
