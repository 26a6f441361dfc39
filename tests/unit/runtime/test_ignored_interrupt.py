"""A shell that ignores SIGINT, as a script's does for background jobs, changes nothing for tests and slots."""

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]

IN_SLOT = """
import signal, subprocess, sys
from millstream.runtime.task.interrupting import MainThreadInterrupter
assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
MainThreadInterrupter()
show = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
print(subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True).stdout)
"""


def run_ignoring(*command):
    shell = ["bash", "-c", 'trap "" INT; exec "$@"', "bash"]
    return subprocess.run([*shell, *command], capture_output=True, text=True, timeout=120, check=False)


def test_programs_that_tests_start_and_interrupt_end_all_the_same():
    which = TESTS / "runtime/job/test_ending.py"
    done = run_ignoring(
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{which}", "-k", "run-INT-loop"
    )
    assert "1 passed" in done.stdout, done.stdout


def test_children_of_a_slot_have_the_default():
    done = run_ignoring(sys.executable, "-c", IN_SLOT)
    assert done.stdout.strip() == "True", done.stderr
