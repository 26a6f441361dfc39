"""The runner: what fails is shown, and nothing that was started goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict

import bench
import psutil
import pytest
from bench import Benchmark
from figures import beside, by_itself
from verdicts import compare

GOOD = by_itself("start", "start", [0.5], unit="s")
MISSED = beside("work", "work", [1.0], [1.0], unit="records/s", peer="loop", more_is_better=True, floor=2.0)
WRITES = """
import sys
from pathlib import Path
Path(sys.argv[sys.argv.index("--json") + 1]).write_text({text!r})
"""
STARTS = """
import subprocess, sys
from pathlib import Path
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
Path({note!r}).write_text(str(child.pid))
"""
WAITS = "import time; time.sleep(600)\n"


def written(*figures):
    return WRITES.format(text=json.dumps([asdict(each) for each in figures]))


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Return what makes a benchmark of a text."""
    monkeypatch.setattr(bench, "LOGS", tmp_path)

    def make(text, limit_s=60.0):
        path = tmp_path / "some.py"
        path.write_text(text)
        return Benchmark("some", (str(path),), limit_s)

    return make


@pytest.fixture(autouse=True)
def signals():
    """Give the signals back to pytest."""
    kept = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    yield
    for each, handler in kept.items():
        signal.signal(each, handler)


def is_running(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@pytest.mark.slow
def test_figures_are_read(script):
    outcome = bench.run(script(written(GOOD, MISSED)))
    assert outcome.figures == {"start": GOOD, "work": MISSED}
    assert outcome.error == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "raise SystemExit('the disk is full')",
            "ended with 1; last line of out/bench/some.log: the disk is full",
        ),
        ("", "gave no figures"),
        (WRITES.format(text="[]"), "gave no figures"),
        (WRITES.format(text="[{"), "gave figures that cannot be read"),
        (WRITES.format(text='[{"name": "x"}]'), "gave figures that cannot be read"),
        (written(GOOD) + "raise SystemExit(1)", "ended with 1"),
    ],
)
def test_what_went_wrong_is_told(script, text, error):
    assert bench.run(script(text)).error.startswith(error)


@pytest.mark.slow
def test_a_script_that_ends_with_one_because_a_floor_is_missed_has_not_failed(script):
    assert bench.run(script(written(GOOD, MISSED) + "raise SystemExit(1)")).error == ""


@pytest.mark.slow
def test_a_script_that_takes_too_long_is_ended(script):
    assert bench.run(script(WAITS, limit_s=1.0)).error.startswith("took longer than 1 s")


@pytest.mark.slow
def test_what_a_script_leaves_behind_is_ended_also_in_a_session_of_its_own(script, tmp_path):
    note = tmp_path / "note"
    assert bench.run(script(STARTS.format(note=str(note)) + written(GOOD))).error == ""
    assert not is_running(int(note.read_text()))


RUNNER = """
import sys
from pathlib import Path
import bench
bench.LOGS = Path({folder!r})
bench.BENCHMARKS = [bench.Benchmark("some", ({script!r},), 600.0)]
sys.argv = ["bench.py"]
sys.exit(bench.main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_running(script, tmp_path, number):
    note, ready = tmp_path / "note", tmp_path / "ready"
    os.mkfifo(ready)
    tell = f"open({str(ready)!r}, 'w').close()\n"
    (path,) = script(STARTS.format(note=str(note)) + tell + WAITS).command
    runner = subprocess.Popen(
        [sys.executable, "-c", RUNNER.format(folder=str(tmp_path), script=path)],
        env={**os.environ, "PYTHONPATH": str(bench.ROOT / "benchmarks")},
        stderr=subprocess.PIPE,
    )
    with open(ready):  # waits until the script has begun
        pass
    runner.send_signal(number)
    _, said = runner.communicate()
    assert runner.returncode == 130
    assert b"interrupted" in said
    assert not is_running(int(note.read_text()))


def figure(value, floor=None):
    return beside(
        "work", "work", [value], [1.0], unit="records/s", peer="loop", more_is_better=True, floor=floor
    )


@pytest.mark.parametrize(
    ("now", "before", "errors", "code"),
    [
        (figure(1.0), figure(1.0), {}, 0),
        (figure(1.5), figure(1.0), {}, 0),
        (figure(0.5), figure(1.0), {}, 1),
        (figure(1.0, floor=2.0), figure(1.0, floor=2.0), {}, 0),
        (figure(1.95, floor=2.0), figure(2.0, floor=2.0), {}, 1),
        (figure(1.0), None, {}, 0),
        (None, figure(1.0), {}, 3),
        (figure(0.5), figure(1.0), {"other": "ended with 1"}, 3),
    ],
)
def test_the_exit_code_tells(now, before, errors, code):
    rows = compare(*({} if each is None else {"work": each} for each in (now, before)))
    assert bench.status({"some": rows}, errors) == code


def test_a_table_names_what_is_bad_and_what_failed():
    text = bench._table("some", compare({"work": figure(0.5, 0.6)}, {"work": figure(1.0)}), "ended with 1")
    assert "0.50 x" in text
    assert "1.00 x" in text
    assert "10%" in text
    assert "BAD, below what is wanted" in text
    assert "FAILED: ended with 1" in text


def test_every_benchmark_is_a_script_that_is_there():
    for benchmark in bench.BENCHMARKS:
        assert (bench.ROOT / "benchmarks" / benchmark.command[0]).is_file()


def test_the_limits_are_positive_and_names_differ():
    assert len({each.name for each in bench.BENCHMARKS}) == len(bench.BENCHMARKS)
    assert all(each.limit_s > 0 for each in bench.BENCHMARKS)
