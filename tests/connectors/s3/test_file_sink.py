"""Files in S3 appear by the completion of their upload: at the commit, whole, never before."""

from __future__ import annotations

import sys
from collections import Counter

import pytest

from millstream.base.errors import ConfigurationError, LostOutputError, SinkError
from millstream.common import Configuration, Encoder, Row, Types, WatermarkStrategy
from millstream.connectors.files.parts import FileCommittable
from millstream.datastream.connectors.base import Rows, WriterContext
from millstream.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    RollingPolicy,
)
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.datastream.formats.csv import CsvBulkWriters, CsvSchema
from millstream.datastream.formats.json import JsonLinesBulkWriters
from millstream.datastream.formats.parquet import ParquetBulkWriters
from millstream.files import s3_uploads
from millstream.files.file_systems import FileSystemSettings, using
from millstream.files.output import open_output
from millstream.table import DataTypes
from millstream.testing import FailurePoint, MiniCluster, SinkTarget, check_sink
from servers.ports import free_port

NOW_MS = 1_000_000


def sink(uri, **more):
    builder = FileSink.for_row_format(uri, Encoder.simple_string_encoder())
    builder = builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    builder = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    if more.get("compacts"):
        strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(more["compacts"]).build()
        builder = builder.enable_compact(strategy, FileCompactor.concat_file_compactor())
    return builder.build()


def context(attempt=0, **more):
    return WriterContext("job1", "sink", 0, 1, attempt, operator_id="op", began_ms=5, **more)


def begun(declared, attempt=0, **more):
    writer = declared.build_writer(context(attempt, **more))
    writer.open()
    return writer


def written(writer, values):
    writer.write(Rows(list(values)), watermark_ms=0, now_ms=NOW_MS)


def staged(writer, *, end=False):
    return writer.prepare_commit(now_ms=NOW_MS, checkpoint=True, end_of_input=end)


def test_nothing_is_there_before_the_commit_and_all_of_it_then(prefix):
    declared = sink(prefix.uri)
    writer, committer = begun(declared), declared.build_committer()
    written(writer, ["a", "b"])
    committables = staged(writer)
    assert prefix.objects() == {}
    assert len(prefix.uploads()) == 1
    committer.commit(committables)
    assert list(prefix.objects().values()) == [b"a\nb\n"]
    assert prefix.uploads() == []
    writer.close()


def test_a_commit_that_is_repeated_changes_nothing(prefix):
    declared = sink(prefix.uri)
    writer = begun(declared)
    written(writer, ["a"])
    committables = staged(writer)
    for _ in range(3):
        declared.build_committer().commit(committables)
    assert prefix.lines() == ["a"]


def test_an_upload_that_is_gone_with_its_object_is_lost_output(prefix):
    declared = sink(prefix.uri)
    writer = begun(declared)
    written(writer, ["a"])
    committables = staged(writer)
    files = open_output(prefix.uri)
    files.remove(committables[0].staged_path)
    with pytest.raises(LostOutputError, match="is gone before it was published"):
        declared.build_committer().commit(committables)
    files.remove(committables[0].staged_path)  # once more: nothing happens


def test_large_files_are_sent_in_parts(prefix, monkeypatch):
    monkeypatch.setattr(s3_uploads, "_PART_BYTES", 5 << 20)
    declared = sink(prefix.uri)
    writer = begun(declared)
    line = "x" * 999
    for _ in range(18):
        written(writer, [line] * 1000)
    committables = staged(writer)
    assert committables[0].size_bytes == 18_000_000
    assert open_output(prefix.uri).size(committables[0].staged_path) == 18_000_000
    assert prefix.objects() == {}
    declared.build_committer().commit(committables)
    assert list(prefix.objects().values()) == [f"{line}\n".encode() * 18_000]


def test_what_is_aborted_leaves_nothing(prefix):
    declared = sink(prefix.uri)
    writer = begun(declared)
    written(writer, ["a"])
    writer.abort()
    writer.close()
    assert prefix.uploads() == []
    writer = begun(declared)
    written(writer, ["a"])
    declared.build_committer().abort(staged(writer))
    assert prefix.uploads() == []


def test_uploads_of_former_attempts_go_and_those_of_others_stay(prefix):
    declared = sink(prefix.uri)
    for attempt in (0, 1):  # killed: nobody aborts
        written(begun(declared, attempt), ["a"])
    other = declared.build_writer(WriterContext("job2", "sink", 0, 1, 0, operator_id="op", began_ms=5))
    other.open()
    written(other, ["b"])
    assert len(prefix.uploads()) == 2  # the second attempt has removed the first one's
    begun(declared, 2)
    assert len(prefix.uploads()) == 1
    declared.build_committer().commit(staged(other))
    assert prefix.lines() == ["b"]


def test_what_an_older_version_staged_as_a_hidden_object_is_published(prefix):
    staged_path, final_path = f"{prefix.uri}/.part-0.inprogress.x", f"{prefix.uri}/part-0"
    prefix.server.put(f"{prefix.key}/.part-0.inprogress.x", b"old\n")
    committable = FileCommittable(staged_path, final_path, size_bytes=4)
    for _ in range(2):
        sink(prefix.uri).build_committer().commit([committable])
    assert prefix.objects() == {"part-0": b"old\n"}


def test_an_object_of_another_is_not_replaced(prefix):
    declared = sink(prefix.uri)
    writer = begun(declared)
    written(writer, ["a"])
    committables = staged(writer)
    key = committables[0].final_path.removeprefix(f"s3://{prefix.server.bucket}/")
    prefix.server.put(key, b"of another\n")
    with pytest.raises(SinkError, match="is there already and is not replaced"):
        declared.build_committer().commit(committables)
    assert prefix.lines() == ["of another"]


@pytest.mark.parametrize("compacts", [None, pytest.param(2, marks=pytest.mark.long)])
def test_it_keeps_the_contract(new_prefix, s3_server, monkeypatch, compacts):
    for name, value in s3_server.environment.items():  # the suite's jobs have no options of ours
        monkeypatch.setenv(name, value)

    def target():
        place = new_prefix()
        return SinkTarget(
            sink(place.uri, compacts=compacts),
            lambda: place.lines(hidden=False),
            lambda: [*place.uploads(), *(name for name in place.objects() if name.startswith("."))],
        )

    check_sink(target, parallelisms=((1, 2),))


def test_small_files_are_merged_and_never_seen(prefix):
    declared = sink(prefix.uri, compacts=2)
    writer, committer = begun(declared), declared.build_committer()
    seen = []
    for value in "abcde":
        written(writer, [value])
        committables = staged(writer, end=value == "e")
        writer.snapshot()
        committer.commit(committables)
        seen.append(sorted(data for name, data in prefix.objects().items() if not name.startswith(".")))
    assert seen[0] == [] and seen[1] == [b"a\nb\n"]
    assert seen[-1] == [b"a\nb\n", b"c\nd\n", b"e\n"]
    writer.close()
    assert not [name for name in prefix.objects() if name.startswith(".")]


ROW = DataTypes.ROW([DataTypes.FIELD("n", DataTypes.BIGINT()), DataTypes.FIELD("s", DataTypes.STRING())])
CSV = (
    CsvSchema.builder().add_number_column("n", number_type=DataTypes.BIGINT()).add_string_column("s").build()
)
FORMATS = {
    "parquet": ParquetBulkWriters.for_row_type(ROW),
    "json": JsonLinesBulkWriters.for_schema(ROW),
    "csv": CsvBulkWriters.for_schema(CSV),
}


@pytest.mark.parametrize("name", FORMATS)
def test_bulk_formats(prefix, tmp_path, name):
    def build(path):
        builder = FileSink.for_bulk_format(path, FORMATS[name])
        return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()

    for path in (prefix.uri, str(tmp_path)):
        declared = build(path)
        writer = begun(declared)
        written(writer, [Row(n=number, s=str(number)) for number in range(5000)])
        declared.build_committer().commit(staged(writer, end=True))
        writer.close()
    (file,) = tmp_path.glob("part-*")
    assert list(prefix.objects().values()) == [file.read_bytes()]


def test_servers_and_credentials_that_are_wrong_are_named(prefix):
    options = {"s3.connection.timeout": "1 s", "s3.socket.timeout": "1 s", "s3.retry.max-num-retries": 0}
    for change, said in (
        ({"s3.secret-key": "not the secret"}, "refused the credentials"),
        ({"s3.endpoint": f"http://127.0.0.1:{free_port()}"}, "did not answer"),
    ):
        settings = Configuration.from_dict({**prefix.server.options, **options, **change})
        with using(FileSystemSettings.of(settings, {})):
            with pytest.raises(SinkError, match=said) as failed:
                sink(f"{prefix.uri}/x").check()
            uploads = s3_uploads.S3Uploads(FileSystemSettings.of(settings, {}).s3, prefix.server.bucket)
            with pytest.raises(OSError) as refused:
                uploads.begin("x")
        assert prefix.server.secret_key not in str(failed.value) + str(refused.value)


def test_without_boto3_it_says_what_to_install(prefix, monkeypatch):
    s3_uploads._client.cache_clear()
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ConfigurationError, match="need the package boto3") as raised:
        sink(prefix.uri).check()
    assert 'pip install "millstream[s3]"' in str(raised.value)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_job_that_fails_now_and_then_publishes_every_record_once(prefix, parallelism):
    options = {"millstream.epoch.fixed-records": 50, **prefix.server.options}
    with MiniCluster(parallelism=parallelism, options=options) as cluster:
        cluster.fail_at(FailurePoint.AFTER_EPOCH, 3)
        cluster.fail_at(FailurePoint.BEFORE_COMMIT, 5)
        cluster.fail_at(FailurePoint.AFTER_COMMIT, 8)
        environment = cluster.environment()
        numbers = environment.from_source(
            NumberSequenceSource(1, 2000), WatermarkStrategy.no_watermarks(), "numbers"
        )
        numbers.map(str, Types.STRING()).sink_to(sink(prefix.uri))
        environment.execute()
    assert Counter(prefix.lines()) == Counter(map(str, range(1, 2001)))
    assert prefix.uploads() == []
    assert not [name for name in prefix.objects() if name.startswith(".")]
