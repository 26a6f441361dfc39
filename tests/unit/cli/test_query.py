"""Another process asks: here, the same process through the job's socket."""

from __future__ import annotations

import json
import pickle
import tempfile
from concurrent.futures import Future

import pytest
from click.testing import CliRunner

from millstream.base.errors import StateAccessError
from millstream.cli.main import main
from millstream.common.windows import TimeWindow
from millstream.runtime.control.channel import ControlChannel
from millstream.runtime.control.gateway import JobGateway
from millstream.runtime.control.queryable import answer_of, query_of

STATE = {
    ("op", "s", "a", None): [1, 2],
    ("op", "s", 17, None): {"x": 1},
    ("op", "s", "17", None): "text",
    ("op", "s", ("a", 1), TimeWindow(0, 5)): 9,
}


class Job(JobGateway):
    job_id, name, started_ms = "ab" * 16, "orders", 0

    def view(self, kind):
        raise NotImplementedError

    def perform(self, command):
        query = query_of(command)
        question = (query.uid, query.state, query.key, query.namespace)
        future = Future()
        if question in STATE:
            future.set_result(answer_of(pickle.dumps(STATE[question])))
        else:
            future.set_exception(StateAccessError(f"nobody knows {question[:3]}", hint="Ask for another."))
        return future


@pytest.fixture
def query(monkeypatch):
    directory = tempfile.TemporaryDirectory(prefix="ms")  # short: the path of a socket has 108 bytes at most
    monkeypatch.setattr("tempfile.tempdir", directory.name)
    channel = ControlChannel(Job())
    channel.start()
    yield lambda *arguments: CliRunner().invoke(main, ["query", "orders", *arguments])
    channel.close()
    directory.cleanup()


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (("op", "s", "a"), "[1, 2]"),
        (("op", "s", "17"), "{'x': 1}"),
        (("op", "s", "'17'"), "'text'"),
        (("--window", "0", "5", "op", "s", "('a', 1)"), "9"),
    ],
)
def test_a_value_is_printed_as_python_writes_it(query, arguments, answer):
    result = query(*arguments)
    assert (result.exit_code, result.output) == (0, answer + "\n")


def test_json_tells_the_type_too(query):
    assert json.loads(query("op", "s", "a", "--json").output) == {"value": "[1, 2]", "type": "list"}


def test_an_error_of_the_job_is_an_error_here(query):
    result = query("op", "s", "nobody")
    assert result.exit_code == 1
    assert "nobody knows ('op', 's', 'nobody')" in result.stderr
    assert "Hint: Ask for another." in result.stderr
    assert result.stderr.startswith("[STATE_ACCESS] ")  # the job has not failed


def test_a_job_that_does_not_run_is_an_error(query):
    result = CliRunner().invoke(main, ["query", "payments", "op", "s", "a"])
    assert result.exit_code != 0
    assert "payments" in result.stderr
