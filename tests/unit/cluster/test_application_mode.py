"""What an application's supervisor does when its driver ends."""

import os
import signal
import sys

import pytest

from millstream.base.clock import ManualClock
from millstream.cli.options import SUPERVISOR_VARIABLE
from millstream.cluster import application_mode
from millstream.cluster.application_mode import EXIT_LOST, ApplicationCore, Exit, Restart, supervise


@pytest.mark.parametrize("code", [0, 1, 2, 130])
def test_a_program_that_came_to_its_end_is_not_started_again(code):
    assert ApplicationCore(outlives=True).driver_ended(code, ran_s=1) == Exit(code)


@pytest.mark.parametrize("code", [-signal.SIGKILL, -signal.SIGSEGV, 75, 143])
def test_a_driver_that_was_lost_is_started_again(code):
    assert isinstance(ApplicationCore(outlives=True).driver_ended(code, ran_s=1), Restart)


def test_delays_double_while_drivers_are_lost_in_a_row_and_then_the_application_ends():
    core = ApplicationCore(outlives=True)
    steps = [core.driver_ended(-9, ran_s=1) for _ in range(10)]
    assert [step.delay_s for step in steps[:-1]] == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert steps[-1].code == EXIT_LOST
    assert "signal 9" in steps[-1].reason


def test_drivers_that_ran_a_while_may_be_lost_without_end():
    core = ApplicationCore(outlives=True)
    assert {core.driver_ended(-9, ran_s=3_600).delay_s for _ in range(100)} == {1.0}


def test_without_anything_that_outlives_the_driver_its_loss_is_the_end():
    step = ApplicationCore(outlives=False).driver_ended(-9, ran_s=3_600)
    assert step.code == EXIT_LOST
    assert "high-availability.storageDir is not set" in step.reason


@pytest.mark.parametrize(("code", "wanted"), [(143, 143), (-9, 137), (0, 0)])
def test_an_application_that_was_told_to_end_ends_however_its_driver_does(code, wanted):
    core = ApplicationCore(outlives=True)
    core.told_to_end()
    assert core.driver_ended(code, ran_s=1) == Exit(wanted)


def test_drivers_know_their_supervisor_by_the_same_name():
    assert SUPERVISOR_VARIABLE == application_mode.SUPERVISOR_VARIABLE


def run_driver(tmp_path, text):
    told = []
    program = tmp_path / "driver.py"
    program.write_text(
        f"import os, pathlib, signal, sys\nstarts = pathlib.Path({str(tmp_path / 'starts')!r})\n{text}"
    )
    code = supervise(
        [sys.executable, str(program)], os.environ, outlives=True, tell=told.append, clock=ManualClock()
    )
    return code, told


def test_a_driver_that_is_killed_runs_again_until_it_ends(tmp_path):
    code, told = run_driver(
        tmp_path,
        "with starts.open('a') as file: file.write('x')\n"
        "if starts.stat().st_size < 3: os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.exit(7)",
    )
    assert code == 7
    assert (tmp_path / "starts").read_text() == "xxx"
    assert [line.partition(";")[0] for line in told] == ["the driver was ended by signal 9 (Killed)"] * 2


def test_sigterm_goes_to_the_driver_and_is_the_end(tmp_path):
    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    code, told = run_driver(
        tmp_path,
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
        "os.kill(os.getppid(), signal.SIGTERM)\n"
        "signal.pause()",
    )
    assert (code, told) == (143, [])
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == before
