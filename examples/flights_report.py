"""Reads the output of `flights.py` back, checks it and shows it in the terminal; the page is `flights_page.py`'s."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path

import flights_data
import flights_run
import pyarrow.parquet
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

WORST_HOURS = 12
FEWEST_FLIGHTS = 5
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
STEADY = "without the first quarter of the flights, in which epochs grow"
COMPARISON = "a loop written by hand that does the same is measured in benchmarks/results/flights.md"


@dataclass(frozen=True)
class Results:
    """Where one run leaves its output: a directory that was not there before."""

    directory: Path

    @staticmethod
    def make(output: Path) -> Results:
        """Make the directory `run-1`, or that with the next free number; nothing is ever removed."""
        output.mkdir(parents=True, exist_ok=True)
        numbers = [int(name) for path in output.glob("run-*") if (name := path.name[4:]).isdecimal()]
        number = max(numbers, default=0)
        while True:
            number += 1
            directory = output / f"run-{number}"
            try:
                directory.mkdir()
            except FileExistsError:  # another run took it just now
                continue
            return Results(directory)

    def discard_if_empty(self) -> None:
        """Remove the directory if nothing is in it."""
        with suppress(OSError):  # it is not empty
            self.directory.rmdir()

    @property
    def hours(self) -> Path:
        """Parquet files by day: one row for each carrier and hour."""
        return self.directory / "hours"

    @property
    def late(self) -> Path:
        """Parquet files: flights that left after their hour was closed."""
        return self.directory / "late"

    @property
    def cancelled(self) -> Path:
        """CSV files: flights that never left."""
        return self.directory / "cancelled"

    @property
    def page(self) -> Path:
        """The page with the plots."""
        return self.directory / "report.html"

    def summarize(self, expected: int) -> Summary:
        """Read all output back.

        Args:
            expected: How many flights were read.
        """
        summary = Summary(expected)
        for path in _files(self.hours):
            for row in pyarrow.parquet.ParquetFile(path).read().to_pylist():
                summary.add(Hour(**row))
        for path in _files(self.late):
            rows = pyarrow.parquet.ParquetFile(path).read(columns=["scheduled", "delay"]).to_pylist()
            summary.behind.extend(minutes_behind(**row) for row in rows)
        summary.late = len(summary.behind)
        for path in _files(self.cancelled):
            with path.open("rb") as lines:
                summary.cancelled += sum(1 for _ in lines)
        return summary


def minutes_behind(scheduled: datetime, delay: int) -> int:
    """Return how many minutes after the end of its hour a flight left.

    >>> minutes_behind(datetime(2013, 1, 1, 8, 50), 200)
    190
    """
    end = scheduled.replace(minute=0, second=0, microsecond=0) + HOUR
    return (scheduled + delay * MINUTE - end) // MINUTE


@dataclass(frozen=True, slots=True)
class Hour:
    """One carrier in one hour; delays in minutes."""

    carrier: str
    hour: datetime
    flights: int
    total_delay: int
    max_delay: int
    delayed: int

    @property
    def mean_delay(self) -> float:
        """Mean delay in minutes."""
        return self.total_delay / self.flights


@dataclass
class Totals:
    """Sums over hours."""

    flights: int = 0
    total_delay: int = 0
    delayed: int = 0

    def add(self, hour: Hour) -> None:
        """Add an hour."""
        self.flights += hour.flights
        self.total_delay += hour.total_delay
        self.delayed += hour.delayed

    @property
    def mean_delay(self) -> float:
        """Mean delay in minutes."""
        return self.total_delay / self.flights if self.flights else 0.0


@dataclass
class Summary:
    """What the job found.

    Attributes:
        expected: How many flights were read.
        on_time: Flights in windows.
        late: Flights that came behind their window.
        cancelled: Flights that never left.
        behind: How many minutes after the end of its hour each late flight left.
    """

    expected: int
    on_time: int = 0
    late: int = 0
    cancelled: int = 0
    behind: list[int] = field(default_factory=list)
    total: Totals = field(default_factory=Totals)
    by_carrier: dict[str, Totals] = field(default_factory=lambda: defaultdict(Totals))
    by_hour_of_day: dict[int, Totals] = field(default_factory=lambda: defaultdict(Totals))
    by_day: dict[date, Totals] = field(default_factory=lambda: defaultdict(Totals))
    hours: list[Hour] = field(default_factory=list)

    def add(self, hour: Hour) -> None:
        """Add an hour."""
        self.hours.append(hour)
        self.on_time += hour.flights
        self.total.add(hour)
        self.by_carrier[hour.carrier].add(hour)
        self.by_hour_of_day[hour.hour.hour].add(hour)
        self.by_day[hour.hour.date()].add(hour)

    @property
    def counted(self) -> int:
        """All flights that are anywhere in the output."""
        return self.on_time + self.late + self.cancelled

    def worst_hours(self) -> list[Hour]:
        """Return the hours with the largest mean delay, those with very few flights left out."""
        hours = [hour for hour in self.hours if hour.flights >= FEWEST_FLIGHTS]
        return sorted(hours, key=lambda hour: (-hour.mean_delay, hour.carrier, hour.hour))[:WORST_HOURS]


def show(
    results: Results, summary: Summary, runtime_ms: int, *, run: flights_run.Run, whole_year: bool
) -> int:
    """Print the result and write the figures.

    Args:
        results: Where things lie.
        summary: What the job found.
        runtime_ms: How long the job took.
        run: How it ran.
        whole_year: Whether all flights of 2013 were to be read.

    Returns:
        The exit code: 1 if a flight was lost or counted twice.
    """
    totals: dict[str, float | None] = {
        "on_time": summary.on_time,
        "late": summary.late,
        "cancelled": summary.cancelled,
    }
    totals |= {"expected": summary.expected, "runtime_ms": runtime_ms, **asdict(summary.total)}
    totals |= {"epochs": run.epochs, "steady_rate": run.steady_rate()}
    (results.directory / "summary.json").write_text(json.dumps(totals) + "\n", encoding="utf-8")
    console = Console(highlight=False)
    console.print(_worst_table(summary.worst_hours(), flights_data.carrier_names()))
    for name, path in (
        ("carriers by hour", results.hours),
        ("late flights", results.late),
        ("cancelled flights", results.cancelled),
        ("page with plots", results.page),
    ):
        console.print(f"{name:<18} {path.resolve()}", soft_wrap=True, markup=False)
    for line in rate_lines(summary.expected, runtime_ms, run):
        console.print(line, soft_wrap=True, markup=False)
    expected = flights_data.FLIGHTS_IN_2013 if whole_year else summary.expected
    equation = f"on time {summary.on_time:,} + late {summary.late:,} + cancelled {summary.cancelled:,}"
    if summary.counted != expected:
        message = f"{equation} = {summary.counted:,}, but {expected:,} flights were to be counted"
        console.print(f"[bold red]{message}", soft_wrap=True)
        return 1
    message = f"{equation} = {summary.counted:,}: every flight was counted once"
    console.print(f"[bold green]{message}", soft_wrap=True)
    return 0


def rate_lines(flights: int, runtime_ms: int, run: flights_run.Run) -> list[str]:
    """Say how fast the job was: all of it, and once it ran."""
    lines = []
    if runtime_ms > 0:
        rate = flights / runtime_ms * 1000
        lines.append(f"{flights:,} flights in {runtime_ms / 1000:,.1f} s, {rate:,.0f} a second")
    if run.start_s is not None:
        lines.append(f"before that: {run.start_s:,.1f} s to start the job")
    steady = run.steady_rate()
    if steady is not None:
        lines.append(f"once it ran: {steady:,.0f} a second ({STEADY})")
        lines.append(f"to compare: {COMPARISON}")
    return lines


def _worst_table(hours: Sequence[Hour], names: dict[str, str]) -> Table:
    table = Table(title="The worst hours", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("carrier", no_wrap=True)
    table.add_column("hour", no_wrap=True)
    for title in ("flights", "mean delay", "longest"):
        table.add_column(title, justify="right", no_wrap=True)
    for hour in hours:
        table.add_row(
            Text(names.get(hour.carrier, hour.carrier)),
            f"{hour.hour:%a %d %b, %H:00}",
            str(hour.flights),
            f"{hour.mean_delay:,.0f} min",
            f"{hour.max_delay:,} min",
        )
    return table


def _files(directory: Path) -> Iterator[Path]:
    """Yield finished files: names that begin with a dot or an underscore are hidden."""
    paths = sorted(directory.rglob("*")) if directory.is_dir() else []
    return (path for path in paths if path.is_file() and not path.name.startswith((".", "_")))
