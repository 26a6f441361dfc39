"""What `make bench` runs: the benchmarks of this folder, each in a short form."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

__all__ = ["BENCHMARKS", "Benchmark"]

ROWS = ("copy", "encode", "decode", "save", "restore", "columns", "to_columns", "maps", "reduce")


@dataclass(frozen=True)
class Benchmark:
    """A script of this folder in its short form.

    Attributes:
        name: For `--only`.
        command: The script and its arguments.
        limit_s: After which it is ended; several times what it takes on two cores.
        has_page: Whether `--write` has it write its page in `results`.
    """

    name: str
    command: tuple[str, ...]
    limit_s: float = 400.0
    has_page: bool = True

    def shown(self) -> str:
        """Return the command as a user types it."""
        return f"benchmarks/{shlex.join(self.command)}"


BENCHMARKS = [
    Benchmark("startup", ("startup.py", "--rounds", "3")),
    Benchmark("loops", ("loops.py", "--rounds", "3")),
    Benchmark("columns", ("columns.py", "--rounds", "2")),
    Benchmark("json_lines", ("json_lines.py", "--rounds", "2"), limit_s=600.0),
    Benchmark("reading", ("reading.py", "--rounds", "2")),
    Benchmark("writing", ("writing.py", "--rounds", "2")),
    Benchmark("rows", ("rows.py", "--rounds", "3", "--only", *ROWS), has_page=False),
    Benchmark(
        "latency",
        ("latency.py", "--only", "local[2]", "--seconds", "10", "--warm", "6", "--rounds", "2"),
        has_page=False,
    ),
    Benchmark("epoch", ("epoch.py", "--no-trace", "--epochs", "100", "--rounds", "2"), has_page=False),
    Benchmark(
        "state_on_disk",
        ("state_on_disk.py", "--only", "count", "--updates", "1000000", "--rounds", "2"),
        has_page=False,
    ),
    Benchmark("flights", ("flights.py", "--times", "10", "--rounds", "2"), limit_s=900.0),
    Benchmark(
        "compare",
        ("compare.py", "--quick", "--rounds", "2", "--only", "chain", "--only", "keyed", "--only", "window"),
        limit_s=900.0,
        has_page=False,
    ),
    Benchmark(
        "flights_pyflink",
        ("compare.py", "--quick", "--rounds", "2", "--only", "flights"),
        limit_s=900.0,
        has_page=False,
    ),
]
