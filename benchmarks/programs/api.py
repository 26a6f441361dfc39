"""What the programs share: the package they import from, their constants, and what a workload is."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

KEYS = 1_000
PARALLELISM = 2
SIZE_STEP = PARALLELISM * KEYS  # every size is a multiple: all keys are alike in every source split

NUMBERS_PER_MS = 10  # of event time, in each of the source's two splits: 20 records per key and second
JITTER_MS = 100
OUT_OF_ORDERNESS_MS = 200

# What PyFlink's programs need not say. Option keys that millstream shares with Flink are Flink's.
MILLSTREAM_OPTIONS = {"execution.target": f"local[{PARALLELISM}]"}


@dataclass(frozen=True)
class Api:
    """One of the two packages, as its modules."""

    name: str
    common: ModuleType
    datastream: ModuleType
    number_seq: ModuleType
    window: ModuleType
    watermark_strategy: ModuleType
    state: ModuleType
    file_system: ModuleType
    csv: ModuleType
    table: ModuleType

    @classmethod
    def load(cls, name: str) -> Api:
        def module(path: str) -> ModuleType:
            return importlib.import_module(f"{name}.{path}")

        return cls(
            name=name,
            common=module("common"),
            datastream=module("datastream"),
            number_seq=module("datastream.connectors.number_seq"),
            window=module("datastream.window"),
            watermark_strategy=module("common.watermark_strategy"),
            state=module("datastream.state"),
            file_system=module("datastream.connectors.file_system"),
            csv=module("datastream.formats.csv"),
            table=module("table"),
        )

    def environment(self, options: dict[str, str]) -> Any:
        """Return a new environment at the benchmark's parallelism; `options` come last and win."""
        configuration = self.common.Configuration()
        if self.name == "pyflink":
            settings = {"python.executable": sys.executable, "python.client.executable": sys.executable}
        else:
            settings = dict(MILLSTREAM_OPTIONS)
        for key, value in {**settings, **options}.items():
            configuration.set_string(key, value)
        env = self.datastream.StreamExecutionEnvironment.get_execution_environment(configuration)
        env.set_parallelism(PARALLELISM)
        return env

    def numbers(self, env: Any, size: int) -> Any:
        return env.from_source(
            self.number_seq.NumberSequenceSource(0, size - 1),
            self.common.WatermarkStrategy.no_watermarks(),
            "numbers",
            type_info=self.common.Types.LONG(),
        )

    def timed_numbers(self, env: Any, size: int) -> Any:
        """Return the numbers with event time (`event_time_ms`) and watermarks."""
        half = size // 2

        class EventTime(self.watermark_strategy.TimestampAssigner):
            def extract_timestamp(self, value, record_timestamp):
                return event_time_ms(value, half)

        strategy = self.common.WatermarkStrategy.for_bounded_out_of_orderness(
            self.common.Duration.of_millis(OUT_OF_ORDERNESS_MS)
        ).with_timestamp_assigner(EventTime())
        return self.numbers(env, size).assign_timestamps_and_watermarks(strategy)

    def milliseconds(self, number: int) -> Any:
        return self.common.Time.milliseconds(number)

    def pair_type(self) -> Any:
        types = self.common.Types
        return types.TUPLE([types.LONG(), types.LONG()])


def event_time_ms(number: int, half: int) -> int:
    """Both splits of the source, [0, half) and [half, size), cover the same time, slightly out of order."""
    return number % half // NUMBERS_PER_MS + number * 7_919 % JITTER_MS


def as_they_are(records: list[Any], size: int) -> Iterable[Any]:
    return records


@dataclass(frozen=True)
class Workload:
    """A program and what it must yield.

    Attributes:
        build: Makes the program for a number of records.
        oracle: Says what it yields.
        step: Every size is a multiple of it.
        judge: Makes of the results what is compared with the oracle's; for programs whose results depend
            on the time at which they run.
        worked_s: Reads from the results how long the work took, in seconds, without the job's start and end.
            Without it the difference of two jobs tells.
    """

    build: Callable[[Api, Any, int], Any]
    oracle: Callable[[int], Iterable[Any]]
    step: int = SIZE_STEP
    judge: Callable[[list[Any], int], Iterable[Any]] = as_they_are
    worked_s: Callable[[list[Any]], float] | None = None
