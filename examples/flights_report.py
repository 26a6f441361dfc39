"""Reads the output of `flights.py` back, checks it and shows it: in the terminal and as a page."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timedelta
from html import escape
from pathlib import Path

import flights_data
import pyarrow.parquet
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

WORST_HOURS = 12
FEWEST_FLIGHTS = 5


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
        summary.late = sum(pyarrow.parquet.ParquetFile(path).metadata.num_rows for path in _files(self.late))
        for path in _files(self.cancelled):
            with path.open("rb") as lines:
                summary.cancelled += sum(1 for _ in lines)
        return summary


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
    """What the job found."""

    expected: int
    on_time: int = 0
    late: int = 0
    cancelled: int = 0
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


def show(results: Results, summary: Summary, runtime_ms: int, *, whole_year: bool) -> int:
    """Print the result and write the page.

    Args:
        results: Where things lie.
        summary: What the job found.
        runtime_ms: How long the job took.
        whole_year: Whether all flights of 2013 were to be read.

    Returns:
        The exit code: 1 if a flight was lost or counted twice.
    """
    names = flights_data.carrier_names()
    results.page.write_text(render_page(summary, names), encoding="utf-8")
    totals = {"on_time": summary.on_time, "late": summary.late, "cancelled": summary.cancelled}
    totals |= {"expected": summary.expected, "runtime_ms": runtime_ms, **asdict(summary.total)}
    (results.directory / "summary.json").write_text(
        json.dumps(totals) + "\n",
        encoding="utf-8",
    )
    console = Console(highlight=False)
    console.print(_worst_table(summary.worst_hours(), names))
    for name, path in (
        ("carriers by hour", results.hours),
        ("late flights", results.late),
        ("cancelled flights", results.cancelled),
        ("page with plots", results.page),
    ):
        console.print(f"{name:<18} {path.resolve()}", soft_wrap=True, markup=False)
    if runtime_ms > 0:
        rate = summary.expected / runtime_ms * 1000
        console.print(f"{summary.expected:,} flights in {runtime_ms / 1000:,.1f} s, {rate:,.0f} a second")
    expected = flights_data.FLIGHTS_IN_2013 if whole_year else summary.expected
    equation = f"on time {summary.on_time:,} + late {summary.late:,} + cancelled {summary.cancelled:,}"
    if summary.counted != expected:
        message = f"{equation} = {summary.counted:,}, but {expected:,} flights were to be counted"
        console.print(f"[bold red]{message}", soft_wrap=True)
        return 1
    message = f"{equation} = {summary.counted:,}: every flight was counted once"
    console.print(f"[bold green]{message}", soft_wrap=True)
    return 0


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


# ---- the page ----

STYLE = """
:root { color-scheme: light dark; --back: #fbfaf8; --card: #fff; --ink: #1d2530; --soft: #667282;
  --line: #e5e3de; --bar: #2f6fb3; --none: #efede8; --heat: 14 90 150; }
@media (prefers-color-scheme: dark) { :root { --back: #12161c; --card: #1b2129; --ink: #e8ecf1;
  --soft: #93a0b0; --line: #2c3540; --bar: #6aa9ea; --none: #232b35; --heat: 120 190 250; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .3rem; letter-spacing: -.02em; }
h2 { font-size: 1.05rem; margin: 0 0 .2rem; }
p { margin: 0; color: var(--soft); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .8rem;
  margin: 1.6rem 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 1.1rem 1.25rem; }
.tile b { display: block; font-size: 1.55rem; font-variant-numeric: tabular-nums; letter-spacing: -.02em; }
section.card { margin-top: .8rem; overflow-x: auto; }
svg { display: block; width: 100%; min-width: 38rem; height: auto; margin-top: .8rem; }
svg text { fill: var(--soft); font: 12px system-ui, sans-serif; font-variant-numeric: tabular-nums; }
svg text.name { fill: var(--ink); }
svg .bar { fill: var(--bar); } svg .bar:hover, svg .cell:hover { opacity: .7; }
svg .grid { stroke: var(--line); } svg .none { fill: var(--none); } svg .cell { fill: rgb(var(--heat)); }
table { width: 100%; border-collapse: collapse; margin-top: .6rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .35rem .5rem; border-top: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 500; border: 0; }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left; }
"""


def render_page(summary: Summary, names: dict[str, str]) -> str:
    """Return the page: HTML with its drawings inside, nothing to be loaded."""
    tiles = (
        ("flights", f"{summary.counted:,}"),
        ("counted in their hour", f"{summary.on_time:,}"),
        ("left too late for it", f"{summary.late:,}"),
        ("cancelled", f"{summary.cancelled:,}"),
        ("mean delay", f"{summary.total.mean_delay:.1f} min"),
    )
    sections = (
        (
            "Mean delay by scheduled hour",
            "Minutes; flights that came too late for their hour are left out.",
            _hours_of_day(summary),
        ),
        ("Mean delay by carrier", "Minutes, and the number of flights.", _carriers(summary, names)),
        (
            "Mean delay by day",
            "The stronger the colour, the longer.",
            _calendar(summary),
        ),
        ("The worst hours", f"Carriers with {FEWEST_FLIGHTS} flights or more.", _worst_html(summary, names)),
    )
    return "\n".join(
        (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Flights that left New York in 2013</title><style>{STYLE}</style></head><body><main>",
            "<h1>Flights that left New York in 2013</h1>",
            "<p>Read in the order in which they left, counted in the hour in which they should have.</p>",
            '<div class="tiles">',
            *(f'<div class="card tile"><b>{escape(value)}</b>{escape(name)}</div>' for name, value in tiles),
            "</div>",
            *(
                f'<section class="card"><h2>{escape(title)}</h2><p>{escape(note)}</p>{body}</section>'
                for title, note, body in sections
            ),
            "</main></body></html>\n",
        )
    )


def _svg(width: int, height: int, label: str, parts: Iterable[str]) -> str:
    body = "".join(parts)
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">{body}</svg>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "") -> str:
    name = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{name}>{escape(text)}</text>'


def _rectangle(box: tuple[float, float, float, float], kind: str, tip: str, extra: str = "") -> str:
    x, y, width, height = box
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3"'
        f"{extra}><title>{escape(tip)}</title></rect>"
    )


def _hours_of_day(summary: Summary) -> str:
    width, height, left, bottom = 900, 260, 36, 24
    largest = max((totals.mean_delay for totals in summary.by_hour_of_day.values()), default=0.0)
    top_value = max(5.0, -(-largest // 5) * 5)
    base = height - bottom
    scale = (base - 20) / top_value
    step = (width - left) / 24
    parts = []
    for value in range(0, int(top_value) + 1, 5):
        y = base - value * scale
        parts.append(f'<line class="grid" x1="{left}" x2="{width}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(left - 8, y + 4, str(value), anchor="end"))
    for hour in range(24):
        x = left + hour * step
        parts.append(_text(x + step / 2, height - 6, f"{hour:02d}", anchor="middle"))
        totals = summary.by_hour_of_day.get(hour)
        if totals is not None:
            tall = max(totals.mean_delay, 0) * scale
            tip = f"{hour:02d}:00, {totals.flights:,} flights, mean delay {totals.mean_delay:.1f} min"
            parts.append(_rectangle((x + 3, base - tall, step - 6, tall), "bar", tip))
    return _svg(width, height, "Mean delay in minutes by scheduled hour of the day", parts)


def _carriers(summary: Summary, names: dict[str, str]) -> str:
    carriers = sorted(summary.by_carrier.items(), key=lambda item: (-item[1].mean_delay, item[0]))
    width, left, right, step = 900, 210, 170, 26
    largest = max((totals.mean_delay for _, totals in carriers), default=0.0) or 1.0
    parts = []
    for index, (carrier, totals) in enumerate(carriers):
        y = index * step
        long = max(totals.mean_delay, 0) / largest * (width - left - right)
        share = totals.delayed / totals.flights
        tip = f"{share:.0%} of {totals.flights:,} flights left more than a quarter of an hour late"
        parts.append(_text(left - 10, y + 17, names.get(carrier, carrier), anchor="end", kind="name"))
        parts.append(_rectangle((left, y + 4, long, step - 8), "bar", tip))
        parts.append(_text(left + long + 8, y + 17, f"{totals.mean_delay:.1f}  ({totals.flights:,} flights)"))
    return _svg(width, max(len(carriers), 1) * step, "Mean delay in minutes by carrier", parts)


def _calendar(summary: Summary) -> str:
    """Draw a column for each week and a row for each day of the week."""
    if not summary.by_day:
        return "<p>No flights.</p>"
    first, last = min(summary.by_day), max(summary.by_day)
    start = first - timedelta(days=first.weekday())
    weeks = (last - start).days // 7 + 1
    left, top, width = 36, 20, 900
    step = min((width - left) / weeks, 30.0)
    largest = max(totals.mean_delay for totals in summary.by_day.values()) or 1.0
    parts = [
        _text(left - 8, top + row * step + step * 0.7, name, anchor="end")
        for row, name in ((0, "Mon"), (2, "Wed"), (4, "Fri"), (6, "Sun"))
    ]
    day = first
    while day <= last:
        week, row = divmod((day - start).days, 7)
        totals = summary.by_day.get(day, Totals())
        box = (left + week * step + 1, top + row * step + 1, step - 2, step - 2)
        tip = f"{day:%a %d %b %Y}, {totals.flights:,} flights, mean delay {totals.mean_delay:.1f} min"
        opacity = 0.06 + 0.94 * max(totals.mean_delay, 0) / largest
        parts.append(_rectangle(box, "cell", tip, f' style="fill-opacity:{opacity:.2f}"'))
        if day.day == 1 or day == first:
            parts.append(_text(left + week * step, 13, f"{day:%b}"))
        day += timedelta(days=1)
    return _svg(width, round(top + 7 * step + 4), "Mean delay by day", parts)


def _worst_html(summary: Summary, names: dict[str, str]) -> str:
    titles = ("carrier", "hour", "flights", "delayed", "mean delay", "longest")
    rows = (
        (
            names.get(hour.carrier, hour.carrier),
            f"{hour.hour:%a %d %b, %H:00}",
            f"{hour.flights:,}",
            f"{hour.delayed:,}",
            f"{hour.mean_delay:,.0f} min",
            f"{hour.max_delay:,} min",
        )
        for hour in summary.worst_hours()
    )
    head = "".join(f"<th>{title}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
