"""Clusters of tests: a directory and a user's directories of their own, ended behind each test."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from millstream.cluster.applications import Application, Program
from millstream.cluster.door import RemoteCluster, find_cluster
from millstream.cluster.starting import start_cluster


@dataclass
class Cluster:
    """A cluster of a test."""

    directory: Path
    work: Path
    target: str
    remote: RemoteCluster = field(init=False)
    options: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        options = {
            "execution.target": self.target,
            "spark.scheduler.mode": "FAIR",
            "rest.bind-port": "0",
            "execution.checkpointing.interval": "200 ms",
            **self.options,
        }
        self.remote = start_cluster(self.directory, options)

    def kill(self) -> None:
        os.kill(self.remote.pid, signal.SIGKILL)
        wait_until(lambda: find_cluster(str(self.directory)) is None)

    def submit(self, program: str, *arguments: object, name: str | None = None) -> str:
        path = self.work / f"program_{len(list(self.work.glob('program_*.py')))}.py"
        path.write_text(textwrap.dedent(program), encoding="utf-8")
        given = Program(str(path), tuple(map(str, arguments)), working_directory=str(self.work))
        return self.remote.submit(given, name=name).application_id

    def find(self, application_id: str) -> Application:
        (found,) = (each for each in self.remote.applications() if each.application_id == application_id)
        return found

    def wait_for(self, application_id: str, *statuses: str, seconds: float = 90.0) -> Application:
        wait_until(
            lambda: self.find(application_id).status in statuses, seconds, lambda: self.story(application_id)
        )
        return self.find(application_id)

    def story(self, application_id: str) -> str:
        log = self.remote.log_file(application_id)
        return f"{self.find(application_id)}\n{log.read_text() if log.exists() else 'no log'}"

    def end(self) -> None:
        found = find_cluster(str(self.directory))
        if found is None:
            return
        for each in found.applications():
            if each.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each.pid, signal.SIGKILL)
        found.stop()
        wait_until(lambda: find_cluster(str(self.directory)) is None)


def wait_until(
    condition: Callable[[], bool], seconds: float = 30.0, story: Callable[[], str] = lambda: ""
) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {story()}"
        time.sleep(0.05)


def run_command(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "millstream.cli", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=120,
        check=False,
    )
