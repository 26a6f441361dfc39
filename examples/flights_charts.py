"""Charts as SVG: drawn for a width, titled, described, and legible without colour.

A chart is a function of its width. A page shows one of two drawings of it (`figure`): a phone gets text of the
same size and fewer labels, not the same picture made smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from html import escape

WIDE, NARROW = 900, 334
EPOCH = datetime(1970, 1, 1)
LETTER = 6.6  # width of a letter at the size of the labels, at most

Row = Sequence[str]
Point = tuple[float, float]


@dataclass
class Drawing:
    """What is drawn; the origin is at the top left."""

    width: float
    height: float
    parts: list[str] = field(default_factory=list)

    @property
    def is_narrow(self) -> bool:
        """Whether it is for a phone."""
        return self.width < 600

    def text(self, at: Point, text: str, *, anchor: str = "start", kind: str = "") -> None:
        """Write a line of text; `at` is on its base line."""
        name = f' class="{kind}"' if kind else ""
        self.parts.append(
            f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" text-anchor="{anchor}"{name}>{escape(text)}</text>'
        )

    def line(self, start: Point, end: Point, kind: str = "grid") -> None:
        """Draw a straight line."""
        (x1, y1), (x2, y2) = start, end
        self.parts.append(f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')

    def curve(self, points: Iterable[Point], kind: str) -> None:
        """Draw a line from point to point."""
        where = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline class="{kind}" points="{where}"/>')

    def rectangle(self, start: Point, end: Point, kind: str, tip: str = "") -> None:
        """Draw a rectangle between two corners; `tip` is shown where the pointer rests."""
        (x1, x2), (y1, y2) = sorted((start[0], end[0])), sorted((start[1], end[1]))
        title = f"<title>{escape(tip)}</title>" if tip else ""
        self.parts.append(
            f'<rect class="{kind}" x="{x1:.1f}" y="{y1:.1f}" width="{x2 - x1:.1f}" height="{y2 - y1:.1f}" '
            f'rx="{min(2.0, (x2 - x1) / 4):.1f}">{title}</rect>'
        )

    def render(self, name: str, title: str, description: str) -> str:
        """Return the element; `name` must be its own on the page."""
        return (
            f'<svg viewBox="0 0 {self.width:g} {self.height:g}" role="img" aria-labelledby="{name}-t {name}-d">'
            f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(description)}</desc>'
            f"{''.join(self.parts)}</svg>"
        )


@dataclass(frozen=True, slots=True)
class Axis:
    """Values from `low` to `high` on pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return where a value is."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def figure(name: str, title: str, description: str, draw: Callable[[float], Drawing]) -> str:
    """Return a chart for a page: drawn for a desk and for a phone, of which the page's style shows one."""
    return "".join(
        f'<div class="{kind}">{draw(width).render(f"{name}-{kind}", title, description)}</div>'
        for kind, width in (("wide", WIDE), ("narrow", NARROW))
    )


def figures_table(head: Row, rows: Iterable[Row]) -> str:
    """Return what a chart shows as a table, folded: for screen readers, and where no pointer can rest."""
    return f"<details><summary>The figures</summary>{table(head, rows)}</details>"


def table(head: Row, rows: Iterable[Row]) -> str:
    """Return a table; its first column names the rows."""
    titles = "".join(f'<th scope="col">{escape(title)}</th>' for title in head)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    return f'<div class="rows" tabindex="0"><table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>'


# ---- axes ----


def ticks(low: float, high: float, count: int) -> list[float]:
    """Return about `count` round numbers that reach from `low` or below it to `high` or beyond it.

    >>> ticks(0, 24.2, 5)
    [0.0, 5.0, 10.0, 15.0, 20.0, 25.0]
    >>> ticks(-3, 7, 4)
    [-5.0, 0.0, 5.0, 10.0]
    """
    step = _round_up((high - low) / count) if high > low else 1.0
    first, last = math.floor(low / step), math.ceil(high / step)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def time_ticks(low: datetime, high: datetime, count: int) -> list[tuple[datetime, str]]:
    """Return at most `count` + 1 round instants between two, with what is written there."""
    months = (high.year - low.year) * 12 + high.month - low.month
    if months >= 3:
        step = next(
            (step for step in (1, 2, 3, 6, 12) if months // step <= count), 12 * -(-months // (12 * count))
        )
        numbers = range(-(-(low.year * 12 + low.month - 1) // step) * step, high.year * 12 + high.month, step)
        instants = [datetime(number // 12, number % 12 + 1, 1) for number in numbers]
        name = "%b" if low.year == high.year else "%b %y"
        return [(each, f"{each:{name}}") for each in instants if low <= each <= high]
    hours = (high - low) / timedelta(hours=1)
    every = next((step for step in (1, 3, 6, 12, 24, 48, 168, 336) if hours / step <= count), 720)
    first = math.ceil((low - EPOCH) / timedelta(hours=every))
    last = math.floor((high - EPOCH) / timedelta(hours=every))
    name = "%d %b" if every >= 24 else "%d %b %H:00"
    instants = [EPOCH + number * timedelta(hours=every) for number in range(first, last + 1)]
    return [(each, f"{each:{name}}") for each in instants]


def _round_up(value: float) -> float:
    """Return the next of 1, 2, 5, 10, 20, 50, ..."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value * (1 - 1e-9))


def _fit(text: str, width: float) -> str:
    most = max(int(width / LETTER), 1)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _label(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:,.2g}"


def _value_axis(
    drawing: Drawing, low: float, high: float, unit: str, *, top: float, bottom: float
) -> tuple[Axis, float]:
    """Draw lines across at round values with their numbers; returns the axis and where the space for it ends."""
    marks = [mark for mark in ticks(low, high, 4) if mark >= low]
    left = max(len(_label(mark)) for mark in marks) * LETTER + 8
    axis = Axis(low, marks[-1], bottom, top)
    for mark in marks:
        y = axis(mark)
        drawing.line((left, y), (drawing.width, y), "zero" if mark == 0 else "grid")
        drawing.text((left - 6, y + 4), _label(mark), anchor="end")
    drawing.text((0, 11), unit)
    return axis, left


def _seconds_axis(drawing: Drawing, end_s: float, left: float, bottom: float) -> Axis:
    """Write processing time below a chart."""
    axis = Axis(0.0, end_s or 1.0, left, drawing.width - 4)
    for mark in ticks(0, end_s, 4 if drawing.is_narrow else 9):
        if mark <= end_s:
            drawing.text((axis(mark), bottom + 16), _label(mark), anchor="middle")
    drawing.text((drawing.width, bottom + 32), "seconds since the first epoch began", anchor="end")
    return axis


# ---- charts ----


@dataclass(frozen=True, slots=True)
class Column:
    """A bar of a chart.

    Attributes:
        name: Written below it, or before it.
        value: Its length.
        tip: What is shown where the pointer rests.
        label: Written at its end.
    """

    name: str
    value: float
    tip: str
    label: str = ""


def columns(items: Sequence[Column], unit: str, base: str, *, sparse: int = 1) -> Callable[[float], Drawing]:
    """Return a chart of upright bars.

    Args:
        items: From left to right.
        unit: What is counted.
        base: What the names below are.
        sparse: On a phone only every so manieth name is written.
    """

    def draw(width: float) -> Drawing:
        drawing = Drawing(width, 236 if width < 600 else 280)
        values = [bar.value for bar in items]
        bottom = drawing.height - 38
        axis, left = _value_axis(
            drawing, min([0.0, *values]), max([0.0, *values]), unit, top=32, bottom=bottom
        )
        step = (width - left) / max(len(items), 1)
        gap = min(3.0, step / 8)
        for number, bar in enumerate(items):
            x = left + number * step
            if not drawing.is_narrow or number % sparse == 0:
                drawing.text((x + step / 2, bottom + 16), bar.name, anchor="middle")
            y = axis(bar.value)
            drawing.rectangle((x + gap, axis(0)), (x + step - gap, y), "bar", bar.tip)
            if bar.label:
                drawing.text((x + step / 2, min(y, axis(0)) - 4), bar.label, anchor="middle", kind="name")
        drawing.text((width, bottom + 33), base, anchor="end")
        return drawing

    return draw


def bars(rows: Sequence[Column]) -> Callable[[float], Drawing]:
    """Return a chart of lying bars with their names before them and their labels behind; on a phone above them."""

    def draw(width: float) -> Drawing:
        narrow = width < 600
        step = 38 if narrow else 27
        drawing = Drawing(width, max(len(rows), 1) * step)
        low = min([0.0, *(row.value for row in rows)])
        high = max([0.0, *(row.value for row in rows)])
        left = 0 if narrow else 220
        right = 0 if narrow else max((len(row.label) for row in rows), default=0) * LETTER + 12
        axis = Axis(low, high if high > low else low + 1, left, width - right)
        for number, row in enumerate(rows):
            y = number * step
            if narrow:
                drawing.text((0, y + 13), _fit(row.name, width - len(row.label) * LETTER), kind="name")
                drawing.text((width, y + 13), row.label, anchor="end")
                drawing.rectangle((axis(0), y + 19), (axis(row.value), y + 30), "bar", row.tip)
            else:
                drawing.text((left - 10, y + 18), _fit(row.name, left - 10), anchor="end", kind="name")
                drawing.rectangle((axis(0), y + 5), (axis(row.value), y + step - 5), "bar", row.tip)
                drawing.text((axis(max(row.value, 0)) + 8, y + 18), row.label)
        return drawing

    return draw


@dataclass(frozen=True, slots=True)
class Step:
    """A value that holds for a stretch of processing time."""

    begin_s: float
    end_s: float
    value: float
    tip: str


def steps(
    stretches: Sequence[Step], unit: str, *, height: int = 240, level: tuple[float, float, str] | None = None
) -> Callable[[float], Drawing]:
    """Return a chart over processing time, in which a bar is as wide as its stretch.

    Args:
        stretches: In order.
        unit: What the values are.
        height: Of the drawing.
        level: Since when a dashed line is drawn, at which value, and what is written at it.
    """

    def draw(width: float) -> Drawing:
        drawing = Drawing(width, height)
        bottom = height - 38
        high = max((stretch.value for stretch in stretches), default=0.0)
        axis, left = _value_axis(drawing, 0.0, high or 1.0, unit, top=32, bottom=bottom)
        seconds = _seconds_axis(drawing, stretches[-1].end_s, left, bottom)
        for stretch in stretches:
            gap = min(0.5, (seconds(stretch.end_s) - seconds(stretch.begin_s)) / 8)
            start = (seconds(stretch.begin_s) + gap, bottom)
            end = (seconds(stretch.end_s) - gap, axis(stretch.value))
            drawing.rectangle(start, end, "bar", stretch.tip)
        if level is not None:
            since_s, value, text = level
            drawing.line((seconds(since_s), axis(value)), (width, axis(value)), "level")
            drawing.text((width, 11), text, anchor="end", kind="name")
        return drawing

    return draw


@dataclass(frozen=True, slots=True)
class Curve:
    """Instants of event time over processing time.

    Attributes:
        name: Stands in the legend.
        kind: How it is drawn, a class of the page's style.
        points: Seconds and instants, in order.
    """

    name: str
    kind: str
    points: Sequence[tuple[float, datetime]]


def event_times(curves: Sequence[Curve], end_s: float) -> Callable[[float], Drawing]:
    """Return a chart of event time over processing time; every curve has a point or more."""

    def draw(width: float) -> Drawing:
        drawing = Drawing(width, 270 if width < 600 else 320)
        instants = [instant for curve in curves for _, instant in curve.points]
        low, high = min(instants), max(max(instants), min(instants) + timedelta(hours=1))
        marks = time_ticks(low, high, 6 if drawing.is_narrow else 12)
        left = max((len(name) for _, name in marks), default=0) * LETTER + 8
        top, bottom = 42.0, drawing.height - 38
        axis = Axis(0.0, (high - low).total_seconds(), bottom, top)
        for instant, name in marks:
            y = axis((instant - low).total_seconds())
            drawing.line((left, y), (width, y))
            drawing.text((left - 6, y + 4), name, anchor="end")
        seconds = _seconds_axis(drawing, end_s, left, bottom)
        drawing.line((left, bottom), (width, bottom), "zero")
        at = left
        drawing.text((0, 11), "event time")
        for curve in curves:
            drawing.line((at, 24), (at + 28, 24), curve.kind)
            drawing.text((at + 34, 28), curve.name, kind="name")
            at += 34 + len(curve.name) * LETTER + 20
            drawing.curve(
                (
                    (seconds(second), axis((instant - low).total_seconds()))
                    for second, instant in curve.points
                ),
                curve.kind,
            )
        return drawing

    return draw


@dataclass(frozen=True, slots=True)
class Scale:
    """Steps of a colour: values up to and with `bounds[n]` are of step n, larger ones of the last.

    >>> scale = Scale((0, 5, 10), "min")
    >>> [scale.step(value) for value in (-3, 0, 5, 5.1, 11)]
    [0, 0, 1, 2, 3]
    >>> scale.names()
    ['0 or less', '0 to 5', '5 to 10', 'over 10 min']
    """

    bounds: tuple[int, ...]
    unit: str

    def step(self, value: float) -> int:
        """Return the step of a value."""
        return next((n for n, bound in enumerate(self.bounds) if value <= bound), len(self.bounds))

    def names(self) -> list[str]:
        """Return what each step means."""
        first, last = f"{self.bounds[0]} or less", f"over {self.bounds[-1]} {self.unit}"
        return [
            first,
            *(f"{low} to {high}" for low, high in zip(self.bounds, self.bounds[1:], strict=False)),
            last,
        ]


def calendar(days: dict[date, tuple[float, str]], scale: Scale) -> Callable[[float], Drawing]:
    """Return a calendar with a column for each week and a row for each day of the week, and the scale's legend.

    Args:
        days: A value and a tip for each day, not empty; days that lack are drawn as outlines.
        scale: How values become colours.
    """
    first, last = min(days), max(days)
    start = first - timedelta(days=first.weekday())
    weeks = (last - start).days // 7 + 1

    def draw(width: float) -> Drawing:
        left = 32
        per_row = min(weeks, 27 if width < 600 else 53)
        cell = min((width - left) / per_row, 26.0)
        legend, block = _legend_height(width), 7 * cell + 26
        drawing = Drawing(width, round(legend + -(-weeks // per_row) * block))
        _draw_legend(drawing, scale)
        for top in range(-(-weeks // per_row)):
            for row, name in ((0, "Mon"), (3, "Thu"), (6, "Sun")):
                y = legend + top * block + 16 + (row + 0.5) * cell + 4
                drawing.text((left - 6, y), name, anchor="end")
        day = first
        while day <= last:
            week, row = divmod((day - start).days, 7)
            x, y = left + week % per_row * cell, legend + week // per_row * block + 16 + row * cell
            value, tip = days.get(day, (0.0, f"{day:%a %d %b %Y}, no flights"))
            kind = f"cell s{scale.step(value)}" if day in days else "absent"
            drawing.rectangle((x + 0.8, y + 0.8), (x + cell - 0.8, y + cell - 0.8), kind, tip)
            if day.day == 1 and (last - day).days > 10:
                drawing.text((x, y - row * cell - 5), f"{day:%b}")
            day += timedelta(days=1)
        return drawing

    return draw


def _legend_height(width: float) -> float:
    return 64.0 if width < 600 else 42.0


def _draw_legend(drawing: Drawing, scale: Scale) -> None:
    names = scale.names()
    per_row = 3 if drawing.is_narrow else len(names)
    step = drawing.width / per_row if drawing.is_narrow else 130
    for number, name in enumerate(names):
        x, y = number % per_row * step, number // per_row * 22
        drawing.rectangle((x, y + 2), (x + 14, y + 16), f"cell s{number}")
        drawing.text((x + 20, y + 13), name, kind="name")
