"""Functions are interrupted where they are, and nothing of that is left in the process."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from millstream.base.interrupts import JobInterrupted
from millstream.runtime.task.interrupting import ThreadInterrupter

PROGRAM = """
from millstream.common import Configuration
from millstream.datastream import StreamExecutionEnvironment

environment = StreamExecutionEnvironment.get_execution_environment(
    Configuration.from_dict({"execution.target": "local"}))
numbers = environment.from_collection(range(100)).map(lambda number: number + 1)
print(sum(numbers.execute_and_collect()))
"""


def test_what_runs_is_interrupted_and_what_runs_next_is_not():
    interrupter, interrupted, ended = ThreadInterrupter(), threading.Event(), []

    def work():
        with pytest.raises(JobInterrupted):
            interrupter.run(lambda: [time.sleep(0.001) for _ in range(60_000)])
        interrupted.set()
        ended.append(interrupter.run(lambda: sum(range(100_000))))

    thread = threading.Thread(target=work)
    thread.start()
    while not interrupted.is_set():
        interrupter.interrupt()
        time.sleep(0.001)
    thread.join(60)
    assert ended == [sum(range(100_000))]
    assert not interrupter.is_running


def test_an_interruption_that_comes_as_the_work_ends_does_not_arrive_later():
    interrupter, stop = ThreadInterrupter(), threading.Event()

    def interrupt():
        while not stop.is_set():
            interrupter.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        arrived = 0
        for _ in range(3_000):
            try:
                interrupter.run(lambda: None)
            except JobInterrupted:
                arrived += 1
            [None for _ in range(50)]
    finally:
        stop.set()
        thread.join(60)
    assert arrived < 3_000


def test_a_program_runs_under_a_profiler(tmp_path):
    # It stood still: the interpreter was left to look for an interruption before every call, for ever.
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "cProfile", str(program)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("5050\n")
