"""What requests get that are refused, triggered, or in the way of each other."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from millstream.base.clock import SystemClock
from millstream.base.errors import CheckpointStorageError, JobRequestError
from millstream.rest.directory import JobDirectory
from millstream.rest.errors import RestError
from millstream.rest.operations import Operations
from millstream.rest.reference import with_paths
from millstream.rest.security import Guard
from millstream.rest.table import ROUTES
from millstream.runtime.control.commands import (
    Cancel,
    QueryState,
    StateAnswer,
    Stop,
    TriggerCheckpoint,
    TriggerSavepoint,
)
from rest.fake_jobs import SINK, Client, FakeJob

JOB, OTHER = "1" * 32, "2" * 32
AT = f"/jobs/{JOB}"


@pytest.mark.parametrize(
    ("method", "path", "status", "says"),
    [
        ("GET", "/nosuch", 404, "/openapi.json"),
        ("GET", "/", 404, "/openapi.json"),
        ("GET", f"{AT}/..%2f..%2fetc", 404, "no path"),
        ("GET", f"/jobs/{OTHER}", 404, "/jobs lists"),
        ("GET", "/jobs/xyz", 400, "32 hexadecimal digits"),
        ("GET", "/taskmanagers/there:17-2/thread-dump", 404, "`py-spy dump --pid 19`"),
        ("GET", "/taskmanagers/there:17-2/log", 404, "no log file"),
        ("GET", "/taskmanagers/there:17-2/logs/x", 404, "/taskmanagers/:taskmanagerid/logs lists"),
        ("GET", "/jars/x/plan", 404, "web.submit.enable"),
        ("GET", f"{AT}/vertices/{OTHER}", 404, "no vertex"),
        ("GET", f"{AT}/vertices/{SINK}/subtasks/2", 404, "it has 2, counted from 0"),
        ("GET", f"{AT}/vertices/{SINK}/subtasks/-1", 400, "whole number"),
        ("GET", f"{AT}/vertices/{SINK}/subtasks/0/attempts/9", 404, "only attempt 1"),
        ("GET", f"{AT}/checkpoints/details/99", 404, "no checkpoint 99"),
        ("GET", f"{AT}/checkpoints/details/{2**63}", 400, "whole number"),
        ("GET", f"{AT}/savepoints/{OTHER}", 404, "no operation"),
        ("GET", f"{AT}/exceptions?maxExceptions=many", 400, "maxExceptions"),
        ("GET", f"{AT}/vertices/{SINK}/subtasks/metrics?agg=worst", 400, "min, max, avg, sum, skew"),
        ("GET", f"{AT}/vertices/{SINK}/subtasks/metrics?subtasks=9-1", 400, "goes up"),
        ("GET", "/taskmanagers/nosuch", 404, "/taskmanagers lists"),
        ("DELETE", AT, 405, "it has GET, PATCH"),
        ("POST", "/overview", 405, "it has GET"),
        ("PATCH", f"{AT}?mode=nosuch", 400, "one of cancel"),
        ("PATCH", f"/jobs/{OTHER}?mode=cancel", 404, "no job"),
        ("GET", f"/millstream{AT}/state?operator=x", 400, "state, key"),
        ("GET", f"{AT}?" + "&".join(f"a{n}=1" for n in range(200)), 400, "fields"),
        ("GET", "/" + "a" * 9_000, 414, "longer"),
    ],
)
def test_a_request_that_does_not_fit_is_refused_with_a_reason(method, path, status, says):
    found, message = Client(FakeJob(JOB)).errors(method, path)
    assert (found, says in message) == (status, True), message


@pytest.mark.parametrize(
    ("content", "status", "says"),
    [
        ("{", 400, "truncated"),
        ("[]", 400, "object"),
        ("\xff\xfe", 400, "does not fit"),
        ('{"cancel-job": "perhaps"}', 400, "cancel-job"),
        ('{"formatType": "NOSUCH"}', 400, "formatType"),
        ('{"triggerId": "../x"}', 400, "32 hexadecimal digits"),
        ("[" * 100_000, 400, "does not fit"),
        ('{"target-directory": "' + "x" * 1_000_000 + '"}', 413, "1000000 bytes"),
    ],
)
def test_a_body_that_does_not_fit_is_refused_with_a_reason(content, status, says):
    job = FakeJob(JOB)
    found, message = Client(job).errors("POST", f"{AT}/savepoints", content=content.encode("latin-1"))
    assert (found, says in message, job.commands) == (status, True, []), message


def test_all_paths_are_there_with_v1_before_them_and_heads_have_no_body():
    client = Client(FakeJob(JOB))
    assert client.get("/v1/jobs") == client.get("/jobs")
    answer = client.ask("HEAD", "/jobs")
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 0


def test_a_savepoint_is_asked_for_until_it_is_there():
    job = FakeJob(JOB)
    client = Client(job)
    answer = client.ask("POST", f"{AT}/savepoints", content='{"target-directory": "/s", "nosuch": 1}')
    assert answer.status_code == 202
    path = f"{AT}/savepoints/{answer.json()['request-id']}"
    assert client.get(path) == {"status": {"id": "IN_PROGRESS"}, "operation": None}
    [(command, future)] = job.commands
    assert command == TriggerSavepoint("/s")
    future.set_result("/s/savepoint-1")
    assert client.get(path) == {"status": {"id": "COMPLETED"}, "operation": {"location": "/s/savepoint-1"}}


def test_an_operation_that_failed_says_why():
    job = FakeJob(JOB)
    client = Client(job)
    request = client.ask("POST", f"{AT}/stop", content='{"drain": true}').json()["request-id"]
    [(command, future)] = job.commands
    assert command == Stop(None, drain=True)
    future.set_exception(CheckpointStorageError("no space left", hint="Make room."))
    operation = client.get(f"{AT}/savepoints/{request}")["operation"]
    assert operation["failure-cause"]["class"] == "CheckpointStorageError"
    assert "no space left" in operation["failure-cause"]["stack-trace"]


def test_a_checkpoint_is_named_by_its_number():
    job = FakeJob(JOB)
    client = Client(job)
    request = client.ask("POST", f"{AT}/checkpoints").json()["request-id"]
    [(command, future)] = job.commands
    assert command == TriggerCheckpoint()
    future.set_result("/c/4")
    assert client.get(f"{AT}/checkpoints/{request}")["operation"] == {"checkpointId": 4}


def test_a_trigger_id_of_the_client_triggers_once():
    job = FakeJob(JOB)
    client = Client(job)
    body = json.dumps({"triggerId": "c" * 32})
    assert [client.ask("POST", f"{AT}/savepoints", content=body).json() for _ in range(2)] == [
        {"request-id": "c" * 32}
    ] * 2
    assert len(job.commands) == 1


def test_savepoint_and_cancel_in_one_is_a_stop():
    job = FakeJob(JOB)
    Client(job).ask("POST", f"{AT}/savepoints", content='{"cancel-job": true}')
    assert job.commands[0][0] == Stop(None)


def test_cancel_is_accepted_and_of_an_ended_job_refused():
    running, ended = FakeJob(JOB), FakeJob(OTHER, "FINISHED")
    client = Client(running, ended)
    answer = client.ask("PATCH", f"{AT}?mode=cancel")
    assert (answer.status_code, answer.json(), running.commands[0][0]) == (202, {}, Cancel())
    for method, path in (("PATCH", ""), ("POST", "/savepoints"), ("POST", "/stop"), ("POST", "/checkpoints")):
        status, message = client.errors(method, f"/jobs/{OTHER}{path}")
        assert (status, "has ended: FINISHED" in message) == (409, True)
    assert ended.commands == []


def test_state_is_asked_for_by_operator_state_and_key():
    job = FakeJob(JOB)
    client = Client(job)

    def answer() -> None:
        while not job.commands:
            time.sleep(0.01)
        job.commands[0][1].set_result(StateAnswer("5", "int"))

    thread = threading.Thread(target=answer)
    thread.start()
    path = f"/millstream{AT}/state?operator=count&state=sum&key=%27a%27&windowStart=0&windowEnd=10"
    assert client.get(path) == {"value": "5", "type": "int"}
    thread.join()
    assert job.commands[0][0] == QueryState("count", "sum", "'a'", (0, 10))


def test_errors_of_jobs_keep_their_meaning():
    job = FakeJob(JOB)
    client = Client(job)
    for reason, status in (
        ("STATE_QUERY", 404),
        ("CONFIGURATION", 400),
        ("SLOT_LOST", 503),
        ("JOB_ENDED", 409),
    ):
        job.commands.clear()
        thread = threading.Thread(
            target=_refuse, args=(job, JobRequestError("no", reason=reason, hint="Do so."))
        )
        thread.start()
        found = client.errors("GET", f"/millstream{AT}/state?operator=a&state=b&key=c")
        thread.join()
        assert found == (status, "no. Do so.")


def _refuse(job: FakeJob, error: Exception) -> None:
    while not job.commands:
        time.sleep(0.01)
    job.commands[0][1].set_exception(error)


def test_many_requests_ask_the_job_once():
    job = FakeJob(JOB)
    client = Client(job)
    for _ in range(50):
        client.get(AT)
    assert job.asked <= 10


def test_two_jobs_are_shown_and_one_that_does_not_answer_hides_no_other():
    silent = FakeJob(OTHER, gone=True)
    client = Client(FakeJob(JOB), silent)
    assert [job["id"] for job in client.get("/jobs")["jobs"]] == [JOB]
    status, message = client.errors("GET", f"/jobs/{OTHER}")
    assert (status, "does not answer" in message) == (503, True)


class Archive:
    """Has a job only from the third look on."""

    def __init__(self, job: FakeJob) -> None:
        self.looks = 0
        self.job = job

    def jobs(self) -> list[FakeJob]:
        self.looks += 1
        return [self.job] if self.looks > 2 else []


def test_a_job_that_ends_during_a_request_is_answered_from_what_is_kept_of_it():
    found = [[FakeJob(JOB, gone=True)]]
    directory = JobDirectory(
        lambda: found.pop() if found else [], Archive(FakeJob(JOB, "FINISHED")), SystemClock()
    )
    assert Client(directory=directory).get(AT)["state"] == "FINISHED"


def test_a_job_that_hangs_is_asked_once_and_hides_no_other(monkeypatch):
    monkeypatch.setattr("millstream.rest.directory._PATIENCE_S", 0.1)
    monkeypatch.setattr("millstream.rest.directory._SILENT_TICKS", 0)
    answers = threading.Event()

    class Hanging(FakeJob):
        answers_here = False  # as those of other processes

        def view(self, kind):
            self.asked += 1
            answers.wait(20)
            return super().view(kind)

    job = Hanging(OTHER)
    client = Client(job, FakeJob(JOB))
    for _ in range(5):
        assert [each["id"] for each in client.get("/jobs")["jobs"]] == [JOB]
    assert job.asked == 1
    answers.set()
    deadline = time.monotonic() + 10
    while len(client.get("/jobs")["jobs"]) == 1:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_without_the_token_nothing_is_told():
    client = Client(FakeJob(JOB), guard=Guard("hush"))
    for path in ("/jobs", "/nosuch", "/openapi.json", "/jobs/xyz"):
        assert client.errors("GET", path)[0] == 401
    for given in ("Bearer other", "Basic hush", "Bearer", "hush", "Bearer hush2", "Bearer h\xffsh"):
        answer = client.ask("GET", "/jobs", headers={"authorization": given.encode("latin-1")})
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert "hush" not in answer.text
    assert client.ask("GET", "/jobs", headers={"authorization": "Bearer hush"}).status_code == 200
    assert client.ask("GET", "/millstream/health").status_code == 200
    assert "hush" not in repr(Guard("hush"))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"host": "127.0.0.1:8081"}, 202),
        ({"host": "[::1]:8081"}, 202),
        ({"host": "flink.internal"}, 202),
        ({"host": ""}, 403),
        ({"host": "[::1"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost:8081"}, 202),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 202),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "application/json; charset=UTF-8"}, 202),
    ],
)
def test_pages_of_other_sites_can_change_nothing(headers, status):
    client = Client(FakeJob(JOB), guard=Guard(hosts=frozenset({"flink.internal"})))
    assert client.ask("POST", f"{AT}/savepoints", content="{}", headers=headers).status_code == status


def test_a_page_of_another_site_cannot_read_either():
    client = Client(FakeJob(JOB))
    assert client.errors("GET", "/jobs", headers={"host": "evil.example"})[0] == 403
    answer = client.ask("GET", "/jobs")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in answer.headers


def test_operations_that_are_done_make_room_and_running_ones_do_not():
    operations = Operations(SystemClock())
    job = FakeJob(JOB)
    ids = [operations.trigger("savepoint", JOB, None, lambda: job.perform(Cancel())) for _ in range(1_000)]
    with pytest.raises(RestError, match="operations run already"):
        operations.trigger("savepoint", JOB, None, lambda: job.perform(Cancel()))
    job.commands[0][1].set_result("done")
    operations.trigger("savepoint", JOB, None, lambda: job.perform(Cancel()))
    with pytest.raises(RestError):
        operations.find("savepoint", JOB, ids[0])


def test_the_openapi_document_has_every_path_and_every_schema():
    document = Client().get("/openapi.json")
    assert sum(len(methods) for methods in document["paths"].values()) == len(ROUTES)
    text = json.dumps(document)
    for name in document["components"]["schemas"]:
        assert f'"#/components/schemas/{name}"' in text
    ids = [
        operation["operationId"] for methods in document["paths"].values() for operation in methods.values()
    ]
    assert len(set(ids)) == len(ids)


def test_text_that_is_no_unicode_is_shown_all_the_same():
    assert Client(FakeJob(JOB, name="a\ud800b")).get("/jobs/overview")["jobs"][0]["name"] == "a?b"
    status, message = Client(FakeJob(JOB, "FAILED", name="a\ud800b")).errors("POST", f"{AT}/stop")
    assert (status, '"a?b" has ended' in message) == (409, True)


def test_the_table_of_paths_in_the_documentation_is_up_to_date():
    page = (Path(__file__).parents[2] / "docs" / "rest.md").read_text()
    assert with_paths(page) == page, "run: make docs"
