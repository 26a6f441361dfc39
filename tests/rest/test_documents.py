"""Our documents have the fields and types of a real Flink's, as `record_flink.py` has recorded them."""

from __future__ import annotations

import pytest

from rest.fake_jobs import SINK, SOURCE, Client, FakeJob
from rest.shape_check import differences, recorded_paths, recorded_shape

JOB = "1" * 32
STATUSES = ("RUNNING", "RESTARTING", "FINISHED", "FAILED", "CANCELED")

OURS = {"/overview": {".millstream-version"}}
"""Fields that Flink does not have."""
MISSING = {"/taskmanagers/:tm": {".metrics"}}
"""Fields that we do not have: memory of a JVM."""
NOT_HERE = {
    "/datasets": "cached intermediate results",
    "/jobs/:job/jobmanager/config": "the same as /jobmanager/config",
    "/jobs/:job/jobmanager/environment": "the same as /jobmanager/environment",
    "/jobs/:job/jobmanager/log-url": "log files",
    "/jobs/:job/rescales": "the adaptive scheduler",
    "/jobs/:job/rescales/config": "the adaptive scheduler",
    "/jobs/:job/rescales/history": "the adaptive scheduler",
    "/jobs/:job/rescales/overview": "the adaptive scheduler",
    "/jobs/:job/rescales/summary": "the adaptive scheduler",
    "/jobs/:job/vertices/:vertex/flamegraph": "stacks of a JVM",
}
"""Paths of Flink's that are not served, and what they would show."""
QUERIES = {
    "/jobs/metrics": "?get=uptime,numRestarts&agg=min,max,sum,avg",
    "/jobs/:job/metrics": "?get=uptime,numRestarts,nosuch",
    "/jobs/:job/vertices/:vertex/metrics": "?get=0.numRecordsOut,1.numRecordsOut",
    "/jobs/:job/vertices/:vertex/subtasks/metrics": "?get=numRecordsOut",
    "/jobs/:job/vertices/:vertex/subtasks/0/metrics": "?get=numRecordsOut",
    "/jobmanager/metrics": "?get=numRegisteredTaskManagers,nosuch",
    "/jobs/:job/exceptions": "?maxExceptions=1",
    "/jobs/:job/accumulators": "?includeSerializedValue=true",
}
ELSEWHERE = (":trigger", ":jar")
"""What is in the paths of operations, and of uploaded programs (`tests/cluster/test_uploads.py`)."""
PATHS = sorted(
    path
    for method, path in recorded_paths()
    if method == "GET" and not any(each in path for each in ELSEWHERE)
)


@pytest.mark.parametrize("path", [path for path in PATHS if path not in NOT_HERE])
@pytest.mark.parametrize("status", STATUSES)
def test_document_has_the_fields_of_flinks(status, path):
    client = Client(FakeJob(JOB, status))
    names = {":job": JOB, ":checkpoint": "4", ":attempt": "1", ":tm": "here:17-1"}
    if ":tm" in path and status not in ("RUNNING", "RESTARTING"):
        return  # a job that has ended has no slots
    for vertex in (SOURCE, SINK):
        for asked in dict.fromkeys([path, path + QUERIES.get(path, "")]):
            real = asked.replace(":vertex", vertex)
            for name, value in names.items():
                real = real.replace(name, value)
            document = client.get(real)
            _, shape = recorded_shape(asked)
            found = differences(
                document,
                shape,
                ours=frozenset(OURS.get(path, ())),
                missing=frozenset(MISSING.get(path, ())),
            )
            assert found == [], f"{asked}: {document}"


def test_checkpoints_that_fail_or_run_have_the_fields_of_flinks():
    client = Client(FakeJob(JOB))
    for checkpoint in (5, 6, 7):
        for path in (
            "/jobs/:job/checkpoints/details/:checkpoint",
            "/jobs/:job/checkpoints/details/:checkpoint/subtasks/:vertex",
        ):
            document = client.get(
                path.replace(":job", JOB).replace(":checkpoint", str(checkpoint)).replace(":vertex", SINK)
            )
            found = differences(
                document,
                recorded_shape(path)[1],
                ours=frozenset(),
                missing=frozenset({".external_path", ".discarded"}),
            )
            assert found == [], document


def test_paths_that_are_not_served_are_not_there():
    client = Client(FakeJob(JOB))
    for path in NOT_HERE:
        real = (
            path.replace(":job", JOB)
            .replace(":vertex", SINK)
            .replace(":attempt", "1")
            .replace(":tm", "here:17-1")
        )
        status, message = client.errors("GET", real)
        assert status in (400, 404), message  # 400: the path of a subtask whose index is no number


def test_a_job_is_shown_with_its_figures():
    client = Client(FakeJob(JOB))
    details = client.get(f"/jobs/{JOB}")
    assert (details["state"], details["end-time"], details["duration"]) == ("RUNNING", -1, 10_000)
    assert details["status-counts"]["RUNNING"] == 2
    vertex = details["vertices"][0]
    assert vertex["tasks"]["RUNNING"] == 2
    assert vertex["metrics"] | {"read-records": 20, "write-records": 40} == vertex["metrics"]
    assert vertex["metrics"]["read-bytes-complete"] and not vertex["metrics"]["write-bytes-complete"]
    assert client.get("/jobs/overview")["jobs"][0]["tasks"]["total"] == 4
    ended = Client(FakeJob(JOB, "FINISHED")).get(f"/jobs/{JOB}")
    assert (ended["end-time"] > 0, ended["duration"]) == (True, 9_000)


def test_names_of_users_cannot_become_markup():
    nodes = Client(FakeJob(JOB)).get(f"/jobs/{JOB}/plan")["plan"]["nodes"]
    assert nodes[0]["description"] == "&lt;count -&gt; Sink&gt; &amp; more"
    assert nodes[0]["inputs"] == [
        {"num": 0, "id": SOURCE, "ship_strategy": "HASH", "exchange": "pipelined_bounded"}
    ]
    assert "inputs" not in nodes[1]


def test_back_pressure_has_flinks_levels():
    document = Client(FakeJob(JOB)).get(f"/jobs/{JOB}/vertices/{SINK}/backpressure")
    assert document["backpressure-level"] == document["backpressureLevel"] == "low"
    assert [each["busyRatio"] for each in document["subtasks"]] == [0.4, "NaN"]


def test_the_latest_failure_comes_first_and_the_rest_is_said_to_be_left_out():
    client = Client(FakeJob(JOB, "FAILED"))
    history = client.get(f"/jobs/{JOB}/exceptions?maxExceptions=1")["exceptionHistory"]
    assert (len(history["entries"]), history["truncated"]) == (1, True)
    entries = client.get(f"/jobs/{JOB}/exceptions")["exceptionHistory"]["entries"]
    assert "taskName" not in entries[0]
    assert entries[1]["taskName"] == "count -> Sink (2/2) - execution #0"
    assert entries[1]["taskManagerId"] == "there:17-2"
    result = client.get(f"/jobs/{JOB}/execution-result")["job-execution-result"]
    assert (result["application-status"], result["failure-cause"]["class"]) == ("FAILED", "SlotLostError")


def test_metrics_are_listed_read_and_put_together():
    client = Client(FakeJob(JOB))
    at = f"/jobs/{JOB}/vertices/{SINK}"
    names = [each["id"] for each in client.get(f"{at}/subtasks/0/metrics")]
    assert {"numRecordsOut", "count.mine___yours", "count.latency_p99"} <= set(names)
    assert client.get(f"{at}/metrics?get=1.numRecordsOut,0.count.mine___yours,nosuch") == [
        {"id": "1.numRecordsOut", "value": "30"},
        {"id": "0.count.mine___yours", "value": "2.5"},
    ]
    assert client.get(f"{at}/subtasks/metrics?get=numRecordsOut") == [
        {"id": "numRecordsOut", "min": 10, "max": 30, "avg": 20, "sum": 40, "skew": 50}
    ]
    assert client.get(f"{at}/subtasks/metrics?get=numRecordsOut&subtasks=1&agg=max") == [
        {"id": "numRecordsOut", "max": 30}
    ]
    assert client.get(f"{at}/subtasks/metrics?get=count.text,count.nothing") == []


def test_checkpoints_tell_sizes_that_are_known_and_no_others():
    client = Client(FakeJob(JOB))
    details = client.get(f"/jobs/{JOB}/checkpoints/details/4")
    assert (details["state_size"], details["tasks"][SINK]["state_size"]) == (1200, -1)
    own = client.get(f"/millstream/jobs/{JOB}/checkpoints/4")
    assert [slot["size"] for slot in own["slots"]] == [500, 700]
    statistics = client.get(f"/jobs/{JOB}/checkpoints")
    assert statistics["latest"]["savepoint"]["checkpoint_type"] == "SYNC_SAVEPOINT"
    assert statistics["latest"]["failed"]["failure_message"] == "no space left"
    assert statistics["latest"]["restored"]["id"] == 3
