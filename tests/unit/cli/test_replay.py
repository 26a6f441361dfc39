"""A replay gives, for its key, what the job itself gives behind the checkpoint."""

from __future__ import annotations

import os
import re
import sys
import textwrap

import pytest
from click.testing import CliRunner

from millstream.cli.main import main

PROGRAM = """
    import os, sys
    from dataclasses import dataclass
    from millstream.common import Time, WatermarkStrategy
    from millstream.common.watermark_strategy import TimestampAssigner
    from millstream.datastream import KeyedProcessFunction, OutputTag, StreamExecutionEnvironment
    from millstream.datastream.connectors import NumberSequenceSource
    from millstream.datastream.state import ValueStateDescriptor
    from millstream.datastream.window import TumblingEventTimeWindows

    EVEN = OutputTag("even")

    @dataclass
    class Total:
        number: int

    class Sum(KeyedProcessFunction):
        def open(self, runtime_context):
            self.total = runtime_context.get_state(ValueStateDescriptor("total"))

        def process_element(self, value, ctx):
            if value == int(os.environ.get("FAIL_AT", "-1")):
                raise ValueError(value)
            total = (self.total.value() or Total(0)).number + value
            self.total.update(Total(total))
            ctx.timer_service().register_event_time_timer(value // 50 * 50 + 50)
            if value % 2 == 0:
                yield EVEN, value
            yield ctx.get_current_key(), total

        def on_timer(self, timestamp, ctx):
            yield "timer", ctx.get_current_key(), timestamp

    class Itself(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value

    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself())
    numbers = env.from_source(NumberSequenceSource(0, int(sys.argv[1]) - 1), strategy, "numbers").uid("numbers")
    keyed = numbers.key_by(lambda n: n % 5)
    sums = keyed.process(Sum()).uid("sums")
    sums.get_side_output(EVEN).print("even")
    sums.map(lambda r: r).print("sum")
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(70)))
    windows.reduce(lambda a, b: a + b).uid("windows").print("window")
    env.execute()
    raise AssertionError("a program goes on behind its job only if the job has run") if len(sys.argv) > 2 else None
"""

NUMBERS = 200
CHECKPOINT_EVERY = 40


@pytest.fixture
def failed(tmp_path, monkeypatch):
    """A program, and the directory of the checkpoints that its failed job left."""
    program = tmp_path / "sums_job.py"
    program.write_text(textwrap.dedent(PROGRAM))
    monkeypatch.setenv("FAIL_AT", "133")
    monkeypatch.setenv("MILLSTREAM_CONFIG", "")
    options = {
        "execution.runtime-mode": "STREAMING",
        "millstream.epoch.fixed-records": str(CHECKPOINT_EVERY),
        "execution.checkpointing.interval": "1 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "restart-strategy.type": "none",
    }
    definitions = [part for key, value in options.items() for part in ("-D", f"{key}={value}")]
    arguments = ["run", "--target", "local", "-p", "1", *definitions, str(program), str(NUMBERS)]
    assert "ValueError: 133" in CliRunner().invoke(main, arguments).stderr
    monkeypatch.delenv("FAIL_AT")
    monkeypatch.setenv("MILLSTREAM_CONFIG", "")
    (job,) = os.listdir(tmp_path / "checkpoints")
    return program, tmp_path / "checkpoints" / job


def replay(failed, *arguments, uid="sums", key="3"):
    program, checkpoint = failed
    options = ["--checkpoint", str(checkpoint), "--uid", uid, "--key", key, *arguments]
    return CliRunner().invoke(main, ["replay", *options, str(program), str(NUMBERS)])


def position(failed):
    from millstream.state_processor import SavepointReader

    reader = SavepointReader.read(str(failed[1]))
    return max(entry[-1] for entry in reader.source_positions("numbers"))


def outputs(text):
    return re.findall(r"^  output  (.*)$", text, re.MULTILINE)


def test_a_key_is_replayed_from_the_checkpoint_to_the_end(failed):
    begin = position(failed)
    assert 0 < begin < 133
    result = replay(failed)
    assert result.exit_code == 0, result.stderr
    own = [n for n in range(begin, NUMBERS) if n % 5 == 3]
    expected, total = [], sum(n for n in range(begin) if n % 5 == 3)
    for n in own:
        total += n
        expected += [f"(3, {total}) at {n}"] + ([f"{n} at {n} (side output even)"] if n % 2 == 0 else [])
    timers = [f"('timer', 3, {due}) at {due}" for due in range(50, 201, 50) if due > begin - 2]
    shown = outputs(result.output)
    assert sorted(each for each in shown if "timer" not in each) == sorted(expected)
    assert [each for each in shown if "timer" in each] == timers
    assert f"replayed: {len(own)} records, {len(expected) + len(timers)} outputs" in result.output
    records = re.findall(r"^record (\d+) at (\d+): \2$", result.output, re.MULTILINE)
    assert records == [(str(place + 1), str(n)) for place, n in enumerate(own)]


def test_state_is_shown_before_and_after_each_record(failed):
    begin = position(failed)
    before = sum(n for n in range(begin) if n % 5 == 3)
    first, second = [n for n in range(begin, NUMBERS) if n % 5 == 3][:2]
    result = replay(failed, "--records", "2")
    shown = re.findall(
        r"^  (state |before|after )  total = Total\(number=(\d+)\)$", result.output, re.MULTILINE
    )
    assert [(label.strip(), int(number)) for label, number in shown] == [
        ("state", before),
        ("before", before),
        ("after", before + first),
        ("before", before + first),
        ("after", before + first + second),
    ]
    assert re.search(r"^          event-time timer at \d+$", result.output, re.MULTILINE)
    assert "replayed: 2 records" in result.output


def test_windows_go_on_with_the_contents_of_the_key_only(failed):
    begin = position(failed)
    result = replay(failed, uid="windows", key="0")
    starts = [start for start in range(0, NUMBERS, 70) if start + 69 > begin - 2]
    sums = [sum(n for n in range(start, min(start + 70, NUMBERS)) if n % 5 == 0) for start in starts]
    assert outputs(result.output) == [
        f"{total} at {start + 69}" for start, total in zip(starts, sums, strict=True)
    ]
    assert "window-contents[WindowStart(" in result.output


def test_the_program_does_not_go_on_behind_its_job(failed):
    program, checkpoint = failed
    options = ["-s", str(checkpoint), "--uid", "sums", "--key", "1", "--records", "1"]
    result = CliRunner().invoke(main, ["replay", *options, str(program), str(NUMBERS), "raise"])
    assert result.exit_code == 0
    assert "replayed: 1 records" in result.output


def test_the_debugger_stops_before_the_first_call(failed, monkeypatch):
    stopped = []

    def stop(*args, **kwargs):
        frame = sys._getframe(1)
        stopped.append((frame.f_locals["value"], frame.f_locals["handler"]))

    monkeypatch.setattr(sys, "breakpointhook", stop)
    result = replay(failed, "--debug", "--records", "2")
    first = next(n for n in range(position(failed), NUMBERS) if n % 5 == 3)
    assert [value for value, _ in stopped] == [first]
    head = result.output.partition("  output  ")[0]
    assert re.search(r"debug   stop in the function: b .*sums_job\.py:\d+, then c", head)


def test_the_failure_of_a_key_is_shown_with_what_led_to_it(failed, monkeypatch):
    monkeypatch.setenv("FAIL_AT", "133")
    result = replay(failed)
    assert result.exit_code == 1
    assert "ValueError: 133" in result.stderr
    assert result.output.rpartition("record ")[2].startswith(
        f"{len([n for n in range(position(failed), 134) if n % 5 == 3])} at 133: 133\n  before  total"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            {"uid": "nobody"},
            'the job has no operator with uid "nobody"\nDetail: Operators with keys: "sums", "windows".',
        ),
        ({"uid": "numbers"}, "has no keys, so there is no key of it to replay"),
    ],
)
def test_what_cannot_be_replayed_is_told(failed, arguments, said):
    result = replay(failed, **arguments)
    assert result.exit_code == 1
    assert said in result.stderr


def test_a_checkpoint_without_the_operator_is_told(failed, tmp_path):
    from millstream.state_processor import SavepointWriter

    other = (
        SavepointWriter.from_existing(str(failed[1])).remove_operator("sums").write(str(tmp_path / "other"))
    )
    result = replay((failed[0], other))
    assert result.exit_code == 1
    assert 'has no operator with uid "sums"' in result.stderr
