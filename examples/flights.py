"""The departures of all 336,776 flights that left New York in 2013, as a stream.

Flights arrive in the order in which they *left*; their event time is when they *should* have left. So event
time is out of order, and flights that left very late find their hour closed::

    flights.csv ─► split ─► event time, watermarks ─► key_by carrier ─► 1 h windows ─► hours/day=2013-01-01/…
                     │                                                       │
                     └─► cancelled/                                          └─► late/  over two hours behind

Every flight ends in exactly one of the three: that is checked. Run it in one of these ways:

    millstream demo flights                                     # all at once
    millstream demo -p 4 flights                                # on four subtasks: the same totals
    millstream demo flights --follow inbox --drip 2             # a directory into which files drop
    millstream demo flights --follow inbox --stop-when-idle 30  # ... by you
    python examples/flights.py                                  # without the command line's progress

Times are New York's wall clock, without zone.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import flights_data
import flights_report

from millstream.common import Configuration, Duration, Row, Time, WatermarkStrategy
from millstream.common.serialization import Encoder
from millstream.common.watermark_strategy import TimestampAssigner, WatermarkGenerator, WatermarkOutput
from millstream.datastream import OutputTag, StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    OutputFileConfig,
)
from millstream.datastream.formats.csv import CsvReaderFormat, CsvSchema
from millstream.datastream.formats.parquet import ParquetBulkWriters
from millstream.datastream.functions import AggregateFunction, ProcessFunction, ProcessWindowFunction
from millstream.datastream.window import TumblingEventTimeWindows
from millstream.table import DataTypes

# So much later than its neighbours may a flight be and still be counted in its hour.
OUT_OF_ORDERNESS = Duration.of_hours(2)
DELAYED_MINUTES = 15
OUTPUT = Path("out/flights")

CANCELLED = OutputTag("cancelled")
LATE = OutputTag("late")

# Positions in a flight's row.
SCHEDULED, DELAY, CARRIER = 0, 1, 2

FLIGHT_FILE = (
    CsvSchema.builder()
    .add_column("scheduled", DataTypes.TIMESTAMP(0))
    .add_number_column("delay", DataTypes.INT())  # minutes; empty if the flight was cancelled
    .add_string_column("carrier")
    .add_number_column("flight", DataTypes.INT())
    .add_string_column("origin")
    .add_string_column("dest")
    .set_use_header()
    .set_strict_headers()
    .build()
)
FLIGHT = DataTypes.ROW(
    [
        DataTypes.FIELD("scheduled", DataTypes.TIMESTAMP(0)),
        DataTypes.FIELD("delay", DataTypes.INT()),
        DataTypes.FIELD("carrier", DataTypes.STRING()),
        DataTypes.FIELD("flight", DataTypes.INT()),
        DataTypes.FIELD("origin", DataTypes.STRING()),
        DataTypes.FIELD("dest", DataTypes.STRING()),
    ]
)
CARRIER_HOUR = DataTypes.ROW(
    [
        DataTypes.FIELD("carrier", DataTypes.STRING()),
        DataTypes.FIELD("hour", DataTypes.TIMESTAMP(0)),
        DataTypes.FIELD("flights", DataTypes.BIGINT()),
        DataTypes.FIELD("total_delay", DataTypes.BIGINT()),
        DataTypes.FIELD("max_delay", DataTypes.BIGINT()),
        DataTypes.FIELD("delayed", DataTypes.BIGINT()),
    ]
)

EPOCH = datetime(1970, 1, 1)
MILLISECOND = timedelta(milliseconds=1)


class SplitCancelled(ProcessFunction):
    """Sends flights that never left to a side output."""

    def process_element(self, value: Row, ctx: ProcessFunction.Context) -> Iterator[Any]:
        """Pass a flight on."""
        if value[DELAY] is None:
            yield CANCELLED, value
        else:
            yield value


class ScheduledDeparture(TimestampAssigner):
    """The event time of a flight."""

    def extract_timestamp(self, value: Row, record_timestamp: int) -> int:
        """Return the scheduled departure in milliseconds."""
        return int((value[SCHEDULED] - EPOCH) // MILLISECOND)


class BoundedOutOfOrderness(WatermarkGenerator):
    """Lets event time trail the latest scheduled departure by a bound.

    `WatermarkStrategy.for_bounded_out_of_orderness` emits from time to time; this one emits at the record
    that makes time advance. So which flights are late depends on their order alone, and the totals are the
    same however the stream is cut and on however many machines it runs.
    """

    def __init__(self) -> None:
        self._bound_ms = OUT_OF_ORDERNESS.to_milliseconds()
        self._latest_ms = -sys.maxsize

    def on_event(self, value: Row, timestamp_ms: int, output: WatermarkOutput) -> None:
        """Emit a watermark if the flight is the latest so far."""
        if timestamp_ms > self._latest_ms:
            self._latest_ms = timestamp_ms
            output.emit_watermark(timestamp_ms - self._bound_ms - 1)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Do nothing: `on_event` has emitted it."""


class DelayStatistics(AggregateFunction):
    """Counts flights and adds up their delays; an accumulator is [flights, total, max, delayed]."""

    def create_accumulator(self) -> list[int]:
        """Begin without a flight."""
        return [0, 0, -sys.maxsize, 0]

    def add(self, value: Row, accumulator: list[int]) -> list[int]:
        """Add a flight."""
        delay = value[DELAY]
        accumulator[0] += 1
        accumulator[1] += delay
        if delay > accumulator[2]:
            accumulator[2] = delay
        if delay > DELAYED_MINUTES:
            accumulator[3] += 1
        return accumulator

    def get_result(self, accumulator: list[int]) -> list[int]:
        """Return the sums."""
        return accumulator

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        """Combine two accumulators."""
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1], max(acc_a[2], acc_b[2]), acc_a[3] + acc_b[3]]


class NameHour(ProcessWindowFunction):
    """Adds carrier and hour to the sums of a window."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[list[int]]
    ) -> Iterator[Row]:
        """Make the row of one carrier and hour."""
        hour = EPOCH + context.window().start * MILLISECOND
        for flights, total, largest, delayed in elements:
            yield Row(
                carrier=key, hour=hour, flights=flights, total_delay=total, max_delay=largest, delayed=delayed
            )


class DayOfHour(BucketAssigner):
    """One directory for each day."""

    def get_bucket_id(self, element: Row, context: Any) -> str:
        """Return a directory as Hive names it, which most tools understand."""
        return f"day={element['hour']:%Y-%m-%d}"


def as_csv_line(flight: Row) -> str:
    """Return a cancelled flight as text."""
    return ",".join("" if value is None else str(value) for value in flight)


def build_job(
    env: StreamExecutionEnvironment, source: Path, results: flights_report.Results, *, follow: bool
) -> None:
    """Declare the streams.

    Args:
        env: Where.
        source: A file, or the directory to follow.
        results: Where the outputs go.
        follow: Whether to wait for further files.
    """
    files = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(FLIGHT_FILE), str(source))
    if follow:
        files.monitor_continuously(Duration.of_millis(500))
    # A stream has one order, so one subtask reads it, splits it and tells the time; others share the rest.
    departures = env.from_source(files.build(), WatermarkStrategy.no_watermarks(), "departures")
    departures.set_parallelism(1)
    flown = departures.process(SplitCancelled()).name("split cancelled").set_parallelism(1)
    strategy = WatermarkStrategy.for_generator(BoundedOutOfOrderness)
    timed = flown.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(ScheduledDeparture()))
    timed.name("scheduled departure").set_parallelism(1)

    hours = (
        timed.key_by(lambda flight: flight[CARRIER])
        .window(TumblingEventTimeWindows.of(Time.hours(1)))
        .side_output_late_data(LATE)
        .aggregate(DelayStatistics(), window_function=NameHour())
        .name("carrier hours")
    )
    parquet = OutputFileConfig.builder().with_part_suffix(".parquet").build()
    hours.sink_to(
        FileSink.for_bulk_format(str(results.hours), ParquetBulkWriters.for_row_type(CARRIER_HOUR))
        .with_bucket_assigner(DayOfHour())
        .with_output_file_config(parquet)
        .build()
    ).name("hours")
    hours.get_side_output(LATE).sink_to(
        FileSink.for_bulk_format(str(results.late), ParquetBulkWriters.for_row_type(FLIGHT))
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_output_file_config(parquet)
        .build()
    ).name("late")
    csv = OutputFileConfig.builder().with_part_suffix(".csv").build()
    flown.get_side_output(CANCELLED).map(as_csv_line).name("to text").sink_to(
        FileSink.for_row_format(str(results.cancelled), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_output_file_config(csv)
        .build()
    ).name("cancelled")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="flights", description="Delays of the flights of 2013.")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--bounded", action="store_true", help="read all flights and end (the default)")
    source.add_argument("--follow", type=Path, metavar="DIR", help="follow a directory, file by file")
    source.add_argument("--input", type=Path, metavar="FILE", help="read a CSV file made by an earlier run")
    parser.add_argument(
        "--drip", type=float, metavar="SECONDS", help="with --follow: drop the year, slice by slice"
    )
    parser.add_argument(
        "--stop-when-idle", type=float, metavar="SECONDS", help="with --follow: end after such a silence"
    )
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="DIR", help="default: %(default)s")
    parser.add_argument("--parallelism", type=int, metavar="N", help="subtasks; default: the command line's")
    arguments = parser.parse_args()
    if arguments.follow is None and (arguments.drip is not None or arguments.stop_when_idle is not None):
        parser.error("--drip and --stop-when-idle need --follow DIR")
    return arguments


def make_environment(arguments: argparse.Namespace) -> StreamExecutionEnvironment:
    """Return the environment with the program's own settings."""
    configuration = Configuration()
    idle_s = arguments.stop_when_idle
    if idle_s is None and arguments.drip is not None:
        idle_s = arguments.drip + 10  # the last slice has been dropped
    if idle_s is not None:
        configuration.set_string("millstream.execution.stop-when-idle", f"{round(idle_s * 1000)} ms")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    if arguments.parallelism is not None:
        env.set_parallelism(arguments.parallelism)
    return env


def main() -> int:
    """Run the job and show its result; returns the exit code."""
    arguments = parse_arguments()
    source = arguments.follow or arguments.input
    if source is None or arguments.drip is not None:
        all_flights = flights_data.prepare(arguments.output / "input")
        source = source or all_flights
    if arguments.follow is not None:
        arguments.follow.mkdir(parents=True, exist_ok=True)
    if arguments.drip is not None:
        drop = (all_flights, arguments.follow, arguments.drip)
        threading.Thread(target=flights_data.drip, args=drop, name="drip", daemon=True).start()

    results = flights_report.Results.make(arguments.output)
    env = make_environment(arguments)
    build_job(env, source, results, follow=arguments.follow is not None)
    try:
        outcome = env.execute("flights")
    finally:
        results.discard_if_empty()  # the plan was only shown, or the job failed early

    summary = results.summarize(expected=flights_data.count_flights(source))
    complete = source.name == flights_data.FILE_NAME or arguments.drip is not None
    return flights_report.show(results, summary, outcome.get_net_runtime(), whole_year=complete)


if __name__ == "__main__":
    sys.exit(main())
