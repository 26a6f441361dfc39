"""The benchmark's programs, written once for PyFlink and millstream, and the process that measures them.

`API` is the package a program imports from, `pyflink` or `millstream`; apart from the options that say
where to run and the rate-limited source of the latency test, both run the same lines.

    python benchmarks/workloads.py keyed --system millstream --sizes 20000,2000000,8000000

measures one workload in this process and prints one JSON line, the last one of its standard output.
`compare.py` starts it; run it alone to profile.

**What is timed.** A size is one job, timed from `execute_and_collect` to its last result. The first job,
small, warms up, and its results are compared between the systems. Of the last two the rate is
`(n2 - n1) / (t2 - t1)`: whatever a job pays once (session, JVM, worker processes, imports, tear-down) is in
both times and cancels out, for both systems alike. Only the asynchronous calls and the flights job tell themselves
when they began to work and when they ended.

**What leaves the job.** A few records that depend on all the work: collecting every record would measure the
client. Each program ends in a filter or in a function that seldom yields; every result is checked against a
plain Python oracle, at every size.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from programs import async_calls, core, flights, two_inputs, windows
from programs.api import KEYS, Api, Workload
from programs.core import count_per_key, keyed_oracle

HERE = Path(__file__).resolve().parent
WORKLOADS = {
    **core.WORKLOADS,
    **windows.WORKLOADS,
    **two_inputs.WORKLOADS,
    **async_calls.WORKLOADS,
    **flights.WORKLOADS,
}

LONG_ENOUGH_S = 3  # for any program to yield something, start-up excluded
LATENCY_RATE = 100
LATENCY_KEYS = 10


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
    """Return (seconds, number and summary of the results) of one job."""
    env = api.environment(options)
    stream = workload.build(api, env, size)
    started = time.perf_counter()
    with stream.execute_and_collect() as results:
        records = [tuple(record) if isinstance(record, (list, tuple)) else record for record in results]
        seconds = time.perf_counter() - started
    if workload.worked_s is not None:
        seconds = workload.worked_s(records)
    return seconds, {"collected": len(records), **summarise(workload.judge(records, size))}


def measure_rate(api: Api, name: str, sizes: list[int], options: dict[str, str]) -> dict[str, Any]:
    """Run the workload at each size; the last two give the rate, the first is the one compared."""
    workload = WORKLOADS[name]
    runs = []
    for size in sizes:
        if size % workload.step:
            raise SystemExit(f"size {size} is not a multiple of {workload.step}")
        seconds, summary = run_job(api, workload, size, options)
        runs.append({"size": size, "seconds": round(seconds, 3), **summary})
        print(f"{api.name} {name}: {size} records in {seconds:.2f} s", file=sys.stderr, flush=True)
    for run in runs:
        expected = summarise(workload.oracle(run["size"]))
        if {key: run[key] for key in expected} != expected:
            raise SystemExit(f"{api.name} {name}: wrong result {run}, the oracle says {expected}")
    worked_s = runs[-1]["seconds"] - runs[0]["seconds"]
    if worked_s > LONG_ENOUGH_S and not runs[-1]["collected"]:
        raise SystemExit(f"{api.name} {name}: nothing came out in {worked_s:.0f} s")
    if workload.worked_s is not None:
        return {"runs": runs, "rate": round(runs[-1]["size"] / runs[-1]["seconds"], 1)}
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

    # The functions of `programs` travel by name: the worker processes of both systems import them.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
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
