"""Jobs that write to S3 are killed by SIGKILL between staging and commit, and go on under a new driver."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter

import pytest

PROGRAM = """
import os, signal, sys
from millstream.base.crash_points import set_crash_hook
from millstream.common import Configuration, Encoder, Types, WatermarkStrategy
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from millstream.datastream.connectors.number_seq import NumberSequenceSource

directory, uri, place, count = sys.argv[1:]


class Kill:
    reached = 0

    def reach(self, name, detail):
        if name == place:
            self.reached += 1
            if self.reached == int(count):
                os.kill(os.getpid(), signal.SIGKILL)

    def around(self, name, detail, action):
        return action()


set_crash_hook(Kill())
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({
    "high-availability.storageDir": directory + "/ha",
    "execution.checkpointing.dir": directory + "/checkpoints",
    "execution.checkpointing.interval": "1 ms",
    "millstream.epoch.fixed-records": 100}))
env.set_parallelism(2)
sink = FileSink.for_row_format(uri, Encoder.simple_string_encoder())
sink = sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
sink = sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
numbers = env.from_source(NumberSequenceSource(1, 1000), WatermarkStrategy.no_watermarks(), "numbers")
numbers.map(str, Types.STRING()).sink_to(sink)
env.execute("to s3")
"""


@pytest.mark.parametrize(
    ("place", "count"),
    [
        ("sink.precommitted", 5),  # staged in one subtask, in no checkpoint
        ("manifest.write", 2),
        ("manifest.published", 2),  # recorded, not committed
        ("sink.publish", 4),  # one of two files is published
        ("sink.committed", 2),  # committed, and no later checkpoint knows
    ],
)
def test_a_killed_job_publishes_every_record_once_and_leaves_no_upload(
    prefix, tmp_path, monkeypatch, place, count
):
    for name, value in prefix.server.environment.items():
        monkeypatch.setenv(name, value)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def run(*flags, point=place):
        command = [sys.executable, "-m", "millstream.cli.main", "run", "--target", "local", *flags]
        arguments = [str(program), str(tmp_path), prefix.uri, point, str(count)]
        return subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=100, check=False
        )

    killed = run()
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    seen = Counter(prefix.lines())
    assert sum(seen.values()) < 1000
    ended = run("--recover", point="nowhere")
    assert ended.returncode == 0, ended.stderr
    assert Counter(prefix.lines()) == Counter(map(str, range(1, 1001)))
    assert prefix.uploads() == []
