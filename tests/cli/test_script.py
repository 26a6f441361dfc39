import os
import signal
import sys
import textwrap
from importlib.abc import MetaPathFinder
from types import ModuleType

import pytest

from millstream.base.error_display import describe_error
from millstream.base.errors import ConfigurationError, JobExecutionError, UserFunctionError
from millstream.cli.script import JobRecorder, launching_with, run_program
from millstream.graph import launcher
from millstream.graph.launcher import JobLauncher, JobSubmission, RunningJob


class FakeJob(RunningJob):
    job_id = "0" * 32

    def __init__(self, state="RUNNING"):
        self.state = state
        self.calls = []

    def wait(self, timeout_s=None):
        self.calls.append("wait")
        raise JobExecutionError("job was cancelled")

    def cancel(self):
        self.calls.append("cancel")
        self.state = "CANCELED"

    def stop(self):
        self.calls.append("stop")

    def collected(self, collect_id):
        return iter(())

    def status(self):
        return self.state


class FakeLauncher(JobLauncher):
    def __init__(self, job=None, error=None):
        self.job, self.error = job or FakeJob(), error

    def launch(self, submission):
        if self.error is not None:
            raise self.error
        return self.job


@pytest.fixture
def program(tmp_path):
    def write(text):
        path = tmp_path / "job.py"
        path.write_text(textwrap.dedent(text))
        return str(path)

    return write


@pytest.fixture
def installed(monkeypatch):
    def install(fake):
        monkeypatch.setattr(launcher, "_find_installed_launcher", lambda: fake)
        return fake

    return install


SUBMIT = """
from millstream.config.configuration import Configuration
from millstream.graph.launcher import JobSubmission, find_launcher
job = find_launcher().launch(JobSubmission("job", (), Configuration()))
"""


def test_program_that_submits_a_job_ends_with_0(program, installed):
    installed(FakeLauncher())
    assert run_program(program(SUBMIT), []) == 0


def test_program_without_a_job_fails_and_says_that_execute_was_not_called(program, capsys):
    path = program("x = 1")
    assert run_program(path, []) == 1
    said = capsys.readouterr().err
    assert f'program "{path}" ended without running a job' in said
    assert "execute()" in said


def test_program_is_main_with_its_own_arguments_and_directory(program, installed, capsys):
    installed(FakeLauncher())
    path = program(
        SUBMIT + "import os, sys\nprint(__name__, sys.argv[1:], sys.path[0] == os.path.dirname(sys.argv[0]))"
    )
    before = list(sys.argv), list(sys.path)
    assert run_program(path, ["--x", "1"]) == 0
    assert capsys.readouterr().out == "__main__ ['--x', '1'] True\n"
    assert (sys.argv, sys.path) == before


@pytest.mark.parametrize(
    ("call", "code"), [("exit(0)", 0), ("exit()", 0), ("exit(7)", 7), ("exit('bye')", 1)]
)
def test_exit_code_of_the_program_is_kept(program, call, code, capsys):
    assert run_program(program(f"import sys\nsys.{call}"), []) == code
    assert capsys.readouterr().err == ("bye\n" if code == 1 else "")


def test_exception_of_the_program_is_shown_from_its_own_frames_on(program, capsys):
    path = program("def f():\n    return 1 / 0\n\nf()\n")
    assert run_program(path, []) == 1
    said = capsys.readouterr().err
    assert said.startswith("Traceback (most recent call last):\n  File")
    assert "runpy" not in said
    assert "cli" not in said
    assert said.rstrip().endswith("ZeroDivisionError: division by zero")


def test_syntax_error_of_the_program_is_shown_without_frames_of_millstream(program, capsys):
    assert run_program(program("def f(:\n"), []) == 1
    said = capsys.readouterr().err
    assert "SyntaxError" in said
    assert "runpy" not in said


def test_millstream_error_is_its_text_and_the_line_of_the_program(program, capsys):
    path = program(
        """
        from millstream.base.errors import ConfigurationError
        raise ConfigurationError("parallelism is 0", hint="Use 1.")
        """
    )
    assert run_program(path, []) == 1
    said = capsys.readouterr().err
    assert said.startswith("[CONFIGURATION] parallelism is 0\nHint: Use 1.\n")
    assert f"Program: {path}, line 3" in said
    assert "Traceback" not in said


def test_verbose_shows_all_frames(program, capsys):
    path = program("from millstream.base.errors import ConfigurationError\nraise ConfigurationError('no')")
    assert run_program(path, [], verbose=True) == 1
    assert "script.py" in capsys.readouterr().err


def test_users_traceback_stands_first_when_a_function_failed():
    failed = JobExecutionError("job flights failed")
    failed.__cause__ = UserFunctionError(
        'the function of operator "map" raised ValueError',
        user_traceback="Traceback (most recent call last):\nValueError: no",
        element="7",
    )
    text = describe_error(failed, "job.py")
    assert text.startswith("Traceback (most recent call last):\nValueError: no\n[USER_FUNCTION]")
    assert text.endswith("[JOB_FAILED] job flights failed")


def test_cause_is_not_repeated_if_the_job_error_contains_it():
    cause = ConfigurationError("no")
    failed = JobExecutionError(f"job failed\n{cause}")
    failed.__cause__ = cause
    assert describe_error(failed, "job.py").count("[CONFIGURATION] no") == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_cancels_running_jobs_and_says_so(program, installed, number, code, capsys):
    fake = installed(FakeLauncher())
    handler = signal.getsignal(number)
    path = program(SUBMIT + f"import os, signal\nos.kill(os.getpid(), {int(number)})\nsignal.pause()")
    assert run_program(path, []) == code
    assert fake.job.calls == ["cancel", "wait"]
    assert capsys.readouterr().err == "cancelled\n"
    assert signal.getsignal(number) == handler
    assert os.getpid()


def test_job_that_has_ended_is_not_cancelled():
    recorder = JobRecorder()
    recorder.jobs = [FakeJob("FINISHED"), FakeJob("RUNNING")]
    recorder.end()
    assert [job.calls for job in recorder.jobs] == [[], ["cancel", "wait"]]


def test_launcher_override_is_put_back(installed):
    installed_fake = installed(FakeLauncher())
    other = FakeLauncher()
    with launching_with(other):
        assert launcher.find_launcher() is other
    assert launcher.find_launcher() is installed_fake


def test_submission_takes_the_progress_listener_of_the_process():
    from millstream.config.configuration import Configuration

    def listener(progress):
        pass

    launcher.set_progress_listener(listener)
    try:
        assert JobSubmission("job", (), Configuration()).on_progress is listener
    finally:
        launcher.set_progress_listener(None)
    assert JobSubmission("job", (), Configuration()).on_progress is None


def test_program_written_against_pyflink_is_told_of_the_option(program, capsys, monkeypatch):
    class NotInstalled(MetaPathFinder):
        def find_spec(self, fullname, path=None, target=None):
            if fullname.partition(".")[0] == "pyflink":
                raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)

    monkeypatch.setattr(sys, "meta_path", [NotInstalled(), *sys.meta_path])
    path = program("from pyflink.datastream import StreamExecutionEnvironment")
    assert run_program(path, []) == 1
    assert f"millstream run --pyflink {path}" in capsys.readouterr().err


def test_program_that_ran_on_an_installed_pyflink_is_told_of_the_option(program, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyflink", ModuleType("pyflink"))
    path = program("import pyflink")
    assert run_program(path, []) == 1
    said = capsys.readouterr().err
    assert "It imports PyFlink itself" in said
    assert f"millstream run --pyflink {path}" in said
