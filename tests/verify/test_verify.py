"""The command, its traces, what it compares and what it refuses."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from verify_jobs import captured, file_sink, readings, stamped, timers_and_windows

from millstream.base.crash_points import around, reach
from millstream.base.errors import MillstreamError, NotSupportedError
from millstream.cli.main import main
from millstream.common import Duration, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.connectors.collection import CollectionSource
from millstream.verify import workers
from millstream.verify.compare import compare
from millstream.verify.program import Guarantee
from millstream.verify.run import simulate
from millstream.verify.scenario import Scenario, Variation, draw_scenario
from millstream.verify.sources import _read_all, shuffled
from millstream.verify.verifier import Verifier

COUNTS = """
import sys
from millstream.datastream import StreamExecutionEnvironment

environment = StreamExecutionEnvironment.get_execution_environment()
numbers = environment.from_collection([(n % 3, n) for n in range(60)])
sums = numbers.key_by(lambda record: record[0]).reduce(lambda one, other: (one[0], one[1] + other[1]))
sums.print()
environment.execute("sums")
"""

BROKEN = COUNTS.replace("reduce(lambda one, other: (one[0], one[1] + other[1]))", "map(Remembers())").replace(
    "environment = ",
    """
from millstream.datastream.functions import MapFunction

class Remembers(MapFunction):
    def __init__(self):
        self.seen = 0  # forgotten when a slot is lost: it should be state

    def map(self, value):
        self.seen += 1
        return self.seen

environment = """,
    1,
)


@pytest.fixture
def program(tmp_path):
    def write(text):
        path = tmp_path / "job.py"
        path.write_text(text)
        return str(path)

    return write


def run(*arguments):
    return CliRunner().invoke(main, ["verify", *arguments])


def test_a_job_without_faults_to_be_found_is_told_so_and_the_exit_code_is_0(program):
    result = run("--seeds", "8", program(COUNTS))
    assert result.exit_code == 0, result.output
    assert 'job "sums": 60 records; varying epochs, parallelism, order, faults' in result.output
    assert "at least once" in result.output
    assert 'job "sums": 8 seeds, 0 failed' in result.output
    assert "0 lost, 0 duplicated" in result.output


def test_a_function_that_keeps_state_in_a_variable_is_found_and_one_command_replays_it(program):
    path = program(BROKEN)
    result = run("--seeds", "60", "--vary", "epochs,faults", path)
    assert result.exit_code == 1, result.output
    replay = next(line for line in result.output.splitlines() if "Replay: " in line)
    words = replay.split("Replay: ")[1].split()
    assert words[:2] == ["millstream", "verify"]
    again = CliRunner().invoke(main, words[1:])
    assert again.exit_code == 1
    assert "1 seeds, 1 failed" in again.output
    what = result.output.split("found something wrong\n")[1].split("  Replay")[0]
    assert what in again.output


@pytest.mark.parametrize("types", ["", ", Types.TUPLE([Types.INT(), Types.INT()])"])
def test_what_a_program_takes_as_columns_is_compared_record_by_record(program, types):
    right = """
import pyarrow
from millstream.common import Types
from millstream.datastream import StreamExecutionEnvironment

environment = StreamExecutionEnvironment.get_execution_environment()
numbers = environment.from_arrow(pyarrow.table({"n": range(60)}))
total = numbers.map(lambda row: (row.n, 1)TYPES).to_arrow()
assert sum(total["f0"].to_pylist()) == 1770, total
""".replace("TYPES", types)
    result = run("--seeds", "20", program(right))
    assert result.exit_code == 0 and "0 lost, 0 duplicated" in result.output, result.output
    remembers = BROKEN[BROKEN.index("class Remembers") : BROKEN.index("environment = ")]
    wrong = right.replace(
        "environment = ", f"from millstream.datastream import MapFunction\n{remembers}\nenvironment = "
    )
    wrong = wrong.replace("lambda row: (row.n, 1)", "Remembers()").replace(types, "").replace("assert", "#")
    result = run("--seeds", "20", program(wrong))
    assert result.exit_code == 1 and 'sink "Collect' in result.output, result.output


def test_what_results_depend_on_is_left_alone_and_said(program):
    text = COUNTS.replace("[(n % 3, n) for n in range(60)]", "range(30)")
    text = text.replace(
        "numbers.key_by(lambda record: record[0])", "numbers.rebalance().map(int).key_by(str)"
    )
    text = text.replace(
        "lambda one, other: (one[0], one[1] + other[1])", "lambda one, other: one * 2 + other"
    )
    text = text.replace("key_by(str)", "key_by(lambda number: 0)")
    result = run("--seeds", "3", program(text))
    assert "left alone, as its results depend on it: parallelism" in result.output


def test_several_processes_find_the_same(program):
    path = program(BROKEN)
    alone = run("--seeds", "30", "--vary", "epochs,faults", path).stdout
    shared = run("--seeds", "30", "--vary", "epochs,faults", "--jobs", "2", path).stdout
    assert shared.replace(" --jobs 2", "") == alone


@pytest.mark.parametrize("written", [0, 1, 20])
def test_a_process_that_dies_while_it_writes_its_result_is_told(monkeypatch, written):
    answer = pickle.dumps(({"events": [1, 2, 3]}, None))[:written]
    dies = f"import os, sys; sys.stdin.buffer.read(1); os.write(1, {answer!r}); os._exit(7)"
    monkeypatch.setattr(workers, "_COMMAND", dies)
    with pytest.raises(MillstreamError, match="the process that ran seed 5 ended with exit code 7"):
        list(workers.run_shared("a job", [5], 1))


def test_a_process_that_dies_with_its_seed_is_told(program):
    text = COUNTS.replace("environment = ", "import os\nHERE = os.getpid()\nenvironment = ", 1)
    text = text.replace(
        "numbers.key_by(", "numbers.map(lambda n: n if os.getpid() == HERE else os._exit(7)).key_by("
    )
    assert text.count("HERE") == 2
    result = run("--seeds", "4", "--jobs", "2", program(text))
    assert result.exit_code == 1
    assert "ended with exit code 7" in result.output, result.output
    assert "Run that seed alone, with --seed" in result.output


def test_processes_find_the_modules_and_the_pyflink_names_that_the_program_has(program, tmp_path):
    (tmp_path / "beside.py").write_text(
        "def told(n):\n    from pyflink.common import Types\n    return n if Types.INT() else 0\n"
    )
    text = COUNTS.replace("millstream", "pyflink").replace(
        "environment = ", "import beside\nenvironment = ", 1
    )
    text = text.replace("numbers.key_by(", "numbers.map(beside.told).key_by(")
    result = run("--pyflink", "--seeds", "4", "--jobs", "2", program(text))
    assert result.exit_code == 0 and "4 seeds, 0 failed" in result.output, result.output


@pytest.mark.slow
def test_the_same_seed_gives_the_same_trace_in_any_process(program, tmp_path):
    path = program(COUNTS)
    traces = []
    for number, hash_seed in enumerate(("1", "2")):
        trace = tmp_path / f"trace-{number}"
        subprocess.run(
            [
                sys.executable,
                "-m",
                "millstream.cli.main",
                "verify",
                "--seeds",
                "12",
                "--trace",
                str(trace),
                path,
            ],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
        )
        traces.append(trace.read_bytes())
    assert traces[0] == traces[1]
    text = traces[0].decode()
    assert text.count("scenario seed") == 12
    assert "FAULT " in text
    assert "/dev/shm" not in text


def test_the_same_seed_gives_the_same_trace_in_one_process():
    verifier = Verifier(captured(lambda environment: timers_and_windows(environment, 60)))
    for seed in range(12):
        assert verifier.run_seed(seed).trace == verifier.run_seed(seed).trace
    assert verifier.run_seed(1).trace != verifier.run_seed(2).trace


def test_an_option_that_names_nothing_to_vary_is_refused(program):
    result = run("--vary", "epochs,weather", program(COUNTS))
    assert result.exit_code == 2
    assert '"weather" cannot be varied' in result.output


def test_a_program_without_a_job_is_refused(program):
    result = run(program("pass"))
    assert result.exit_code == 1
    assert "without running a job" in result.output


def test_a_job_that_fails_undisturbed_is_refused(program):
    result = run(program(COUNTS.replace("one[1] + other[1]", "1 // 0")))
    assert result.exit_code == 1
    assert "fails undisturbed" in result.output


def test_a_job_in_batch_mode_is_refused(program):
    text = COUNTS.replace(
        "get_execution_environment()",
        "get_execution_environment(__import__('millstream.common', fromlist=['x']).Configuration.from_dict("
        "{'execution.runtime-mode': 'BATCH'}))",
    )
    result = run(program(text))
    assert result.exit_code == 1
    assert "batch mode" in result.output


def test_a_source_that_never_ends_is_refused():
    program = captured(lambda environment: environment.from_collection([1]).sink_to(file_sink("x")))
    program.submission.transformations[0].bounded = False
    with pytest.raises(NotSupportedError, match="never ends"):
        Verifier(program)


def test_nothing_is_written_where_the_program_says(tmp_path):
    def build(environment):
        from millstream.common import Encoder
        from millstream.datastream.connectors.file_system import FileSink

        sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
        environment.from_collection(["a", "b"]).sink_to(sink)

    outcome = simulate(captured(build), Scenario(epoch_records=1, interval_ms=1))
    assert list(outcome.outputs.values()) == [Counter(["a", "b"])]
    assert not (tmp_path / "out").exists()


ONCE = {"s": Guarantee.EXACTLY_ONCE}
AT_LEAST = {"s": Guarantee.AT_LEAST_ONCE}


@pytest.mark.parametrize(
    ("found", "guarantees", "restarts", "right"),
    [
        ("ab", ONCE, 1, True),
        ("abb", ONCE, 1, False),
        ("a", ONCE, 0, False),
        ("abb", AT_LEAST, 1, True),
        ("abb", AT_LEAST, 0, False),
        ("a", AT_LEAST, 1, False),
        ("abc", AT_LEAST, 1, False),
    ],
)
def test_what_is_right(found, guarantees, restarts, right):
    differences = compare({"s": Counter("ab")}, {"s": Counter(found)}, guarantees, restarts=restarts)
    assert (not differences) is right


class Own(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[0]


@given(st.lists(st.integers(0, 100), max_size=40), st.integers(0, 30), st.integers())
def test_a_changed_order_keeps_all_records_and_leaves_none_late(times, bound, seed):
    ordered = [(time, index) for index, time in enumerate(sorted(times))]
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(bound))
    strategy = strategy.with_timestamp_assigner(Own())
    source = shuffled(CollectionSource(ordered), strategy, Random(seed))
    assert source is not None
    values = _read_all(source)
    assert sorted(values) == sorted(ordered)
    largest = -(10**9)
    for time, _ in values:
        assert time > largest - bound - 1
        largest = max(largest, time)


def test_an_order_with_late_records_is_left_alone():
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5))
    source = CollectionSource([(100, 0), (1, 1)])
    assert shuffled(source, strategy.with_timestamp_assigner(Own()), Random(0)) is None
    assert shuffled(source, strategy, Random(0)) is None


def test_scenarios_are_the_same_for_the_same_seed_and_vary_what_is_asked_for():
    profile = {"plan": 5, "report": 3}
    drawn = [draw_scenario(n, records=50, profile=profile, vary=Variation()) for n in range(40)]
    assert drawn == [draw_scenario(n, records=50, profile=profile, vary=Variation()) for n in range(40)]
    assert {scenario.parallelism[0] for scenario in drawn} == {1, 2, 3, 4}
    plain = draw_scenario(3, records=50, profile=profile, vary=Variation.of("epochs"))
    assert (plain.parallelism, plain.shuffled, plain.faults) == (None, False, ())


def test_crash_points_do_nothing_without_a_hook():
    reach("plan")
    assert around("storage.write", "x", lambda: 5) == 5


def test_a_simulation_leaves_nothing_behind(monkeypatch, tmp_path):
    import millstream.verify.run as module

    monkeypatch.setattr(module, "scratch_base", lambda: str(tmp_path))
    program = captured(lambda environment: stamped(environment, readings(20)).sink_to(file_sink("x")))
    assert simulate(program, Scenario(epoch_records=5, interval_ms=5)).error is None
    assert list(Path(tmp_path).iterdir()) == []


def test_an_error_that_was_not_injected_fails_the_seed():
    def fails_after_a_restart(environment):
        environment.from_collection(list(range(40))).map(Fragile()).sink_to(file_sink("x"))

    verifier = Verifier(captured(fails_after_a_restart))
    results = list(verifier.run(range(30)))
    assert any(result.error for result in results)
    assert all(result.error is None for result in results if not result.restarts)


class Fragile:
    def __new__(cls):
        from millstream.datastream.functions import MapFunction

        class Fragile(MapFunction):
            def open(self, runtime_context):
                self.attempt = runtime_context.get_attempt_number()

            def map(self, value):
                if self.attempt > 0:
                    raise MillstreamError("no second time")
                return str(value)

        return Fragile()
