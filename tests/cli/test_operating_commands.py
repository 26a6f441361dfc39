"""`millstream checkpoints`, `rescale` and `top`, against a job of this very process, and a terminal of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time

import pytest
from click.testing import CliRunner

from millstream.cli.main import main
from millstream.cli.top_view import JobLine, VertexLine, look_at, render
from millstream.common import Types, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner
from millstream.config.configuration import Configuration
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from millstream.datastream.functions import SinkFunction
from millstream.runtime.control.channel import find_jobs
from millstream.runtime.control.views import CheckpointsView, JobView

LIMIT_S = 90


class Nothing(SinkFunction):
    def invoke(self, value):
        pass


class Long(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return 1_000_000_000_000 + value


def until(condition):
    deadline = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)
    return found


@pytest.fixture(autouse=True)
def own_directory(monkeypatch, tmp_path):
    """A short one, as the path of a Unix socket is; `tmp_path` is made before it would lie in there."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        monkeypatch.setattr("tempfile.tempdir", directory)
        monkeypatch.setenv("TMPDIR", directory)
        yield


@pytest.fixture
def start(own_directory):
    clients = []

    def start_job(name="counting", **options):
        configuration = Configuration.from_dict(
            {"execution.target": "local", "execution.checkpointing.interval": "20 ms", **options}
        )
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        source = DataGeneratorSource(
            lambda index: index, 10**9, RateLimiterStrategy.per_second(500), Types.LONG()
        )
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Long())
        stream = env.from_source(source, strategy, "numbers").uid("numbers")
        stream.key_by(lambda number: number % 3).map(lambda number: number).add_sink(Nothing()).name("end")
        clients.append(env.execute_async(name))
        return clients[-1]

    yield start_job
    for client in clients:
        if not client.get_job_status().result().is_terminal_state():
            client.cancel().result()


def gateway():
    (job,) = find_jobs()
    return job


def has_checkpoint():
    return gateway().view(CheckpointsView).counts.completed > 2


def invoke(*arguments):
    return CliRunner().invoke(main, arguments)


class TestCheckpoints:
    def test_history_of_a_running_job(self, start):
        start()
        until(has_checkpoint)
        document = json.loads(invoke("checkpoints", "--json").stdout)
        assert document["name"] == "counting"
        done = [each for each in document["history"] if each["status"] == "COMPLETED"]
        assert done and all(each["ended_ms"] >= each["triggered_ms"] for each in done)
        shown = invoke("checkpoints", "counting").stdout.splitlines()
        assert re.fullmatch(r'job [0-9a-f]{32} "counting"', shown[0])
        assert shown[1].startswith("one each 20 ms, 1 retained, in a temporary directory")
        rows = [line for line in shown if re.match(r" *\d+  checkpoint ", line)]
        assert rows
        assert all(re.search(r"(completed|removed since) +\d{4}-\d\d-\d\d .* UTC +[\d.]+ m?s +[\d.]+ (K|M)?i?B", r)
                   for r in rows if "progress" not in r)  # fmt: skip

    def test_a_job_that_has_ended_and_one_that_makes_none(self, start):
        client = start("brief", **{"execution.checkpointing.interval": "1 h"})
        job_id = str(client.get_job_id())
        until(lambda: gateway().view(JobView).epoch)
        shown = invoke("checkpoints").stdout
        assert "0 begun: 0 completed" in shown
        client.cancel().result()
        until(lambda: not find_jobs())
        ended = invoke("checkpoints", job_id[:9])
        assert (ended.exit_code, "0 begun" in ended.stdout) == (0, True), ended.output

    def test_failures_are_told(self, start, tmp_path):
        blocked = tmp_path / "file"
        blocked.mkdir()
        start(
            **{
                "execution.checkpointing.dir": str(blocked),
                "execution.checkpointing.tolerable-failed-checkpoints": "1000000",
            }
        )
        until(has_checkpoint)
        (inner,) = blocked.iterdir()

        def is_in_the_way():  # what is removed is made again by a checkpoint that is under way
            shutil.rmtree(inner, ignore_errors=True)
            with contextlib.suppress(OSError):
                inner.write_text("in the way")
            return inner.is_file()

        until(is_in_the_way)
        until(lambda: gateway().view(CheckpointsView).counts.failed)
        assert re.search(r"\ncheckpoint \d+ failed: \w+", invoke("checkpoints").stdout)

    def test_no_such_job(self, start):
        assert invoke("checkpoints").exit_code == 1
        refused = invoke("checkpoints", "nobody")
        assert refused.exit_code == 1
        assert 'no job that runs or ended lately is called "nobody"' in refused.output


class TestRescale:
    def test_goes_on_with_another_parallelism(self, start):
        start()
        until(has_checkpoint)
        done = invoke("rescale", "counting", "2")
        assert done.exit_code == 0, done.output
        assert re.search(
            r'"counting" goes on with parallelism 2, before 1, from \S+chk-\d+$', done.output.strip()
        )
        seen = gateway().view(JobView)
        assert (seen.parallelism, seen.attempt, len(seen.vertices[0].subtasks)) == (2, 1, 2)
        again = invoke("rescale", "counting", "2")
        assert "runs with parallelism 2 already" in again.output

    def test_is_refused_with_a_reason(self, start):
        start(**{"pipeline.max-parallelism": "4"})
        until(lambda: gateway().view(JobView).epoch)
        refused = invoke("rescale", "counting", "5")
        assert refused.exit_code == 1
        assert "has parallelism 5" in refused.output and "here 4" in refused.output
        assert gateway().view(JobView).parallelism == 1
        assert invoke("rescale", "counting", "0").exit_code == 2


class Terminal:
    """`millstream top` on a terminal of its own."""

    def __init__(self, *arguments):
        self._main, side = pty.openpty()
        termios.tcsetwinsize(side, (40, 220))
        self.before = termios.tcgetattr(side)
        self.side = side
        environment = {**os.environ, "TERM": "xterm-256color"}
        environment.pop("COLUMNS", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "millstream.cli", "top", "--interval", "0.2", *arguments],
            stdin=side, stdout=side, stderr=side, env=environment, start_new_session=True,
            preexec_fn=lambda: __import__("fcntl").ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        self.shown = b""

    def read_until(self, pattern):
        deadline = time.monotonic() + LIMIT_S
        while not re.search(pattern, self.text):
            assert time.monotonic() < deadline, self.text
            if select.select([self._main], [], [], 0.1)[0]:
                self.shown += os.read(self._main, 65_536)

    @property
    def text(self):
        return self.shown.decode(errors="replace")

    def send(self, keys):
        os.write(self._main, keys)

    def end(self):
        deadline = time.monotonic() + LIMIT_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.text
            if select.select([self._main], [], [], 0.05)[0]:
                self.shown += os.read(self._main, 65_536)
        while select.select([self._main], [], [], 0)[0]:
            self.shown += os.read(self._main, 65_536)
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._main)
        os.close(self.side)


@pytest.fixture
def terminal():
    opened = []

    def open_terminal(*arguments):
        opened.append(Terminal(*arguments))
        return opened[-1]

    yield open_terminal
    for each in opened:
        each.close()


class TestTop:
    def test_once_prints_one_view(self, start):
        client = start()
        until(has_checkpoint)
        shown = invoke("top", "--once").stdout
        heads, row = shown.splitlines()[1:3]
        wanted = (
            "job name status par uptime records records/s busy pressed lag chk failed last state restarts"
        )
        assert " ".join(heads.split()) == wanted
        assert row.startswith(f"{str(client.get_job_id())[:8]}  counting")
        assert "RUNNING" in row
        assert "\x1b" not in shown
        details = invoke("top", "--once", "counting").stdout
        assert "vertex" in details and "numbers" in details

    def test_without_jobs_and_without_a_terminal(self, start):
        assert "no job runs on this machine" in invoke("top", "--once").stdout
        refused = invoke("top")
        assert (refused.exit_code, "--once" in refused.output) == (2, True)

    @pytest.mark.slow
    @pytest.mark.parametrize("end", ["q", "ctrl-c", "SIGTERM"])
    def test_it_shows_the_job_and_leaves_the_terminal_as_it_was(self, start, terminal, end):
        start()
        top = terminal()
        top.read_until(r"counting.*RUNNING")
        assert top.shown.count(b"\x1b[?1049h") == 1
        assert termios.tcgetattr(top.side) != top.before
        if end == "q":
            top.send(b"v")
            top.read_until("vertex")
            top.send(b"q")
        elif end == "ctrl-c":
            top.send(b"\x03")
        else:
            top.process.send_signal(signal.SIGTERM)
        assert top.end() == 0, top.text
        assert top.shown.count(b"\x1b[?1049l") == 1, "the other screen is still shown"
        assert top.shown.rindex(b"\x1b[?25h") > top.shown.rindex(b"\x1b[?25l"), "the cursor is hidden"
        assert termios.tcgetattr(top.side) == top.before
        assert "Traceback" not in top.text

    def test_throughput_is_what_was_read_since_the_view_before(self, start):
        start()
        before = until(lambda: (line := look_at(gateway(), None)).records and line)
        later = until(lambda: (line := look_at(gateway(), before)).records > before.records + 100 and line)
        passed_s = (later.seen_ms - before.seen_ms) / 1000
        assert later.per_second == pytest.approx((later.records - before.records) / passed_s)
        assert later.lag_ms > 365 * 86_400_000  # event time is in 2001

    def test_names_steer_no_terminal_and_are_no_markup(self):
        from rich.console import Console

        line = JobLine(
            "ab" * 16,
            "[red]x[/red]\x1b[2J\n",
            "RUNNING",
            0,
            vertices=(VertexLine("\x07v", 1, 2, 3, 999, None, 0),),
        )
        console = Console(width=200, force_terminal=True, record=True, file=io.StringIO())
        console.print(render([line], details=True, title="title"))
        text = console.export_text()
        assert "[red]x[/red]\N{REPLACEMENT CHARACTER}[2J" in text
        assert "\x1b[2J" not in text and "\x07" not in text
        assert "100 %" in text
