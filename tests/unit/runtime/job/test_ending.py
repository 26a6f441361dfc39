"""How jobs end whose process is told to end, or does not wait for them: programs of their own, on signals."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """
import ctypes, os, sys, time
from millstream.config.configuration import Configuration
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.functions import MapFunction

def new_environment():
    options = {
        "execution.target": "local",
        "state.backend.type": "rocksdb",
        "execution.checkpointing.interval": "1 s",
    }
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))

class Busy(MapFunction):
    def map(self, value):
        open(os.environ["BEGAN"], "w").close()
        HOW[sys.argv[1]]()

    def close(self):
        print("closed", flush=True)

def loop():
    while True:
        pass

def catches():
    while True:
        try:
            loop()
        except BaseException:
            if os.environ.get("NEVER"):
                continue
            raise

HOW = {
    "loop": loop,
    "catches": catches,
    "sleep": lambda: time.sleep(600),
    "lock": lambda: ctypes.PyDLL(None).usleep(600_000_000) or loop(),
}
environment = new_environment()
keyed = environment.from_collection([1, 2]).uid("source").key_by(lambda x: x)
keyed.reduce(lambda a, b: b).uid("last").map(Busy()).print()
"""
EXECUTE = "environment.execute('busy')\n"
ASYNC = """
client = environment.execute_async('busy')
while not os.path.exists(os.environ["BEGAN"]):
    time.sleep(0.01)
"""


class Program:
    """A driver of its own, with a temporary directory of its own."""

    def __init__(self, directory, text, how, *, command=(), **variables):
        self.directory = Path(directory, "tmp")
        self.directory.mkdir()
        self.began = Path(directory, "began")
        script = Path(directory, "job.py")
        script.write_text(PROGRAM + text)
        environment = {**os.environ, "TMPDIR": str(self.directory), "BEGAN": str(self.began), **variables}
        self.process = subprocess.Popen(
            [*(command or [sys.executable]), str(script), how],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def wait_until_busy(self):
        deadline = time.monotonic() + 60
        while not self.began.exists():
            assert time.monotonic() < deadline and self.process.poll() is None, self.process.communicate()
            time.sleep(0.02)

    def end(self, *numbers, pause_s=0.5):
        """Send signals; return the exit code, and how long it took from the last."""
        for number in numbers:
            time.sleep(pause_s)
            self.process.send_signal(number)
        began = time.monotonic()
        self.stdout, self.stderr = self.process.communicate(timeout=60)
        self.took_s = time.monotonic() - began
        return self.process.returncode

    def left(self):
        """Return the files that are left behind, but for the locks of directories that stay, and what was seen."""
        files = (path for path in self.directory.rglob("*") if not path.is_dir())
        return [path for path in files if path.name != "lock" and path.parent.name != "archive"]


RUN = [sys.executable, "-m", "millstream.cli.main", "run", "--target", "local"]
TERM, INT = signal.SIGTERM, signal.SIGINT


@pytest.mark.parametrize("how", ["loop", "sleep"])
@pytest.mark.parametrize(
    ("command", "number", "code"),
    [((), TERM, 143), ((), INT, -INT), (RUN, TERM, 143), (RUN, INT, 130)],
    ids=["python-TERM", "python-INT", "run-TERM", "run-INT"],
)
def test_a_busy_job_ends_soon_and_leaves_nothing(tmp_path, how, command, number, code):
    program = Program(tmp_path, EXECUTE, how, command=command)
    program.wait_until_busy()
    assert program.end(number) == code, program.stderr
    assert program.took_s < 10
    assert "closed" in program.stdout
    assert program.left() == []


@pytest.mark.parametrize("command", [(), RUN], ids=["python", "run"])
def test_a_second_signal_ends_a_job_at_once_that_the_first_does_not(tmp_path, command):
    program = Program(tmp_path, EXECUTE, "catches", command=command, NEVER="1")
    program.wait_until_busy()
    program.end(TERM, TERM, pause_s=0.3)
    assert program.process.returncode == -TERM
    assert program.took_s < 5


def test_a_function_that_catches_everything_does_not_keep_the_process(tmp_path):
    program = Program(tmp_path, EXECUTE, "catches", NEVER="1")
    program.wait_until_busy()
    assert program.end(TERM) == 143
    assert program.took_s < 15


@pytest.mark.skipif(sys.platform != "linux", reason="other systems' libraries have no sysv_signal")
def test_a_second_signal_ends_a_function_that_holds_the_interpreters_lock(tmp_path):
    program = Program(tmp_path, EXECUTE, "lock")
    program.wait_until_busy()
    program.end(TERM, TERM, pause_s=0.3)
    assert program.process.returncode in (-TERM, 143)
    assert program.took_s < 10


@pytest.mark.parametrize("how", ["loop", "sleep"])
@pytest.mark.parametrize(
    ("ending", "code"), [("raise ValueError('of the script')\n", 1), ("sys.exit(7)\n", 7), ("", 0)]
)
def test_a_script_that_ends_before_its_job_cancels_it_and_keeps_its_own_end(tmp_path, how, ending, code):
    program = Program(tmp_path, ASYNC + ending, how)
    assert program.end() == code
    lines = program.stderr.strip().splitlines()
    assert sum("busy" in line and "was cancelled" in line for line in lines) == 1
    if code == 1:
        assert lines[-1] == "ValueError: of the script"
        assert "Traceback" in program.stderr
        assert len(lines) == 5
    else:
        assert len(lines) == 1, program.stderr
    assert program.left() == []


def test_a_job_for_which_a_thread_waits_goes_on_behind_the_end_of_the_script(tmp_path):
    threads = """
import threading
environment = new_environment()
environment.from_collection([1, 2]).uid("source").map(lambda x: time.sleep(0.5) or x).print()
threading.Thread(target=environment.execute).start()
"""
    program = Program(tmp_path, threads, "loop")
    assert program.end() == 0, program.stderr
    assert program.stdout == "1\n2\n"
    assert program.stderr == ""


def test_what_a_killed_driver_left_is_removed_by_the_next(tmp_path):
    killed = Program(tmp_path, EXECUTE, "sleep")
    killed.wait_until_busy()
    killed.end(signal.SIGKILL)
    assert any("state-" in str(path) for path in killed.left())
    (tmp_path / "next.py").write_text(
        "from millstream.datastream import StreamExecutionEnvironment\n"
        "environment = StreamExecutionEnvironment.get_execution_environment()\n"
        "environment.from_collection([1]).map(lambda x: __import__('time').sleep(1)).print()\n"
        "environment.execute()\n"
    )
    command = [sys.executable, "-m", "millstream.cli.main", "run", "--target", "local"]
    environment = {**os.environ, "TMPDIR": str(killed.directory)}
    subprocess.run([*command, str(tmp_path / "next.py")], env=environment, check=True, timeout=60)
    assert killed.left() == []
