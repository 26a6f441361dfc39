"""Errors that nobody catches read alike under `python job.py`, `python -i` and `millstream run`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from millstream.base.error_display import describe_error
from millstream.base.errors import ConfigurationError
from millstream.cli.script import run_program
from millstream.config.configuration import Configuration

FAILING = """
from millstream.datastream import StreamExecutionEnvironment

def invert(number):
    try:
        return 1 / number
    except ZeroDivisionError as error:
        error.add_note("the note")
        raise

env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
env.from_collection([1, 0]).map(invert).print()
"""

TEXT = """Traceback (most recent call last):
  File "{path}", line 6, in invert
    return 1 / number
           ~~^~~~~~~~
ZeroDivisionError: division by zero
the note
[USER_FUNCTION] ZeroDivisionError was raised in operator "Map", subtask 0
Element: 0
[JOB_FAILED] job "j" failed
"""


@pytest.fixture
def program(tmp_path):
    def write(text):
        path = tmp_path / "job.py"
        path.write_text(text)
        return str(path)

    return write


def python(*arguments, config='{"execution.target": "local"}', **options):
    environment = os.environ | {"MILLSTREAM_CONFIG": config}
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, timeout=60, **options
    )
    return done.returncode, done.stderr


def test_failed_job_reads_as_under_run(program, monkeypatch, capsys):
    path = program(FAILING + 'env.execute("j")\n')
    code, told = python(path)
    assert (code, told) == (1, TEXT.format(path=path))
    monkeypatch.setenv("MILLSTREAM_CONFIG", '{"execution.target": "local"}')
    assert run_program(path, []) == 1
    assert capsys.readouterr().err == told


def test_prompt_shows_no_frames_of_ours(program):
    path = program(FAILING)
    _, told = python("-i", path, input='env.execute("j")\n')
    assert TEXT.format(path=path) in told
    assert "stream_execution_environment.py" not in told


def test_verbose_shows_all(program):
    path = program(FAILING + 'env.execute("j")\n')
    _, told = python(path, config='{"execution.target": "local", "millstream.verbose": "true"}')
    assert "job_master.py" in told


def test_hook_of_the_user_stays(program):
    path = program(
        "import sys\nsys.excepthook = lambda *_: sys.stderr.write('mine')\n" + FAILING + "env.execute()\n"
    )
    assert python(path)[1] == "mine"


def test_errors_that_have_nothing_to_do_with_us_are_pythons_own(program):
    path = program(FAILING + "print(1 / 0)\n")
    told = python(path)[1]
    assert told.startswith("Traceback (most recent call last):\n")
    assert told.endswith("ZeroDivisionError: division by zero\n")
    assert "millstream" not in told


def test_error_raised_from_ours_is_told_with_it(program):
    path = program(
        FAILING
        + """
try:
    env.execute("j")
except Exception as error:
    raise SystemError("nightly run") from error
"""
    )
    told = python(path)[1]
    assert told.startswith(TEXT.format(path=path))
    assert told.endswith("SystemError: nightly run\n")
    assert "direct cause" in told
    assert "job_master.py" not in told


def test_error_of_another_kind_shows_the_users_frames_and_how_many_are_hidden(program):
    path = program(FAILING + "from millstream.common import Configuration\nConfiguration.from_dict(3)\n")
    told = python(path)[1]
    assert f'File "{path}", line' in told
    assert "configuration.py" not in told
    assert told.endswith(
        "(1 frame of millstream is not shown; --verbose, or millstream.verbose, shows all)\n"
    )


def test_notes_on_our_own_errors_are_shown():
    error = ConfigurationError("no")
    error.add_note("of the user")
    assert describe_error(error).splitlines() == ["[CONFIGURATION] no", "of the user"]


def test_members_of_a_group_have_no_frames_of_ours():
    def raised():
        try:
            Configuration.from_dict(3)
        except AttributeError as error:
            return error

    text = describe_error(ExceptionGroup("several", [raised()]))
    assert "test_uncaught_errors.py" in text
    assert "configuration.py" not in text


def test_notebook_is_given_the_same_lines():
    assert ConfigurationError("no", hint="Yes.")._render_traceback_() == ["[CONFIGURATION] no", "Hint: Yes."]
