"""Files in Google Cloud Storage and Azure appear at the commit, whole, by a copy that the server makes."""

from __future__ import annotations

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pyarrow import fs

from millstream.base.crash_points import set_crash_hook
from millstream.base.errors import LostOutputError, SinkError, SourceError
from millstream.common import Configuration, Encoder, Types, WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.base import Rows, WriterContext
from millstream.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    RollingPolicy,
    StreamFormat,
)
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.files.file_systems import FileSystemSettings, using
from millstream.files.paths import list_files, open_file
from millstream.testing import FailurePoint, MiniCluster, SinkTarget, check_sink
from servers.ports import free_port

NOW_MS = 1_000_000


def sink(uri):
    builder = FileSink.for_row_format(uri, Encoder.simple_string_encoder())
    builder = builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


def begun(declared, attempt=0):
    context = WriterContext("job1", "sink", 0, 1, attempt, operator_id="op", began_ms=5)
    writer = declared.build_writer(context)
    writer.open()
    return writer


def written(declared, values, attempt=0):
    writer = begun(declared, attempt)
    writer.write(Rows(list(values)), watermark_ms=0, now_ms=NOW_MS)
    return writer


def staged(writer):
    return writer.prepare_commit(now_ms=NOW_MS, checkpoint=True, end_of_input=False)


def test_nothing_is_seen_before_the_commit_and_all_of_it_then_however_often(prefix):
    declared = sink(prefix.uri)
    writer = written(declared, ["a", "b"])
    committables = staged(writer)
    assert prefix.lines() == [] and len(prefix.hidden()) == 1
    for _ in range(3):
        declared.build_committer().commit(committables)
        assert list(prefix.objects().values()) == [b"a\nb\n"]
    writer.close()


def test_a_commit_that_ended_between_copy_and_delete_is_completed(prefix):
    class Ended(Exception):
        pass

    class End:
        def reach(self, name, detail):
            if name == "sink.publish" and detail.endswith(", copied"):
                raise Ended

        def around(self, name, detail, action):
            return action()

    declared = sink(prefix.uri)
    committables = staged(written(declared, ["a"]))
    former = set_crash_hook(End())
    try:
        with pytest.raises(Ended):
            declared.build_committer().commit(committables)
    finally:
        set_crash_hook(former)
    assert sorted(prefix.objects().values()) == [b"a\n", b"a\n"]
    declared.build_committer().commit(committables)
    assert prefix.lines() == ["a"] and prefix.hidden() == []


@pytest.mark.parametrize("data", [b"b\n", b"of another\n"])
def test_an_object_of_another_is_not_replaced(prefix, data):
    declared = sink(prefix.uri)
    committables = staged(written(declared, ["a"]))
    prefix.put(committables[0].final_path.rpartition("/")[2], data)
    with pytest.raises(SinkError, match="is there already and is not replaced"):
        declared.build_committer().commit(committables)
    assert prefix.lines() == data.decode().splitlines() and len(prefix.hidden()) == 1


def test_what_is_gone_before_the_commit_is_lost_output(prefix):
    declared = sink(prefix.uri)
    committables = staged(written(declared, ["a"]))
    prefix.files.delete_file(f"{prefix.key}/{committables[0].staged_path.rpartition('/')[2]}")
    with pytest.raises(LostOutputError, match="is gone before it was published"):
        declared.build_committer().commit(committables)


def test_attempts_that_were_aborted_or_killed_leave_nothing(prefix):
    declared = sink(prefix.uri)
    writer = written(declared, ["a"])
    writer.abort()
    writer.close()
    declared.build_committer().abort(staged(written(declared, ["a"])))
    assert prefix.sizes() == {}
    for attempt in (0, 1):  # killed: nobody aborts
        staged(written(declared, ["a"], attempt))
    begun(declared, 2)
    assert prefix.sizes() == {}


def test_large_files_arrive_whole(prefix):
    declared, line = sink(prefix.uri), "x" * 999
    writer = begun(declared)
    for _ in range(18):
        writer.write(Rows([line] * 1000), watermark_ms=0, now_ms=NOW_MS)
    committables = staged(writer)
    declared.build_committer().commit(committables)
    assert list(prefix.objects().values()) == [f"{line}\n".encode() * 18_000]


@pytest.mark.long
def test_it_keeps_the_contract(new_prefix, told):
    def target():
        place = new_prefix()
        return SinkTarget(sink(place.uri), place.lines, place.hidden)

    check_sink(target, parallelisms=((1, 2),))


def test_a_job_with_checkpoints_in_the_same_store_publishes_every_record_once_and_is_read_back(prefix):
    options = {
        "millstream.epoch.fixed-records": 50,
        "execution.checkpointing.interval": "1 ms",
        "execution.checkpointing.dir": f"{prefix.uri}/checkpoints",
        **prefix.server.options,
    }
    out = f"{prefix.uri}/out"
    with MiniCluster(parallelism=2, options=options) as cluster:
        cluster.fail_at(FailurePoint.BEFORE_COMMIT, 2)
        cluster.fail_at(FailurePoint.AFTER_COMMIT, 4)
        environment = cluster.environment()
        numbers = environment.from_source(
            NumberSequenceSource(1, 300), WatermarkStrategy.no_watermarks(), "numbers"
        )
        numbers.map(str, Types.STRING()).sink_to(sink(out))
        environment.execute()
    wanted = Counter(map(str, range(1, 301)))
    seen = [data.decode() for name, data in prefix.objects().items() if name.startswith("out/")]
    assert Counter("".join(seen).split()) == wanted
    assert prefix.hidden() == []
    configuration = Configuration.from_dict({"execution.target": "local", **prefix.server.options})
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), out).build()
    lines = environment.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    with lines.map(lambda line: line).execute_and_collect() as results:
        assert Counter(results) == wanted


def refused(options, uri):
    """Return what a sink and a source say of a place."""
    with using(FileSystemSettings.of(Configuration.from_dict(options), {})):
        with pytest.raises(SinkError) as written:
            sink(uri).check()
        with pytest.raises(SourceError) as listed:
            list_files(uri)
        with pytest.raises(SourceError) as opened:
            open_file(f"{uri}/file", decompress=False)
    return [str(each.value) for each in (written, listed, opened)]


@pytest.mark.long
def test_a_server_that_is_away_is_named(prefix):
    key = "gs.storage.root.url" if prefix.uri.startswith("gs:") else "fs.azure.blob.endpoint"
    address = f"http://127.0.0.1:{free_port()}"
    for said in refused({**prefix.server.options, key: address}, prefix.uri):
        assert f"{address} did not answer" in said and key in said


def test_a_bucket_or_container_that_is_missing_is_named_and_not_made(prefix):
    kind = "bucket" if prefix.uri.startswith("gs:") else "container"
    written, listed, _ = refused(prefix.server.options, prefix.uri.replace("://state", "://missing"))
    for said in (written, listed):
        assert f'there is no {kind} "missing"' in said
    assert prefix.files.get_file_info("missing").type is fs.FileType.NotFound


def test_a_wrong_key_or_signature_for_azure_is_refused_and_in_no_message(azure_server):
    uri = f"{azure_server.root}/x"
    endpoint = {"fs.azure.blob.endpoint": azure_server.endpoint}
    for secret, options in (
        (wrong := "AAAA" + azure_server.key[4:], {"fs.azure.account.key.millstream": wrong}),
        ("c2VjcmV0c2VjcmV0", {"fs.azure.sas.fixed.token": "sv=2024-11-04&ss=b&sig=c2VjcmV0c2VjcmV0"}),
    ):
        for said in refused(endpoint | options, uri):
            assert "refused the credentials" in said and "fs.azure.account.key" in said
            assert secret not in said
    configuration = Configuration.from_dict(endpoint | {"fs.azure.account.key": "not base64"})
    with using(FileSystemSettings.of(configuration, {})), pytest.raises(SinkError) as raised:
        sink(uri).check()
    assert 'the key of the storage account "millstream" is no key' in str(raised.value)
    assert "not base64" not in str(raised.value)


class Refuses(BaseHTTPRequestHandler):
    """Answers as Google does to whom it does not know."""

    def answer(self):
        said = {"error": {"code": 401, "message": "Invalid Credentials", "status": "UNAUTHENTICATED"}}
        data = json.dumps(said).encode()
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = answer

    def log_message(self, *arguments):
        """Nothing."""


def test_a_token_that_google_refuses_is_in_no_message():
    front = ThreadingHTTPServer(("127.0.0.1", 0), Refuses)
    threading.Thread(target=front.serve_forever, daemon=True).start()
    try:
        options = {
            "gs.storage.root.url": f"http://127.0.0.1:{front.server_port}",
            "gs.auth.access-token": "ya29.a-token-of-nobody",
            "fs.gs.retry.total-timeout": "1 s",
        }
        for said in refused(options, "gs://state/x"):
            assert "refused the credentials" in said and "gs.auth.access-token" in said
            assert "ya29" not in said
    finally:
        front.shutdown()
        front.server_close()
