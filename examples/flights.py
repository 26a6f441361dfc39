"""The departures of all 336,776 flights that left New York in 2013, as a stream.

Flights arrive in the order in which they *left*; their event time is when they *should* have left. So event
time is out of order, and flights that left very late find their hour closed::

    flights.csv ─► flown ─► event time, watermarks ─► key_by carrier ─► 1 h windows ─► hours/day=2013-01-01/…
               │                                                             │
               └─► cancelled/                                                └─► late/  over two hours behind

Flights go through all of it in columns: no function is called for each of them. Every flight ends in exactly one of the
three: that is checked. Run it in one of these ways:

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
from pathlib import Path

import flights_data
import flights_page
import flights_report
import flights_run
import pyarrow as pa
import pyarrow.compute as pc

from millstream.common import Configuration, Duration, Row, Time, WatermarkStrategy
from millstream.common.serialization import Encoder
from millstream.datastream import OutputTag, StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    OutputFileConfig,
)
from millstream.datastream.expressions import count, max_, sum_
from millstream.datastream.formats.csv import CsvReaderFormat, CsvSchema
from millstream.datastream.formats.parquet import ParquetBulkWriters
from millstream.datastream.window import TumblingEventTimeWindows
from millstream.table import DataTypes

# So much later than its neighbours may a flight be and still be counted in its hour.
OUT_OF_ORDERNESS = Duration.of_hours(2)
DELAYED_MINUTES = 15
OUTPUT = Path("out/flights")

LATE = OutputTag("late")

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


def is_flown(flights: pa.RecordBatch) -> pa.Array:
    """Tell which flights left."""
    return pc.is_valid(flights["delay"])


def is_cancelled(flights: pa.RecordBatch) -> pa.Array:
    """Tell which flights never left."""
    return pc.is_null(flights["delay"])


def with_delayed(flights: pa.RecordBatch) -> pa.RecordBatch:
    """Add whether a flight counts as delayed."""
    return flights.append_column("delayed", pc.greater(flights["delay"], DELAYED_MINUTES))


def without_delayed(flights: pa.RecordBatch) -> pa.RecordBatch:
    """Return flights as they came."""
    return flights.select([field.name for field in FLIGHT])


def as_carrier_hours(windows: pa.RecordBatch) -> pa.RecordBatch:
    """Name the hour of each window, and leave out what nobody asked for."""
    hours = windows["window_start"].cast(pa.timestamp("ms")).cast(pa.timestamp("s"))
    columns = {**{name: windows[name] for name in windows.schema.names}, "hour": hours}
    return pa.RecordBatch.from_pydict({field.name: columns[field.name] for field in CARRIER_HOUR})


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
    flown = departures.filter_batches(is_flown).name("flown").set_parallelism(1)
    cancelled = departures.filter_batches(is_cancelled).name("cancelled flights").set_parallelism(1)
    # Time advances at each flight that is the latest so far: which flights are late depends on their order alone, and
    # the totals are the same however the stream is cut and on however many machines it runs.
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(OUT_OF_ORDERNESS, each_record=True)
    timed = flown.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner("scheduled"))
    timed.name("scheduled departure").set_parallelism(1)

    hours = (
        timed.map_batches(with_delayed)
        .name("delayed or not")
        .set_parallelism(1)
        .key_by("carrier")
        .window(TumblingEventTimeWindows.of(Time.hours(1)))
        .side_output_late_data(LATE)
        .aggregate(
            flights=count(), total_delay=sum_("delay"), max_delay=max_("delay"), delayed=sum_("delayed")
        )
        .name("carrier hours")
    )
    parquet = OutputFileConfig.builder().with_part_suffix(".parquet").build()
    hours.map_batches(as_carrier_hours).name("hour by hour").sink_to(
        FileSink.for_bulk_format(str(results.hours), ParquetBulkWriters.for_row_type(CARRIER_HOUR))
        .with_bucket_assigner(BucketAssigner.event_time_bucket_assigner("'day='yyyy-MM-dd"))
        .with_output_file_config(parquet)
        .build()
    ).name("hours")
    hours.get_side_output(LATE).map_batches(without_delayed).name("late flights").sink_to(
        FileSink.for_bulk_format(str(results.late), ParquetBulkWriters.for_row_type(FLIGHT))
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_output_file_config(parquet)
        .build()
    ).name("late")
    csv = OutputFileConfig.builder().with_part_suffix(".csv").build()
    cancelled.map(as_csv_line).name("to text").sink_to(
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
        with flights_run.recording() as run:
            outcome = env.execute("flights")
    finally:
        results.discard_if_empty()  # the plan was only shown, or the job failed early

    summary = results.summarize(expected=flights_data.count_flights(source))
    complete = source.name == flights_data.FILE_NAME or arguments.drip is not None
    bound_h = OUT_OF_ORDERNESS.to_milliseconds() / 3_600_000
    page = flights_page.render_page(summary, run, flights_data.carrier_names(), bound_h=bound_h)
    results.page.write_text(page, encoding="utf-8")
    return flights_report.show(results, summary, outcome.get_net_runtime(), run=run, whole_year=complete)


if __name__ == "__main__":
    sys.exit(main())
