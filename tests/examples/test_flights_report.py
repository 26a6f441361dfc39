"""What the report of the main job shows is what was told of its run and what lies in its output."""

import doctest
import json
import re
import sys
from datetime import date, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millstream.base.clock import ManualClock
from millstream.base.time import MAX_TIMESTAMP
from millstream.graph.launcher import EpochProgress, current_progress_listener, set_progress_listener

ROOT = Path(__file__).parents[2]
MODULES = ("flights_charts", "flights_data", "flights_page", "flights_report", "flights_run")
JANUARY = 27_000
HOSTILE = "</title></svg><script>alert(1)</script>\"' onload=x & Co"


@pytest.fixture(scope="module")
def examples():
    """The example's modules by the last part of their name, imported as the program does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples"))
        for name in MODULES:
            patch.delitem(sys.modules, name, raising=False)
        yield {name.partition("_")[2]: __import__(name) for name in MODULES}


def progress(epoch, records, elapsed_s, epoch_s=1.0, event_ms=None, watermark_ms=None):
    return EpochProgress(epoch, records, event_ms, watermark_ms, elapsed_s=elapsed_s, epoch_s=epoch_s)


def recorded(examples, *told):
    run = examples["run"].Run()
    for each in told:
        run.add(each)
    return run


class Page(HTMLParser):
    """A page as a reader has it: tables by the title of their section, drawings as trees."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.ids, self.attributes, self.texts = {}, [], [], []
        self._path, self._title = [], ""
        self.feed(text)
        # HTML needs no declaration of the name space, and neither do we.
        self.drawings = [
            ElementTree.fromstring(each) for each in re.findall(r"<svg.*?</svg>", text, re.DOTALL)
        ]

    def handle_starttag(self, tag, attrs):
        self.attributes += attrs
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in ("meta", "rect", "line", "polyline"):
            self._path.append(tag)
        if tag == "h3":
            self._title = ""
        if tag == "tr":
            self.tables.setdefault(self._title, []).append([])
        if tag in ("th", "td"):
            self.tables[self._title][-1].append("")

    def handle_endtag(self, tag):
        if tag not in ("meta", "rect", "line", "polyline"):
            assert self._path.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if self._path[-1:] == ["h3"]:
            self._title += data
        if self._path[-1:] in (["th"], ["td"]):
            self.tables[self._title][-1][-1] += data

    def close(self):
        super().close()
        assert self._path == []

    def rows(self, title):
        return [[cell.replace(",", "") for cell in row] for row in self.tables[title][1:]]

    def drawing(self, title):
        wide, narrow = [each for each in self.drawings if each.find("title").text == title]
        return wide, narrow

    def tips(self, title):
        wide, narrow = (
            [tip.text for rect in each.iter("rect") for tip in rect.iter("title")]
            for each in self.drawing(title)
        )
        assert wide == narrow
        return wide


def render(examples, summary, run=None, names=None):
    page = Page(examples["page"].render_page(summary, run or examples["run"].Run(), names or {}, bound_h=2.0))
    page.close()
    return page


def summary_of(examples, hours=(), **counts):
    summary = examples["report"].Summary(expected=0, **counts)
    for hour in hours:
        summary.add(examples["report"].Hour(*hour))
    return summary


@pytest.mark.parametrize("name", [name.partition("_")[2] for name in MODULES])
def test_examples_in_docstrings_hold(examples, name):
    assert doctest.testmod(examples[name]).failed == 0


# ---- what is recorded ----


def test_epochs_are_recorded_as_they_were_told(examples):
    run = recorded(
        examples,
        progress(1, 100, 2.0, 1.5, event_ms=9_000, watermark_ms=1_000),
        progress(2, 100, 5.0, 1.0, event_ms=9_000, watermark_ms=4_000),
        progress(3, 400, 5.5, 0.5, event_ms=12_000, watermark_ms=MAX_TIMESTAMP),
    )
    assert [(span.begin_s, span.end_s, span.records, span.total) for span in run.spans] == [
        (0.5, 2.0, 100, 100),
        (4.0, 5.0, 0, 100),
        (5.0, 5.5, 300, 400),
    ]
    assert [span.trail_ms for span in run.spans] == [8_000, 5_000, None]  # event time has ended: no instant
    assert (run.epochs, run.records, run.restarts) == (3, 400, 0)
    assert run.spans[2].records_per_second == 600.0


def test_steady_rate_counts_neither_the_first_quarter_nor_the_end_nor_waiting(examples):
    #   read     50 | 75 in 1 s | nothing in 2 s | 4 s of waiting | 100 in 1 s | nothing in 3 s: the end
    run = recorded(
        examples,
        progress(1, 50, 10.0, 10.0),
        progress(2, 125, 11.0, 1.0),
        progress(3, 125, 13.0, 2.0),
        progress(4, 200, 18.0, 1.0),
        progress(5, 200, 21.0, 3.0),
    )
    assert run.steady_rate() == (75 + 75) / (1 + 2 + 1)
    assert recorded(examples, progress(1, 50, 1.0)).steady_rate() is None
    assert examples["run"].Run().steady_rate() is None


def test_attempt_after_a_failure_is_recorded_alone(examples):
    run = recorded(
        examples, progress(1, 10, 1.0), progress(2, 20, 2.0), progress(3, 7, 0.5, 0.5), progress(4, 9, 1.5)
    )
    assert run.restarts == 1
    assert [(span.first, span.records) for span in run.spans] == [(3, 7), (4, 2)]
    page = render(examples, summary_of(examples), run)
    assert any("began anew 1 time" in text for text in page.texts)


@given(count=st.integers(1, 1_500), random=st.randoms(use_true_random=False))
@example(count=257, random=Random(1))
@settings(max_examples=20, deadline=None)
def test_long_run_is_kept_in_few_spans_without_losing_anything(examples, count, random):
    epochs = [
        (random.randint(0, 1_000), random.uniform(0.001, 3), random.uniform(0, 3)) for _ in range(count)
    ]
    told, records, elapsed_s = [], 0, 0.0
    for number, (read, busy_s, idle_s) in enumerate(epochs, 1):
        records, elapsed_s = records + read, elapsed_s + idle_s + busy_s
        told.append(progress(number, records, elapsed_s, busy_s))
    run = recorded(examples, *told)
    assert len(run.spans) <= 256
    assert (run.records, run.epochs) == (records, len(epochs))
    assert sum(span.records for span in run.spans) == records
    assert sum(span.busy_s for span in run.spans) == pytest.approx(sum(busy_s for _, busy_s, _ in epochs))
    ends = [0, *(span.last for span in run.spans)]
    assert [span.first for span in run.spans] == [end + 1 for end in ends[:-1]]
    assert run.spans[-1].end_s == elapsed_s


def test_who_listened_before_is_still_told_and_listens_afterwards(examples):
    seen = []
    set_progress_listener(seen.append)
    try:
        clock = ManualClock()
        with examples["run"].recording(clock) as run:
            clock.advance(5_000)
            current_progress_listener()(progress(1, 10, 1.0))
            clock.advance(1_000)
            current_progress_listener()(progress(2, 30, 2.0))
        assert current_progress_listener() == seen.append
    finally:
        set_progress_listener(None)
    assert [each.records_in for each in seen] == [10, 30]
    assert run.records == 30
    assert run.start_s == pytest.approx(4.0)  # five seconds after it was submitted, it had run for one


# ---- what is said ----


def test_rates_are_those_of_the_run(examples):
    run = recorded(examples, progress(1, 50, 2.0, 2.0), progress(2, 200, 4.0, 2.0))
    lines = examples["report"].rate_lines(200, 4_000, run)
    assert lines[0] == "200 flights in 4.0 s, 50 a second"
    assert any(line.startswith("once it ran: 75 a second") for line in lines)
    assert "benchmarks/results/flights.md" in lines[-1]


def test_run_that_is_too_short_has_no_steady_rate(examples):
    lines = examples["report"].rate_lines(200, 4_000, recorded(examples, progress(1, 200, 4.0)))
    assert lines == ["200 flights in 4.0 s, 50 a second"]


# ---- the page ----


def test_hostile_names_stay_text(examples):
    hours = [(HOSTILE, datetime(2013, 1, 1, 5), 7, 70, 30, 3), ("B", datetime(2013, 1, 1, 6), 7, 7, 30, 3)]
    page = render(examples, summary_of(examples, hours), names={"B": HOSTILE * 3})
    assert page.tables["The worst hours"][1][0] == HOSTILE
    assert page.tables["The worst hours"][2][0] == HOSTILE * 3
    assert not any(name.startswith("on") for name, _ in page.attributes)


def test_page_loads_nothing_and_every_drawing_has_a_title_and_a_description(examples):
    run = recorded(
        examples, progress(1, 10, 1.0, event_ms=10**12, watermark_ms=10**12 - 7_200_000), progress(2, 90, 2.0)
    )
    hours = [("A", datetime(2013, 1, day, hour), 7, 70 * day, 30, 3) for day in (1, 9) for hour in (5, 9)]
    page = render(examples, summary_of(examples, hours, late=1, behind=[130]), run)
    assert not {name for name, _ in page.attributes} & {"src", "href", "xlink:href", "srcset", "action"}
    assert not re.search(r"url\(|@import|http", "".join(page.texts))
    assert len(page.ids) == len(set(page.ids))
    assert len(page.drawings) == 2 * 7
    for drawing in page.drawings:
        assert drawing.get("role") == "img"
        named = drawing.get("aria-labelledby").split()
        assert [drawing.find("title").get("id"), drawing.find("desc").get("id")] == named
        assert drawing.find("title").text
        assert drawing.find("desc").text


def test_page_of_a_run_without_anything_says_so(examples):
    page = render(examples, summary_of(examples))
    assert page.drawings == []
    assert any("no epoch" in text for text in page.texts)


SPANS = st.lists(
    st.tuples(st.integers(0, 10**7), st.floats(0.001, 500), st.integers(0, 10**13), st.integers(0, 10**12)),
    max_size=40,
)
CARRIER_HOURS = st.lists(
    st.tuples(
        st.text(max_size=60),
        st.datetimes(datetime(2012, 11, 1), datetime(2014, 2, 1)),
        st.integers(1, 10**6),
        st.integers(-(10**8), 10**9),
        st.integers(-60, 10**6),
        st.just(1),
    ),
    max_size=12,
)


@given(spans=SPANS, hours=CARRIER_HOURS, behind=st.lists(st.integers(0, 10_000), max_size=30))
@settings(max_examples=60, deadline=None)
def test_nothing_is_drawn_beyond_the_edges(examples, spans, hours, behind):
    told, records, elapsed_s, event_ms = [], 0, 0.0, 0
    for number, (read, busy_s, ahead_ms, trail_ms) in enumerate(spans, 1):
        records, elapsed_s, event_ms = records + read, elapsed_s + busy_s, max(event_ms, ahead_ms)
        told.append(progress(number, records, elapsed_s, busy_s, event_ms, event_ms - trail_ms))
    hours = [(name, hour.replace(minute=0), *rest) for name, hour, *rest in hours]
    names = {name: name for name, *_ in hours}
    text = examples["page"].render_page(
        summary_of(examples, hours, late=len(behind), behind=behind),
        recorded(examples, *told),
        {name: re.sub(r"[\x00-\x1f\x7f-\x9f\ufffe\uffff]", "?", name) for name in names},
        bound_h=2.0,
    )
    for each in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        drawing = ElementTree.fromstring(each)
        width, height = map(float, drawing.get("viewBox").split()[2:])
        for rect in drawing.iter("rect"):
            x, y, wide, tall = (float(rect.get(name)) for name in ("x", "y", "width", "height"))
            assert -0.2 <= x <= x + wide <= width + 0.2
            assert -0.2 <= y <= y + tall <= height + 0.2
        for line in drawing.iter("line"):
            assert all(-0.2 <= float(line.get(name)) <= width + 0.2 for name in ("x1", "x2"))
            assert all(-0.2 <= float(line.get(name)) <= height + 0.2 for name in ("y1", "y2"))
        for curve in drawing.iter("polyline"):
            for point in curve.get("points").split():
                x, y = map(float, point.split(","))
                assert -0.2 <= x <= width + 0.2
                assert -0.2 <= y <= height + 0.2


def test_days_have_the_colour_that_the_legend_gives_their_delay(examples):
    first = date(2013, 1, 1)
    delays = [-4, 0, 3, 5, 6, 10, 19, 20, 33, 40, 41, 900]
    hours = [
        ("A", datetime(2013, 1, 1, 7) + timedelta(days=number), 2, 2 * delay, delay, 0)
        for number, delay in enumerate(delays)
    ]
    hours.append(("A", datetime(2013, 1, 14, 7), 1, 12, 12, 0))  # none on the 13th
    for drawing in render(examples, summary_of(examples, hours)).drawing("Mean delay by day"):
        boxes = [(rect.get("class"), rect.findtext("title")) for rect in drawing.iter("rect")]
        legend = [kind for kind, tip in boxes if tip is None]
        assert legend == [f"cell s{step}" for step in range(6)]
        names = [text.text for text in drawing.iter("text")][:6]
        assert names == ["0 or less", "0 to 5", "5 to 10", "10 to 20", "20 to 40", "over 40 min"]
        days = [(kind, tip) for kind, tip in boxes if tip is not None]
        assert [kind for kind, _ in days[:12]] == [
            f"cell s{step}" for step in (0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5)
        ]
        assert days[12] == ("absent", "Sun 13 Jan 2013, no flights")
        assert days[2][1] == f"{first + timedelta(days=2):%a %d %b %Y}, 2 flights, mean delay 3.0 min"


def test_area_of_the_bars_is_the_number_of_flights(examples):
    run = recorded(examples, progress(1, 100, 1.0), progress(2, 700, 3.0, 2.0), progress(3, 900, 7.0, 4.0))
    page = render(examples, summary_of(examples), run)
    for drawing in page.drawing("Throughput by epoch"):
        areas = [float(rect.get("width")) * float(rect.get("height")) for rect in drawing.iter("rect")]
        assert [area / sum(areas) for area in areas] == pytest.approx([1 / 9, 6 / 9, 2 / 9], abs=0.01)


# ---- of a whole run ----


@pytest.fixture(scope="module")
def january(examples, tmp_path_factory):
    year = examples["data"].prepare(tmp_path_factory.mktemp("flights"))
    path = tmp_path_factory.mktemp("january") / "january.csv"
    with year.open() as lines:
        path.write_text("".join(line for _, line in zip(range(JANUARY + 1), lines, strict=False)))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", ["local", pytest.param("local[2]", marks=pytest.mark.spark)], ids=["local", "spark"]
)
def test_page_tells_what_the_run_and_its_output_were(january, tmp_path, target):
    import subprocess

    command = [sys.executable, "-m", "millstream.cli", "run", "--target", target, "-p", "2"]
    command += ["-D", "millstream.epoch.fixed-records=4000", str(ROOT / "examples" / "flights.py")]
    command += ["--output", str(tmp_path), "--input", str(january)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert ended.returncode == 0, ended.stderr
    text = (tmp_path / "run-1" / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    page.close()
    figures = json.loads((tmp_path / "run-1" / "summary.json").read_text())
    db = duckdb.connect()
    late = f"read_parquet('{tmp_path}/run-1/late/*.parquet')"
    hours = f"read_parquet('{tmp_path}/run-1/hours/*/*.parquet')"

    # The stream: what was read is all there was, in the order of time.
    epochs = page.rows("Event time and watermark over processing time")
    assert len(epochs) == figures["epochs"] >= JANUARY / 4000
    ends = [float(row[1]) for row in epochs]
    assert ends == sorted(ends)
    assert int(epochs[-1][2]) == JANUARY
    throughput = page.tips("Throughput by epoch")
    assert (
        sum(int(re.search(r": ([\d,]+) flights", tip)[1].replace(",", "")) for tip in throughput) == JANUARY
    )
    latest = db.execute("select max(scheduled) from read_csv(?) where delay is not null", [str(january)])
    assert epochs[-1][4] == f"{latest.fetchone()[0]:%d %b %H:%M}"
    assert epochs[-1][5] == "-"  # event time has ended
    trails = page.tips("How far the watermark trailed the latest departure")
    assert trails
    # Never less than the bound; more while an epoch leaves records on their way.
    assert min(float(re.search(r": ([\d.]+) hours", tip)[1]) for tip in trails) == 2.0
    steady = next(text for text in page.texts if "once it ran: " in text)
    assert steady == f"once it ran: {figures['steady_rate']:,.0f}"
    assert f"once it ran: {figures['steady_rate']:,.0f} a second" in ended.stdout

    # Lateness, from the late flights themselves.
    by_hour = db.execute(
        "select least(date_diff('minute', date_trunc('hour', scheduled) + interval 1 hour, "
        f"scheduled + to_minutes(delay)) // 60, 10) as hours, count(*) from {late} group by 1 order by 1"
    ).fetchall()
    shown = [(int(row[0].split()[0]), int(row[1])) for row in page.rows("How late the late ones were")]
    assert [row for row in shown if row[1]] == by_hour
    assert sum(count for _, count in shown) == figures["late"] > 0

    # The flights.
    by_day = db.execute(
        f"select hour::date, sum(flights), sum(total_delay) from {hours} group by 1 order by 1"
    )
    assert page.rows("Mean delay by day") == [
        [f"{day:%a %d %b %Y}", str(flights), f"{delay / flights:.1f}"]
        for day, flights, delay in by_day.fetchall()
    ]
    assert sum(int(row[1]) for row in page.rows("Mean delay by carrier")) == figures["on_time"]
    assert sum(int(row[1]) for row in page.rows("Mean delay by scheduled hour")) == figures["on_time"]
    tiles = [text.replace(",", "") for text in page.texts]
    for name in ("on_time", "late", "cancelled", "expected"):
        assert str(figures[name]) in tiles
