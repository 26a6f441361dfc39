"""Processes of a run are known by its mark, and their processor time is added up."""

from __future__ import annotations

import os
import subprocess
import sys

from marked import MARK, is_marked, mark_of_run

WORKS = """
import sys, time
from marked import processor_seconds
while time.process_time() < 0.1:
    pass
print(processor_seconds(), time.process_time())
"""


def test_the_processor_time_of_a_run_is_that_of_its_processes_alone():
    mark = mark_of_run()
    environment = {**os.environ, **mark, "PYTHONPATH": os.pathsep.join(sys.path)}
    waits = [sys.executable, "-c", "print(flush=True); input()"]
    other = subprocess.Popen(waits, env={**environment, MARK: "other"}, stdin=-1, stdout=-1)
    try:
        other.stdout.readline()  # before it runs it has no environment
        assert is_marked(str(other.pid), "other") and not is_marked(str(other.pid), mark[MARK])
        done = subprocess.run([sys.executable, "-c", WORKS], env=environment, capture_output=True, check=True)
    finally:
        other.communicate(b"\n")
    found, own = map(float, done.stdout.split())
    assert 0.08 <= found <= own + 0.02  # in ticks of 10 ms; looking at all processes takes some, too
