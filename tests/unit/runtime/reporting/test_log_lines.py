"""What is logged, as text and as JSON: fields, tracebacks, and no secrets."""

from __future__ import annotations

import contextvars
import json
import logging
import subprocess
import sys
from datetime import datetime
from types import MappingProxyType

import pytest

from millstream.base.log_context import LOG_CONTEXT, add_to_log_context
from millstream.config.configuration import Configuration
from millstream.runtime.reporting import log_lines
from millstream.runtime.reporting.log_lines import JsonFormatter, TextFormatter, keep_secret, without_secrets
from millstream.runtime.task.origin import ORIGIN


def record(message, *arguments, error=None, **extra):
    made = logging.makeLogRecord(
        {
            "name": "shop.orders",
            "levelno": logging.WARNING,
            "levelname": "WARNING",
            "msg": message,
            "args": arguments,
            "created": 1_700_000_000.125,
            **extra,
        }
    )
    if error is not None:
        made.exc_info = (type(error), error, error.__traceback__)
    return made


def written(*arguments, **keywords):
    line = JsonFormatter().format(record(*arguments, **keywords))
    assert "\n" not in line
    return json.loads(line)


@pytest.fixture(autouse=True)
def secrets(monkeypatch):
    monkeypatch.setattr(log_lines, "_secrets", set())


@pytest.fixture(autouse=True)
def of_no_job(monkeypatch):
    """Forget what jobs and operators of other tests left in this thread."""
    monkeypatch.setattr(ORIGIN, "operator", "")
    token = LOG_CONTEXT.set(MappingProxyType({}))
    yield
    LOG_CONTEXT.reset(token)


def test_a_json_line_has_time_level_logger_message_and_what_was_given_as_extra():
    found = written("read %d of %s", 3, "t<1>\n", partition=7, path=None)
    assert found == {
        "timestamp": "2023-11-14T22:13:20.125Z",
        "level": "WARNING",
        "logger": "shop.orders",
        "message": "read 3 of t<1>\n",
        "partition": 7,
        "path": None,
    }
    assert datetime.fromisoformat(found["timestamp"]).timestamp() == 1_700_000_000.125


def test_a_line_tells_job_attempt_operator_and_subtask_if_they_are_known(monkeypatch):
    def on_a_jobs_thread():
        add_to_log_context(job="abc", job_name="orders")
        add_to_log_context(attempt=2)
        between = written("x")
        monkeypatch.setattr(ORIGIN, "operator", "Map")
        monkeypatch.setattr(ORIGIN, "subtask", 3)
        return between, written("x"), written("x", operator="Sink", subtask=1)

    between, within, of_a_slot = contextvars.copy_context().run(on_a_jobs_thread)
    assert {key: between[key] for key in ("job", "job_name", "attempt")} == {
        "job": "abc",
        "job_name": "orders",
        "attempt": 2,
    }
    assert "operator" not in between
    assert (within["operator"], within["subtask"]) == ("Map", 3)
    assert (of_a_slot["operator"], of_a_slot["subtask"], of_a_slot["attempt"]) == ("Sink", 1, 2)
    assert "job" not in written("x")


def test_an_exception_comes_with_its_traceback():
    def fail():
        raise ValueError("no\nnumber")

    with pytest.raises(ValueError, match="no") as caught:
        fail()
    found = written("failed", error=caught.value)["exception"]
    assert (found["type"], found["message"]) == ("ValueError", "no\nnumber")
    assert "in fail" in found["traceback"]


def test_values_that_json_does_not_have_are_written_as_text():
    found = written("x", at={1: float("nan")}, what=[{2}, b"y"])
    assert (found["at"], found["what"]) == ({"1": "nan"}, ["{2}", "b'y'"])


def test_secrets_of_options_addresses_and_headers_are_left_out_everywhere():
    configuration = Configuration.from_dict(
        {
            "s3.secret-key": "hunter2hunter2",
            "s3.region": "eu-west-1",
            "millstream.rest.token-file": "/run/token",
        }
    )
    keep_secret(configuration)
    error = OSError("postgres://shop:pa55@db refused hunter2hunter2")
    found = written(
        "with %s in eu-west-1", "hunter2hunter2", error=error, password="x", given=["hunter2hunter2"]
    )
    text = json.dumps(found)
    assert "hunter2" not in text
    assert "pa55" not in text
    assert (found["message"], found["password"], found["given"]) == ("with *** in eu-west-1", "***", ["***"])
    assert found["exception"]["message"] == "postgres://shop:***@db refused ***"
    assert "hunter2" not in TextFormatter().format(record("with hunter2hunter2", error=error))
    assert without_secrets("/run/token of Bearer abcdefgh") == "/run/token of Bearer ***"


PROGRAM = """
import logging
from millstream.datastream import MapFunction, StreamExecutionEnvironment

class Tell(MapFunction):
    def map(self, value):
        logging.getLogger("shop").warning("saw %d with %s", value, "hunter2hunter2")
        return value

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2]).map(Tell()).name("Tell").print()
env.execute("orders")
"""


def test_millstream_run_writes_its_log_as_json_lines(tmp_path):
    (tmp_path / "job.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "millstream.cli", "run", "--target", "local", "--no-progress"]
    options = ["-Dmillstream.log.format=json", "-Ds3.secret-key=hunter2hunter2", str(tmp_path / "job.py")]
    ran = subprocess.run(
        [*command, *options], capture_output=True, text=True, timeout=120, check=True, cwd=tmp_path
    )
    assert ran.stdout == "1\n2\n"
    lines = [json.loads(line) for line in ran.stderr.splitlines() if line.startswith("{")]
    told = [line for line in lines if line["logger"] == "shop"]
    assert [(line["message"], line["operator"], line["subtask"], line["attempt"]) for line in told] == [
        ("saw 1 with ***", "Tell", 0, 0),
        ("saw 2 with ***", "Tell", 0, 0),
    ]
    assert {(line["job_name"], len(line["job"])) for line in told} == {("orders", 32)}
