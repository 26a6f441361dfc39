from __future__ import annotations

import pytest

from millstream.common import Configuration
from millstream.datastream import StreamExecutionEnvironment


@pytest.fixture
def restarting(tmp_path):
    """Make an environment that restarts after failures and makes a checkpoint with nearly every epoch."""

    def make(parallelism=1, records=7, **more):
        settings = {
            "execution.target": "local",
            "parallelism.default": parallelism,
            "execution.checkpointing.interval": "1 ms",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 20,
            "restart-strategy.fixed-delay.delay": "1 ms",
            "millstream.epoch.fixed-records": records,
            # Each epoch has its checkpoint, however long the commit of the one before takes.
            "millstream.commit.wait-when-behind": "0 ms",
        }
        return StreamExecutionEnvironment.get_execution_environment(
            Configuration.from_dict(settings | {key.replace("_", "."): value for key, value in more.items()})
        )

    return make


class Faults:
    """Places that fail a given number of times; picklable, known to every attempt by files."""

    def __init__(self, directory):
        self.directory = directory

    def arm(self, place, *, skip=0):
        (self.directory / place).write_text(str(skip))

    def hit(self, place):
        path = self.directory / place
        if path.exists():
            left = int(path.read_text())
            if left:
                path.write_text(str(left - 1))
                return
            path.unlink()
            raise OSError(f"injected: {place}")

    def armed(self):
        return sorted(path.name for path in self.directory.iterdir())


@pytest.fixture
def faults(tmp_path):
    directory = tmp_path / "faults"
    directory.mkdir()
    return Faults(directory)
