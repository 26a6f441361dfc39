"""Answers that are given again: the same as without, to whoever may have them, for as long as views hold."""

from __future__ import annotations

import json
import socket
from types import SimpleNamespace

import h11
import pytest

from millstream.base.clock import ManualClock, SystemClock
from millstream.rest import server as server_module
from millstream.rest.answers import AnswerCache, QuickProtocol
from millstream.rest.application import RestApplication
from millstream.rest.directory import JobDirectory
from millstream.rest.server import RestServer
from millstream.rest.settings import RestSettings
from rest.fake_jobs import Client, FakeJob

JOB, OTHER = "1" * 32, "2" * 32


class Counting(RestApplication):
    """Counts what was not answered at once."""

    calls = 0

    async def __call__(self, scope, receive, send):
        type(self).calls += 1
        await super().__call__(scope, receive, send)


class Served:
    """A real server that shows a made-up job; time stands still unless it is moved."""

    def __init__(self, monkeypatch, token=None):
        Counting.calls = 0
        monkeypatch.setattr(server_module, "RestApplication", Counting)
        self.clock, self.job = ManualClock(), FakeJob(JOB)
        directory = JobDirectory(lambda: [self.job], None, self.clock)
        self.server = RestServer(RestSettings(ports=(0,), token=token), directory, SystemClock(), {})
        self.server.start()
        self.port = int(self.server.address.rpartition(":")[2])

    def connect(self):
        return Connection(self.port)


class Connection:
    """Sends bytes, and reads answers as h11 understands them."""

    def __init__(self, port):
        self.stream = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.received = b""

    def ask(self, *parts):
        """Send parts as packets of their own; return head and body of one answer."""
        for part in parts:
            self.stream.sendall(part)
        return self.read()

    def read(self):
        conn = h11.Connection(h11.CLIENT)
        conn.send(h11.Request(method="GET", target="/", headers=[("host", "localhost")]))
        conn.send(h11.EndOfMessage())
        body, head = b"", None
        while True:
            event = conn.next_event()
            if event is h11.NEED_DATA:
                data, self.received = self.received or self.stream.recv(1 << 16), b""
                conn.receive_data(data)
            elif isinstance(event, h11.Response):
                head = (event.status_code, {name: value for name, value in event.headers if name != b"date"})
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                self.received = conn.trailing_data[0]
                return *head, body


def request(path="/jobs", *, method="GET", version="1.1", more="", host="localhost"):
    return f"{method} {path} HTTP/{version}\r\nHost: {host}\r\n{more}\r\n".encode()


@pytest.fixture
def served(monkeypatch):
    found = Served(monkeypatch)
    yield found
    found.server.close()


def test_the_same_bytes_have_the_same_answer_at_once_until_views_are_made_anew(served):
    connection, another = served.connect(), served.connect()
    first = connection.ask(request())
    assert first[0] == 200 and json.loads(first[2]) == {"jobs": [{"id": JOB, "status": "RUNNING"}]}
    assert [connection.ask(request()), another.ask(request()), connection.ask(request())] == [first] * 3
    assert (Counting.calls, served.job.asked) == (1, 1)
    assert connection.ask(request(more="X-Mine: 1\r\n")) == first
    assert (Counting.calls, served.job.asked) == (2, 1), "another request, and the same answer"
    served.job.status = "RESTARTING"
    served.clock.wait(1)
    assert b"RESTARTING" in connection.ask(request())[2]
    assert (Counting.calls, served.job.asked) == (3, 2)


def test_what_a_command_does_is_seen_by_the_next_request(served):
    connection = served.connect()
    for _ in range(2):
        assert b'"RUNNING"' in connection.ask(request())[2]
    served.job.status = "CANCELLING"
    assert connection.ask(request(f"/jobs/{JOB}", method="PATCH"))[0] == 202
    assert b'"CANCELLING"' in connection.ask(request())[2]


@pytest.mark.parametrize(
    ("parts", "answers"),
    [
        pytest.param([request() * 2], 2, id="two in one packet"),
        pytest.param([request()[:20], request()[20:]], 1, id="one in two packets"),
        pytest.param([request() + request()[:9], request()[9:]], 2, id="one and a half, and the rest"),
        pytest.param([request(more="Content-Length: 4\r\n"), b"GET "], 1, id="a body behind its head"),
        pytest.param([request(more="Content-Length: 4\r\n") + b"GET "], 1, id="a body with its head"),
        pytest.param([request(more="Transfer-Encoding: chunked\r\n"), b"0\r\n\r\n"], 1, id="chunks"),
        pytest.param([request().replace(b"\r\n", b"\n")], 1, id="ends of lines without a return"),
        pytest.param([request(more="Expect: 100-continue\r\n")], 1, id="one that waits to go on"),
    ],
)
def test_whatever_way_requests_come_each_has_its_answer(served, parts, answers):
    connection = served.connect()
    expected = connection.ask(request())
    for _ in range(3):
        found = [connection.ask(*parts)] + [connection.read() for _ in range(answers - 1)]
        assert found == [expected] * answers
        assert connection.ask(request("/overview"))[2] != expected[2], "what comes next has its own"
    assert connection.received == b""


@pytest.mark.parametrize("last", [request(more="Connection: close\r\n"), request(version="1.0")])
def test_a_connection_that_is_to_be_closed_is(served, last):
    for _ in range(3):
        connection = served.connect()
        assert connection.ask(request())[0] == 200
        assert connection.ask(last)[0] == 200
        assert connection.stream.recv(1) == b""


def test_heads_have_no_body(served):
    connection = served.connect()
    answered = connection.ask(request())
    for _ in range(3):
        connection.stream.sendall(request(method="HEAD"))
        head = connection.stream.recv(1 << 16)
        assert head.endswith(b"\r\n\r\n") and f"content-length: {len(answered[2])}".encode() in head
        assert connection.ask(request()) == answered


def test_who_may_not_ask_gets_nothing_of_what_others_were_told(monkeypatch):
    served = Served(monkeypatch, token="hush")
    try:
        connection = served.connect()
        for _ in range(3):
            assert connection.ask(request(more="Authorization: Bearer hush\r\n"))[0] == 200
            assert connection.ask(request())[0] == 401
            assert connection.ask(request(more="Authorization: Bearer husk\r\n"))[0] == 401
            told = connection.ask(request(more="Authorization: Bearer hush\r\n", host="evil.example"))
            assert told[0] == 403
    finally:
        served.server.close()


def test_what_is_refused_or_asked_of_a_job_is_not_kept(served):
    connection = served.connect()
    assert connection.ask(request(f"/jobs/{OTHER}"))[0] == 404
    served.job.job_id = OTHER
    served.clock.wait(1)
    assert connection.ask(request(f"/jobs/{OTHER}"))[0] == 200
    calls = Counting.calls
    for _ in range(3):
        assert connection.ask(request("/jobmanager/thread-dump"))[0] == 200
    assert Counting.calls == calls + 3


def test_who_asks_for_what_is_being_made_waits_for_it():
    """By paths, without a network: h11 and bytes do not matter here."""
    job = FakeJob(JOB)
    client = Client(job, directory=JobDirectory(lambda: [job], None, ManualClock()))
    document = client.get(f"/jobs/{JOB}")
    asked = job.asked
    assert [client.get(f"/jobs/{JOB}") for _ in range(3)] == [document] * 3
    assert client.get(f"/v1/jobs/{JOB}") == document
    assert client.get(f"/jobs/{JOB}/exceptions?maxExceptions=1") != client.get(f"/jobs/{JOB}/exceptions")
    assert job.asked == asked + 1, "only the view of failures was asked for"


def test_there_is_an_end_to_what_is_kept():
    version = [1]
    cache = AnswerCache(lambda: version[0])
    for number in range(3_000):
        cache.keep(1, number, b"x" * 10)
    assert cache.find(0) == b"x" * 10 and cache.find(2_999) is None
    cache.keep(0, "late", b"begun before the version changed")
    assert cache.find("late") is None
    version[0] = 2
    assert cache.find(0) is None
    cache.keep(2, "large", b"x" * 20_000_000)
    cache.keep(2, "small", b"x")
    assert (cache.find("large"), cache.find("small")) == (None, b"x")


@pytest.mark.parametrize(("answered_s", "closed", "again_in_s"), [(95.0, False, [25.0]), (0.0, True, [])])
def test_a_connection_lives_from_its_last_answer_on(answered_s, closed, again_in_s):
    asked, transport = [], SimpleNamespace(is_closing=lambda: False, close=lambda: asked.append("close"))
    protocol = object.__new__(QuickProtocol)
    protocol.transport, protocol.conn, protocol.timeout_keep_alive = transport, h11.Connection(h11.SERVER), 30
    protocol.loop = SimpleNamespace(time=lambda: 100.0, call_later=lambda s, _: asked.append(s))
    protocol._answered_s = answered_s
    protocol.timeout_keep_alive_handler()
    assert asked == (["close"] if closed else again_in_s)
