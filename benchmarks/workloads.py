"""The benchmark's programs, written once for PyFlink and millstream, and the process that measures them.

`API` is the package a program imports from, `pyflink` or `millstream`; apart from the options that say
where to run and the rate-limited source of the latency test, both run the same lines.

    python benchmarks/workloads.py keyed --system millstream --sizes 20000,2000000,8000000

measures one workload in this process and prints one JSON line, the last one of its standard output.
`compare.py` starts it; run it alone to profile.

**What is timed.** A size is one job, timed from `execute_and_collect` to its last result. The first job,
small, warms up, and its results are compared between the systems. Of the last two the rate is
`(n2 - n1) / (t2 - t1)`: whatever a job pays once (session, JVM, worker processes, imports, tear-down) is in
both times and cancels out, for both systems alike.

**What leaves the job.** A few records that depend on all the work: collecting every record would measure the
client. Each program ends in a filter or in a function that seldom yields; every result is checked against a
plain Python oracle, at every size.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

KEYS = 1_000
PARALLELISM = 2
SIZE_STEP = PARALLELISM * KEYS  # every size is a multiple: all keys are alike in every source split

CHAIN_SAMPLE = 1_009
WINDOW_MS = 1_000
NUMBERS_PER_MS = 10  # of event time, in each of the source's two splits: 20 records per key and window
JITTER_MS = 100
OUT_OF_ORDERNESS_MS = 200
WINDOW_SAMPLE = 61

LATENCY_RATE = 100
LATENCY_KEYS = 10

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


# ---------------------------------------------------------------- (a) map, filter, map over numbers


def chain(api: Api, env: Any, size: int) -> Any:
    """Three functions per record; a last filter keeps one result in about a thousand for the check."""
    number_type = api.common.Types.LONG()
    return (
        api.numbers(env, size)
        .map(lambda number: number * 31 + 7, output_type=number_type)
        .filter(lambda number: number % 2 == 0)
        .map(lambda number: number // 2, output_type=number_type)
        .filter(lambda number: number % CHAIN_SAMPLE == 0)
    )


def chain_oracle(size: int) -> Iterable[int]:
    for number in range(1, size, 2):  # number * 31 + 7 is even for odd numbers
        half = (number * 31 + 7) // 2
        if half % CHAIN_SAMPLE == 0:
            yield half


# ---------------------------------------------------------------- (b) keyed process with ValueState


def count_per_key(api: Api, report_at: int) -> Any:
    """Return the keyed function: counts in a ValueState, yields at each multiple of `report_at`."""
    number_type = api.common.Types.LONG()
    descriptor_class = api.state.ValueStateDescriptor

    class CountPerKey(api.datastream.KeyedProcessFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(descriptor_class("count", number_type))

        def process_element(self, value, ctx):
            count = (self.count.value() or 0) + 1
            self.count.update(count)
            if count % report_at == 0:
                yield value % KEYS, count

    return CountPerKey()


def keyed(api: Api, env: Any, size: int) -> Any:
    """Count by key; each key yields once, at its last record."""
    types = api.common.Types
    return (
        api.numbers(env, size)
        .key_by(lambda number: number % KEYS, key_type=types.LONG())
        .process(count_per_key(api, size // KEYS), output_type=types.TUPLE([types.LONG(), types.LONG()]))
    )


def keyed_oracle(size: int) -> Iterable[tuple[int, int]]:
    return ((key, size // KEYS) for key in range(KEYS))


# ---------------------------------------------------------------- (c) event-time tumbling window, aggregate


def event_time_ms(number: int, half: int) -> int:
    """Both splits of the source, [0, half) and [half, size), cover the same time, slightly out of order."""
    return number % half // NUMBERS_PER_MS + number * 7_919 % JITTER_MS


def window(api: Api, env: Any, size: int) -> Any:
    """Sum and count per key and second of event time; a last filter keeps one result in 61 for the check."""
    types = api.common.Types
    pair_type = types.TUPLE([types.LONG(), types.LONG()])
    half = size // 2

    class EventTime(api.watermark_strategy.TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return event_time_ms(value, half)

    class SumAndCount(api.datastream.AggregateFunction):
        def create_accumulator(self):
            return 0, 0

        def add(self, value, accumulator):
            return accumulator[0] + value, accumulator[1] + 1

        def get_result(self, accumulator):
            return accumulator

        def merge(self, a, b):
            return a[0] + b[0], a[1] + b[1]

    strategy = api.common.WatermarkStrategy.for_bounded_out_of_orderness(
        api.common.Duration.of_millis(OUT_OF_ORDERNESS_MS)
    ).with_timestamp_assigner(EventTime())
    return (
        api.numbers(env, size)
        .assign_timestamps_and_watermarks(strategy)
        .key_by(lambda number: number % KEYS, key_type=types.LONG())
        .window(api.window.TumblingEventTimeWindows.of(api.common.Time.milliseconds(WINDOW_MS)))
        .aggregate(SumAndCount(), accumulator_type=pair_type, output_type=pair_type)
        .filter(lambda result: result[0] % WINDOW_SAMPLE == 0)
    )


def window_oracle(size: int) -> Iterable[tuple[int, int]]:
    half = size // 2
    sums: dict[tuple[int, int], int] = defaultdict(int)
    counts: dict[tuple[int, int], int] = defaultdict(int)
    for number in range(size):
        pane = number % KEYS, event_time_ms(number, half) // WINDOW_MS
        sums[pane] += number
        counts[pane] += 1
    return ((total, counts[pane]) for pane, total in sums.items() if total % WINDOW_SAMPLE == 0)


@dataclass(frozen=True)
class Workload:
    """A program and what it must yield."""

    build: Callable[[Api, Any, int], Any]
    oracle: Callable[[int], Iterable[Any]]


WORKLOADS = {
    "chain": Workload(chain, chain_oracle),
    "keyed": Workload(keyed, keyed_oracle),
    "window": Workload(window, window_oracle),
}


def summarise(records: Iterable[Any]) -> dict[str, int]:
    """Reduce records to two figures that depend neither on their order nor on the interpreter."""
    count = digest = 0
    for record in records:
        fields = record if isinstance(record, tuple) else (record,)
        mixed = 0
        for field in fields:
            mixed = (mixed * 1_000_003 + int(field)) % (2**61 - 1)
        count += 1
        digest = (digest + mixed * mixed) % (2**61 - 1)
    return {"records": count, "digest": digest}


def run_job(api: Api, workload: Workload, size: int, options: dict[str, str]) -> tuple[float, dict[str, int]]:
    """Return (seconds, summary of the results) of one job."""
    env = api.environment(options)
    stream = workload.build(api, env, size)
    started = time.perf_counter()
    with stream.execute_and_collect() as results:
        records = [tuple(record) if isinstance(record, (list, tuple)) else record for record in results]
        seconds = time.perf_counter() - started
    return seconds, summarise(records)


def measure_rate(api: Api, name: str, sizes: list[int], options: dict[str, str]) -> dict[str, Any]:
    """Run the workload at each size; the last two give the rate, the first is the one compared."""
    workload = WORKLOADS[name]
    runs = []
    for size in sizes:
        if size % SIZE_STEP:
            raise SystemExit(f"size {size} is not a multiple of {SIZE_STEP}")
        seconds, summary = run_job(api, workload, size, options)
        runs.append({"size": size, "seconds": round(seconds, 3), **summary})
        print(f"{api.name} {name}: {size} records in {seconds:.2f} s", file=sys.stderr, flush=True)
    for run in runs:
        expected = summarise(workload.oracle(run["size"]))
        if {key: run[key] for key in expected} != expected:
            raise SystemExit(f"{api.name} {name}: wrong result {run}, the oracle says {expected}")
    return {"runs": runs, "rate": rate_of(runs)}


def rate_of(runs: list[dict[str, Any]]) -> float | None:
    """Records a second between the last two runs; None where noise exceeds the difference."""
    if len(runs) < 2:
        return None
    short, long = runs[-2:]
    seconds = long["seconds"] - short["seconds"]
    return round((long["size"] - short["size"]) / seconds, 1) if seconds > 0 else None


# ---------------------------------------------------------------- (d) the same keyed function in one loop


class DictState:
    """The least that `CountPerKey` needs of a ValueState: one dict, and the key of the record in hand."""

    def __init__(self) -> None:
        self.values: dict[int, int] = {}
        self.key = 0

    def value(self) -> int | None:
        return self.values.get(self.key)

    def update(self, value: int) -> None:
        self.values[self.key] = value


class LoopContext:
    """Runtime context and process context of the loop."""

    def __init__(self, state: DictState) -> None:
        self.state = state

    def get_state(self, descriptor: Any) -> DictState:
        return self.state


def measure_loop(api: Api, sizes: list[int]) -> dict[str, Any]:
    """Drive the user's own function from one `for` loop: what a program without an engine would do."""
    runs = []
    for size in sizes:
        function = count_per_key(api, size // KEYS)
        state = DictState()
        context = LoopContext(state)
        function.open(context)
        process_element = function.process_element
        results: list[tuple[int, int]] = []
        started = time.perf_counter()
        for number in range(size):
            state.key = number % KEYS
            results.extend(process_element(number, context))
        seconds = time.perf_counter() - started
        if summarise(results) != summarise(keyed_oracle(size)):
            raise SystemExit("the loop's result differs from the oracle's")
        runs.append({"size": size, "seconds": round(seconds, 3), **summarise(results)})
    return {"runs": runs, "rate": rate_of(runs), "inlined_rate": inlined_rate(sizes[-1])}


def inlined_rate(size: int) -> float:
    """For information: no function, no state object, everything written out in the loop."""
    counts: dict[int, int] = {}
    results = []
    report_at = size // KEYS
    started = time.perf_counter()
    for number in range(size):
        key = number % KEYS
        count = counts.get(key, 0) + 1
        counts[key] = count
        if count % report_at == 0:
            results.append((key, count))
    return round(size / (time.perf_counter() - started), 1)


# ---------------------------------------------------------------- latency


def ticks(api: Api, env: Any, count: int) -> Any:
    """Return a stream of (index, creation time in ms), `LATENCY_RATE` a second, from one source subtask."""
    types = api.common.Types
    if api.name == "pyflink":
        return pyflink_ticks(env, count)
    datagen = importlib.import_module(f"{api.name}.datastream.connectors.datagen")
    source = datagen.DataGeneratorSource(
        lambda index: (index, time.time() * 1000.0),
        count,
        rate_limiter_strategy=datagen.RateLimiterStrategy.per_second(LATENCY_RATE),
    )
    return env.from_source(
        source,
        api.common.WatermarkStrategy.no_watermarks(),
        "ticks",
        type_info=types.TUPLE([types.LONG(), types.DOUBLE()]),
    ).set_parallelism(1)


def pyflink_ticks(env: Any, count: int) -> Any:
    """Pace with Flink's own Java source, stamp in SQL inside its task: PyFlink has no data generator.

    The `datagen` table would do, but sends a second's records in one burst: each then waits for a whole
    bundle (1 s), where evenly spaced ones wait for half of it.
    """
    from pyflink.common import Types, WatermarkStrategy
    from pyflink.datastream.connectors import Source
    from pyflink.java_gateway import get_gateway
    from pyflink.table import StreamTableEnvironment

    jvm = get_gateway().jvm
    datagen = jvm.org.apache.flink.connector.datagen
    indices = jvm.java.util.ArrayList()
    for index in range(count):
        indices.append(index)
    index_type = Types.INT()
    source = datagen.source.DataGeneratorSource(
        datagen.functions.FromElementsGeneratorFunction(
            index_type.get_java_type_info(), env._j_stream_execution_environment.getConfig(), indices
        ),
        count,
        jvm.org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy.perSecond(
            float(LATENCY_RATE)
        ),
        index_type.get_java_type_info(),
    )
    indices_stream = env.from_source(
        Source(source), WatermarkStrategy.no_watermarks(), "ticks", type_info=index_type
    ).set_parallelism(1)
    table_env = StreamTableEnvironment.create(env)
    table_env.get_config().set("table.exec.resource.default-parallelism", "1")  # stamp in the source's task
    table_env.create_temporary_view("ticks", indices_stream)
    table = table_env.sql_query(
        """
        SELECT id, UNIX_TIMESTAMP(DATE_FORMAT(created, 'yyyy-MM-dd HH:mm:ss')) * CAST(1000 AS BIGINT)
                   + CAST(DATE_FORMAT(created, 'SSS') AS BIGINT) AS created_ms
        FROM (SELECT f0 AS id, CURRENT_ROW_TIMESTAMP() AS created FROM ticks)
        """
    )
    return table_env.to_data_stream(table).map(
        lambda row: (row[0], float(row[1])), output_type=Types.TUPLE([Types.LONG(), Types.DOUBLE()])
    )


def latency(api: Api, env: Any, count: int) -> Any:
    """Exchange by key, state access, and a last map that takes the record's age in ms."""
    types = api.common.Types
    descriptor_class = api.state.ValueStateDescriptor

    class CountTicks(api.datastream.KeyedProcessFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(descriptor_class("count", types.LONG()))

        def process_element(self, value, ctx):
            self.count.update((self.count.value() or 0) + 1)
            yield value

    return (
        ticks(api, env, count)
        .key_by(lambda tick: tick[0] % LATENCY_KEYS, key_type=types.LONG())
        .process(CountTicks(), output_type=types.TUPLE([types.LONG(), types.DOUBLE()]))
        .map(
            lambda tick: (tick[0], tick[1], time.time() * 1000.0 - tick[1]),
            output_type=types.TUPLE([types.LONG(), types.DOUBLE(), types.DOUBLE()]),
        )
    )


def measure_latency(api: Api, seconds: int, warm_up_seconds: int, options: dict[str, str]) -> dict[str, Any]:
    """Median age of a record at the last function, and, for information, at the client's iterator."""
    count = seconds * LATENCY_RATE
    env = api.environment(options)
    at_sink = []
    at_client = []
    seen = 0
    with latency(api, env, count).execute_and_collect() as results:
        for index, created_ms, age_ms in results:
            seen += 1
            if index >= warm_up_seconds * LATENCY_RATE:
                at_sink.append(age_ms)
                at_client.append(time.time() * 1000.0 - created_ms)
    if seen != count:
        raise SystemExit(f"{api.name} latency: {seen} of {count} records arrived")
    return {
        "records": len(at_sink),
        "median_ms": round(statistics.median(at_sink), 1),
        "p95_ms": round(statistics.quantiles(at_sink, n=20)[-1], 1),
        "client_median_ms": round(statistics.median(at_client), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="measure one workload in this process")
    parser.add_argument("workload", choices=[*WORKLOADS, "loop", "latency"])
    parser.add_argument("--system", choices=["pyflink", "millstream"], default="millstream")
    parser.add_argument("--sizes", default="20000", help="records of each job, separated by commas")
    parser.add_argument("--seconds", type=int, default=40, help="length of the latency test")
    parser.add_argument("--warm-up", type=int, default=10, help="seconds discarded by the latency test")
    parser.add_argument("-D", dest="options", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()

    api = Api.load(arguments.system)
    options = dict(option.split("=", 1) for option in arguments.options)
    sizes = [int(size) for size in arguments.sizes.split(",")]
    if arguments.workload == "loop":
        result = measure_loop(api, sizes)
    elif arguments.workload == "latency":
        result = measure_latency(api, arguments.seconds, arguments.warm_up, options)
    else:
        result = measure_rate(api, arguments.workload, sizes, options)
    result |= {
        "workload": arguments.workload,
        "system": arguments.system,
        "options": options,
        "python": sys.version.split()[0],
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
