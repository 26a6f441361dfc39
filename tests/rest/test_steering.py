"""Rescaling, accumulators, threads and log files by the REST API: of a job that runs, and of files that are there."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from dataclasses import replace

import msgspec
import pytest

from millstream.base.clock import SystemClock
from millstream.common import Types, WatermarkStrategy
from millstream.common.accumulators import IntCounter
from millstream.config.configuration import Configuration
from millstream.datastream import MapFunction, StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.functions import SinkFunction
from millstream.rest.directory import JobDirectory
from millstream.rest.documents.programs import Uploaded, program_files
from millstream.rest.programs import UploadedProgram
from millstream.runtime.control.channel import find_jobs
from rest.fake_jobs import SINK, Client, FakeJob
from rest.shape_check import differences, recorded_shape

LIMIT_S = 90


class Nothing(SinkFunction):
    def invoke(self, value):
        pass


class Counting(MapFunction):
    def open(self, context):
        self.seen = IntCounter()
        context.add_accumulator("seen", self.seen)

    def map(self, value):
        self.seen.add(1)
        return value


def until(condition):
    deadline = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)
    return found


@pytest.fixture
def job(monkeypatch, tmp_path):
    """A job that counts; gives a client, the job's id and a list of what sinks saw."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        monkeypatch.setattr("tempfile.tempdir", directory)
        settings = {
            "execution.target": "local",
            "execution.checkpointing.interval": "20 ms",
            "parallelism.default": "2",
            "pipeline.max-parallelism": "8",
        }
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
        source = DataGeneratorSource(lambda n: n, 10**9, RateLimiterStrategy.per_second(500), Types.LONG())
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        stream.key_by(lambda n: n % 5).map(Counting()).uid("counting").add_sink(Nothing())
        running = env.execute_async("steered")
        client = Client(directory=JobDirectory(find_jobs, None, SystemClock()))
        job_id = str(running.get_job_id())
        until(lambda: client.get(f"/jobs/{job_id}/checkpoints")["counts"]["completed"])
        yield client, job_id
        running.cancel().result()


def parallelism(client, job_id):
    return [each["parallelism"] for each in client.get(f"/jobs/{job_id}")["vertices"]]


class TestRescaling:
    def test_an_operation_as_flink_documents_it(self, job):
        client, job_id = job
        answer = client.ask("PATCH", f"/jobs/{job_id}/rescaling?parallelism=3")
        assert answer.status_code == 200, answer.text
        path = f"/jobs/{job_id}/rescaling/{answer.json()['request-id']}"
        done = until(lambda: (found := client.get(path))["status"]["id"] == "COMPLETED" and found)
        assert done["operation"] == {}
        until(lambda: parallelism(client, job_id) == [3, 3])
        refused = client.ask("PATCH", f"/jobs/{job_id}/rescaling?parallelism=9").json()["request-id"]
        cause = until(lambda: client.get(f"/jobs/{job_id}/rescaling/{refused}")["operation"])["failure-cause"]
        assert "has parallelism 9" in cause["stack-trace"]
        assert client.ask("PATCH", f"/jobs/{job_id}/rescaling").status_code == 400
        assert client.ask("PATCH", f"/jobs/{job_id}/rescaling?parallelism=0").status_code == 400

    def test_requirements_by_vertex(self, job):
        client, job_id = job
        path = f"/jobs/{job_id}/resource-requirements"
        asked = client.get(path)
        assert {each["parallelism"]["upperBound"] for each in asked.values()} == {2}
        head = client.get(f"/jobs/{job_id}")["vertices"][0]["id"]
        (behind,) = asked.keys() - {head}
        asked[behind]["parallelism"] = {"lowerBound": 1, "upperBound": 3}
        assert client.ask("PUT", path, content=json.dumps(asked)).status_code == 200
        until(lambda: client.get(path)[behind]["parallelism"]["upperBound"] == 3)
        assert client.get(path)[head]["parallelism"]["upperBound"] == 2
        for wrong, said in (
            ({head: asked[head]}, "missing"),
            ({**asked, "x": asked[head]}, "no vertex x"),
            ({**asked, head: {"parallelism": {"lowerBound": 3, "upperBound": 2}}}, "lower bound"),
            ({**asked, head: {"parallelism": {"lowerBound": 1, "upperBound": 9}}}, "has parallelism 9"),
        ):
            answer = client.ask("PUT", path, content=json.dumps(wrong))
            assert answer.status_code in (400, 409), answer.text
            assert said in answer.json()["errors"][0]


def test_accumulators_of_vertices_and_subtasks_add_up(job):
    client, job_id = job
    until(lambda: client.get(f"/jobs/{job_id}/accumulators")["user-task-accumulators"])
    (vertex,) = (
        each["id"] for each in client.get(f"/jobs/{job_id}")["vertices"] if "numbers" not in each["name"]
    )
    at = f"/jobs/{job_id}/vertices/{vertex}"

    def seen(path):
        (found,) = client.get(path)["user-accumulators"]
        assert (found["name"], found["type"]) == ("seen", "int")
        return int(found["value"])

    until(lambda: seen(f"{at}/accumulators") > 0)
    subtasks = client.get(f"{at}/subtasks/accumulators")["subtasks"]
    assert [each["subtask"] for each in subtasks] == [0, 1]
    assert sum(int(each["user-accumulators"][0]["value"]) for each in subtasks) > 0
    own = [f"{at}/subtasks/{each['subtask']}/attempts/{each['attempt']}/accumulators" for each in subtasks]
    until(lambda: sum(map(seen, own)) > 0)


def test_an_accumulator_is_of_the_subtask_that_has_it():
    client = Client(FakeJob("1" * 32))
    subtasks = client.get(f"/jobs/{'1' * 32}/vertices/{SINK}/subtasks/accumulators")["subtasks"]
    assert [len(each["user-accumulators"]) for each in subtasks] == [0, 1]


def test_threads_are_shown_with_their_stacks():
    go_on, waits = threading.Event(), threading.Event()

    def wait_here():
        waits.set()
        go_on.wait()

    thread = threading.Thread(target=wait_here, name="<one that waits>")
    thread.start()
    try:
        waits.wait()
        threads = Client(FakeJob("1" * 32)).get("/jobmanager/thread-dump")["threadInfos"]
    finally:
        go_on.set()
        thread.join()
    (found,) = (each for each in threads if each["threadName"] == "<one that waits>")
    assert "in wait_here" in found["stringifiedThreadInfo"]


class TestLogFiles:
    @pytest.fixture
    def client(self, tmp_path):
        (tmp_path / "secret").write_text("no")
        (tmp_path / "logs").mkdir()
        (tmp_path / "logs" / "own.log").write_text("<b>one</b>\ntwo\n")
        client = Client(FakeJob("1" * 32))
        files = {"own.log": tmp_path / "logs" / "own.log", "gone.log": tmp_path / "gone"}
        client.application._context = replace(
            client.application._context, logs=lambda: files, main_log="own.log"
        )
        return client

    def test_they_are_listed_and_read_as_text(self, client):
        (found,) = client.get("/jobmanager/logs")["logs"]
        assert (found["name"], found["size"]) == ("own.log", 15)
        for path in ("/jobmanager/logs/own.log", "/jobmanager/log", "/jobmanager/stdout"):
            answer = client.ask("GET", path)
            assert answer.text == "<b>one</b>\ntwo\n"
            assert answer.headers["content-type"] == "text/plain; charset=UTF-8"
            assert answer.headers["x-content-type-options"] == "nosniff"

    @pytest.mark.parametrize(
        "name", ["gone.log", "..%2Fsecret", "logs%2F..%2F..%2Fsecret", "%2Fetc%2Fpasswd", "own.log%00"]
    )
    def test_nothing_else_is(self, client, name):
        answer = client.ask("GET", f"/jobmanager/logs/{name}")
        assert answer.status_code == 404, answer.text

    def test_of_a_large_one_the_end_is_shown_from_the_begin_of_a_line(self, client, monkeypatch):
        monkeypatch.setattr("millstream.rest.documents.process._MOST_BYTES", 6)
        assert client.ask("GET", "/jobmanager/log").text == "two\n"

    def test_a_server_without_log_files_says_so(self):
        client = Client(FakeJob("1" * 32))
        assert client.get("/jobmanager/logs") == {"logs": []}
        assert client.ask("GET", "/jobmanager/log").status_code == 404


def test_uploaded_programs_have_the_fields_of_flinks_jars():
    program = UploadedProgram("1" * 32 + "_a.py", "a.py", 1_795_412_320_000, "a.py", "/uploads")
    for path, method, document in (
        ("/jars", "GET", program_files("http://localhost:8081", [program])),
        ("/jars/upload", "POST", Uploaded(filename="/uploads/a.py")),
    ):
        _, shape = recorded_shape(path, method)
        found = differences(msgspec.to_builtins(document), shape, ours=frozenset(), missing=frozenset())
        assert found == []
