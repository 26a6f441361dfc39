"""The page about a run of `flights.py`: how its stream ran, and what it found. HTML that loads nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape
from statistics import median

import flights_charts as charts
from flights_report import FEWEST_FLIGHTS, STEADY, Summary, Totals
from flights_run import Run, Span

HOUR_MS = 3_600_000
MOST_BINS = 10
HEAT = charts.Scale((0, 5, 10, 20, 40), "min")

STYLE = """
:root { color-scheme: light dark; --back: #fbfaf8; --card: #fff; --ink: #1d2530; --soft: #5a6675;
  --line: #e5e3de; --zero: #8a94a1; --bar: #2f6fb3; --mark: #b3440e; --s0: #f2f1ec; --s1: #d5e3ee;
  --s2: #a3c4dd; --s3: #6499c2; --s4: #2a6a9f; --s5: #0b3a63; }
@media (prefers-color-scheme: dark) { :root { --back: #12161c; --card: #1b2129; --ink: #e8ecf1;
  --soft: #a3afbd; --line: #2c3540; --zero: #6f7b89; --bar: #6aa9ea; --mark: #ffb37c; --s0: #222a33; --s1: #28425a;
  --s2: #33628a; --s3: #4a8abf; --s4: #7fb8e6; --s5: #d3ebff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 61.5rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .3rem; letter-spacing: -.02em; }
h2 { font-size: 1.3rem; margin: 2.4rem 0 0; letter-spacing: -.01em; }
h3 { font-size: 1.05rem; margin: 0 0 .2rem; }
p { margin: 0; color: var(--soft); max-width: 46rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .8rem; margin: 1.4rem 0 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 1.1rem 1.25rem; }
.tile { padding: 1.1rem 1rem; }
.tile b { display: block; font-size: 1.3rem; font-variant-numeric: tabular-nums; letter-spacing: -.02em; }
.tile span { display: block; line-height: 1.3; } .tile small { color: var(--soft); }
section.card { margin-top: .8rem; }
svg { display: block; width: 100%; height: auto; margin-top: .9rem; overflow: visible; }
svg text { fill: var(--soft); font: 12px system-ui, sans-serif; font-variant-numeric: tabular-nums; }
svg text.name { fill: var(--ink); }
svg .bar { fill: var(--bar); } svg .bar:hover, svg .cell:hover { opacity: .7; }
svg .grid { stroke: var(--line); } svg .zero { stroke: var(--zero); }
svg .level { stroke: var(--mark); stroke-width: 2; stroke-dasharray: 7 5; }
svg .event { stroke: var(--bar); stroke-width: 2; fill: none; }
svg .watermark { stroke: var(--mark); stroke-width: 2; fill: none; stroke-dasharray: 7 5; }
svg .absent { fill: none; stroke: var(--line); } svg .cell { stroke: var(--line); stroke-width: .5; }
.s0 { fill: var(--s0); } .s1 { fill: var(--s1); } .s2 { fill: var(--s2); }
.s3 { fill: var(--s3); } .s4 { fill: var(--s4); } .s5 { fill: var(--s5); }
.narrow { display: none; max-width: 26rem; margin: 0 auto; }
details { margin-top: .9rem; } summary { cursor: pointer; color: var(--soft); }
summary:focus-visible, .rows:focus-visible { outline: 2px solid var(--bar); outline-offset: 3px; }
.rows { overflow: auto; max-height: 26rem; }
.whole .rows { max-height: none; }
table { width: 100%; border-collapse: collapse; margin-top: .6rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .35rem .5rem; border-top: 1px solid var(--line); }
th { font-weight: 400; text-align: left; } thead th { color: var(--soft); border: 0; text-align: right; }
thead th:first-child { text-align: left; }
@media (max-width: 40rem) {
  main { padding: 1.4rem .75rem 3rem; } h1 { font-size: 1.5rem; } .card { padding: .85rem .9rem; }
  .wide { display: none; } .narrow { display: block; }
  .tiles { grid-template-columns: 1fr 1fr; gap: .6rem; } .tile { padding: .85rem .9rem; }
  table { font-size: .8rem; } th, td { padding: .3rem .2rem; }
}
"""


def render_page(summary: Summary, run: Run, names: dict[str, str], *, bound_h: float) -> str:
    """Return the page.

    Args:
        summary: What the job found.
        run: How it ran.
        names: The carriers' names by code.
        bound_h: So many hours may a flight come out of order.
    """
    return "\n".join(
        (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Flights that left New York in 2013</title><style>{STYLE}</style></head><body><main>",
            "<h1>Flights that left New York in 2013</h1>",
            "<p>Read in the order in which they left, counted in the hour in which they should have.</p>",
            _tiles(summary, run),
            "<h2>The stream</h2>",
            *_stream(summary, run, bound_h),
            "<h2>The flights</h2>",
            *_flights(summary, names),
            "</main></body></html>\n",
        )
    )


def _tiles(summary: Summary, run: Run) -> str:
    steady = run.steady_rate()
    tiles = [
        (f"{summary.counted:,}", "flights", ""),
        (f"{summary.on_time:,}", "counted in their hour", _share(summary.on_time, summary.counted)),
        (f"{summary.late:,}", "came behind their window", _share(summary.late, summary.counted)),
        (f"{summary.cancelled:,}", "cancelled", _share(summary.cancelled, summary.counted)),
        (f"{summary.total.mean_delay:.1f} min", "mean delay", "of those in their hour"),
    ]
    if steady is not None:
        tiles.append((f"{steady:,.0f}", "flights a second", "once it ran"))
    shown = "".join(
        f'<div class="card tile"><b>{escape(value)}</b><span>{escape(name)}</span><small>{escape(more)}</small></div>'
        for value, name, more in tiles
    )
    return f'<div class="tiles">{shown}</div>'


def _section(title: str, note: str, *body: str, kind: str = "card") -> str:
    return f'<section class="{kind}"><h3>{escape(title)}</h3><p>{escape(note)}</p>{"".join(body)}</section>'


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else ""


# ---- the stream ----


def _stream(summary: Summary, run: Run, bound_h: float) -> Iterator[str]:
    if run.spans:
        yield from _event_time(run, bound_h)
        yield _throughput(run)
    else:
        yield _section("Epochs", "The job told of no epoch: it was not run here.")
    yield _lateness(summary, bound_h)


def _event_time(run: Run, bound_h: float) -> Iterator[str]:
    """Draw event time and watermark over processing time, and what is between the two."""
    event = [
        (span.end_s, _moment(span.event_time_ms)) for span in run.spans if span.event_time_ms is not None
    ]
    marks = [(span.end_s, _moment(span.watermark_ms)) for span in run.spans if span.watermark_ms is not None]
    if not event:
        yield _section("Event time", "No record had a timestamp.")
        return
    seconds = event[-1][0] - event[0][0]
    days = (event[-1][1] - event[0][1]).total_seconds() / 86_400
    note = f"From {event[0][1]:%d %b %Y, %H:%M} to {event[-1][1]:%d %b %Y, %H:%M}, one point for each epoch."
    if seconds > 0:
        note += f" In a second of processing time {days / seconds:,.1f} days of event time went by."
    curves = [charts.Curve("latest departure read", "event", event)]
    if marks:
        curves.append(charts.Curve("watermark", "watermark", marks))
    yield _section(
        "Event time and watermark over processing time",
        note,
        charts.figure(
            "event-time",
            "Event time and watermark over processing time",
            note,
            charts.event_times(curves, run.spans[-1].end_s),
        ),
        charts.figures_table(
            ("epoch", "ended after, s", "flights read", "a second", "latest departure", "watermark"),
            (_span_row(span) for span in run.spans),
        ),
    )
    trails = [(span, span.trail_ms / HOUR_MS) for span in run.spans if span.trail_ms is not None]
    if trails:
        yield _trail(trails, bound_h)


def _trail(trails: list[tuple[Span, float]], bound_h: float) -> str:
    hours = [trail for _, trail in trails]
    least, most = min(hours), max(hours)
    trailed = f"{least:.1f} hours" if f"{least:.1f}" == f"{most:.1f}" else f"{least:.1f} to {most:.1f} hours"
    note = (
        f"{trailed} of event time were between the two at the end of each epoch. The job lets a flight come "
        f"{bound_h:g} hours out of order; what is above that was still on its way through the job."
    )
    title = "How far the watermark trailed the latest departure"
    stretches = [
        charts.Step(span.begin_s, span.end_s, trail, f"{_epochs(span)}: {trail:.1f} hours")
        for span, trail in trails
    ]
    return _section(
        title, note, charts.figure("trail", title, note, charts.steps(stretches, "hours", height=150))
    )


def _throughput(run: Run) -> str:
    title = "Throughput by epoch"
    note = f"{run.records:,} flights in {run.epochs:,} epochs and {run.spans[-1].end_s:,.1f} s"
    note += f", after {run.start_s:,.1f} s to start." if run.start_s is not None else "."
    note += (
        " A bar is as wide as its epoch was long, so its area is the number of flights that it read; "
        "an epoch without a bar did what earlier ones had read."
    )
    if run.restarts:
        note += f" The job began anew {run.restarts} times after failures; this is its last attempt."
    steady, level = run.steady_rate(), None
    if steady is not None:
        note += f" Once it ran: {steady:,.0f} a second ({STEADY})."
        level = (run.steady()[0].begin_s, steady, f"once it ran: {steady:,.0f}")
    stretches = [
        charts.Step(
            span.begin_s,
            span.end_s,
            span.records_per_second,
            f"{_epochs(span)}: {span.records:,} flights in {span.end_s - span.begin_s:.2f} s, "
            f"{span.records_per_second:,.0f} a second",
        )
        for span in run.spans
    ]
    draw = charts.steps(stretches, "flights a second", level=level)
    return _section(title, note, charts.figure("throughput", title, note, draw))


def _lateness(summary: Summary, bound_h: float) -> str:
    title = "How late the late ones were"
    left = summary.on_time + summary.late
    share = _share(summary.late, left) or "none"
    note = (
        f"{summary.late:,} of {left:,} flights that left ({share}) came behind their window. "
        f"An hour is closed when a flight has left that should have left {bound_h:g} hours after its end or later."
    )
    if not summary.behind:
        return _section(title, note)
    hours = sorted(minutes / 60 for minutes in summary.behind)
    ninth = hours[-(-len(hours) * 9 // 10) - 1]
    note += (
        f" Half of them left within {median(hours):.1f} hours of the end of their hour, nine of ten within "
        f"{ninth:.1f}, the last {hours[-1]:.1f} hours after it."
    )
    bins = _bins(summary.behind)
    items = [
        charts.Column(
            name, count, f"{count:,} flights left {about} after the end of their hour", f"{count:,}"
        )
        for name, about, count in bins
    ]
    return _section(
        title,
        note,
        charts.figure(
            "lateness",
            title,
            note,
            charts.columns(items, "flights", "hours from the end of the hour to departure"),
        ),
        charts.figures_table(
            ("left after the end of its hour", "flights"), ((about, f"{n:,}") for _, about, n in bins)
        ),
    )


def _bins(minutes: list[int]) -> list[tuple[str, str, int]]:
    """Count by full hours: (short name, long name, count); what is beyond the last bin is in it."""
    counts = Counter(each // 60 for each in minutes)
    first, last = min(counts), max(counts)
    shown = range(first, min(last, first + MOST_BINS - 1) + 1)
    bins = [(str(hour), f"{hour} to {hour + 1} hours", counts[hour]) for hour in shown]
    if last > shown[-1]:
        rest = sum(count for hour, count in counts.items() if hour >= shown[-1])
        bins[-1] = (f"{shown[-1]}+", f"{shown[-1]} hours or more", rest)
    return bins


def _span_row(span: Span) -> tuple[str, ...]:
    return (
        _epochs(span).removeprefix("epoch ").removeprefix("epochs "),
        f"{span.end_s:,.2f}",
        f"{span.total:,}",
        f"{span.records_per_second:,.0f}",
        *(
            "-" if each is None else f"{_moment(each):%d %b %H:%M}"
            for each in (span.event_time_ms, span.watermark_ms)
        ),
    )


def _epochs(span: Span) -> str:
    return f"epoch {span.first}" if span.first == span.last else f"epochs {span.first} to {span.last}"


def _moment(timestamp_ms: int) -> datetime:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).replace(tzinfo=None)


# ---- the flights ----


def _flights(summary: Summary, names: dict[str, str]) -> Iterator[str]:
    if not summary.hours:
        yield _section("Delays", "No flight was counted in its hour.")
        return
    yield _by_hour(summary)
    yield _by_carrier(summary, names)
    yield _by_day(summary)
    rows = (
        (
            names.get(hour.carrier, hour.carrier),
            f"{hour.hour:%a\u00a0%d\u00a0%b, %H:00}",
            f"{hour.delayed:,} of {hour.flights:,}",
            f"{hour.mean_delay:,.0f}",
            f"{hour.max_delay:,}",
        )
        for hour in summary.worst_hours()
    )
    head = ("carrier", "hour", "delayed", "mean, min", "longest, min")
    yield _section(
        "The worst hours",
        f"Carriers with {FEWEST_FLIGHTS} flights or more; delayed: by more than a quarter of an hour.",
        charts.table(head, rows),
        kind="card whole",
    )


def _by_hour(summary: Summary) -> str:
    title, note = (
        "Mean delay by scheduled hour",
        "Minutes; flights that came behind their window are left out.",
    )
    items = []
    for hour in range(min(summary.by_hour_of_day), max(summary.by_hour_of_day) + 1):
        totals = summary.by_hour_of_day.get(hour, Totals())
        tip = f"{hour:02d}:00, {totals.flights:,} flights, mean delay {totals.mean_delay:.1f} min"
        items.append(charts.Column(f"{hour:02d}", totals.mean_delay, tip))
    rows = (
        (f"{hour:02d}:00", f"{totals.flights:,}", f"{totals.mean_delay:.1f}")
        for hour, totals in sorted(summary.by_hour_of_day.items())
    )
    return _section(
        title,
        note,
        charts.figure(
            "hours", title, note, charts.columns(items, "minutes", "scheduled hour of the day", sparse=3)
        ),
        charts.figures_table(("hour", "flights", "mean delay, min"), rows),
    )


def _by_carrier(summary: Summary, names: dict[str, str]) -> str:
    title, note = "Mean delay by carrier", "Minutes, and the number of flights."
    carriers = sorted(summary.by_carrier.items(), key=lambda item: (-item[1].mean_delay, item[0]))
    shares = {carrier: f"{totals.delayed / totals.flights:.0%}" for carrier, totals in carriers}
    items = [
        charts.Column(
            names.get(carrier, carrier),
            totals.mean_delay,
            f"{shares[carrier]} of {totals.flights:,} flights left more than a quarter of an hour late",
            f"{totals.mean_delay:.1f} min, {totals.flights:,} flights",
        )
        for carrier, totals in carriers
    ]
    rows = (
        (names.get(carrier, carrier), f"{totals.flights:,}", f"{totals.mean_delay:.1f}", shares[carrier])
        for carrier, totals in carriers
    )
    return _section(
        title,
        note,
        charts.figure("carriers", title, note, charts.bars(items)),
        charts.figures_table(("carrier", "flights", "mean delay, min", "over 15 min late"), rows),
    )


def _by_day(summary: Summary) -> str:
    title, note = "Mean delay by day", "Minutes, in steps of colour."
    days = {
        day: (
            totals.mean_delay,
            f"{day:%a %d %b %Y}, {totals.flights:,} flights, mean delay {totals.mean_delay:.1f} min",
        )
        for day, totals in summary.by_day.items()
    }
    rows = (
        (f"{day:%a %d %b %Y}", f"{totals.flights:,}", f"{totals.mean_delay:.1f}")
        for day, totals in sorted(summary.by_day.items())
    )
    return _section(
        title,
        note,
        charts.figure("days", title, note, charts.calendar(days, HEAT)),
        charts.figures_table(("day", "flights", "mean delay, min"), rows),
    )
