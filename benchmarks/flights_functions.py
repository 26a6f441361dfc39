"""The flights job with functions of records, as PyFlink has them; `examples/flights.py` has it in columns."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import flights_report
from flights import (
    CARRIER_HOUR,
    DELAYED_MINUTES,
    FLIGHT,
    FLIGHT_FILE,
    LATE,
    OUT_OF_ORDERNESS,
    as_csv_line,
)

from millstream.common import Row, Time, WatermarkStrategy
from millstream.common.serialization import Encoder
from millstream.common.watermark_strategy import TimestampAssigner, WatermarkGenerator, WatermarkOutput
from millstream.datastream import OutputTag, StreamExecutionEnvironment
from millstream.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    OutputFileConfig,
)
from millstream.datastream.formats.csv import CsvReaderFormat
from millstream.datastream.formats.parquet import ParquetBulkWriters
from millstream.datastream.functions import AggregateFunction, ProcessFunction, ProcessWindowFunction
from millstream.datastream.window import TumblingEventTimeWindows

CANCELLED = OutputTag("cancelled")

# Positions in a flight's row.
SCHEDULED, DELAY, CARRIER = 0, 1, 2

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


def build_job(env: StreamExecutionEnvironment, source: Path, results: flights_report.Results) -> None:
    """Declare the streams.

    Args:
        env: Where.
        source: A file.
        results: Where the outputs go.
    """
    files = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(FLIGHT_FILE), str(source))
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
