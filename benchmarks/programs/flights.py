"""The flights job: a file of CSV, event time, late and cancelled flights, windows by carrier, files of lines.

It is the job of `examples/flights.py` in functions of records, as far as PyFlink's wheel can do it alone. So the
scheduled departure is read as text, since PyFlink's CSV schema has no timestamps, and a function makes a time of it;
and all lines of an output go into one directory, where the example writes Parquet by day, for which PyFlink needs jars,
and a bucket assigner in Java. The watermark advances from time to time, since PyFlink has no generators in Python: how
many flights are late depends on when it does, so the check adds them to the hours that they came too late for.

Each hour says when it was told: the job worked from the first hour's to the last one's. It begins to tell them with
the first watermark, behind few of its flights, and tells the last ones at its end.
"""

from __future__ import annotations

import csv
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from programs.api import Api, Workload

ROOT = Path(__file__).resolve().parents[2]
INPUT = ROOT / "out" / "flights" / "input"
FIRST_YEAR = 2013

OUT_OF_ORDERNESS_HOURS = 2
DELAYED_MINUTES = 15

EPOCH = datetime(1970, 1, 1)
MILLISECOND = timedelta(milliseconds=1)

# Positions in a flight.
SCHEDULED, DELAY, CARRIER = 0, 1, 2

# Flights, their delays' sum, the largest delay, how many are delayed.
Sums = tuple[int, int, int, int]
NO_FLIGHTS: Sums = 0, 0, -sys.maxsize, 0


# ---------------------------------------------------------------- the input


def first_lines(size: int) -> Iterator[str]:
    """Yield the lines of so many flights; behind the last one of 2013 the same ones follow in 2014, and so on."""
    sys.path.insert(0, str(ROOT / "examples"))
    import flights_data

    return islice(endless_lines(flights_data.prepare(INPUT)), size)


def endless_lines(file: Path) -> Iterator[str]:
    with file.open(encoding="utf-8") as stream:
        _, *lines = stream
    year = FIRST_YEAR
    while True:
        yield from (f"{year}{line[4:]}" for line in lines)
        year += 1


# ---------------------------------------------------------------- the functions


def together(a: Sums, b: Sums) -> Sums:
    """Add the sums of some flights to those of others."""
    return a[0] + b[0], a[1] + b[1], max(a[2], b[2]), a[3] + b[3]


def split_cancelled(api: Api, cancelled: Any) -> Any:
    """Return the function that parses the time, and sends flights that never left to a side output."""
    row = api.common.Row

    class SplitCancelled(api.datastream.ProcessFunction):
        def process_element(self, value, ctx):
            scheduled, delay, carrier, flight, origin, dest = value
            flight = row(datetime.fromisoformat(scheduled), delay, carrier, flight, origin, dest)
            if delay is None:
                yield cancelled, flight
            else:
                yield flight

    return SplitCancelled()


def scheduled_departure(api: Api) -> Any:
    """Return the event time of a flight."""

    class ScheduledDeparture(api.watermark_strategy.TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return int((value[SCHEDULED] - EPOCH) // MILLISECOND)

    return ScheduledDeparture()


def delay_statistics(api: Api) -> Any:
    """Return what counts flights and adds up their delays."""

    class DelayStatistics(api.datastream.AggregateFunction):
        def create_accumulator(self):
            return NO_FLIGHTS

        def add(self, value, accumulator):
            flights, total, largest, delayed = accumulator
            delay = value[DELAY]
            return flights + 1, total + delay, max(largest, delay), delayed + (delay > DELAYED_MINUTES)

        def get_result(self, accumulator):
            return accumulator

        def merge(self, a, b):
            return together(a, b)

    return DelayStatistics()


def name_hour(api: Api) -> Any:
    """Return what adds carrier and hour to the sums of a window, and the time at which it does."""

    class NameHour(api.datastream.ProcessWindowFunction):
        def process(self, key, context, elements):
            hour = EPOCH + context.window().start * MILLISECOND
            for sums in elements:
                yield key, hour, *sums, time.time()

    return NameHour()


def as_line(fields: Any) -> str:
    """Return a flight, or the sums of an hour, as text."""
    return ",".join("" if field is None else str(field) for field in fields)


# ---------------------------------------------------------------- the job


@dataclass(frozen=True)
class Files:
    """A job that ends in files; stands for a stream of the lines that it writes, each with its output's name."""

    env: Any
    directory: Path
    names: tuple[str, ...]

    @contextmanager
    def execute_and_collect(self) -> Iterator[list[tuple[str, str]]]:
        """Run the job to its end, and read what it wrote."""
        try:
            self.env.execute("flights")
            yield [(name, line) for name in self.names for line in self._lines(name)]
        finally:
            shutil.rmtree(self.directory)

    def _lines(self, name: str) -> Iterator[str]:
        for file in self.directory.joinpath(name).rglob("[!._]*"):
            if file.is_file():
                yield from file.read_text(encoding="utf-8").splitlines()


def flights(api: Api, env: Any, size: int) -> Files:
    """Declare the job over so many flights."""
    directory = Path(tempfile.mkdtemp(prefix="flights-"))
    source = directory / "flights.csv"
    with source.open("w", encoding="utf-8") as stream:
        stream.write("scheduled,delay,carrier,flight,origin,dest\n")
        stream.writelines(first_lines(size))
    tag, common, types = api.datastream.OutputTag, api.common, api.common.Types
    late, cancelled = tag("late", types.PICKLED_BYTE_ARRAY()), tag("cancelled", types.PICKLED_BYTE_ARRAY())

    # A stream has one order, so one subtask reads it, splits it and tells the time; others share the rest.
    departures = env.from_source(
        read_flights(api, source), common.WatermarkStrategy.no_watermarks(), "departures"
    )
    flown = departures.set_parallelism(1).process(split_cancelled(api, cancelled)).set_parallelism(1)
    strategy = common.WatermarkStrategy.for_bounded_out_of_orderness(
        common.Duration.of_hours(OUT_OF_ORDERNESS_HOURS)
    ).with_timestamp_assigner(scheduled_departure(api))
    hours = (
        flown.assign_timestamps_and_watermarks(strategy)
        .set_parallelism(1)
        .key_by(lambda flight: flight[CARRIER], key_type=types.STRING())
        .window(api.window.TumblingEventTimeWindows.of(common.Time.hours(1)))
        .side_output_late_data(late)
        .aggregate(delay_statistics(api), window_function=name_hour(api))
    )
    outputs = {
        "hours": hours,
        "late": hours.get_side_output(late),
        "cancelled": flown.get_side_output(cancelled),
    }
    for name, stream in outputs.items():
        stream.map(as_line, output_type=types.STRING()).sink_to(write_lines(api, directory / name))
    return Files(env, directory, tuple(outputs))


def read_flights(api: Api, path: Path) -> Any:
    """Return the source of a file of flights."""
    schema = (
        api.csv.CsvSchema.builder()
        .add_string_column("scheduled")
        .add_number_column("delay", api.table.DataTypes.INT())  # minutes; empty if the flight was cancelled
        .add_string_column("carrier")
        .add_number_column("flight", api.table.DataTypes.INT())
        .add_string_column("origin")
        .add_string_column("dest")
        .set_use_header()
        .set_strict_headers()
        .set_null_value("")
        .build()
    )
    reader = api.csv.CsvReaderFormat.for_schema(schema)
    return api.file_system.FileSource.for_record_stream_format(reader, str(path)).build()


def write_lines(api: Api, directory: Path) -> Any:
    """Return the sink of lines in a directory."""
    encoder = api.common.Encoder.simple_string_encoder()
    sink = api.file_system.FileSink.for_row_format(str(directory), encoder)
    return sink.with_bucket_assigner(api.file_system.BucketAssigner.base_path_bucket_assigner()).build()


# ---------------------------------------------------------------- the check

DIGITS = str.maketrans("", "", "-: ")
Hours = dict[tuple[str, str], Sums]


def add(hours: Hours, carrier: str, hour: str, sums: Sums) -> None:
    """Add the sums of some flights to those of their hour."""
    hours[carrier, hour] = together(hours.get((carrier, hour), NO_FLIGHTS), sums)


def add_flights(hours: Hours, lines: Iterable[str]) -> int:
    """Add flights to their hours; return how many of them were cancelled."""
    cancelled = 0
    for scheduled, delay, carrier, *_ in csv.reader(lines):
        if delay:
            minutes = int(delay)
            sums = 1, minutes, minutes, int(minutes > DELAYED_MINUTES)
            add(hours, carrier, f"{scheduled[:13]}:00:00", sums)
        else:
            cancelled += 1
    return cancelled


def figures_of(hours: Hours, cancelled: int) -> Iterator[tuple[int, ...]]:
    """Yield what is compared: numbers."""
    yield (cancelled,)
    for (carrier, hour), sums in hours.items():
        yield int.from_bytes(carrier.encode()), int(hour.translate(DIGITS)), *sums


def figures_written(written: list[tuple[str, str]], size: int) -> Iterable[tuple[int, ...]]:
    """Return the sums of all flights that left by carrier and hour, late ones too, and how many were cancelled."""
    hours: Hours = {}
    for name, line in written:
        if name == "hours":
            carrier, hour, *sums, _ = line.split(",")
            add(hours, carrier, hour, tuple(map(int, sums)))
    return figures_of(hours, add_flights(hours, (line for name, line in written if name != "hours")))


def flights_oracle(size: int) -> Iterable[tuple[int, ...]]:
    hours: Hours = {}
    return figures_of(hours, add_flights(hours, first_lines(size)))


def working_s(written: list[tuple[str, str]]) -> float:
    """Return the time from the first hour that was told to the last."""
    told = [float(line.rpartition(",")[2]) for name, line in written if name == "hours"]
    return max(told) - min(told)


WORKLOADS = {"flights": Workload(flights, flights_oracle, step=1, judge=figures_written, worked_s=working_s)}
