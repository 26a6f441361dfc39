"""Checkouts measured in turns: each has a process of its own, which imports millstream from that checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["Worker", "workers"]


class Worker:
    """A process that runs a benchmark with `--worker`, and answers each line of JSON with a number.

    Args:
        script: The benchmark.
        source: Directory `src` of the checkout that it imports.
    """

    def __init__(self, script: str, source: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
        self._process = subprocess.Popen(
            [sys.executable, script, "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def ask(self, *question: Any) -> float:
        """Return the worker's answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


@contextmanager
def workers(script: str, other: Path | None) -> Iterator[list[Worker]]:
    """Yield a worker on another checkout, if there is one, and one on this, and end them."""
    sources = [source for source in (other, Path(__file__).parents[1] / "src") if source is not None]
    started: list[Worker] = []
    try:
        for source in sources:
            started.append(Worker(script, source))
        yield started
    finally:
        for worker in started:
            worker.close()
